package alarm

// Kinds of expressions, checked before there is any data: a number, a series or a list of series.
// [ALARM-27, ALARM-32]

// A kind is the type of the result of an expression.
type kind int

const (
	number1 kind = iota // one number, whatever the time
	series1             // a number for each period, or none
	list1               // several series
)

func (k kind) String() string {
	return [...]string{"a number", "a time series", "a list of time series"}[k]
}

// kindOf returns the kind of an expression, or what is wrong with it. refer is called for every
// reference, and reports whether the query exists.
func kindOf(n *node, refer func(id string, metric bool) bool) (kind, error) {
	switch n.kind {
	case aNumber:
		return number1, nil
	case aReference:
		if !refer(n.name, false) {
			return 0, wrong(n.at, "Unknown id %s: no query of the alarm has it", n.name)
		}
		return series1, nil
	case aWord:
		return 0, wrong(n.at, "Invalid syntax: unexpected %q", n.name)
	case aCall:
		f, ok := functions[n.name]
		if !ok {
			return 0, wrong(n.at, "Function '%s' not found; there are %s", n.name, functionNames)
		}
		if len(n.args) < f.least || len(n.args) > f.most {
			return 0, wrong(n.at, "Function '%s' takes %s, not %d", n.name, f.takes, len(n.args))
		}
		if f.kind != nil {
			return f.kind(n, refer)
		}
	}
	kinds := make([]kind, len(n.args))
	for i, arg := range n.args {
		var err error
		if kinds[i], err = kindOf(arg, refer); err != nil {
			return 0, err
		}
	}
	switch n.kind {
	case aList:
		if len(kinds) == 0 {
			return 0, wrong(n.at, "Invalid syntax: a list cannot be empty")
		}
		for i, k := range kinds {
			if k != series1 {
				return 0, wrong(n.args[i].at, "A list holds time series, and this is %s", k)
			}
		}
		return list1, nil
	case aUnary:
		return kinds[0], nil
	case aBinary:
		return kindOfBinary(n, kinds[0], kinds[1])
	}
	return functions[n.name].result(n, kinds)
}

// kindOfBinary: arithmetic spreads over a list, comparisons do not.
func kindOfBinary(n *node, x, y kind) (kind, error) {
	k := max(x, y)
	if k < list1 {
		return k, nil
	}
	switch n.name {
	case "+", "-", "*", "/", "^":
		if x != y {
			return list1, nil
		}
		return 0, wrong(n.at, "Operator %s cannot be applied to two lists", n.name)
	}
	return 0, wrong(n.at, "Operator %s cannot be applied to a list", n.name)
}
