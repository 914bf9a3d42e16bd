package alarm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds of an expression. CloudWatch has the first.
const (
	expressionMax = 2048 // bytes
	depthMax      = 50   // of parentheses and the like
)

// A node is a part of an expression.
type node struct {
	kind  nodeKind
	name  string  // of a reference, a function or a word; the operator of a unary or binary
	value float64 // of a number
	args  []*node
	at    int // where it stands, in bytes
}

type nodeKind int

const (
	aNumber nodeKind = iota
	aReference
	aList
	aWord // such as REPEAT, which only means something to a function
	aCall
	aUnary
	aBinary
)

// An expressionError is what is wrong with an expression, and where.
type expressionError struct {
	at   int // bytes
	what string
}

func (e *expressionError) Error() string {
	return fmt.Sprintf("%s (at character %d)", e.what, e.at+1)
}

func wrong(at int, format string, args ...any) error {
	return &expressionError{at, fmt.Sprintf(format, args...)}
}

// parse reads an expression. From loose to tight, its operators are OR, AND, comparisons, + and
// -, * and /, unary minus and ^, of which only the last groups from the right. Comparisons are not
// chained. [ALARM-26]
func parse(text string) (*node, error) {
	if len(text) > expressionMax {
		return nil, wrong(expressionMax, "Expression is longer than %d characters", expressionMax)
	}
	p := &parser{text: text}
	p.next()
	n, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	if p.token != "" {
		return nil, p.unexpected()
	}
	return n, nil
}

// A parser stands at a token.
type parser struct {
	text  string
	token string // empty at the end
	at    int    // where the token begins
	depth int
}

func (p *parser) next() {
	p.at += len(p.token)
	rest := p.text[p.at:]
	trimmed := strings.TrimLeft(rest, " \t\r\n")
	p.at += len(rest) - len(trimmed)
	p.token = trimmed[:tokenLen(trimmed)]
}

// tokenLen returns the length of the token with which a text begins.
func tokenLen(text string) int {
	if text == "" {
		return 0
	}
	for _, operator := range []string{"<=", ">=", "==", "!=", "&&", "||"} {
		if strings.HasPrefix(text, operator) {
			return len(operator)
		}
	}
	i := 0
	switch c := text[0]; {
	case isLetter(c):
		for i < len(text) && (isLetter(text[i]) || isDigit(text[i]) || text[i] == '_') {
			i++
		}
	case isDigit(c) || c == '.':
		for i < len(text) && (isDigit(text[i]) || text[i] == '.' || exponentAt(text, i)) {
			i++
		}
	default:
		i = 1
	}
	return i
}

// exponentAt reports whether the character is part of the exponent of a number: the letter, or the
// sign behind it.
func exponentAt(text string, i int) bool {
	switch text[i] {
	case 'e', 'E':
		return true
	case '+', '-':
		return text[i-1] == 'e' || text[i-1] == 'E'
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isLower(c byte) bool  { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

func (p *parser) unexpected() error {
	if p.token == "" {
		return wrong(p.at, "Invalid syntax: the expression ends too early")
	}
	return wrong(p.at, "Invalid syntax: unexpected %q", p.token)
}

// levels are the operators that group from the left, from loose to tight.
var levels = [][]string{
	{"OR", "||"},
	{"AND", "&&"},
	{"<", "<=", ">", ">=", "==", "!="},
	{"+", "-"},
	{"*", "/"},
}

// comparisons is the level whose operators are not chained.
const comparisons = 2

// operator returns what the token is called on a level; empty when it is none of its operators.
func (p *parser) operator(level int) string {
	for _, o := range levels[level] {
		if p.token == o {
			switch o {
			case "||":
				return "OR"
			case "&&":
				return "AND"
			}
			return o
		}
	}
	return ""
}

func (p *parser) binary(level int) (*node, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		o := p.operator(level)
		if o == "" {
			return left, nil
		}
		if level == comparisons && n > 0 {
			return nil, wrong(p.at, "Invalid syntax: comparisons cannot be chained; use parentheses")
		}
		at := p.at
		p.next()
		right, err := p.binary(level + 1)
		if err != nil {
			return nil, err
		}
		left = &node{kind: aBinary, name: o, args: []*node{left, right}, at: at}
	}
}

// unary reads what may have a minus before it.
func (p *parser) unary() (*node, error) {
	if p.depth++; p.depth > depthMax {
		return nil, wrong(p.at, "Expression is nested too deeply")
	}
	defer func() { p.depth-- }()
	if at := p.at; p.token == "-" {
		p.next()
		n, err := p.unary()
		if err != nil {
			return nil, err
		}
		return &node{kind: aUnary, name: "-", args: []*node{n}, at: at}, nil
	}
	base, err := p.primary()
	if err != nil || p.token != "^" {
		return base, err
	}
	at := p.at
	p.next()
	exponent, err := p.unary()
	if err != nil {
		return nil, err
	}
	return &node{kind: aBinary, name: "^", args: []*node{base, exponent}, at: at}, nil
}

func (p *parser) primary() (*node, error) {
	n := &node{at: p.at, name: p.token}
	switch {
	case p.token == "":
		return nil, p.unexpected()
	case p.token == "(":
		p.next()
		inner, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		return inner, p.expect(")")
	case p.token == "[":
		n.kind = aList
		var err error
		n.args, err = p.arguments("]")
		return n, err
	case isDigit(p.token[0]) || p.token[0] == '.':
		n.kind = aNumber
		var err error
		if n.value, err = strconv.ParseFloat(p.token, 64); err != nil || math.IsInf(n.value, 0) {
			return nil, wrong(p.at, "Invalid syntax: %q is not a number", p.token)
		}
		p.next()
		return n, nil
	case isLower(p.token[0]):
		n.kind = aReference
		p.next()
		return n, nil
	case isLetter(p.token[0]) && p.token != "AND" && p.token != "OR":
		p.next()
		if p.token != "(" {
			n.kind = aWord
			return n, nil
		}
		n.kind = aCall
		var err error
		n.args, err = p.arguments(")")
		return n, err
	}
	return nil, p.unexpected()
}

// arguments reads expressions between commas, from the bracket that opens them to the one that
// closes them.
func (p *parser) arguments(closing string) (args []*node, err error) {
	for {
		p.next()
		if len(args) == 0 && p.token == closing {
			return nil, p.expect(closing)
		}
		n, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		args = append(args, n)
		if p.token != "," {
			return args, p.expect(closing)
		}
	}
}

func (p *parser) expect(token string) error {
	if p.token != token {
		return p.unexpected()
	}
	p.next()
	return nil
}
