package wire

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a form. The names of members have at most eight parts; a body of a mebibyte with
// ordinary names does not have as many parameters.
const (
	formDepth  = 16
	parameters = 40_000
)

// A Node is a place in a form. The parameter Metrics.member.2.Id=m1 is the text of the child Id of
// the child 2 of the child member of the child Metrics. A structure is a node with members as
// children; of a list they are numbers, below the child member.
type Node struct {
	children map[string]*Node
	own      string
	set      bool // there is a parameter of just this name
}

// ReadQuery reads a form of the Query protocol.
func ReadQuery(form string) (*Node, error) {
	root := new(Node)
	n := 0
	for form != "" {
		var parameter string
		parameter, form, _ = strings.Cut(form, "&")
		if parameter == "" {
			continue
		}
		if n++; n > parameters {
			return nil, Malformed("The form has more than %d parameters: send less at a time.",
				parameters)
		}
		name, text, _ := strings.Cut(parameter, "=")
		name, err := unescape(name)
		if err != nil {
			return nil, err
		}
		if text, err = unescape(text); err != nil {
			return nil, err
		}
		if strings.Count(name, ".") >= formDepth {
			return nil, Malformed("The name of the parameter %s has too many parts.", Quote(name))
		}
		at := root
		for part := range strings.SplitSeq(name, ".") {
			at = at.child(part)
		}
		at.own, at.set = text, true
	}
	return root, nil
}

// child returns a child, which it makes if there is none.
func (n *Node) child(name string) *Node {
	c := n.children[name]
	if c == nil {
		if n.children == nil {
			n.children = make(map[string]*Node, 1)
		}
		c = new(Node)
		n.children[name] = c
	}
	return c
}

// ChildText returns the text of a parameter, empty when it is absent.
func (n *Node) ChildText(name string) string {
	if c := n.children[name]; c != nil {
		return c.own
	}
	return ""
}

func (n *Node) Member(name string) (Value, error) {
	if c := n.children[name]; c != nil {
		return c, nil
	}
	return nil, nil
}

// list returns the elements in the order of their numbers, which need not follow one another. A
// parameter with the name of the list and no text is how an empty one is written.
func (n *Node) List(limit int) ([]Value, error) {
	members := n.children["member"]
	if members == nil {
		if n.set && n.own == "" {
			return nil, nil
		}
		return nil, errors.New("the elements of a list are named NAME.member.N")
	}
	type element struct {
		number uint64
		value  Value
	}
	var elements []element
	for number, c := range members.children { // sorted below
		i, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not the number of a list element", Quote(number))
		}
		elements = append(elements, element{i, c})
	}
	slices.SortFunc(elements, func(x, y element) int { return cmp.Compare(x.number, y.number) })
	var values []Value
	for _, e := range elements[:min(len(elements), limit+1)] {
		values = append(values, e.value)
	}
	return values, nil
}

func (n *Node) Text() (string, error) {
	if n.children != nil && !n.set {
		return "", errors.New("it has parts, and is a text")
	}
	return n.own, nil
}

func (n *Node) Integer() (int64, error) {
	i, err := strconv.ParseInt(n.own, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number", Quote(n.own))
	}
	return i, nil
}

func (n *Node) Number() (float64, error) { return ParseNumber(n.own) }

// ParseNumber reads a number that is written in letters: decimal, or one of the words for those
// that are not finite.
func ParseNumber(s string) (float64, error) {
	switch s {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xX_nN") {
		return 0, fmt.Errorf("%s is not a number", Quote(s))
	}
	return v, nil
}

func (n *Node) Boolean() (bool, error) {
	switch strings.ToLower(n.own) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", Quote(n.own))
}

func (n *Node) Time() (time.Time, error) { return parseTime(n.own) }

// timeForms are how times are written in letters. Without a zone they are UTC.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly}

func parseTime(s string) (time.Time, error) {
	for _, form := range timeForms {
		if t, err := time.Parse(form, s); err == nil {
			return t, checkTime(t)
		}
	}
	if seconds, err := ParseNumber(s); err == nil {
		return timeOf(seconds)
	}
	return time.Time{}, fmt.Errorf("%s is not a time such as 2026-01-31T12:00:00Z", Quote(s))
}

// timeOf returns the time that is so many seconds after the beginning of 1970, to the millisecond.
func timeOf(seconds float64) (time.Time, error) {
	if !(math.Abs(seconds) < timeMax) {
		return time.Time{}, errTime
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), nil
}

// timeMax keeps arithmetic with times from overflowing: seconds until the year 5138.
const timeMax = 1e11

var errTime = errors.New("the time is thousands of years away")

func checkTime(t time.Time) error {
	if s := t.Unix(); s < -timeMax || s > timeMax {
		return errTime
	}
	return nil
}

// unescape undoes the escaping of a part of a form.
func unescape(s string) (string, error) {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		return "", Malformed("The form cannot be read: %s is not escaped correctly.", Quote(s))
	}
	return plain, nil
}
