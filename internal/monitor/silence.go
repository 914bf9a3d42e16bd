package monitor

import (
	"fmt"
	"path"
	"slices"
	"time"

	"tenaq/internal/alarm"
)

// A Silence keeps alarms from telling anybody, for a while. They go on being evaluated; one that is in another state
// than was told when the silence ends tells it then. [ALARM-49]
type Silence struct {
	Match  string    `json:"match"` // the name of an alarm, where * stands for anything but a slash
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}

// silenceMax is how long a silence may last, silencesMax how many there may be.
const (
	silenceMax  = 30 * 24 * time.Hour
	silencesMax = 1000
)

// Silence adds a silence, or takes the place of the one with the same Match; one that is over ends it. It fails with
// ErrInvalid.
func (m *Monitor) Silence(s Silence) error {
	if _, err := path.Match(s.Match, ""); err != nil || s.Match == "" {
		return fmt.Errorf("%w: %q matches no name", ErrInvalid, s.Match)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	if s.Until.Sub(now) > silenceMax {
		return fmt.Errorf("%w: a silence lasts at most 30 days", ErrInvalid)
	}
	m.silences = slices.DeleteFunc(m.silences, func(old Silence) bool { return old.Match == s.Match || !old.Until.After(now) })
	if s.Until.After(now) {
		if len(m.silences) == silencesMax {
			return fmt.Errorf("%w: there are %d silences, end some", ErrLimit, silencesMax)
		}
		m.silences = append(m.silences, s)
	}
	defer m.kick()
	return m.saveLocked()
}

// Silences returns those that last.
func (m *Monitor) Silences() []Silence {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	return slices.DeleteFunc(slices.Clone(m.silences), func(s Silence) bool { return !s.Until.After(now) })
}

// silenceOf returns the silence of an alarm that lasts longest.
func (m *Monitor) silenceOf(name string) (longest *Silence) {
	now := m.Now()
	for i := range m.silences {
		s := &m.silences[i]
		if ok, _ := path.Match(s.Match, name); ok && s.Until.After(now) && (longest == nil || s.Until.After(longest.Until)) {
			longest = s
		}
	}
	return longest
}

// Acknowledge notes that somebody knows of an alarm: it is not told again until its state has changed. It fails with
// ErrNotFound when there is no such alarm, and with ErrInvalid when it is not in alarm. [ALARM-47]
func (m *Monitor) Acknowledge(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.alarms[name]
	switch {
	case e == nil:
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	case e.State != alarm.Alarm:
		return fmt.Errorf("%w: %s is %s, there is nothing to acknowledge", ErrInvalid, name, e.State)
	}
	e.acked = true
	return m.saveLocked()
}
