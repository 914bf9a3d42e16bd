package alarm

import (
	"math"

	"tenaq/internal/observe/series"
)

// Compute evaluates the queries that return data, as an alarm would, in the periods (seconds) that
// begin between from and to (whole minutes, in milliseconds). It returns the values by query id.
// Metrics in expressions must have this period. Its errors are Refusals.
func Compute(queries []Query, d Data, period, from, to int64) (map[string][]series.Point, error) {
	p := &program{queries: make(map[string]Query), parsed: make(map[string]*node)}
	for _, q := range queries {
		if q.Expression == "" && q.Period != period {
			continue // it stands for itself
		}
		if err := q.check(period, false); err != nil {
			return nil, err
		}
		if _, twice := p.queries[q.ID]; twice {
			return nil, refuse("The id %s is used by more than one query.", q.ID)
		}
		p.queries[q.ID] = q
	}
	if err := p.parse(queries); err != nil {
		return nil, err
	}
	w := window{from: from, to: to, period: period, n: int(max(0, to-from) / (period * 1000))}
	m := machine{program: p, data: d, window: w, known: make(map[string][]float64)}
	found := make(map[string][]series.Point)
	for _, q := range p.queries { // the order does not matter: each is computed once
		if !q.Return {
			continue
		}
		points := []series.Point{}
		for i, v := range m.query(q) {
			if !math.IsNaN(v) {
				points = append(points, series.Point{At: from + int64(i)*period*1000, Value: v})
			}
		}
		found[q.ID] = points
	}
	return found, nil
}
