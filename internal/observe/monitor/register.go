package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/observe/alarm"
)

func byName(x, y Status) int { return strings.Compare(x.Name, y.Name) }

func (m *Monitor) status(e *entry) Status {
	s := Status{Record: e.Record, Queue: queueOf(&e.Rule), Ack: e.ack}
	if silence := m.silenceOf(s.Name); silence != nil {
		s.SilencedUntil = silence.Until
	}
	return s
}

// Put creates or redefines an alarm and stores it. An alarm that exists keeps its state and its
// tags. Errors are ErrInvalid, ErrLimit, and those of the disk.
func (m *Monitor) Put(d Definition) error {
	if err := d.Rule.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e := &entry{Record: Record{Definition: d, State: alarm.Insufficient,
		Reason: "Unchecked: Initial alarm creation"}, told: alarm.Insufficient,
		done: alarm.Insufficient}
	switch {
	case d.Name == "" || strings.Contains(d.Name, "/"):
		return fmt.Errorf("%w: the name of an alarm must not be empty or contain a slash, which only built-in alarms have", ErrInvalid)
	case e.span() > spanMax.Milliseconds():
		return fmt.Errorf("%w: EvaluationPeriods * Period is more than a day, and this server keeps data for a day", ErrInvalid)
	case e.work() > workMax:
		return fmt.Errorf("%w: its expressions are too long for this number of periods: shorten them, or evaluate fewer periods", ErrInvalid)
	}
	if err := m.checkActions(slices.Concat(d.OnAlarm, d.OnOK, d.OnInsufficient)); err != nil &&
		!m.cfg.LogUnknownActions {
		return err
	}
	return m.mutate(func() (func(), error) {
		now := m.Now()
		old, all := m.alarms[d.Name], e.work()
		n := 0
		for name, other := range m.alarms {
			if !other.Shipped && name != d.Name {
				n, all = n+1, all+other.work()
			}
		}
		switch {
		case n >= alarmsMax:
			return nil, fmt.Errorf("%w: there are already %d; delete some", ErrLimit, alarmsMax)
		case all > workAllMax:
			return nil, fmt.Errorf("%w: the expressions of all alarms together take too long to evaluate every minute; delete some alarms", ErrLimit)
		}
		if old != nil {
			before := old.Definition
			configured := old.Configured
			d.Tags = before.Tags
			old.Definition, old.Configured = d, now
			return func() { old.Definition, old.Configured = before, configured }, nil
		}
		e.Since, e.Updated, e.Configured = now, now, now
		m.alarms[d.Name] = e
		return func() { delete(m.alarms, d.Name) }, nil
	})
}

// Bounds of the work per minute, in letters of expressions times periods: of one alarm, and of all
// together. A usual alarm has a few hundred.
const (
	workMax    = 1_000_000
	workAllMax = 20_000_000
)

// work returns the cost of evaluating an alarm.
func (e *entry) work() (n int) {
	for _, q := range e.Rule.Queries {
		n += (len(q.Expression) + 1) * alarm.Range(e.Rule)
	}
	return n
}

// Delete deletes alarms, all or none. It fails with ErrNotFound if one of them does not exist.
func (m *Monitor) Delete(names ...string) error {
	return m.mutate(func() (func(), error) {
		entries, err := m.found(names)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			delete(m.alarms, name)
		}
		return func() {
			for _, e := range entries {
				m.alarms[e.Name] = e
			}
		}, nil
	})
}

// found returns the alarms with these names that programs put.
func (m *Monitor) found(names []string) (entries []*entry, err error) {
	for _, name := range names {
		e := m.alarms[name]
		if e == nil || e.Shipped {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Alarms returns the alarms that programs put, by name.
func (m *Monitor) Alarms() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Status
	for _, name := range m.names() {
		all = append(all, m.status(m.alarms[name]))
	}
	return all
}

// SetState sets the state of an alarm until its next evaluation, and runs its actions.
func (m *Monitor) SetState(name string, state alarm.State, reason, data string) error {
	defer m.kick()
	return m.mutate(func() (func(), error) {
		found, err := m.found([]string{name})
		if err != nil {
			return nil, err
		}
		e := found[0]
		before, changes, ack, history := e.Record, e.changes, e.ack, m.history
		if e.State != state {
			m.change(e, state, reason, data)
		} else {
			e.Reason, e.Data, e.Updated = reason, data, m.Now()
		}
		return func() {
			e.Record, e.changes, e.ack, m.history = before, changes, ack, history
		}, nil
	})
}

// EnableActions enables or disables the actions of alarms. Unknown names are ignored, as in
// CloudWatch.
func (m *Monitor) EnableActions(enable bool, names ...string) error {
	return m.mutate(func() (func(), error) {
		var switched []*entry
		for _, name := range names {
			if e := m.alarms[name]; e != nil && !e.Shipped && e.ActionsEnabled != enable {
				e.ActionsEnabled = enable
				switched = append(switched, e)
			}
		}
		return func() {
			for _, e := range switched {
				e.ActionsEnabled = !enable
			}
		}, nil
	})
}

// SetTags adds tags to an alarm and removes some.
func (m *Monitor) SetTags(name string, set map[string]string, remove []string) error {
	return m.mutate(func() (func(), error) {
		found, err := m.found([]string{name})
		if err != nil {
			return nil, err
		}
		e := found[0]
		before, tags := e.Tags, maps.Clone(e.Tags)
		if tags == nil {
			tags = make(map[string]string)
		}
		maps.Copy(tags, set)
		for _, key := range remove {
			delete(tags, key)
		}
		e.Tags = tags
		return func() { e.Tags = before }, nil
	})
}

// ActionName returns the name of an action from its name or from an ARN, whose last part it is.
// [ALARM-43]
func ActionName(written string) string {
	if strings.HasPrefix(written, "arn:") {
		return written[strings.LastIndexAny(written, ":/")+1:]
	}
	return written
}

// ActionNames returns the names of the declared actions.
func (m *Monitor) ActionNames() []string { return slices.Sorted(maps.Keys(m.runs)) }

func (m *Monitor) checkActions(written []string) error {
	for _, w := range written {
		if m.runs[ActionName(w)] == nil {
			return fmt.Errorf("%w: %s", ErrInvalid, m.undeclared(w))
		}
	}
	return nil
}

// undeclared returns the error text for an action that is not declared.
func (m *Monitor) undeclared(action string) string {
	declared := slices.DeleteFunc(m.ActionNames(), func(name string) bool {
		return name == LogAction
	})
	return fmt.Sprintf("action %q is not declared: add it under actions in the configuration of the server, which declares %s",
		clean(action, nameMax), cmp.Or(strings.Join(declared, ", "), "none"))
}
