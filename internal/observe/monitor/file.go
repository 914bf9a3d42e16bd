package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// The alarms are stored as JSON in a file beside the store: they are few, change rarely, and a
// person may want to read them. The file is always complete, because a new one is forced to disk
// before it replaces the old one.

const fileName, fileVersion = "alarms.json", 1

type file struct {
	Version  int         `json:"version"`
	Alarms   []fileAlarm `json:"alarms"`
	Silences []Silence   `json:"silences,omitempty"`
	History  []Change    `json:"history,omitempty"`
}

type fileAlarm struct {
	Record
	Told  alarm.State `json:"told"` // the state whose actions have finished
	Last  time.Time   `json:"last"`
	Acked bool        `json:"acknowledged,omitempty"`
}

// load reads the file. One that cannot be decoded is renamed: a server without its alarms is better
// than no server, and the log names the file. [ALARM-44]
func (m *Monitor) load() error {
	path := filepath.Join(m.cfg.Dir, fileName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the alarms file; check the permissions of the data directory: %w", err)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil || f.Version != fileVersion {
		aside := path + ".unreadable"
		m.cfg.Logger.Error("cannot read the alarms file: it is damaged or from another version, and was renamed; create the alarms again, or restore the file", "file", aside)
		return os.Rename(path, aside)
	}
	for _, a := range f.Alarms {
		if _, t := templateOf(a.Name); a.Shipped && t == nil || m.cfg.NoShipped && a.Shipped {
			continue // of another version
		}
		m.alarms[a.Name] = m.loaded(a)
	}
	m.silences, m.history = f.Silences, f.History
	return nil
}

// loaded returns the entry of a stored alarm.
func (m *Monitor) loaded(a fileAlarm) *entry {
	e := &entry{Record: a.Record, told: a.Told, done: a.Told, last: a.Last, acked: a.Acked,
		from: m.sights.since + series.Minute}
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
	f := file{Version: fileVersion, Alarms: []fileAlarm{}, Silences: slices.Clone(m.silences),
		History: slices.Clone(m.history)}
	for _, e := range m.alarms {
		f.Alarms = append(f.Alarms,
			fileAlarm{Record: e.Record, Told: e.done, Last: e.last, Acked: e.acked})
	}
	version = m.version
	m.mu.Unlock()
	slices.SortFunc(f.Alarms, func(x, y fileAlarm) int { return strings.Compare(x.Name, y.Name) })
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		panic(err) // thresholds were checked to be numbers
	}
	if err := replace(filepath.Join(m.cfg.Dir, fileName), append(b, '\n')); err != nil {
		m.cfg.Logger.Error("cannot store the alarms", "error", err)
		return fmt.Errorf("cannot store the alarms; check the disk of the server: %w", err)
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

// replace replaces a file, or leaves it as it was. Only one call runs at a time.
func replace(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
