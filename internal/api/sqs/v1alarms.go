package sqs

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
)

// A v1AlarmList is the answer to GET /v1/alarms.
type v1AlarmList struct {
	Alarms   []v1Alarm         `json:"alarms"`
	Silences []monitor.Silence `json:"silences"`
	Actions  []string          `json:"actions"` // those that the configuration declares
}

// A v1Alarm is an alarm and its state. Those that every queue has are there when they are not OK, or have not been for
// long.
type v1Alarm struct {
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

// v1Alarms answers GET /v1/alarms?state=. [ALARM-50]
func (c *call) v1Alarms(string) (v1Answer, error) {
	q := c.query("state")
	state := alarm.State(q.text("state"))
	if states := []alarm.State{"", alarm.OK, alarm.Alarm, alarm.Insufficient}; q.err == nil && !slices.Contains(states, state) {
		q.err = errV1Value("state", string(state), "OK, ALARM or INSUFFICIENT_DATA")
	}
	if q.err != nil {
		return v1Answer{}, q.err
	}
	m := c.h.cfg.Monitor
	list := v1AlarmList{Alarms: []v1Alarm{}, Silences: m.Silences(), Actions: m.ActionNames()}
	for _, s := range m.Status() {
		if state != "" && s.State != state {
			continue
		}
		a := v1Alarm{
			Name: s.Name, Queue: s.Queue, Description: s.Description, Shipped: s.Shipped, State: s.State, Since: s.Since.UTC(),
			Reason: s.Reason, Actions: []string{}, Acknowledged: s.Acknowledged, Commands: m.Commands(&s),
		}
		if s.ActionsEnabled {
			a.Actions = append(a.Actions, s.OnAlarm...)
		}
		if !s.SilencedUntil.IsZero() {
			a.SilencedUntil = &s.SilencedUntil
		}
		list.Alarms = append(list.Alarms, a)
	}
	return v1Answer{body: list}, nil
}

// v1AlarmHistory answers GET /v1/alarms/history: how states have changed, as far back as is known.
func (c *call) v1AlarmHistory(string) (v1Answer, error) {
	if q := c.query(); q.err != nil {
		return v1Answer{}, q.err
	}
	changes := c.h.cfg.Monitor.History()
	if changes == nil {
		changes = []monitor.Change{}
	}
	return v1Answer{body: struct {
		Changes []monitor.Change `json:"changes"`
	}{changes}}, nil
}

// v1Silence answers POST /v1/alarms/silence: {"match": "orders/*", "for": "2h", "reason": "..."}; for 0s it ends one.
// [ALARM-49]
func (c *call) v1Silence(string) (v1Answer, error) {
	var in struct {
		Match  string `json:"match"`
		For    string `json:"for"`
		Reason string `json:"reason"`
	}
	if err := c.read(&in); err != nil {
		return v1Answer{}, err
	}
	d, err := time.ParseDuration(in.For)
	if err != nil || d < 0 {
		return v1Answer{}, errV1Value("for", in.For, "a duration such as 2h, or 0s to end a silence")
	}
	m := c.h.cfg.Monitor
	about, err := m.Silence(monitor.Silence{Match: in.Match, Until: m.Now().Add(d).UTC(), Reason: in.Reason})
	if err != nil {
		return v1Answer{}, asV1Alarm(err)
	}
	return v1Answer{body: struct {
		About    int               `json:"about"` // alarms that are known now
		Silences []monitor.Silence `json:"silences"`
	}{about, m.Silences()}}, nil
}

// v1Acknowledge answers POST /v1/alarms/acknowledge: {"alarm": "orders/expired"}. [ALARM-47]
func (c *call) v1Acknowledge(string) (v1Answer, error) {
	var in struct {
		Alarm string `json:"alarm"`
	}
	if err := c.read(&in); err != nil {
		return v1Answer{}, err
	}
	return v1Answer{body: struct{}{}}, asV1Alarm(c.h.cfg.Monitor.Acknowledge(in.Alarm))
}

// v1TestAction answers POST /v1/alarms/test: {"action": "team"}. It runs an action that is declared, and no other.
// [ALARM-43]
func (c *call) v1TestAction(string) (v1Answer, error) {
	var in struct {
		Action string `json:"action"`
	}
	if err := c.read(&in); err != nil {
		return v1Answer{}, err
	}
	return v1Answer{body: struct{}{}}, asV1Alarm(c.h.cfg.Monitor.Try(c, in.Action))
}

// asV1Alarm turns an error of the monitor into one of /v1.
func asV1Alarm(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, monitor.ErrNotFound):
		return &v1Error{http.StatusNotFound, "NotFound", err.Error()}
	case errors.Is(err, monitor.ErrNoAction):
		return &v1Error{http.StatusNotFound, "NotFound", sentence(err, monitor.ErrNoAction)}
	case errors.Is(err, monitor.ErrAction):
		return &v1Error{http.StatusBadGateway, "ActionFailed", err.Error()}
	case errors.Is(err, monitor.ErrBusy):
		return &v1Error{http.StatusTooManyRequests, "Busy", err.Error()}
	case errors.Is(err, monitor.ErrInvalid):
		return sqswire.Errorf(sqswire.InvalidParameterValue, "%s", sentence(err, monitor.ErrInvalid))
	case errors.Is(err, monitor.ErrLimit):
		return sqswire.Errorf(sqswire.InvalidParameterValue, "%s", sentence(err, monitor.ErrLimit))
	}
	return err
}

// sentence is what an error says besides its kind.
func sentence(err, kind error) string { return strings.TrimPrefix(err.Error(), kind.Error()+": ") }

// read reads the body of a request that changes something. A web page cannot send this type without being asked.
func (c *call) read(in any) error {
	if kind, _, _ := mime.ParseMediaType(c.http.Header.Get("Content-Type")); kind != "application/json" {
		return sqswire.Errorf(sqswire.InvalidParameterValue, "The body must be JSON, with Content-Type: application/json.")
	}
	body, err := io.ReadAll(io.LimitReader(c.http.Body, small+1))
	if err != nil {
		return errCutOff
	}
	if len(body) > small {
		return &v1Error{http.StatusRequestEntityTooLarge, "MalformedInput", "The body is larger than 64 KiB."}
	}
	if err := json.Unmarshal(body, in); err != nil {
		return sqswire.Errorf(sqswire.InvalidParameterValue, "The body is not the JSON that is wanted: %s.", err.Error())
	}
	return nil
}
