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
	Ack           *Ack      // no reminders are sent; nil if it is not acknowledged
	SilencedUntil time.Time // zero if it is not silenced
}

// An Ack is the acknowledgement of an alarm. One that an older program has stored is the zero
// value. [ALARM-47]
type Ack struct {
	Note string    `json:"note,omitempty" doc:"one line: what is known, and what is being done"`
	By   string    `json:"by,omitempty" doc:"user"`
	At   time.Time `json:"at"`
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
