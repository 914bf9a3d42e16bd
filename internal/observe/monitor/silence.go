package monitor

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"tenaq/internal/observe/alarm"
)

// A Silence suppresses the notices of alarms for a while. The alarms are still evaluated. When the
// silence ends, an alarm whose state differs from its last notice sends one. [ALARM-49]
type Silence struct {
	Match  string    `json:"match"` // the name of an alarm, where * stands for any text
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}

// Bounds of silences.
const (
	silenceMax       = 30 * 24 * time.Hour
	silencesMax      = 100
	silenceReasonMax = 1024
)

// Silence adds a silence, or replaces the one with the same Match; one that is already over ends
// it. It returns how many known alarms it matches. Errors are ErrInvalid and ErrLimit.
func (m *Monitor) Silence(s Silence) (about int, err error) {
	switch control := func(c rune) bool { return unicode.IsControl(c) }; {
	case s.Match == "" || len(s.Match) > nameMax || strings.ContainsFunc(s.Match, control):
		return 0, fmt.Errorf("%w: match must have 1 to %d bytes and no control characters",
			ErrInvalid, nameMax)
	case len(s.Reason) > silenceReasonMax:
		return 0, fmt.Errorf("%w: reason must have at most %d bytes", ErrInvalid, silenceReasonMax)
	case s.Until.Sub(m.Now()) > silenceMax:
		return 0, fmt.Errorf("%w: a silence lasts at most 30 days", ErrInvalid)
	}
	defer m.kick()
	err = m.mutate(func() (func(), error) {
		now, before := m.Now(), m.silences
		left := slices.DeleteFunc(slices.Clone(before), func(old Silence) bool {
			return old.Match == s.Match || !old.Until.After(now)
		})
		if s.Until.After(now) {
			if len(left) == silencesMax {
				return nil, fmt.Errorf("%w: there are already %d silences; end some", ErrLimit, silencesMax)
			}
			left = append(left, s)
		}
		for name := range m.alarms {
			if s.means(name) {
				about++
			}
		}
		m.silences = left
		return func() { m.silences = before }, nil
	})
	return about, err
}

// means reports whether the silence matches the name of an alarm.
func (s *Silence) means(name string) bool {
	parts := strings.Split(s.Match, "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, last)
}

// Silences returns the silences that are not over.
func (m *Monitor) Silences() []Silence {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	return slices.DeleteFunc(append([]Silence{}, m.silences...), func(s Silence) bool {
		return !s.Until.After(now)
	})
}

// silenceOf returns the longest silence of an alarm, nil if it has none.
func (m *Monitor) silenceOf(name string) (longest *Silence) {
	now := m.Now()
	for i := range m.silences {
		s := &m.silences[i]
		if s.Until.After(now) && (longest == nil || s.Until.After(longest.Until)) && s.means(name) {
			longest = s
		}
	}
	return longest
}

// Acknowledge stops the reminders of an alarm until its state changes. An acknowledgement without a
// note leaves an earlier one as it is; otherwise it takes its place. At is set here. It fails with
// ErrNotFound if there is no such alarm, and with ErrInvalid if it is not in alarm or the note is
// not one line of at most 500 bytes. [ALARM-47]
func (m *Monitor) Acknowledge(name string, a Ack) error {
	if err := checkNote(a.Note); err != nil {
		return err
	}
	a.At = m.Now().UTC().Truncate(time.Millisecond)
	return m.mutate(func() (func(), error) {
		e := m.alarms[name]
		switch {
		case e == nil:
			return nil, fmt.Errorf("%w: %s", ErrNotFound, clean(name, nameMax))
		case e.State != alarm.Alarm:
			return nil, fmt.Errorf("%w: %s is %s: only an alarm in the state ALARM can be acknowledged", ErrInvalid,
				clean(name, nameMax), e.State)
		}
		if e.ack != nil && a.Note == "" {
			return func() {}, nil
		}
		return e.setAck(&a), nil
	})
}

// EndAcknowledgement makes an alarm send reminders again, as if it had not been acknowledged: one
// that would have been due is sent now. It has no effect on an alarm that is not acknowledged, and
// fails with ErrNotFound if there is no such alarm. [ALARM-47]
func (m *Monitor) EndAcknowledgement(name string) error {
	defer m.kick()
	return m.mutate(func() (func(), error) {
		e := m.alarms[name]
		if e == nil {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, clean(name, nameMax))
		}
		return e.setAck(nil), nil
	})
}

func (e *entry) setAck(to *Ack) (undo func()) {
	before := e.ack
	e.ack = to
	return func() { e.ack = before }
}
