package sqliterecords

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/records"
	"tenaq/records/recordstest"
)

// A machine is a directory and a clock.
type machine struct {
	path  string
	ahead atomic.Int64 // the clock of this machine, of the real one
}

func newMachine(t testing.TB) *machine {
	return &machine{path: filepath.Join(t.TempDir(), "records of a test?#%41.db")}
}

// open opens the file in a process whose clock is ahead of the machine's.
func (m *machine) open(t testing.TB, ahead time.Duration) *Store {
	t.Helper()
	s, err := open(Config{Path: m.path}, func() time.Time {
		return time.Now().Add(time.Duration(m.ahead.Load()) + ahead)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The clock is set ahead instead of waiting.
func TestContract(t *testing.T) {
	recordstest.Run(t, func(t testing.TB) recordstest.Backend {
		m := newMachine(t)
		return recordstest.Backend{
			Open:   func(t testing.TB) records.Store { return m.open(t, 0) },
			Skewed: func(t testing.TB, ahead time.Duration) records.Store { return m.open(t, ahead) },
			Sleep:  func(d time.Duration) { m.ahead.Add(int64(d)) },
		}
	})
}

// The same contract holds with the default clock.
func TestContractInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for records to expire")
	}
	recordstest.Run(t, func(t testing.TB) recordstest.Backend {
		path := newMachine(t).path
		return recordstest.Backend{Open: func(t testing.TB) records.Store {
			s, err := New(Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}

// A clock that is set back for good lets no version fall, not even over records that are gone, in a
// process that was started afterwards.
func TestClockSetBack(t *testing.T) {
	m := newMachine(t)
	ctx := t.Context()
	largest := map[string]records.Version{}
	for _, ahead := range []time.Duration{time.Hour, 0, -time.Hour, -40 * 365 * 24 * time.Hour, -100 * 365 * 24 * time.Hour, 0} {
		m.ahead.Store(int64(ahead))
		s := m.open(t, 0)
		for _, key := range []string{"deleted", "kept", "expired"} {
			got, err := s.Get(ctx, key)
			if err == nil && got.Age < 0 {
				t.Errorf("%s has age %v", key, got.Age)
			}
			w := records.Write{Key: key, If: got.Version}
			if key == "expired" {
				w.TTL = time.Second
			}
			got, err = s.Put(ctx, w)
			if err != nil {
				t.Fatal(err)
			}
			if got.Version <= largest[key] {
				t.Errorf("clock ahead by %v: %s has version %d after %d", ahead, key, got.Version, largest[key])
			}
			largest[key] = got.Version
		}
		if err := s.Delete(ctx, "deleted", largest["deleted"]); err != nil {
			t.Fatal(err)
		}
		m.ahead.Add(int64(2 * time.Second))
		if n, err := s.Sweep(ctx, 10); n != 1 || err != nil {
			t.Errorf("sweep = %d, %v, want 1", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
