package alarm

import (
	"math"

	"tenaq/internal/observe/series"
)

// A window is the periods that a rule reads.
type window struct {
	from, to int64 // milliseconds
	period   int64 // seconds
	n        int   // periods
}

// A value is the result of a part of an expression. NaN stands for missing data.
type value struct {
	kind   kind
	number float64
	line   []float64 // by period
	list   [][]float64
}

// at returns the value of a number or a series in a period.
func (v value) at(i int) float64 {
	if v.kind == number1 {
		return v.number
	}
	return v.line[i]
}

// lines applies f to a series, or to every series of a list.
func (v value) lines(f func([]float64) []float64) value {
	if v.kind == list1 {
		list := make([][]float64, len(v.list))
		for i, line := range v.list {
			list[i] = f(line)
		}
		return value{kind: list1, list: list}
	}
	return value{kind: series1, line: f(v.line)}
}

func (v value) each(f func(float64) float64) value {
	if v.kind == number1 {
		return value{kind: number1, number: finite(f(v.number))}
	}
	return v.lines(func(line []float64) []float64 {
		out := make([]float64, len(line))
		for i, x := range line {
			out[i] = finite(f(x))
		}
		return out
	})
}

// finite makes infinite values missing, because CloudWatch drops them. [ALARM-25]
func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// A program is the checked queries of a rule.
type program struct {
	queries map[string]Query
	parsed  map[string]*node // of those that have an expression
	watched Query
}

// series computes what the alarm watches: a value for each period of a window, NaN where it is
// missing.
func (p *program) series(d Data, w window) []float64 {
	m := machine{program: p, data: d, window: w, known: make(map[string][]float64)}
	return m.query(p.watched)
}

// A machine computes the needed queries, each once.
type machine struct {
	*program
	data   Data
	window window
	known  map[string][]float64
}

func (m *machine) query(q Query) []float64 {
	if line, ok := m.known[q.ID]; ok {
		return line
	}
	var line []float64
	if n := m.parsed[q.ID]; n != nil {
		line = m.eval(n).line
	} else {
		line = m.metric(q)
	}
	m.known[q.ID] = line
	return line
}

func (m *machine) metric(q Query) []float64 {
	line, w := m.empty(), m.window
	if u, ok := m.data.(Units); ok && q.Unit != "" {
		unit := u.Unit(q.Metric)
		if unit == "" {
			unit = "None"
		}
		if unit != q.Unit {
			return line // nothing was recorded in it [ALARM-34]
		}
	}
	for _, p := range m.data.Points(q.Metric, q.Stat, w.period, w.from, w.to) {
		if p.At >= w.from && p.At < w.to {
			line[(p.At-w.from)/(w.period*1000)] = finite(p.Value)
		}
	}
	return line
}

func (m *machine) empty() []float64 {
	line := make([]float64, m.window.n)
	for i := range line {
		line[i] = math.NaN()
	}
	return line
}

func (m *machine) eval(n *node) value {
	switch n.kind {
	case aNumber:
		return value{kind: number1, number: n.value}
	case aReference:
		return value{kind: series1, line: m.query(m.queries[n.name])}
	case aList:
		list := make([][]float64, len(n.args))
		for i, arg := range n.args {
			list[i] = m.eval(arg).line
		}
		return value{kind: list1, list: list}
	case aCall:
		return functions[n.name].call(m, n)
	case aUnary:
		return m.eval(n.args[0]).each(func(v float64) float64 { return -v })
	}
	return m.binary(operators[n.name], m.eval(n.args[0]), m.eval(n.args[1]))
}

// binary applies an operator in every period, and to every series of a list.
func (m *machine) binary(f func(x, y float64) float64, x, y value) value {
	switch {
	case x.kind == list1:
		return x.lines(func(line []float64) []float64 {
			return m.binary(f, value{kind: series1, line: line}, y).line
		})
	case y.kind == list1:
		return y.lines(func(line []float64) []float64 {
			return m.binary(f, x, value{kind: series1, line: line}).line
		})
	case x.kind == number1 && y.kind == number1:
		return value{kind: number1, number: operate(f, x.number, y.number)}
	}
	out := m.empty()
	for i := range out {
		a, b := x.at(i), y.at(i)
		// If only one of two series has a value, the other counts as zero. A number alone gives no
		// value, because it exists in every period. [ALARM-24]
		if x.kind == series1 && y.kind == series1 && math.IsNaN(a) != math.IsNaN(b) {
			if math.IsNaN(a) {
				a = 0
			} else {
				b = 0
			}
		}
		out[i] = operate(f, a, b)
	}
	return value{kind: series1, line: out}
}

// operate applies an operator to two values; the result is missing if one of them is.
func operate(f func(x, y float64) float64, x, y float64) float64 {
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.NaN()
	}
	return finite(f(x, y))
}

// operators are the binary operators. Comparisons and logic give 1 or 0. [ALARM-23]
var operators = map[string]func(x, y float64) float64{
	"+":   func(x, y float64) float64 { return x + y },
	"-":   func(x, y float64) float64 { return x - y },
	"*":   func(x, y float64) float64 { return x * y },
	"/":   func(x, y float64) float64 { return x / y }, // by zero there is none, see finite
	"^":   math.Pow,
	"<":   func(x, y float64) float64 { return truth(x < y) },
	"<=":  func(x, y float64) float64 { return truth(x <= y) },
	">":   func(x, y float64) float64 { return truth(x > y) },
	">=":  func(x, y float64) float64 { return truth(x >= y) },
	"==":  func(x, y float64) float64 { return truth(x == y) },
	"!=":  func(x, y float64) float64 { return truth(x != y) },
	"AND": func(x, y float64) float64 { return truth(x != 0 && y != 0) },
	"OR":  func(x, y float64) float64 { return truth(x != 0 || y != 0) },
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Units is a Data that knows the unit in which a metric was recorded, empty for none.
type Units interface {
	Unit(m series.Metric) string
}
