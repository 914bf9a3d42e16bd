package cloudwatch

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"tenaq/internal/api/wire"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

const (
	// pointsMax is how many datapoints are in one answer of GetMetricData, unless fewer are asked
	// for.
	pointsMax = 100_800

	// periodsMax is how many periods a GetMetricData may be about: two weeks of minutes. Only a day
	// is kept, but dashboards ask for what they show.
	periodsMax = 20_160

	// workMax bounds what expressions may cost: for each period, a step for each query and each
	// letter of an expression. It is two weeks of minutes with expressions of 500 letters together.
	// At most computations requests compute at the same time.
	workMax      = 10_000_000
	computations = 4
)

// A line is the result of one query of a GetMetricData.
type line struct {
	id, label string
	points    []series.Point
}

func (c *call) getMetricData(in *getMetricDataInput) (*getMetricDataOutput, error) {
	most := orDefault(in.MaxDatapoints, pointsMax)
	if most < 1 || most > pointsMax {
		return nil, c.op.fit.invalid("The value %d for parameter MaxDatapoints is invalid: it must be between 1 and %d.", most, pointsMax)
	}
	first, after, err := c.readPlace(in.NextToken)
	if err != nil {
		return nil, err
	}
	lines, err := c.lines(in)
	if err != nil {
		return nil, err
	}
	out := &getMetricDataOutput{MetricDataResults: []metricDataResult{}, Messages: []messageData{}}
	for i := first; i < len(lines); i++ {
		points := lines[i].points
		older := func(x, y int64) bool { return x < y }
		if in.ScanBy != "TimestampAscending" {
			slices.Reverse(points)
			older = func(x, y int64) bool { return x > y }
		}
		if i == first && after != nil {
			points = slices.DeleteFunc(points, func(p series.Point) bool {
				return !older(*after, p.At)
			})
		}
		if most == 0 && len(points) > 0 {
			out.NextToken = c.token(strconv.Itoa(i))
			break
		}
		r := metricDataResult{
			Id: lines[i].id, Label: lines[i].label, StatusCode: "Complete",
			Timestamps: []time.Time{}, Values: []float64{}, Messages: []messageData{},
		}
		if len(points) > most {
			points = points[:most]
			r.StatusCode = "PartialData"
			out.NextToken = c.token(fmt.Sprintf("%d %d", i, points[most-1].At))
		}
		for _, p := range points {
			r.Timestamps = append(r.Timestamps, time.UnixMilli(p.At))
			r.Values = append(r.Values, p.Value)
		}
		out.MetricDataResults = append(out.MetricDataResults, r)
		if most -= len(points); out.NextToken != "" {
			break
		}
	}
	return out, nil
}

// readPlace returns where a page begins: with which line, and there after which time, if not at
// its beginning.
func (c *call) readPlace(token string) (first int, after *int64, err error) {
	place, err := c.readToken(token)
	if err != nil || place == "" {
		return 0, nil, err
	}
	at := new(int64)
	switch n, _ := fmt.Sscanf(place, "%d %d", &first, at); {
	case n == 0 || first < 0:
		return 0, nil, errToken
	case n == 1:
		at = nil
	}
	return first, at, nil
}

var idPattern = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]*$`)

// lines returns the results of the queries that return data, in their order.
func (c *call) lines(in *getMetricDataInput) ([]line, error) {
	queries, err := c.queries(in.MetricDataQueries, "MetricDataQueries")
	if err != nil {
		return nil, err
	}
	// of expressions: the longest, which the others are multiples of only if they are the same
	var period int64
	known := make(map[string]bool)
	for i, q := range queries {
		if !idPattern.MatchString(q.ID) || known[q.ID] {
			return nil, c.op.fit.invalid("The value %s for parameter MetricDataQueries.%d.Id is invalid: it begins with a letter in lower case, has letters, digits and underscores, and is unique.", wire.Quote(q.ID), i+1)
		}
		known[q.ID] = true
		period = max(period, q.Period)
	}
	computed, err := c.computed(in, queries, period)
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, q := range queries {
		if !q.Return {
			continue
		}
		l := line{id: q.ID, label: cmp.Or(q.Label, q.Metric.Name, q.ID), points: computed[q.ID]}
		if q.Expression == "" {
			s, err := c.span(in.StartTime, in.EndTime, q.Period, periodsMax)
			if err != nil {
				return nil, err
			}
			l.points = c.points(q, s)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (c *call) points(q alarm.Query, s span) []series.Point {
	store := c.cfg.Monitor.Series()
	if q.Unit != "" && q.Unit != cmp.Or(store.Unit(q.Metric), "None") {
		return nil // nothing was recorded in it, and nothing is converted
	}
	return store.Points(q.Metric, q.Stat, q.Period, s.from, s.to)
}

// computed returns the results of the expressions, if there are any.
func (c *call) computed(
	in *getMetricDataInput, queries []alarm.Query, period int64,
) (map[string][]series.Point, error) {
	if !slices.ContainsFunc(queries, func(q alarm.Query) bool { return q.Expression != "" }) {
		return nil, nil
	}
	if period == 0 {
		return nil, c.op.fit.invalid("At least one query must be a metric: an expression alone has no data.")
	}
	s, err := c.span(in.StartTime, in.EndTime, period, periodsMax)
	if err != nil {
		return nil, err
	}
	var letters int64
	for _, q := range queries {
		letters += 1 + int64(len(q.Expression))
	}
	if periods := (s.to - s.from) / (period * 1000); letters*periods > workMax {
		return nil, c.op.fit.invalid("The expressions are too long for %d periods: increase Period, decrease the time range, or ask for fewer at a time.", periods)
	}
	select {
	case c.computing <- struct{}{}:
		defer func() { <-c.computing }()
	case <-c.Done():
		return nil, c.Err()
	}
	computed, err := alarm.Compute(queries, c.cfg.Monitor.Series(), period, s.from, s.to)
	if err != nil {
		return nil, c.op.fit.invalid("%s", err)
	}
	return computed, nil
}
