package alarm

import (
	"testing"
)

// One operation is one evaluation, as a server does for every alarm once a minute.
func BenchmarkEvaluate(b *testing.B) {
	d := record(b, map[string][]float64{"M": {1, 2, 3, 4, 5}, "errors": {1, 2, 3, 4, 5}, "requests": {5, 4, 3, 2, 1}})
	math := ratio()
	math.Periods = 3
	math.Queries[2].Expression = "IF(m2 > 0, 100 * m1 / m2, 0)"
	for _, c := range []struct {
		name string
		rule Rule
	}{{"metric", single(3, 2)}, {"math", math}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := c.rule.Evaluate(d, noon, OK); v.State != Alarm {
					b.Fatal(v)
				}
			}
		})
	}
}
