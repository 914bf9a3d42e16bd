package alarm

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// A function of metric math. Either kind checks its unevaluated arguments, or result checks their
// kinds. call computes it.
type function struct {
	least, most int
	takes       string // for the error that says how many
	kind        func(n *node, refer func(id string, metric bool) bool) (kind, error)
	result      func(n *node, args []kind) (kind, error)
	call        func(m *machine, n *node) value
}

// functions are the functions of CloudWatch that alarms need.
var functions map[string]function

// functionNames lists them for errors.
var functionNames string

func init() { // they refer to kindOf, which refers to them
	one := func(
		call func(m *machine, n *node) value, result func(n *node, args []kind) (kind, error),
	) function {
		return function{least: 1, most: 1, takes: "1 argument", result: result, call: call}
	}
	functions = map[string]function{
		"ABS":    one(each(math.Abs), lineOrList),
		"CEIL":   one(each(math.Ceil), lineOrList),
		"FLOOR":  one(each(math.Floor), lineOrList),
		"DIFF":   one(steps(false), lineOrList),
		"RATE":   one(steps(true), lineOrList),
		"MIN":    one(reduce(smallest), numberOrLine),
		"MAX":    one(reduce(largest), numberOrLine),
		"SUM":    one(reduce(total), numberOrLine),
		"AVG":    one(reduce(average), numberOrLine),
		"PERIOD": {least: 1, most: 1, takes: "1 argument", kind: periodKind, call: period},
		"FILL":   {least: 2, most: 2, takes: "2 arguments", kind: fillKind, call: fill},
		"IF":     {least: 2, most: 3, takes: "2 or 3 arguments", result: ifKind, call: choose},
	}
	functionNames = strings.Join(slices.Sorted(maps.Keys(functions)), ", ")
}

// lineOrList is the result of a function that works on each series of a list.
func lineOrList(n *node, args []kind) (kind, error) {
	if args[0] == number1 {
		return 0, wrong(n.args[0].at, "Function '%s' takes a time series, not %s", n.name, args[0])
	}
	return args[0], nil
}

// numberOrLine is the result of a function that reduces a series to a number, and a list to a
// series.
func numberOrLine(n *node, args []kind) (kind, error) {
	k, err := lineOrList(n, args)
	return k - 1, err
}

func ifKind(n *node, args []kind) (kind, error) {
	k := number1
	for i, arg := range args {
		if arg == list1 {
			return 0, wrong(n.args[i].at, "Function 'IF' takes no lists")
		}
		k = max(k, arg)
	}
	if k == number1 {
		return 0, wrong(n.at, "Function 'IF' takes a time series at least once")
	}
	return k, nil
}

func periodKind(n *node, refer func(id string, metric bool) bool) (kind, error) {
	if arg := n.args[0]; arg.kind != aReference || !refer(arg.name, true) {
		return 0, wrong(arg.at, "Function 'PERIOD' takes the id of a metric")
	}
	return number1, nil
}

func fillKind(n *node, refer func(id string, metric bool) bool) (kind, error) {
	k, err := kindOf(n.args[0], refer)
	if err == nil {
		k, err = lineOrList(n, []kind{k})
	}
	if err != nil {
		return 0, err
	}
	switch by := n.args[1]; {
	case by.kind == aWord && by.name == "REPEAT":
		return k, nil
	case by.kind == aWord && by.name == "LINEAR":
		return 0, wrong(by.at, "Function 'FILL' does not know LINEAR here; use REPEAT or a number")
	default:
		filler, err := kindOf(by, refer)
		if err == nil && filler == list1 {
			err = wrong(by.at, "Function 'FILL' fills in a number, a time series or REPEAT")
		}
		return k, err
	}
}

// each returns the function that applies f to every value.
func each(f func(float64) float64) func(m *machine, n *node) value {
	return func(m *machine, n *node) value { return m.eval(n.args[0]).each(f) }
}

// steps returns DIFF, the difference of each value to the previous one, or RATE, the same per
// second. [ALARM-30]
func steps(perSecond bool) func(m *machine, n *node) value {
	return func(m *machine, n *node) value {
		return m.eval(n.args[0]).lines(func(line []float64) []float64 {
			out := m.empty()
			last := -1
			for i, v := range line {
				if math.IsNaN(v) {
					continue
				}
				if last >= 0 {
					out[i] = v - line[last]
					if perSecond {
						out[i] /= float64(int64(i-last) * m.window.period)
					}
				}
				last = i
			}
			return out
		})
	}
}

// reduce returns the function that reduces the values of a series, or the values of a list in each
// period. f gets the values that exist, and the number of series. [ALARM-31]
func reduce(f func(values []float64, series int) float64) func(m *machine, n *node) value {
	return func(m *machine, n *node) value {
		v := m.eval(n.args[0])
		if v.kind == series1 {
			there := present(v.line)
			return value{kind: number1, number: finite(f(there, len(there)))}
		}
		out, at := m.empty(), make([]float64, 0, len(v.list))
		for i := range out {
			at = at[:0]
			for _, line := range v.list {
				at = append(at, line[i])
			}
			out[i] = finite(f(present(at), len(v.list)))
		}
		return value{kind: series1, line: out}
	}
}

func present(line []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(line), math.IsNaN)
}

func smallest(values []float64, _ int) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Min(values)
}

func largest(values []float64, _ int) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Max(values)
}

func total(values []float64, _ int) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum
}

// average counts missing values of a list as zero, as CloudWatch does.
func average(values []float64, series int) float64 {
	return total(values, series) / float64(series)
}

// period returns how long the periods are, in seconds.
func period(m *machine, _ *node) value {
	return value{kind: number1, number: float64(m.window.period)}
}

// fill replaces missing values. [ALARM-29]
func fill(m *machine, n *node) value {
	repeat := n.args[1].kind == aWord
	var filler value
	if !repeat {
		filler = m.eval(n.args[1])
	}
	return m.eval(n.args[0]).lines(func(line []float64) []float64 {
		out, last := slices.Clone(line), math.NaN()
		for i, v := range line {
			switch {
			case !math.IsNaN(v):
				last = v
			case repeat:
				out[i] = last
			default:
				out[i] = filler.at(i)
			}
		}
		return out
	})
}

// choose is IF, decided for each period by its own condition. [ALARM-28]
func choose(m *machine, n *node) value {
	condition, out := m.eval(n.args[0]), m.empty()
	args := []value{m.eval(n.args[1])}
	if len(n.args) > 2 {
		args = append(args, m.eval(n.args[2]))
	}
	for i := range out {
		switch c := condition.at(i); {
		case math.IsNaN(c):
		case c != 0:
			out[i] = args[0].at(i)
			if math.IsNaN(out[i]) && condition.kind == series1 && args[0].kind == series1 {
				out[i] = 0 // as CloudWatch documents
			}
		case len(args) > 1:
			out[i] = args[1].at(i)
		}
	}
	return value{kind: series1, line: out}
}
