package cloudwatch

import (
	"strconv"
	"strings"
	"unicode"

	"tenaq/internal/api/wire"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// single returns the query of an alarm that was put with MetricName. It has no id. An alarm that
// was put with Metrics keeps the ids of its caller and is shown with them.
func single(r *alarm.Rule) (alarm.Query, bool) {
	if len(r.Queries) == 1 && r.Queries[0].Expression == "" && r.Queries[0].ID == "" {
		return r.Queries[0], true
	}
	return alarm.Query{}, false
}

// definition returns the alarm that a request describes. What a rule may be is left to the monitor.
func (c *call) definition(in *putMetricAlarmInput) (d monitor.Definition, err error) {
	if strings.ContainsFunc(in.AlarmName, unicode.IsControl) {
		return d, c.op.fit.invalid("The value %s for parameter AlarmName is invalid: it has control characters.", wire.Quote(in.AlarmName))
	}
	switch {
	case in.EvaluationPeriods == nil:
		return d, c.op.fit.missing("EvaluationPeriods")
	case in.ComparisonOperator == "":
		return d, c.op.fit.missing("ComparisonOperator")
	case in.Threshold == nil:
		return d, c.op.fit.missing("Threshold")
	case strings.Contains(in.ComparisonOperator, "Lower"),
		strings.Contains(in.ComparisonOperator, "Upper"):
		return d, c.op.fit.invalid("The ComparisonOperator %s is not supported: there is no anomaly detection; use one that ends in Threshold, such as GreaterThanThreshold.", in.ComparisonOperator)
	}
	d = monitor.Definition{
		Name:           in.AlarmName,
		Description:    in.AlarmDescription,
		ActionsEnabled: in.ActionsEnabled == nil || *in.ActionsEnabled,
		OnAlarm:        in.AlarmActions,
		OnOK:           in.OKActions,
		OnInsufficient: in.InsufficientDataActions,
		Rule: alarm.Rule{
			Periods:    orDefault(in.EvaluationPeriods, 0),
			Datapoints: orDefault(in.DatapointsToAlarm, 0),
			Operator:   alarm.Operator(in.ComparisonOperator),
			Threshold:  *in.Threshold,
			Missing:    alarm.Missing(in.TreatMissingData),
		},
	}
	if d.Tags, err = c.tags(in.Tags); err != nil {
		return d, err
	}
	if in.MetricName != "" || len(in.Metrics) == 0 {
		d.Rule.Queries, err = c.singleQuery(in)
	} else {
		d.Rule.Queries, err = c.queriesOf(in)
	}
	return d, err
}

// singleQuery is that of an alarm on a metric.
func (c *call) singleQuery(in *putMetricAlarmInput) ([]alarm.Query, error) {
	switch {
	case in.MetricName == "":
		return nil, c.op.fit.combination("An alarm needs either MetricName or Metrics.")
	case len(in.Metrics) > 0:
		return nil, c.op.fit.combination("MetricName and Metrics cannot both be given.")
	case in.Namespace == "":
		return nil, c.op.fit.missing("Namespace")
	case in.Statistic == "":
		return nil, c.op.fit.missing("Statistic")
	case in.Period == nil:
		return nil, c.op.fit.missing("Period")
	}
	m, err := c.metric(metric{in.Namespace, in.MetricName, in.Dimensions}, "")
	if err != nil {
		return nil, err
	}
	return []alarm.Query{{Metric: m, Stat: series.Stat(in.Statistic), Period: *in.Period,
		Unit: in.Unit, Return: true}}, nil
}

// queriesOf are those of an alarm on an expression.
func (c *call) queriesOf(in *putMetricAlarmInput) ([]alarm.Query, error) {
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"Namespace", in.Namespace != ""},
		{"Dimensions", len(in.Dimensions) > 0},
		{"Period", in.Period != nil},
		{"Unit", in.Unit != ""},
		{"Statistic", in.Statistic != ""},
	} {
		if m.given {
			return nil, c.op.fit.combination("%s and Metrics cannot both be given: it stands in the MetricStat of each metric.", m.name)
		}
	}
	return c.queries(in.Metrics, "Metrics")
}

