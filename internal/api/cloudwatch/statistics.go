package cloudwatch

import (
	"cmp"
	"slices"
	"time"

	"tenaq/internal/observe/series"
)

// datapointsMax is how many periods a GetMetricStatistics may cover, as in CloudWatch.
const datapointsMax = 1440

// A span is the time that a request covers, in whole periods. It begins with the minute of its
// start. The last period counts as a whole if it begins before the end.
type span struct{ from, to int64 } // milliseconds

// span returns the time between start and end, of at most the given number of periods.
func (c *call) span(start, end time.Time, period, most int64) (span, error) {
	switch {
	case period%60 != 0:
		return span{}, c.op.fit.invalid("The value %d for parameter Period is invalid: one set of values is kept of each minute; use 60 or a multiple of it.", period)
	case !start.Before(end):
		return span{}, c.op.fit.invalid("The parameter StartTime must be less than the parameter EndTime.")
	case period > 1e9:
		return span{}, c.op.fit.invalid("The value %d for parameter Period is invalid: it is decades long.", period)
	}
	from := start.UnixMilli() / series.Minute * series.Minute
	if start.UnixMilli() < from {
		from -= series.Minute // before 1970
	}
	periods := (end.UnixMilli() - from + period*1000 - 1) / (period * 1000)
	if periods > most {
		return span{}, c.op.fit.combination("You have requested up to %d datapoints, which exceeds the limit of %d. "+
			"You may reduce the datapoints requested by increasing Period, or decreasing the time range.", periods, most)
	}
	return span{from, from + periods*period*1000}, nil
}

func (c *call) getMetricStatistics(
	in *getMetricStatisticsInput,
) (*getMetricStatisticsOutput, error) {
	if len(in.Statistics) == 0 {
		return nil, c.op.fit.missing("Statistics")
	}
	m, err := c.metric(metric{in.Namespace, in.MetricName, in.Dimensions}, "")
	if err != nil {
		return nil, err
	}
	s, err := c.span(in.StartTime, in.EndTime, in.Period, datapointsMax)
	if err != nil {
		return nil, err
	}
	out := &getMetricStatisticsOutput{Label: in.MetricName, Datapoints: []datapoint{}}
	store := c.cfg.Monitor.Series()
	unit := cmp.Or(store.Unit(m), "None")
	if in.Unit != "" && in.Unit != unit {
		return out, nil // nothing was recorded in it, and nothing is converted
	}
	for _, i := range store.Sets(m, in.Period, s.from, s.to) {
		asked := func(stat series.Stat) *float64 {
			if slices.Contains(in.Statistics, string(stat)) {
				return new(stat.Of(i.Set))
			}
			return nil
		}
		out.Datapoints = append(out.Datapoints, datapoint{
			Timestamp: time.UnixMilli(i.At), Unit: unit,
			SampleCount: asked(series.SampleCount), Average: asked(series.Average),
			Sum:     asked(series.Sum),
			Minimum: asked(series.Minimum), Maximum: asked(series.Maximum),
		})
	}
	return out, nil
}
