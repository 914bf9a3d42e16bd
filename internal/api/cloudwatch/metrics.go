package cloudwatch

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/api/wire"
	"tenaq/internal/observe/series"
)

const (
	// kept is how far back there is data, ahead how far the clock of a client may be before ours.
	kept  = 24 * time.Hour
	ahead = 2 * time.Hour

	metricsMax = 500 // in one answer of ListMetrics
)

// valueMax bounds the values of metrics, as in CloudWatch: sums of many stay finite.
var valueMax = math.Ldexp(1, 360)

// A point is one part of a PutMetricData, ready to be put.
type point struct {
	metric series.Metric
	at     int64
	set    series.Set
	unit   string
}

// putMetricData checks the whole request before it keeps a part of it.
func (c *call) putMetricData(in *putMetricDataInput) error {
	for _, reserved := range []string{"AWS/", "Tenaq/SQS"} {
		if strings.HasPrefix(in.Namespace, reserved) {
			return c.op.fit.invalid("The value %s for parameter Namespace is invalid: what begins with %s is recorded by the server itself.", wire.Quote(in.Namespace), reserved)
		}
	}
	if in.MetricData == nil {
		return c.op.fit.missing("MetricData")
	}
	var points []point
	for i, d := range in.MetricData {
		p, err := c.point(in.Namespace, d, "MetricData."+strconv.Itoa(i+1)+".")
		if err != nil {
			return err
		}
		points = append(points, p)
	}
	for _, p := range points {
		err := c.cfg.Monitor.Series().Put(p.metric, p.at, p.set, p.unit)
		switch {
		case errors.Is(err, series.ErrFull):
			return &Error{LimitExceeded,
				err.Error() + ": put fewer, or wait until some are a day old."}
		case errors.Is(err, series.ErrTooOld), errors.Is(err, series.ErrTooNew),
			errors.Is(err, series.ErrInvalid):
			return c.op.fit.invalid("%s.", err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (c *call) point(namespace string, d metricDatum, path string) (p point, err error) {
	if p.metric, err = c.metric(metric{namespace, d.MetricName, d.Dimensions}, path); err != nil {
		return p, err
	}
	if d.StorageResolution != nil && *d.StorageResolution != 60 {
		return p, c.op.fit.invalid("The value %d for parameter %sStorageResolution is invalid: one set of values is kept of each minute; use 60.", *d.StorageResolution, path)
	}
	now := c.cfg.Monitor.Now()
	at := now
	if d.Timestamp != nil {
		at = *d.Timestamp
	}
	switch {
	case at.Before(now.Add(-kept)):
		return p, c.op.fit.invalid("The value %s for parameter %sTimestamp is invalid: metrics are kept for a day.", at.UTC().Format(time.RFC3339), path)
	case at.After(now.Add(ahead)):
		return p, c.op.fit.invalid("The value %s for parameter %sTimestamp is invalid: it is more than two hours ahead of %s.", at.UTC().Format(time.RFC3339), path, now.UTC().Format(time.RFC3339))
	}
	p.at, p.unit = at.UnixMilli(), d.Unit
	p.set, err = c.set(d, path)
	return p, err
}

// set returns what the values of a datum have in common.
func (c *call) set(d metricDatum, path string) (set series.Set, err error) {
	given := 0
	for _, g := range []bool{d.Value != nil, d.StatisticValues != nil, d.Values != nil} {
		if g {
			given++
		}
	}
	switch {
	case given == 0:
		return set, c.op.fit.missing(path + "Value")
	case given > 1:
		return set, c.op.fit.combination("The parameters %sValue, %[1]sValues and %[1]sStatisticValues are mutually exclusive and you have specified more than one.", path)
	case d.Counts != nil && len(d.Counts) != len(d.Values):
		return set, c.op.fit.invalid("The parameters %sValues and %[1]sCounts must be of the same size.", path)
	case d.Value != nil:
		if err := c.checkValue(*d.Value, path+"Value"); err != nil {
			return set, err
		}
		return series.One(*d.Value), nil
	case d.StatisticValues != nil:
		return c.statisticSet(*d.StatisticValues, path+"StatisticValues.")
	}
	for i, v := range d.Values {
		n, at := 1.0, strconv.Itoa(i+1)
		if d.Counts != nil {
			n = d.Counts[i]
		}
		if err := c.checkValue(v, path+"Values."+at); err != nil {
			return set, err
		}
		if err := c.checkValue(n, path+"Counts."+at); err != nil {
			return set, err
		}
		if n < 0 {
			return set, c.op.fit.invalid("The value %g for parameter %sCounts.%s is invalid: it is negative.", n, path, at)
		}
		set = set.Merge(series.Set{Min: v, Max: v, Sum: v * n, Count: n})
	}
	if set.Count == 0 {
		return set, c.op.fit.invalid("The parameter %sValues holds no value.", path)
	}
	return set, c.checkValue(set.Sum, path+"Values")
}

func (c *call) statisticSet(s statisticSet, path string) (set series.Set, err error) {
	for _, v := range []struct {
		name  string
		value float64
	}{{"SampleCount", s.SampleCount}, {"Sum", s.Sum}, {"Minimum", s.Minimum}, {"Maximum",
		s.Maximum}} {
		if err := c.checkValue(v.value, path+v.name); err != nil {
			return set, err
		}
	}
	if s.SampleCount <= 0 {
		return set, c.op.fit.invalid("The value %g for parameter %sSampleCount is invalid: it must be greater than zero.", s.SampleCount, path)
	}
	if s.Minimum > s.Maximum {
		return set, c.op.fit.invalid("The parameter %sMaximum must be greater than %[1]sMinimum.",
			path)
	}
	return series.Set{Min: s.Minimum, Max: s.Maximum, Sum: s.Sum, Count: s.SampleCount}, nil
}

func (c *call) checkValue(v float64, path string) error {
	if !(math.Abs(v) <= valueMax) { // NaN neither
		return c.op.fit.invalid("The value %s for parameter %s is invalid: it must be between -2^360 and 2^360.", wire.FormatNumber(v), path)
	}
	return nil
}

func (c *call) listMetrics(in *listMetricsInput) (*listMetricsOutput, error) {
	place, err := c.readToken(in.NextToken)
	if err != nil {
		return nil, err
	}
	var from series.Metric
	if place != "" && json.Unmarshal([]byte(place), &from) != nil {
		return nil, errToken
	}
	if in.OwningAccount != "" && in.OwningAccount != c.account() {
		return nil, c.op.fit.invalid("The value %s for parameter OwningAccount is invalid: there is no account but %s.", wire.Quote(in.OwningAccount), c.account())
	}
	f := series.Filter{Namespace: in.Namespace, Name: in.MetricName}
	for _, d := range in.Dimensions {
		f.Dimensions = append(f.Dimensions, series.Dimension(d))
	}
	if in.RecentlyActive != "" {
		f.Since = c.cfg.Monitor.Now().Add(-3 * time.Hour).UnixMilli()
	}
	out := &listMetricsOutput{Metrics: []metric{}}
	if in.IncludeLinkedAccounts {
		out.OwningAccounts = []string{}
	}
	var last series.Metric
	for _, m := range c.cfg.Monitor.Series().List(f) {
		if place != "" && series.Compare(m, from) <= 0 {
			continue
		}
		if len(out.Metrics) == metricsMax {
			b, err := json.Marshal(last)
			if err != nil {
				return nil, err
			}
			out.NextToken = c.token(string(b))
			break
		}
		last = m
		out.Metrics = append(out.Metrics, metric{m.Namespace, m.Name, dimensions(m)})
		if in.IncludeLinkedAccounts {
			out.OwningAccounts = append(out.OwningAccounts, c.account())
		}
	}
	return out, nil
}
