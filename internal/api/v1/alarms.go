package v1

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
)

// An AlarmList is the answer to GET /v1/alarms.
type AlarmList struct {
	Alarms   []ShownAlarm      `json:"alarms"`
	Silences []monitor.Silence `json:"silences"`
	Actions  []string          `json:"actions"` // those that the configuration declares
}

// A ShownAlarm is an alarm and its state. The built-in alarms are listed when they are not OK, or
// have become OK only lately.
type ShownAlarm struct {
	Name          string       `json:"name"`
	Queue         string       `json:"queue,omitempty"`
	Description   string       `json:"description,omitempty"`
	Shipped       bool         `json:"shipped"`
	State         alarm.State  `json:"state"`
	Since         time.Time    `json:"since"`
	Reason        string       `json:"reason"`
	Actions       []string     `json:"actions"` // that run when it comes into alarm
	Acknowledged  bool         `json:"acknowledged,omitempty"`
	Ack           *monitor.Ack `json:"acknowledgement,omitempty" doc:"who acknowledged it, with their note; absent of an older program"`
	SilencedUntil *time.Time   `json:"silencedUntil,omitempty"`
	Commands      []string     `json:"commands,omitempty"` // that show more
	Page          string       `json:"page,omitempty" doc:"says what a built-in alarm in ALARM means and what to do: a URL, or a place in the sources"`
}

type alarmsIn struct {
	State alarm.State `query:"state" enum:"OK,ALARM,INSUFFICIENT_DATA"`
}

// alarms answers GET /v1/alarms. [ALARM-50]
func (c *call) alarms(in alarmsIn) (AlarmList, error) {
	m := c.cfg.Monitor
	list := AlarmList{Alarms: []ShownAlarm{}, Silences: m.Silences(), Actions: m.ActionNames()}
	for _, s := range m.Status() {
		if in.State != "" && s.State != in.State {
			continue
		}
		a := ShownAlarm{
			Name: s.Name, Queue: s.Queue, Description: s.Description, Shipped: s.Shipped,
			State: s.State, Since: s.Since.UTC(),
			Reason: s.Reason, Actions: []string{}, Acknowledged: s.Ack != nil,
			Commands: m.Commands(&s), Page: m.Page(&s),
		}
		if s.ActionsEnabled {
			a.Actions = append(a.Actions, s.OnAlarm...)
		}
		if s.Ack != nil && !s.Ack.At.IsZero() {
			a.Ack = s.Ack
		}
		if !s.SilencedUntil.IsZero() {
			a.SilencedUntil = &s.SilencedUntil
		}
		list.Alarms = append(list.Alarms, a)
	}
	return list, nil
}

// A changeList is the answer to GET /v1/alarms/history.
type changeList struct {
	Changes []monitor.Change `json:"changes"`
}

// alarmHistory answers GET /v1/alarms/history: how states have changed, as far back as is known.
func (c *call) alarmHistory(none) (changeList, error) {
	changes := c.cfg.Monitor.History()
	if changes == nil {
		changes = []monitor.Change{}
	}
	return changeList{changes}, nil
}

type silenceIn struct {
	Match  string `json:"match" doc:"pattern of alarm names, such as orders/*"`
	For    string `json:"for" doc:"duration such as 2h; 0s ends a silence"`
	Reason string `json:"reason,omitempty"`
}

// A silenced is the answer to POST /v1/alarms/silence.
type silenced struct {
	About    int               `json:"about"` // alarms that are known now
	Silences []monitor.Silence `json:"silences"`
}

// silence answers POST /v1/alarms/silence. [ALARM-49]
func (c *call) silence(in silenceIn) (silenced, error) {
	d, err := time.ParseDuration(in.For)
	if err != nil || d < 0 {
		return silenced{}, errValue("for", in.For, "a duration such as 2h, or 0s to end a silence")
	}
	if err := checkLine("reason", in.Reason); err != nil {
		return silenced{}, err
	}
	m := c.cfg.Monitor
	about, err := m.Silence(monitor.Silence{Match: in.Match, Until: m.Now().Add(d).UTC(),
		Reason: in.Reason})
	return silenced{about, m.Silences()}, asAlarmError(err)
}

type acknowledgeIn struct {
	Alarm string `json:"alarm" doc:"name of the alarm, such as orders/expired"`
	End   bool   `json:"end,omitempty" doc:"end the acknowledgement"`
	Note  string `json:"note,omitempty" doc:"one line of at most 500 bytes; absent to keep the earlier one"`
}

// acknowledge answers POST /v1/alarms/acknowledge. [ALARM-47]
func (c *call) acknowledge(in acknowledgeIn) (none, error) {
	switch {
	case in.End && in.Note != "":
		return none{}, sqswire.Errorf(sqswire.InvalidParameterValue,
			"An acknowledgement that ends has no note: leave out end or note.")
	case in.End:
		return none{}, asAlarmError(c.cfg.Monitor.EndAcknowledgement(in.Alarm))
	}
	return none{}, asAlarmError(c.cfg.Monitor.Acknowledge(in.Alarm,
		monitor.Ack{Note: in.Note, By: c.by()}))
}

type actionIn struct {
	Action string `json:"action" doc:"name of an action that the configuration declares"`
}

// testAction answers POST /v1/alarms/test. It runs an action that is declared, and no other.
// [ALARM-43]
func (c *call) testAction(in actionIn) (none, error) {
	return none{}, asAlarmError(c.cfg.Monitor.Try(c, in.Action))
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
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return &Error{http.StatusServiceUnavailable, string(sqswire.ServiceUnavailable),
			"Nothing was changed, because the server cannot write to its disk: " + errno.Error() +
				". Check the disk of the server, then try again."}
	}
	return err
}

// sentence is the text of an error without its kind.
func sentence(err, kind error) string { return strings.TrimPrefix(err.Error(), kind.Error()+": ") }
