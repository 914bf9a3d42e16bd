package cloudwatch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a form. The names of members have at most eight parts; a body of a mebibyte with ordinary names does not
// have as many parameters.
const (
	formDepth  = 16
	parameters = 40_000
)

// A node is a place in a form. The parameter Metrics.member.2.Id=m1 is the text of the child Id of the child 2 of the
// child member of the child Metrics. A structure is a node with members as children; of a list they are numbers, below
// the child member.
type node struct {
	children map[string]*node
	own      string
	set      bool // there is a parameter of just this name
}

// readQuery reads a form.
func readQuery(form string) (*node, error) {
	root := new(node)
	n := 0
	for form != "" {
		var parameter string
		parameter, form, _ = strings.Cut(form, "&")
		if parameter == "" {
			continue
		}
		if n++; n > parameters {
			return nil, malformed("The form has more than %d parameters: send less at a time.", parameters)
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
			return nil, malformed("The parameter %s has more parts than any.", quote(name))
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
func (n *node) child(name string) *node {
	c := n.children[name]
	if c == nil {
		if n.children == nil {
			n.children = make(map[string]*node, 1)
		}
		c = new(node)
		n.children[name] = c
	}
	return c
}

func (n *node) childText(name string) string {
	if c := n.children[name]; c != nil {
		return c.own
	}
	return ""
}

func (n *node) member(name string) (value, error) {
	if c := n.children[name]; c != nil {
		return c, nil
	}
	return nil, nil
}

// list returns the elements in the order of their numbers, which need not follow one another. A parameter with the name
// of the list and no text is how an empty one is written.
func (n *node) list(limit int) ([]value, error) {
	members := n.children["member"]
	if members == nil {
		if n.set && n.own == "" {
			return nil, nil
		}
		return nil, errors.New("the elements of a list are named NAME.member.N")
	}
	type element struct {
		number uint64
		value
	}
	var elements []element
	for number, c := range members.children { // sorted below
		i, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is no place in a list", quote(number))
		}
		elements = append(elements, element{i, c})
	}
	slices.SortFunc(elements, func(x, y element) int { return cmp.Compare(x.number, y.number) })
	var values []value
	for _, e := range elements[:min(len(elements), limit+1)] {
		values = append(values, e.value)
	}
	return values, nil
}

func (n *node) text() (string, error) {
	if n.children != nil && !n.set {
		return "", errors.New("it has parts, and is a text")
	}
	return n.own, nil
}

func (n *node) integer() (int64, error) {
	i, err := strconv.ParseInt(n.own, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number", quote(n.own))
	}
	return i, nil
}

func (n *node) number() (float64, error) { return parseNumber(n.own) }

// parseNumber reads a number that is written in letters: decimal, or one of the words for those that are not finite.
func parseNumber(s string) (float64, error) {
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
		return 0, fmt.Errorf("%s is not a number", quote(s))
	}
	return v, nil
}

func (n *node) boolean() (bool, error) {
	switch strings.ToLower(n.own) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", quote(n.own))
}

func (n *node) time() (time.Time, error) { return parseTime(n.own) }

// timeForms are how times are written in letters. Without a zone they are UTC.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly}

func parseTime(s string) (time.Time, error) {
	for _, form := range timeForms {
		if t, err := time.Parse(form, s); err == nil {
			return t, checkTime(t)
		}
	}
	if seconds, err := parseNumber(s); err == nil {
		return timeOf(seconds)
	}
	return time.Time{}, fmt.Errorf("%s is not a time such as 2026-01-31T12:00:00Z", quote(s))
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
