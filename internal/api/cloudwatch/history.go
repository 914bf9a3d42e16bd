package cloudwatch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"tenaq/internal/observe/monitor"
)

// describeAlarmHistory returns changes of states. Other events of an alarm are not recorded.
func (c *call) describeAlarmHistory(
	in *describeAlarmHistoryInput,
) (*describeAlarmHistoryOutput, error) {
	from, err := c.readToken(in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &describeAlarmHistoryOutput{AlarmHistoryItems: []alarmHistoryItem{}}
	changes := c.cfg.Monitor.History()
	if in.ScanBy != "TimestampAscending" {
		slices.Reverse(changes)
	}
	last := ""
	for _, change := range changes {
		if from != "" {
			if place(change) == from {
				from = "" // what follows is new to the caller
			}
			continue
		}
		if !in.means(change) {
			continue
		}
		if len(out.AlarmHistoryItems) == orDefault(in.MaxRecords, recordsMax) {
			out.NextToken = c.token(last)
			break
		}
		last = place(change)
		out.AlarmHistoryItems = append(out.AlarmHistoryItems, item(change))
	}
	return out, nil
}

// means reports whether a request asks for a change. The built-in alarms are not shown.
func (in *describeAlarmHistoryInput) means(change monitor.Change) bool {
	return !strings.Contains(change.Alarm, "/") &&
		(in.AlarmName == "" || in.AlarmName == change.Alarm) &&
		(len(in.AlarmTypes) == 0 || slices.Contains(in.AlarmTypes, "MetricAlarm")) &&
		(in.HistoryItemType == "" || in.HistoryItemType == "StateUpdate") &&
		(in.StartDate == nil || !change.At.Before(*in.StartDate)) &&
		(in.EndDate == nil || !change.At.After(*in.EndDate))
}

// place tells a change from all others.
func place(change monitor.Change) string {
	return fmt.Sprintf("%s %s %s %s", change.At.UTC().Format(time.RFC3339Nano), change.Was,
		change.State, change.Alarm)
}

func item(change monitor.Change) alarmHistoryItem {
	type state struct {
		StateValue  string `json:"stateValue"`
		StateReason string `json:"stateReason,omitempty"`
	}
	data, _ := json.Marshal(struct {
		Version  string `json:"version"`
		OldState state  `json:"oldState"`
		NewState state  `json:"newState"`
	}{"1.0", state{StateValue: string(change.Was)}, state{string(change.State), change.Reason}})
	return alarmHistoryItem{
		AlarmName: change.Alarm, AlarmType: "MetricAlarm", Timestamp: change.At,
		HistoryItemType: "StateUpdate",
		HistorySummary:  fmt.Sprintf("Alarm updated from %s to %s", change.Was, change.State),
		HistoryData:     string(data),
	}
}
