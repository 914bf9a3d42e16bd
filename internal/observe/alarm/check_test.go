package alarm

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"tenaq/internal/observe/series"
)

// ratio is a rule with metric math.
func ratio() Rule {
	r := single(1, 0)
	r.Queries = []Query{
		{ID: "m1", Metric: series.Metric{Namespace: "N", Name: "errors"}, Stat: series.Sum, Period: 60},
		{ID: "m2", Metric: series.Metric{Namespace: "N", Name: "requests"}, Stat: series.Sum, Period: 60},
		{ID: "e1", Expression: "m1 / m2", Return: true},
	}
	return r
}

// [ALARM-1, ALARM-2, ALARM-21, ALARM-33, ALARM-34]
func TestCheck(t *testing.T) {
	many := strings.Repeat("x", 256)
	for _, c := range []struct {
		name   string
		change func(r *Rule)
		want   string // a part of the sentence; empty when the rule is fine
	}{
		{"as it is", func(r *Rule) {}, ""},
		{"a day of minutes", func(r *Rule) { r.Periods = 1440 }, ""},
		{"more than a day", func(r *Rule) { r.Periods = 1441 }, "Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= 86400) for alarms using period < 3600"},
		{"a week of hours", func(r *Rule) { r.Queries[0].Period, r.Queries[1].Period, r.Periods = 3600, 3600, 168 }, ""},
		{"more than a week", func(r *Rule) { r.Queries[0].Period, r.Queries[1].Period, r.Periods = 3600, 3600, 169 }, "more than a week (EvaluationPeriods * Period must be <= 604800) for alarms using period >= 3600"},
		{"a product that overflows", func(r *Rule) {
			r.Queries[0].Period, r.Queries[1].Period, r.Periods = 60<<40, 60<<40, math.MaxInt32
		}, "more than a week"},
		{"10 seconds", func(r *Rule) { r.Queries[0].Period = 10 }, "A period of 10 seconds needs high-resolution metrics, and this server keeps one value a minute"},
		{"30 seconds", func(r *Rule) { r.Queries[0].Period = 30 }, "A period of 30 seconds needs high-resolution"},
		{"90 seconds", func(r *Rule) { r.Queries[0].Period = 90 }, "must be a multiple of 60 seconds, not 90"},
		{"no period", func(r *Rule) { r.Queries[0].Period = 0 }, "must be a multiple of 60 seconds, not 0"},
		{"two periods", func(r *Rule) { r.Queries[1].Period = 120 }, "All queries of an alarm must have the same period."},
		{"the period at the expression", func(r *Rule) { r.Queries[2].Period = 60 }, ""},
		{"another period at the expression", func(r *Rule) { r.Queries[2].Period = 120 }, "All queries of an alarm must have the same period."},
		{"no evaluation periods", func(r *Rule) { r.Periods = 0 }, "must be at least 1"},
		{"all datapoints", func(r *Rule) { r.Periods, r.Datapoints = 3, 3 }, ""},
		{"too many datapoints", func(r *Rule) { r.Periods, r.Datapoints = 3, 4 }, "between 1 and the number of evaluation periods, 3."},
		{"negative datapoints", func(r *Rule) { r.Datapoints = -1 }, "between 1 and"},
		{"nothing returned", func(r *Rule) { r.Queries[2].Return = false }, "Exactly one element of the metrics list should return data."},
		{"two returned", func(r *Rule) { r.Queries[0].Return = true }, "Exactly one element of the metrics list should return data."},
		{"an id twice", func(r *Rule) { r.Queries[1].ID = "m1" }, "The id m1 is used by more than one query."},
		{"an upper-case id", func(r *Rule) { r.Queries[1].ID = "M2" }, `The id "M2" must begin with a lower-case letter`},
		{"an id of a digit", func(r *Rule) { r.Queries[1].ID = "2m" }, `The id "2m" must begin`},
		{"an id with a newline", func(r *Rule) { r.Queries[1].ID = "m2\n" }, "must begin"},
		{"no id", func(r *Rule) { r.Queries[1].ID = "" }, `The id "" must begin`},
		{"a long id", func(r *Rule) { r.Queries[1].ID = "m" + many }, "at most 255 in all"},
		{"no threshold", func(r *Rule) { r.Threshold = math.NaN() }, "must be a finite number"},
		{"no end to the threshold", func(r *Rule) { r.Threshold = math.Inf(-1) }, "must be a finite number"},
		{"no operator", func(r *Rule) { r.Operator = "" }, `Comparison operator "" is not one of GreaterThanThreshold, `},
		{"a band", func(r *Rule) { r.Operator = "GreaterThanUpperThreshold" }, "bands are not supported"},
		{"another treatment", func(r *Rule) { r.Missing = "good" }, `not as "good"`},
		{"no treatment", func(r *Rule) { r.Missing = "" }, ""},
		{"a percentile", func(r *Rule) { r.Queries[0].Stat = "p99" }, `Statistic "p99" is not one of SampleCount, Average, Sum, Minimum, Maximum`},
		{"a unit", func(r *Rule) { r.Queries[0].Unit = "Count/Second" }, ""},
		{"another unit", func(r *Rule) { r.Queries[0].Unit = "Furlongs" }, `Unit "Furlongs" is not one of Seconds, `},
		{"both", func(r *Rule) { r.Queries[2].Stat = series.Sum }, "Query e1 has both an expression and a metric"},
		{"no name", func(r *Rule) { r.Queries[0].Metric.Name = "" }, "A metric needs a name and a namespace."},
		{"no namespace", func(r *Rule) { r.Queries[0].Metric.Namespace = "" }, "A metric needs a name and a namespace."},
		{"a long name", func(r *Rule) { r.Queries[0].Metric.Name = many }, "at most 255 characters"},
		{"dimensions", func(r *Rule) { r.Queries[0].Metric.Dimensions = dimensions("A", "1", "B", "2") }, ""},
		{"a dimension twice", func(r *Rule) { r.Queries[0].Metric.Dimensions = dimensions("A", "1", "A", "2") }, "Dimension A is given more than once."},
		{"dimensions in disorder", func(r *Rule) { r.Queries[0].Metric.Dimensions = dimensions("B", "1", "A", "2") }, "not in the order of their names"},
		{"a dimension without a value", func(r *Rule) { r.Queries[0].Metric.Dimensions = dimensions("A", "") }, "A dimension has a name of 1 to 255 and a value of 1 to 1024 characters."},
		{"many dimensions", func(r *Rule) { r.Queries[0].Metric.Dimensions = make([]series.Dimension, 31) }, "at most 30 dimensions, not 31"},
		{"no metric", func(r *Rule) { r.Queries = []Query{{ID: "e1", Expression: "1", Return: true}} }, "At least one query must be a metric"},
		{"no queries", func(r *Rule) { r.Queries = nil }, "An alarm has 1 to 20 queries, not 0."},
		{"11 metrics", func(r *Rule) { addMetrics(r, 11) }, "An alarm watches at most 10 metrics, not 11."},
		{"10 metrics", func(r *Rule) { addMetrics(r, 10) }, ""},
		{"21 queries", func(r *Rule) { addMetrics(r, 20) }, "An alarm has 1 to 20 queries, not 21."},
		{"a long expression", func(r *Rule) { r.Queries[2].Expression += strings.Repeat(" ", 2048) }, "Expression is longer than 2048 characters"},
		{"a metric and no id", func(r *Rule) { r.Queries = r.Queries[:1]; r.Queries[0].ID = "" }, ""},
		{"a metric and a bad id", func(r *Rule) { r.Queries = r.Queries[:1]; r.Queries[0].ID = "M" }, "must begin"},
	} {
		r := ratio()
		c.change(&r)
		err := r.Check()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
		if refusal := Refusal(""); err != nil && !errors.As(err, &refusal) {
			t.Errorf("%s: %T is no Refusal", c.name, err)
		}
	}
}

