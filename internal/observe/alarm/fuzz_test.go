package alarm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/observe/series"
)

// FuzzParse: any expression is either refused, with a place inside it, or can be computed.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"m1 + m2", "-m1 ^ -2", "IF(m1 > 3 AND m2 <= .5, m1, [m2])", "SUM([m1, m2]) / PERIOD(m1)", "FILL(m1, REPEAT)", "1e", "((", "m1 || !",
		"RATE(DIFF(m1)) == 1e308 * 10", "MAX([FILL(m1, 0), FLOOR(m2)])", strings.Repeat("(", 60), "é", "\x00", "m1 < m2 < m1", "AND(m1)",
	} {
		f.Add(text)
	}
	d := record(f, map[string][]float64{"errors": {1, math.NaN(), 3}, "requests": {math.NaN(), 0, math.MaxFloat64}})
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parse(text); err != nil {
			e, ok := err.(*expressionError)
			if !ok || e.at < 0 || e.at > len(text) {
				t.Errorf("%q: %v", text, err)
			}
		} else if n == nil {
			t.Errorf("%q is nothing", text)
		}
		r := ratio()
		r.Queries[2].Expression = text
		v := r.Evaluate(d, noon, OK)
		if err := r.Check(); (err != nil) != (v.Reason != "" && v.Reason == errText(err)) {
			t.Errorf("%q: checked %v, evaluated %+v", text, err, v)
		}
		for _, p := range v.Recent {
			if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
				t.Errorf("%q gives %v", text, p.Value)
			}
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzEvaluate: evaluating any rule ends in one of the states, with a reason.
func FuzzEvaluate(f *testing.F) {
	f.Add("m1", "e1", "m1 * 2", "Maximum", "GreaterThanThreshold", "ignore", "Count", int64(60), 3, 2, 0.5, []byte("0X-X"))
	f.Add("m1", "e1", "e1", "p99", "", "", "", int64(math.MaxInt64), math.MaxInt, -1, math.NaN(), []byte{})
	f.Add("m1", "e1", "FILL(m1,1)", "Sum", "LessThanThreshold", "breaching", "", int64(120), 4, 0, 1.0, []byte("X--0"))
	f.Fuzz(func(t *testing.T, id1, id2, expression, stat, operator, missing, unit string, period int64, periods, datapoints int, threshold float64, data []byte) {
		s := series.New(series.Config{})
		for i, b := range data[max(0, len(data)-100):] {
			if b != '-' {
				if err := s.Put(watched, noon-int64(i)*series.Minute, series.One(float64(b)), "Count"); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := Rule{
			Queries: []Query{
				{ID: id1, Metric: watched, Stat: series.Stat(stat), Period: period, Unit: unit},
				{ID: id2, Expression: expression, Return: true},
			},
			Periods: periods, Datapoints: datapoints, Operator: Operator(operator), Threshold: threshold, Missing: Missing(missing),
		}
		v := r.Evaluate(s, noon, OK)
		if !slices.Contains(states, v.State) || v.Reason == "" || r.Check() == nil && len(v.Recent) > r.Periods {
			t.Errorf("%+v: %+v", r, v)
		}
		_ = r.Span()
	})
}
