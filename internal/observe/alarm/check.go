package alarm

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"tenaq/internal/observe/series"
)

// Limits of a rule. They are CloudWatch's.
const (
	queriesMax    = 20
	metricsMax    = 10
	dimensionsMax = 30
	nameMax       = 255
	valueMax      = 1024
	day           = 86_400 // seconds
	week          = 7 * day
	hour          = 3600
)

// UnitNames are the units of CloudWatch.
var UnitNames = strings.Fields("Seconds Microseconds Milliseconds Bytes Kilobytes Megabytes Gigabytes Terabytes " +
	"Bits Kilobits Megabits Gigabits Terabits Percent Count Bytes/Second Kilobytes/Second Megabytes/Second " +
	"Gigabytes/Second Terabytes/Second Bits/Second Kilobits/Second Megabits/Second Gigabits/Second Terabits/Second " +
	"Count/Second None")

var idPattern = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]*$`)

// A Refusal says what is wrong with a rule, in the words of CloudWatch where they are known.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// Check returns a Refusal for a rule that cannot be evaluated.
func (r Rule) Check() error {
	_, err := r.compile()
	return err
}

func (r Rule) compile() (*program, error) {
	if err := r.checkThreshold(); err != nil {
		return nil, err
	}
	if len(r.Queries) == 0 || len(r.Queries) > queriesMax {
		return nil, refuse("An alarm has 1 to %d queries, not %d.", queriesMax, len(r.Queries))
	}
	p := &program{queries: make(map[string]Query), parsed: make(map[string]*node)}
	metrics, watched := 0, 0
	for _, q := range r.Queries {
		if err := q.check(r.period(), len(r.Queries) == 1); err != nil {
			return nil, err
		}
		if _, twice := p.queries[q.ID]; twice {
			return nil, refuse("The id %s is used by more than one query.", q.ID)
		}
		p.queries[q.ID] = q
		if q.Expression == "" {
			metrics++
		}
		if q.Return || len(r.Queries) == 1 {
			watched++
			p.watched = q
		}
	}
	switch {
	case metrics == 0:
		return nil, refuse("At least one query must be a metric: an expression alone has no data.")
	case metrics > metricsMax:
		return nil, refuse("An alarm watches at most %d metrics, not %d.", metricsMax, metrics)
	case watched != 1:
		return nil, refuse("Exactly one element of the metrics list should return data.")
	}
	if err := r.checkPeriods(); err != nil {
		return nil, err
	}
	return p, p.parse(r.Queries)
}

// checkThreshold checks everything but the queries and periods. [ALARM-2, ALARM-3, ALARM-33]
func (r Rule) checkThreshold() error {
	switch r.Operator {
	case Above, AtLeast, Below, AtMost:
	default:
		return refuse("Comparison operator %q is not one of %s, %s, %s, %s; bands are not supported.", r.Operator, Above, AtLeast, Below, AtMost)
	}
	switch r.Missing {
	case "", TreatMissing, TreatIgnore, TreatBreaching, TreatNotBreaching:
	default:
		return refuse("Missing data can be treated as %s, %s, %s or %s, not as %q.", TreatMissing,
			TreatIgnore, TreatBreaching, TreatNotBreaching, r.Missing)
	}
	if math.IsNaN(r.Threshold) || math.IsInf(r.Threshold, 0) {
		return refuse("The threshold must be a finite number.")
	}
	return nil
}

// checkPeriods checks the number of periods and their total length. [ALARM-1]
func (r Rule) checkPeriods() error {
	period := r.period()
	switch {
	case r.Periods < 1:
		return refuse("The number of evaluation periods must be at least 1.")
	case r.Datapoints < 0 || r.Datapoints > r.Periods:
		return refuse("The number of datapoints to alarm must be between 1 and the number of evaluation periods, %d.", r.Periods)
	case period < hour && int64(r.Periods) > day/period:
		return refuse("Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= %d) for alarms using period < %d", day, hour)
	case period >= hour && int64(r.Periods) > week/period:
		return refuse("Metrics cannot be checked across more than a week (EvaluationPeriods * Period must be <= %d) for alarms using period >= %d", week, hour)
	}
	return nil
}

// check checks a single query. A metric that stands alone needs no id.
func (q Query) check(period int64, alone bool) error {
	if (q.ID != "" || !alone) && (!idPattern.MatchString(q.ID) || len(q.ID) > nameMax) {
		return refuse("The id %q must begin with a lower-case letter, then have letters, digits and underscores, at most %d in all.", q.ID, nameMax)
	}
	if q.Expression != "" {
		if q.Metric.Name != "" || q.Metric.Namespace != "" || q.Stat != "" || q.Unit != "" {
			return refuse("Query %s has both an expression and a metric; it takes one of them.",
				q.ID)
		}
		if q.Period != 0 && q.Period != period {
			return refuse("All queries of an alarm must have the same period.")
		}
		return nil
	}
	if err := checkMetric(q.Metric); err != nil {
		return err
	}
	switch {
	case !q.Stat.Known():
		return refuse("Statistic %q is not one of SampleCount, Average, Sum, Minimum, Maximum; percentiles are not kept.", q.Stat)
	case q.Unit != "" && !slices.Contains(UnitNames, q.Unit):
		return refuse("Unit %q is not one of %s.", q.Unit, strings.Join(UnitNames, ", "))
	case q.Period == 10 || q.Period == 20 || q.Period == 30:
		return refuse("A period of %d seconds needs high-resolution metrics, and this server keeps one value a minute; use 60 or a multiple of it.", q.Period)
	case q.Period <= 0 || q.Period%60 != 0:
		return refuse("The period must be a multiple of 60 seconds, not %d.", q.Period)
	case q.Period != period:
		return refuse("All queries of an alarm must have the same period.")
	}
	return nil
}

func checkMetric(m series.Metric) error {
	if m.Name == "" || m.Namespace == "" {
		return refuse("A metric needs a name and a namespace.")
	}
	if len(m.Name) > nameMax || len(m.Namespace) > nameMax {
		return refuse("The name and the namespace of a metric have at most %d characters.", nameMax)
	}
	if len(m.Dimensions) > dimensionsMax {
		return refuse("A metric has at most %d dimensions, not %d.", dimensionsMax,
			len(m.Dimensions))
	}
	for i, d := range m.Dimensions {
		switch {
		case d.Name == "" || len(d.Name) > nameMax || d.Value == "" || len(d.Value) > valueMax:
			return refuse("A dimension has a name of 1 to %d and a value of 1 to %d characters.",
				nameMax, valueMax)
		case i > 0 && m.Dimensions[i-1].Name == d.Name:
			return refuse("Dimension %s is given more than once.", d.Name)
		case i > 0 && m.Dimensions[i-1].Name > d.Name:
			return refuse("The dimensions of metric %s are not in the order of their names.",
				m.Name)
		}
	}
	return nil
}

// parse parses the expressions of all queries and checks that they can be computed.
func (p *program) parse(queries []Query) error {
	uses := make(map[string][]string)
	for _, q := range queries {
		if q.Expression == "" {
			continue
		}
		n, err := parse(q.Expression)
		if err == nil {
			var k kind
			k, err = kindOf(n, func(id string, metric bool) bool {
				uses[q.ID] = append(uses[q.ID], id)
				other, ok := p.queries[id]
				return ok && (!metric || other.Expression == "")
			})
			if err == nil && k != series1 {
				err = wrong(n.at, "The expression must give one time series, and gives %s", k)
			}
		}
		if err != nil {
			return refuse("Error in expression '%s': %v.", q.ID, err)
		}
		p.parsed[q.ID] = n
	}
	done := make(map[string]bool)
	for _, q := range queries {
		if id, ok := circular(q.ID, uses, nil, done); ok {
			return refuse("Error in expression '%s': it needs its own result.", id)
		}
	}
	return nil
}

// circular looks for an expression that needs its own result. above has the ids on the way here,
// done those already found to be fine.
func circular(
	id string, uses map[string][]string, above []string, done map[string]bool,
) (string, bool) {
	if slices.Contains(above, id) {
		return id, true
	}
	if done[id] {
		return "", false
	}
	for _, other := range uses[id] {
		if found, ok := circular(other, uses, append(above, id), done); ok {
			return found, true
		}
	}
	done[id] = true
	return "", false
}
