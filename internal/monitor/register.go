package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/alarm"
)

func byName(x, y Status) int { return strings.Compare(x.Name, y.Name) }

// status is what is told of an entry.
func (m *Monitor) status(e *entry) Status {
	s := e.Status
	s.Queue = queueOf(&e.Rule)
	s.Acknowledged = e.acked
	if silence := m.silenceOf(s.Name); silence != nil {
		s.SilencedUntil = silence.Until
	}
	return s
}

// Put creates an alarm, or gives one another definition, and stores it. An alarm that exists keeps its state and its
// tags. Its errors are ErrInvalid, ErrLimit, and those of the disk.
func (m *Monitor) Put(d Definition) error {
	if err := d.Rule.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if d.Name == "" || strings.Contains(d.Name, "/") {
		return fmt.Errorf("%w: a name must not be empty, and a slash is for the alarms that every queue has", ErrInvalid)
	}
	if span := (&entry{Status: Status{Definition: d}}).span(); span > spanMax.Milliseconds() {
		return fmt.Errorf("%w: EvaluationPeriods * Period is more than a day, and this server keeps data for a day", ErrInvalid)
	}
	if err := m.checkActions(slices.Concat(d.OnAlarm, d.OnOK, d.OnInsufficient)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	e := m.alarms[d.Name]
	switch {
	case e != nil:
		d.Tags = e.Tags
	case len(m.names()) == alarmsMax:
		return fmt.Errorf("%w: there are %d, delete some", ErrLimit, alarmsMax)
	default:
		e = &entry{
			Status: Status{State: alarm.Insufficient, Reason: "Unchecked: Initial alarm creation", Since: now, Updated: now},
			told:   alarm.Insufficient, done: alarm.Insufficient,
		}
	}
	before := *e
	e.Definition, e.Configured = d, now
	m.alarms[d.Name] = e
	if err := m.saveLocked(); err != nil {
		if *e = before; e.Name == "" {
			delete(m.alarms, d.Name)
		}
		return err
	}
	return nil
}

// Delete deletes alarms, all or none. It fails with ErrNotFound when one of them does not exist.
func (m *Monitor) Delete(names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.found(names); err != nil {
		return err
	}
	before := maps.Clone(m.alarms)
	for _, name := range names {
		delete(m.alarms, name)
	}
	if err := m.saveLocked(); err != nil {
		m.alarms = before
		return err
	}
	return nil
}

// found returns the alarms of these names, that were put.
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

// Alarms returns those that were put, by name.
func (m *Monitor) Alarms() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Status
	for _, name := range m.names() {
		all = append(all, m.status(m.alarms[name]))
	}
	return all
}

// SetState puts an alarm into a state until the next evaluation, with its actions.
func (m *Monitor) SetState(name string, state alarm.State, reason, data string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.found([]string{name})
	if err != nil {
		return err
	}
	if e := found[0]; e.State != state {
		m.change(e, state, reason, data)
	} else {
		e.Reason, e.Data, e.Updated = reason, data, m.Now()
	}
	defer m.kick()
	return m.saveLocked()
}

// EnableActions says whether the actions of alarms are run. Names that do not exist are left out, as CloudWatch does.
func (m *Monitor) EnableActions(enable bool, names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if e := m.alarms[name]; e != nil && !e.Shipped {
			e.ActionsEnabled = enable
		}
	}
	return m.saveLocked()
}

// SetTags adds tags to an alarm, and takes some away.
func (m *Monitor) SetTags(name string, set map[string]string, remove []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.found([]string{name})
	if err != nil {
		return err
	}
	tags := maps.Clone(found[0].Tags)
	if tags == nil {
		tags = make(map[string]string)
	}
	maps.Copy(tags, set)
	for _, key := range remove {
		delete(tags, key)
	}
	before := found[0].Tags
	found[0].Tags = tags
	if err := m.saveLocked(); err != nil {
		found[0].Tags = before
		return err
	}
	return nil
}

// ActionName returns the name of the action that is meant by a name or by an ARN, of which the last part counts.
// [ALARM-43]
func ActionName(written string) string {
	if strings.HasPrefix(written, "arn:") {
		return written[strings.LastIndexAny(written, ":/")+1:]
	}
	return written
}

// ActionNames returns the names of the actions that may be run.
func (m *Monitor) ActionNames() []string { return slices.Sorted(maps.Keys(m.runs)) }

// checkActions refuses actions that are not declared.
func (m *Monitor) checkActions(written []string) error {
	for _, w := range written {
		if m.runs[ActionName(w)] == nil {
			return fmt.Errorf("%w: there is no action %q: declare it in the configuration of the server, under actions; there are %s",
				ErrInvalid, w, strings.Join(m.ActionNames(), ", "))
		}
	}
	return nil
}