// dimensions makes some of names and values in turn.
func dimensions(words ...string) (all []series.Dimension) {
	for i := 0; i < len(words); i += 2 {
		all = append(all, series.Dimension{Name: words[i], Value: words[i+1]})
	}
	return all
}

// addMetrics gives a rule a number of metrics, and an expression.
func addMetrics(r *Rule, metrics int) {
	r.Queries = r.Queries[2:]
	r.Queries[0].Expression = "m0 * 1"
	for i := range metrics {
		r.Queries = append(r.Queries, Query{ID: fmt.Sprintf("m%d", i), Metric: watched, Stat: series.Sum, Period: 60})
	}
}

// An expression that many others lead to is computed once: this would take a million steps
// otherwise.
func TestSharedQueriesAreComputedOnce(t *testing.T) {
	r := single(1, 0)
	r.Queries = []Query{{ID: "e0", Metric: watched, Stat: series.Sum, Period: 60}}
	for i := range 19 {
		e := fmt.Sprintf("e%d", i)
		r.Queries = append(r.Queries, Query{ID: fmt.Sprintf("e%d", i+1), Expression: e + " + " + e})
	}
	r.Queries[19].Return = true
	c := &counting{Data: record(t, map[string][]float64{"M": {1}})}
	if got := r.Evaluate(c, noon, OK).Recent; len(got) != 1 || got[0].Value != 1<<19 || c.n != 1 {
		t.Errorf("%v after %d questions, want %d after one", got, c.n, 1<<19)
	}
}

type counting struct {
	Data
	n int
}

func (c *counting) Points(m series.Metric, stat series.Stat, period, from, to int64) []series.Point {
	c.n++
	return c.Data.Points(m, stat, period, from, to)
}
