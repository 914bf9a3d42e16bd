package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tenaq/internal/alarm"
)

// The alarms are a file of JSON beside the store: they are few, change seldom, and a person may want to read them. It is
// written as a whole, under another name, forced to disk and put in the place of the old one, so that it is always one
// that was complete. docs/formats.md has its fields.

const fileName, fileVersion = "alarms.json", 1

type file struct {
	Version  int         `json:"version"`
	Alarms   []fileAlarm `json:"alarms"`
	Silences []Silence   `json:"silences,omitempty"`
	History  []Change    `json:"history,omitempty"`
}

type fileAlarm struct {
	Definition
	Shipped    bool        `json:"shipped,omitempty"`
	Configured time.Time   `json:"configured"`
	State      alarm.State `json:"state"`
	Reason     string      `json:"reason,omitempty"`
	Data       string      `json:"data,omitempty"`
	Since      time.Time   `json:"since"`
	Updated    time.Time   `json:"updated"`
	Told       alarm.State `json:"told"` // what its actions have finished with
	Last       time.Time   `json:"last"`
	Acked      bool        `json:"acknowledged,omitempty"`
}

// load reads the file.
func (m *Monitor) load() error {
	path := filepath.Join(m.cfg.Dir, fileName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f file
	switch {
	case err != nil:
	case json.Unmarshal(b, &f) != nil:
		err = fmt.Errorf("%s cannot be read: restore it, or move it away and create the alarms again", path)
	case f.Version != fileVersion:
		err = fmt.Errorf("%s has version %d, this program knows %d: use the version of the program that wrote it", path, f.Version, fileVersion)
	}
	if err != nil {
		return err
	}
	for _, a := range f.Alarms {
		if _, t := templateOf(a.Name); a.Shipped && t == nil || m.cfg.NoShipped && a.Shipped {
			continue // of another version
		}
		e := &entry{
			Status: Status{
				Definition: a.Definition, Shipped: a.Shipped, Configured: a.Configured,
				State: a.State, Reason: a.Reason, Data: a.Data, Since: a.Since, Updated: a.Updated,
			},
			told: a.Told, done: a.Told, last: a.Last, acked: a.Acked, from: m.sights.since + 60_000,
		}
		if e.Shipped {
			e.OnAlarm, e.OnOK = m.cfg.ShippedActions, m.cfg.ShippedActions
		}
		if err := m.checkActions(slices.Concat(e.OnAlarm, e.OnOK, e.OnInsufficient)); err != nil {
			m.cfg.Logger.Warn("an alarm names an action that is not declared any more, and cannot run it", "alarm", a.Name, "error", err)
		}
		m.alarms[a.Name] = e
	}
	m.silences, m.history = f.Silences, f.History
	return nil
}

func (m *Monitor) save() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saveLocked()
}

// saveLocked writes the file. Where nobody waits for it the error is in the log.
func (m *Monitor) saveLocked() error {
	f := file{Version: fileVersion, Alarms: []fileAlarm{}, Silences: m.silences, History: m.history}
	for _, e := range m.alarms {
		f.Alarms = append(f.Alarms, fileAlarm{
			Definition: e.Definition, Shipped: e.Shipped, Configured: e.Configured,
			State: e.State, Reason: e.Reason, Data: e.Data, Since: e.Since, Updated: e.Updated, Told: e.done, Last: e.last, Acked: e.acked,
		})
	}
	slices.SortFunc(f.Alarms, func(x, y fileAlarm) int { return strings.Compare(x.Name, y.Name) })
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		panic(err) // thresholds were checked to be numbers
	}
	if err := replace(filepath.Join(m.cfg.Dir, fileName), append(b, '\n')); err != nil {
		m.cfg.Logger.Error("the alarms are not stored", "error", err)
		return fmt.Errorf("the alarms cannot be stored: see the disk of the server: %w", err)
	}
	return nil
}

// replace writes a file in the place of another, or leaves that as it was.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no longer there when all went well
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
