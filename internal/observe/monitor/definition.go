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

// A Record is an alarm and its state, as they are stored.
type Record struct {
	Definition
	Shipped    bool      `json:"shipped,omitempty"` // a built-in alarm
	Configured time.Time `json:"configured"`

	State   alarm.State `json:"state"`
	Reason  string      `json:"reason,omitempty"`
	Data    string      `json:"data,omitempty"` // JSON, the data points of the reason
	Since   time.Time   `json:"since"`          // of the state
	Updated time.Time   `json:"updated"`        // of state or reason
}

// A Status is an alarm as requests see it.
type Status struct {
	Record
	Queue         string    // or outbox; empty if the alarm is about none or several
	Acknowledged  bool      // no reminders are sent
	SilencedUntil time.Time // zero if it is not silenced
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
