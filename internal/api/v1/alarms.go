package v1

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
)

// A alarmList is the answer to GET /v1/alarms.
type alarmList struct {
	Alarms   []shownAlarm      `json:"alarms"`
	Silences []monitor.Silence `json:"silences"`
	Actions  []string          `json:"actions"` // those that the configuration declares
}

// A shownAlarm is an alarm and its state. The built-in alarms are listed when they are not OK, or
// have become OK only lately.
type shownAlarm struct {
	Name          string      `json:"name"`
	Queue         string      `json:"queue,omitempty"`
	Description   string      `json:"description,omitempty"`
	Shipped       bool        `json:"shipped"`
	State         alarm.State `json:"state"`
	Since         time.Time   `json:"since"`
	Reason        string      `json:"reason"`
	Actions       []string    `json:"actions"` // that run when it comes into alarm
	Acknowledged  bool        `json:"acknowledged,omitempty"`
	SilencedUntil *time.Time  `json:"silencedUntil,omitempty"`
	Commands      []string    `json:"commands,omitempty"` // that show more
}

// alarms answers GET /v1/alarms?state=. [ALARM-50]
func (c *call) alarms() (answer, error) {
	q := c.query("state")
	state := alarm.State(q.text("state"))
	if states := []alarm.State{"", alarm.OK, alarm.Alarm, alarm.Insufficient}; q.err == nil &&
		!slices.Contains(states, state) {
		q.err = errValue("state", string(state), "OK, ALARM or INSUFFICIENT_DATA")
	}
	if q.err != nil {
		return answer{}, q.err
	}
	m := c.cfg.Monitor
	list := alarmList{Alarms: []shownAlarm{}, Silences: m.Silences(), Actions: m.ActionNames()}
	for _, s := range m.Status() {
		if state != "" && s.State != state {
			continue
		}
		a := shownAlarm{
			Name: s.Name, Queue: s.Queue, Description: s.Description, Shipped: s.Shipped,
			State: s.State, Since: s.Since.UTC(),
			Reason: s.Reason, Actions: []string{}, Acknowledged: s.Acknowledged,
			Commands: m.Commands(&s),
		}
		if s.ActionsEnabled {
			a.Actions = append(a.Actions, s.OnAlarm...)
		}
		if !s.SilencedUntil.IsZero() {
			a.SilencedUntil = &s.SilencedUntil
		}
		list.Alarms = append(list.Alarms, a)
	}
	return answer{body: list}, nil
}

// alarmHistory answers GET /v1/alarms/history: how states have changed, as far back as is known.
func (c *call) alarmHistory() (answer, error) {
	if q := c.query(); q.err != nil {
		return answer{}, q.err
	}
	changes := c.cfg.Monitor.History()
	if changes == nil {
		changes = []monitor.Change{}
	}
	return answer{body: struct {
		Changes []monitor.Change `json:"changes"`
	}{changes}}, nil
}

// posted returns the handler of a route whose requests are JSON.
func posted[In any](serve func(c *call, in In) (any, error)) func(c *call) (answer, error) {
	return func(c *call) (answer, error) {
		var in In
		if err := c.read(&in); err != nil {
			return answer{}, err
		}
		body, err := serve(c, in)
		return answer{body: body}, asAlarmError(err)
	}
}

type silenceRequest struct {
	Match  string `json:"match"`
	For    string `json:"for"`
	Reason string `json:"reason"`
}

// silence answers POST /v1/alarms/silence: {"match": "orders/*", "for": "2h", "reason": "..."}; for
// 0s it ends one. [ALARM-49]
func silence(c *call, in silenceRequest) (any, error) {
	d, err := time.ParseDuration(in.For)
	if err != nil || d < 0 {
		return nil, errValue("for", in.For, "a duration such as 2h, or 0s to end a silence")
	}
	m := c.cfg.Monitor
	about, err := m.Silence(monitor.Silence{Match: in.Match, Until: m.Now().Add(d).UTC(),
		Reason: in.Reason})
	return struct {
		About    int               `json:"about"` // alarms that are known now
		Silences []monitor.Silence `json:"silences"`
	}{about, m.Silences()}, err
}

type alarmRequest struct {
	Alarm string `json:"alarm"`
}

// acknowledge answers POST /v1/alarms/acknowledge: {"alarm": "orders/expired"}. [ALARM-47]
func acknowledge(c *call, in alarmRequest) (any, error) {
	return struct{}{}, c.cfg.Monitor.Acknowledge(in.Alarm)
}

type actionRequest struct {
	Action string `json:"action"`
}

// testAction answers POST /v1/alarms/test: {"action": "team"}. It runs an action that is declared,
// and no other. [ALARM-43]
func testAction(c *call, in actionRequest) (any, error) {
	return struct{}{}, c.cfg.Monitor.Try(c, in.Action)
}

// asAlarmError turns an error of the monitor into one of /v1.
func asAlarmError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, monitor.ErrNotFound):
		return &Error{http.StatusNotFound, "NotFound", err.Error()}
	case errors.Is(err, monitor.ErrNoAction):
		return &Error{http.StatusNotFound, "NotFound", sentence(err, monitor.ErrNoAction)}
	case errors.Is(err, monitor.ErrAction):
		return &Error{http.StatusBadGateway, "ActionFailed", err.Error()}
	case errors.Is(err, monitor.ErrBusy):
		return &Error{http.StatusTooManyRequests, "Busy", err.Error()}
	case errors.Is(err, monitor.ErrInvalid):
		return sqswire.Errorf(sqswire.InvalidParameterValue, "%s",
			sentence(err, monitor.ErrInvalid))
	case errors.Is(err, monitor.ErrLimit):
		return sqswire.Errorf(sqswire.InvalidParameterValue, "%s", sentence(err, monitor.ErrLimit))
	}
	return err
}

// sentence is the text of an error without its kind.
func sentence(err, kind error) string { return strings.TrimPrefix(err.Error(), kind.Error()+": ") }
