package alarm

import (
	"math"

	"tenaq/internal/observe/series"
)

// extra is how many periods are read beyond those that are evaluated, in case some have no data.
// CloudWatch does not document the number; its examples have two. [ALARM-5]
const extra = 2

// Range returns how many periods a rule reads: its evaluation range.
func Range(r Rule) int { return r.Periods + extra }

// Span returns how far back a rule reads, in milliseconds. Data that is kept for less time counts
// as missing. [ALARM-35]
func (r Rule) Span() int64 { return int64(Range(r)) * r.period() * 1000 }

// period returns the period of all queries, in seconds.
func (r Rule) period() int64 {
	for _, q := range r.Queries {
		if q.Expression == "" {
			return q.Period
		}
	}
	return 0
}

// datapoints returns how many datapoints must breach. [ALARM-4]
func (r Rule) datapoints() int {
	if r.Datapoints == 0 {
		return r.Periods
	}
	return r.Datapoints
}

// Evaluate decides the state at a time, a whole minute at which the newest period ends. The
// previous state matters only if missing data keeps it. A rule that Check refuses is Insufficient,
// with the reason.
func (r Rule) Evaluate(d Data, at int64, was State) Verdict {
	p, err := r.compile()
	if err != nil {
		return Verdict{State: Insufficient, Reason: err.Error()}
	}
	n := Range(r)
	w := window{from: at - r.Span(), to: at, period: r.period(), n: n}
	e := evidence{rule: r}
	for i, v := range p.series(d, w) {
		if math.IsNaN(v) {
			continue
		}
		e.points = append(e.points, series.Point{At: w.from + int64(i)*w.period*1000, Value: v})
		e.ages = append(e.ages, n-i)
	}
	if surplus := len(e.points) - r.Periods; surplus > 0 {
		e.points, e.ages = e.points[surplus:], e.ages[surplus:]
	}
	state, kept := e.judge(was)
	return Verdict{State: state, Reason: e.reason(state, kept), Recent: e.points}
}

// evidence is what decides a rule: the newest values within the range, at most one per evaluated
// period, oldest first. If there are fewer, the rest is missing. [ALARM-6 to ALARM-8]
type evidence struct {
	rule   Rule
	points []series.Point
	ages   []int // in periods, 1 for the newest
}

func (e evidence) missing() int { return e.rule.Periods - len(e.points) }

// judge returns the state, and whether it is the previous one only because data is missing.
func (e evidence) judge(was State) (state State, kept bool) {
	m, breaching := e.rule.datapoints(), 0
	for _, p := range e.points {
		if e.rule.breaches(p.Value) {
			breaching++
		}
	}
	if breaching >= m {
		return Alarm, false
	}
	if e.missing() == 0 {
		return OK, false
	}
	healthy := len(e.points) - breaching
	switch e.rule.Missing {
	case TreatBreaching: // [ALARM-9]
		if breaching+e.missing() >= m {
			return Alarm, false
		}
	case TreatNotBreaching: // [ALARM-10]
	case TreatIgnore: // [ALARM-11]
		if healthy == 0 {
			return was, true
		}
	default: // [ALARM-12]
		if len(e.points) == 0 {
			return Insufficient, false
		}
		// Breaching values that no data followed raise the alarm once they are old enough, however
		// few they are: no later value can be expected to clear it. [ALARM-13, ALARM-14]
		if healthy == 0 && e.ages[0] >= m {
			return Alarm, false
		}
	}
	return OK, false
}

// breaches compares a value with the threshold. NaN never breaches. [ALARM-3]
func (r Rule) breaches(v float64) bool {
	switch r.Operator {
	case Above:
		return v > r.Threshold
	case AtLeast:
		return v >= r.Threshold
	case Below:
		return v < r.Threshold
	case AtMost:
		return v <= r.Threshold
	}
	return false
}
