package monitor

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/observe/alarm"
)

// inRows makes the monitor of w keep its alarms in the store.
func (w *world) inRows() {
	w.stop()
	w.stop = nil
	w.cfg.Keeper = Rows(w.broker)
	w.start()
}

// In a cluster the alarms and their states are in the store, where the next leader finds them. A
// store without them has none. [ALARM-44]
func TestRows(t *testing.T) {
	bubble(t, toQueue(), func(w *world) {
		w.inRows()
		if n := len(w.Alarms()); n != 0 {
			t.Errorf("an empty store has %d alarms", n)
		}
		w.create("orders")
		w.create(noticeQueue)
		if err := w.Put(putVisible("waiting", "copy")); err != nil {
			t.Fatal(err)
		}
		w.send("orders", "x")
		w.minutes(3)
		w.wantChanges("waiting=ALARM")
		w.cfg.Keeper = Rows(w.broker) // of another node
		w.restart()
		if a := w.Alarms(); len(a) != 1 || a[0].State != alarm.Alarm {
			t.Errorf("got %+v, want the alarm and its state", a)
		}
		w.wantChanges("waiting=ALARM")
		if got := len(w.notices()); got != 1 {
			t.Errorf("got %d notices, want 1", got)
		}
		if _, err := os.Stat(filepath.Join(w.dir, fileName)); !os.IsNotExist(err) {
			t.Errorf("a file was written: %v", err)
		}
	})
}

// A document that cannot be read is kept under another name when the next one is stored.
func TestUnreadableRow(t *testing.T) {
	for _, text := range []string{"{", "\x1f\x8b\x08 damaged"} {
		bubble(t, toQueue(), func(w *world) {
			w.do(&engine.PutDocument{Name: rowName, Value: []byte(text)})
			w.inRows()
			if n := len(w.Alarms()); n != 0 || !strings.Contains(w.log.String(), "cannot read the stored alarms") {
				t.Errorf("%q: got %d alarms and the log %s", text, n, w.log)
			}
			if err := w.Put(putVisible("waiting")); err != nil {
				t.Fatal(err)
			}
			if aside, ok := w.broker.Document(asideName); string(aside) != text || !ok {
				t.Errorf("%q: got %q, %v in its place", text, aside, ok)
			}
			w.restart()
			if n := len(w.Alarms()); n != 1 {
				t.Errorf("%q: got %d alarms after the next start, want 1", text, n)
			}
		})
	}
}

// Alarms that are too large for the store are refused, and those before stay.
func TestRowsTooLarge(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.inRows()
		var random [1 << 20]byte // so that it cannot be compressed to less
		rand.Read(random[:])
		large := putVisible("large")
		large.Description = hex.EncodeToString(random[:])
		if err := w.Put(putVisible("small")); err != nil {
			t.Fatal(err)
		}
		if err := w.Put(large); err == nil || !strings.Contains(err.Error(), "delete some alarms") {
			t.Errorf("got %v, want what to do", err)
		}
		w.restart()
		if a := w.Alarms(); len(a) != 1 || a[0].Name != "small" {
			t.Errorf("got %+v, want the small one", a)
		}
	})
}

// A node that has lost leadership stores nothing and reports no error: the next leader continues
// from the stored state.
func TestRowsOfAnotherLeader(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.inRows()
		w.broker.Abandon()
		if err := w.Put(putVisible("waiting")); !strings.Contains(err.Error(), broker.ErrNotLeader.Error()) {
			t.Errorf("got %v, want ErrNotLeader", err)
		}
		if n := len(w.Alarms()); n != 0 {
			t.Errorf("got %d alarms, want none", n)
		}
		if strings.Contains(w.log.String(), "level=ERROR") {
			t.Errorf("the log says %s", w.log)
		}
	})
}
