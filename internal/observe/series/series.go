// Package series keeps the values of metrics, minute by minute, for a few hours. That is enough for
// alarms and for questions about what has just happened. It keeps them in memory only, so a restart
// loses them.
//
// A metric is a name in a namespace, with dimensions. Each minute has a Set, as in CloudWatch:
// minimum, maximum, sum and number of the values. The Set of a longer period is merged from those
// of its minutes, so every statistic except percentiles is exact.
//
// Time is Unix milliseconds and comes in as an argument. A Store may be used from any goroutine.
package series

import (
	"slices"
	"strings"
)

// Minute is the length of a minute, in milliseconds.
const Minute = 60_000

// A Dimension tells metrics of one name apart.
type Dimension struct{ Name, Value string }

// A Metric names what is measured. Its dimensions are sorted by name, see Sorted.
type Metric struct {
	Namespace, Name string
	Dimensions      []Dimension
}

// Sorted returns m with its dimensions in order, as a Store wants them.
func (m Metric) Sorted() Metric {
	m.Dimensions = slices.SortedFunc(slices.Values(m.Dimensions), func(x, y Dimension) int {
		return strings.Compare(x.Name, y.Name)
	})
	return m
}

// A Set summarizes some values. The zero Set has none.
type Set struct{ Min, Max, Sum, Count float64 }

// One is the Set of one value.
func One(v float64) Set { return Set{v, v, v, 1} }

// Merge returns the Set of the values of both.
func (s Set) Merge(o Set) Set {
	switch {
	case s.Count == 0:
		return o
	case o.Count == 0:
		return s
	}
	return Set{min(s.Min, o.Min), max(s.Max, o.Max), s.Sum + o.Sum, s.Count + o.Count}
}

// A Stat is a statistic of a Set.
type Stat string

// The statistics. Their names are CloudWatch's.
const (
	Average     Stat = "Average"
	Minimum     Stat = "Minimum"
	Maximum     Stat = "Maximum"
	Sum         Stat = "Sum"
	SampleCount Stat = "SampleCount"
)

// Known reports whether the statistic is one of them.
func (s Stat) Known() bool {
	return s == Average || s == Minimum || s == Maximum || s == Sum || s == SampleCount
}

// Of returns the statistic of a Set that has values.
func (s Stat) Of(set Set) float64 {
	switch s {
	case Minimum:
		return set.Min
	case Maximum:
		return set.Max
	case Sum:
		return set.Sum
	case SampleCount:
		return set.Count
	}
	return set.Sum / set.Count
}

// A Point is the value of a statistic in the period that begins at At.
type Point struct {
	At    int64
	Value float64
}
