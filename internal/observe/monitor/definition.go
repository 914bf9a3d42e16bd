package monitor

import (
	"errors"
	"time"

	"tenaq/internal/observe/alarm"
)

// A Definition is an alarm as a client put it.
type Definition struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Rule        alarm.Rule `json:"rule"`

	// Names or ARNs of actions, see ActionName. They run when the alarm enters the state, if
	// ActionsEnabled is set.
	ActionsEnabled bool     `json:"actionsEnabled"`
	OnAlarm        []string `json:"onAlarm,omitempty"`
	OnOK           []string `json:"onOK,omitempty"`
	OnInsufficient []string `json:"onInsufficient,omitempty"`

	Tags map[string]string `json:"tags,omitempty"`
}

// A Status is an alarm and the state it is in.
type Status struct {
	Definition
	Shipped    bool   // a built-in alarm
	Queue      string // that it is about; empty when that is none or several
	Configured time.Time

	State   alarm.State
	Reason  string
	Data    string    // JSON, what the reason rests on; empty when there is nothing
	Since   time.Time // of the state
	Updated time.Time // of state or reason

	Acknowledged  bool      // no reminders are sent
	SilencedUntil time.Time // zero when it is not
}

// Errors of the calls that change alarms. They wrap a sentence that ends with what to do.
var (
	ErrInvalid  = errors.New("invalid alarm")
	ErrNotFound = errors.New("no such alarm")
	ErrNoAction = errors.New("no such action")
	ErrLimit    = errors.New("too many alarms")
	ErrBusy     = errors.New("busy")
	ErrAction   = errors.New("the action failed")
)
