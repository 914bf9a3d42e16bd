package cloudwatch

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// recordsMax is how many alarms one answer describes at most.
const recordsMax = 100

func (c *call) putMetricAlarm(in *putMetricAlarmInput) error {
	d, err := c.definition(in)
	if err != nil {
		return err
	}
	return c.cfg.Monitor.Put(d)
}

func (c *call) describeAlarms(in *describeAlarmsInput) (*describeAlarmsOutput, error) {
	if len(in.AlarmNames) > 0 && in.AlarmNamePrefix != "" {
		return nil, c.op.fit.combination("AlarmNames and AlarmNamePrefix cannot both be given.")
	}
	from, err := c.readToken(in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &describeAlarmsOutput{CompositeAlarms: []struct{}{}, MetricAlarms: []metricAlarm{},
		LogAlarms: []struct{}{}}
	if len(in.AlarmTypes) > 0 && !slices.Contains(in.AlarmTypes, "MetricAlarm") {
		return out, nil
	}
	for _, s := range c.cfg.Monitor.Alarms() {
		if s.Name <= from && from != "" || !in.means(&s) {
			continue
		}
		if len(out.MetricAlarms) == orDefault(in.MaxRecords, recordsMax) {
			out.NextToken = c.token(out.MetricAlarms[len(out.MetricAlarms)-1].AlarmName)
			break
		}
		out.MetricAlarms = append(out.MetricAlarms, c.described(&s))
	}
	return out, nil
}

// means reports whether a request asks for an alarm.
func (in *describeAlarmsInput) means(s *monitor.Status) bool {
	return (len(in.AlarmNames) == 0 || slices.Contains(in.AlarmNames, s.Name)) &&
		strings.HasPrefix(s.Name, in.AlarmNamePrefix) &&
		(in.StateValue == "" || in.StateValue == string(s.State)) &&
		(in.ActionPrefix == "" ||
			slices.ContainsFunc(slices.Concat(s.OnAlarm, s.OnOK, s.OnInsufficient),
				func(action string) bool { return strings.HasPrefix(action, in.ActionPrefix) }))
}

// describeAlarmsForMetric returns the alarms on one metric. Those on expressions are not among
// them, as in CloudWatch.
func (c *call) describeAlarmsForMetric(
	in *describeAlarmsForMetricInput,
) (*describeAlarmsForMetricOutput, error) {
	m, err := c.metric(metric{in.Namespace, in.MetricName, in.Dimensions}, "")
	if err != nil {
		return nil, err
	}
	out := &describeAlarmsForMetricOutput{MetricAlarms: []metricAlarm{}}
	for _, s := range c.cfg.Monitor.Alarms() {
		q, ok := single(&s.Rule)
		if !ok || series.Compare(q.Metric, m) != 0 ||
			in.Statistic != "" && in.Statistic != string(q.Stat) ||
			in.Unit != "" && in.Unit != q.Unit ||
			in.Period != nil && *in.Period != q.Period {
			continue
		}
		out.MetricAlarms = append(out.MetricAlarms, c.described(&s))
	}
	return out, nil
}

// deleteAlarms deletes the alarms that exist, even if others do not, as CloudWatch does.
func (c *call) deleteAlarms(in *alarmNamesInput) error {
	names := slices.Compact(slices.Sorted(slices.Values(in.AlarmNames)))
	err := c.cfg.Monitor.Delete(names...)
	if !errors.Is(err, monitor.ErrNotFound) {
		return err
	}
	existing := make(map[string]bool)
	for _, s := range c.cfg.Monitor.Alarms() {
		existing[s.Name] = true
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !existing[name] })
	if len(names) > 0 {
		if err := c.cfg.Monitor.Delete(names...); err != nil {
			return err
		}
	}
	return err
}

func (c *call) setAlarmState(in *setAlarmStateInput) error {
	if in.StateReasonData != "" && !json.Valid([]byte(in.StateReasonData)) {
		return &Error{InvalidFormat, "StateReasonData is not JSON."}
	}
	return c.cfg.Monitor.SetState(in.AlarmName, alarm.State(in.StateValue), in.StateReason,
		in.StateReasonData)
}

func (c *call) enableAlarmActions(in *alarmNamesInput) error {
	return c.cfg.Monitor.EnableActions(true, in.AlarmNames...)
}

func (c *call) disableAlarmActions(in *alarmNamesInput) error {
	return c.cfg.Monitor.EnableActions(false, in.AlarmNames...)
}

// described is how an alarm is shown.
func (c *call) described(s *monitor.Status) metricAlarm {
	d := metricAlarm{
		AlarmName:                          s.Name,
		AlarmArn:                           c.alarmARN(s.Name),
		AlarmDescription:                   s.Description,
		AlarmConfigurationUpdatedTimestamp: s.Configured,
		ActionsEnabled:                     s.ActionsEnabled,
		OKActions:                          orEmpty(s.OnOK),
		AlarmActions:                       orEmpty(s.OnAlarm),
		InsufficientDataActions:            orEmpty(s.OnInsufficient),
		StateValue:                         string(s.State),
		StateReason:                        s.Reason,
		StateReasonData:                    s.Data,
		StateUpdatedTimestamp:              s.Updated,
		StateTransitionedTimestamp:         s.Since,
		Dimensions:                         []dimension{},
		EvaluationPeriods:                  int64(s.Rule.Periods),
		Threshold:                          s.Rule.Threshold,
		ComparisonOperator:                 string(s.Rule.Operator),
		TreatMissingData:                   string(s.Rule.Missing),
	}
	if s.Rule.Datapoints > 0 {
		d.DatapointsToAlarm = new(int64(s.Rule.Datapoints))
	}
	if q, ok := single(&s.Rule); ok {
		d.MetricName, d.Namespace, d.Dimensions = q.Metric.Name, q.Metric.Namespace,
			dimensions(q.Metric)
		d.Statistic, d.Period, d.Unit = string(q.Stat), new(q.Period), q.Unit
		return d
	}
	for _, q := range s.Rule.Queries {
		d.Metrics = append(d.Metrics, asked(q))
	}
	return d
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func orDefault(given *int64, def int) int {
	if given == nil {
		return def
	}
	return int(*given)
}