// queries returns what metric math works with. Path is the name of the parameter.
func (c *call) queries(in []metricDataQuery, path string) ([]alarm.Query, error) {
	var queries []alarm.Query
	for i, q := range in {
		asked, err := c.query(q, path+"."+strconv.Itoa(i+1))
		if err != nil {
			return nil, err
		}
		queries = append(queries, asked)
	}
	return queries, nil
}

// elsewhere are the functions of metric math that do not take series.
var elsewhere = []string{"SEARCH(", "ANOMALY_DETECTION_BAND(", "INSIGHT_RULE_METRIC(", "METRICS("}

func (c *call) query(in metricDataQuery, path string) (q alarm.Query, err error) {
	q = alarm.Query{ID: in.Id, Expression: in.Expression, Label: in.Label,
		Return: in.ReturnData == nil || *in.ReturnData}
	if in.AccountId != "" && in.AccountId != c.account() {
		return q, c.op.fit.invalid("The value %s for parameter %s.AccountId is invalid: there is no account but %s.", wire.Quote(in.AccountId), path, c.account())
	}
	if (in.MetricStat == nil) == (in.Expression == "") {
		return q, c.op.fit.combination("%s needs either MetricStat or Expression.", path)
	}
	if in.MetricStat == nil {
		words := strings.Fields(in.Expression)
		if len(words) > 0 && strings.EqualFold(words[0], "SELECT") {
			return q, c.op.fit.invalid("%s.Expression is a query of Metrics Insights, which is not supported: name each metric in a MetricStat.", path)
		}
		for _, f := range elsewhere {
			if strings.Contains(strings.ToUpper(in.Expression), f) {
				return q, c.op.fit.invalid("%s.Expression uses %s), which is not supported: name each metric in a MetricStat.", path, f)
			}
		}
		q.Period = int64(orDefault(in.Period, 0))
		return q, nil
	}
	s := in.MetricStat
	if in.Period != nil && *in.Period != s.Period {
		return q, c.op.fit.invalid("%s has one Period in its MetricStat and another beside it.",
			path)
	}
	if q.Stat = series.Stat(s.Stat); !q.Stat.Known() {
		return q, c.op.fit.invalid("The value %s for parameter %s.MetricStat.Stat is invalid: no percentiles are kept; use Average, Minimum, Maximum, Sum or SampleCount.", wire.Quote(s.Stat), path)
	}
	q.Period, q.Unit = s.Period, s.Unit
	q.Metric, err = c.metric(s.Metric, path+".MetricStat.Metric.")
	return q, err
}

// asked is how a query is shown.
func asked(q alarm.Query) metricDataQuery {
	shown := metricDataQuery{Id: q.ID, Expression: q.Expression, Label: q.Label,
		ReturnData: new(q.Return)}
	if q.Expression != "" && q.Period > 0 {
		shown.Period = new(q.Period)
	}
	if q.Expression == "" {
		shown.MetricStat = &metricStat{
			Metric: metric{q.Metric.Namespace, q.Metric.Name, dimensions(q.Metric)},
			Period: q.Period, Stat: string(q.Stat), Unit: q.Unit,
		}
	}
	return shown
}

// metric returns the metric that a request names. Path begins the names of its members.
func (c *call) metric(in metric, path string) (m series.Metric, err error) {
	switch {
	case in.Namespace == "":
		return m, c.op.fit.missing(path + "Namespace")
	case in.MetricName == "":
		return m, c.op.fit.missing(path + "MetricName")
	case strings.HasPrefix(in.Namespace, ":"):
		return m, c.op.fit.invalid("The value %s for parameter %sNamespace is invalid: it begins with a colon.", wire.Quote(in.Namespace), path)
	}
	m = series.Metric{Namespace: in.Namespace, Name: in.MetricName}
	for _, d := range in.Dimensions {
		m.Dimensions = append(m.Dimensions, series.Dimension(d))
	}
	m = m.Sorted()
	for i, d := range m.Dimensions {
		if i > 0 && d.Name == m.Dimensions[i-1].Name {
			return m, c.op.fit.invalid("The parameter %sDimensions has two dimensions %s.", path,
				wire.Quote(d.Name))
		}
	}
	return m, nil
}

func dimensions(m series.Metric) []dimension {
	all := []dimension{}
	for _, d := range m.Dimensions {
		all = append(all, dimension(d))
	}
	return all
}
