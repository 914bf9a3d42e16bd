package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// The alarms are stored as one document of JSON: they are few, change rarely, and a person may want
// to read them.

const storedVersion = 1

type stored struct {
	Version  int           `json:"version"`
	Alarms   []storedAlarm `json:"alarms"`
	Silences []Silence     `json:"silences,omitempty"`
	History  []Change      `json:"history,omitempty"`
	Notes    []Note        `json:"notes,omitempty"`
}

type storedAlarm struct {
	Record
	Told  alarm.State `json:"told"` // the state whose actions have finished
	Last  time.Time   `json:"last"`
	Acked bool        `json:"acknowledged,omitempty"`
	Ack   *Ack        `json:"acknowledgement,omitempty"` // absent of an older program
}

// load reads the document. One that cannot be decoded is set aside: a server without its alarms is
// better than no server, and the log says where it is. [ALARM-44]
func (m *Monitor) load() error {
	b, err := m.cfg.Keeper.Load()
	if err != nil || b == nil {
		return err
	}
	var f stored
	if err := json.Unmarshal(b, &f); err != nil || f.Version != storedVersion {
		return m.cfg.Keeper.SetAside(m.cfg.Logger)
	}
	for _, a := range f.Alarms {
		if _, t := templateOf(a.Name); a.Shipped && t == nil || m.cfg.NoShipped && a.Shipped {
			continue // of another version
		}
		m.alarms[a.Name] = m.loaded(a)
	}
	m.silences, m.history, m.notes = f.Silences, f.History, f.Notes
	return nil
}

// loaded returns the entry of a stored alarm.
func (m *Monitor) loaded(a storedAlarm) *entry {
	e := &entry{Record: a.Record, told: a.Told, done: a.Told, last: a.Last,
		from: m.sights.since + series.Minute}
	if a.Acked {
		e.ack = cmp.Or(a.Ack, new(Ack))
	}
	if e.Shipped {
		e.OnAlarm, e.OnOK = m.cfg.ShippedActions, m.cfg.ShippedActions
	}
	if err := m.checkActions(slices.Concat(e.OnAlarm, e.OnOK, e.OnInsufficient)); err != nil &&
		!m.cfg.LogUnknownActions {
		m.cfg.Logger.Warn("an alarm names an action that is no longer declared", "alarm", a.Name, "error", err)
	}
	return e
}

// changed notes that there is something to write. The lock is held.
func (m *Monitor) changed() {
	m.version++
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// keep stores changes until ctx is done. All changes during a write are stored by the next one.
func (m *Monitor) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.dirty:
			_ = m.save() // it is in the log
		}
	}
}

// save writes everything, unless another call did so while this one waited for the disk. It does
// not hold the lock while it writes, so reading alarms never waits for the disk.
func (m *Monitor) save() error {
	m.mu.Lock()
	version := m.version
	m.mu.Unlock()
	m.disk.Lock()
	defer m.disk.Unlock()
	if m.stored >= version {
		return nil
	}
	m.mu.Lock()
	f := stored{Version: storedVersion, Alarms: []storedAlarm{}, Silences: slices.Clone(m.silences),
		History: slices.Clone(m.history), Notes: slices.Clone(m.notes)}
	for _, e := range m.alarms {
		f.Alarms = append(f.Alarms,
			storedAlarm{Record: e.Record, Told: e.done, Last: e.last, Acked: e.ack != nil,
				Ack: e.ack})
	}
	version = m.version
	m.mu.Unlock()
	slices.SortFunc(f.Alarms, func(x, y storedAlarm) int { return strings.Compare(x.Name, y.Name) })
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		panic(err) // thresholds were checked to be numbers
	}
	if err := m.cfg.Keeper.Store(append(b, '\n')); err != nil {
		if !errors.Is(err, broker.ErrNotLeader) { // who leads is in the log
			m.cfg.Logger.Error("cannot store the alarms", "error", err)
		}
		return fmt.Errorf("cannot store the alarms: %w", err)
	}
	m.stored = version
	return nil
}

// mutate makes a requested change and returns when it is on disk. A change that cannot be stored is
// undone.
func (m *Monitor) mutate(change func() (undo func(), err error)) error {
	m.mu.Lock()
	undo, err := change()
	if err != nil {
		m.mu.Unlock()
		return err
	}
	m.version++
	m.mu.Unlock()
	if err := m.save(); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		undo()
		m.version++
		return err
	}
	return nil
}
