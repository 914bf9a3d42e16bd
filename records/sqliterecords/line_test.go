package sqliterecords

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tenaq/records"
)

// An outcome is that of one Put.
type outcome struct {
	records.Record
	err error
}

// together puts records in one turn: they are in line while another process holds the lock. Before
// it lets go, meanwhile is called.
func together(t *testing.T, m *machine, s *Store, meanwhile func(), puts ...records.Write) []outcome {
	t.Helper()
	hog := m.open(t, 0)
	defer hog.Close()
	tx, err := hog.writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make([]outcome, len(puts))
	var calls sync.WaitGroup
	for i, w := range puts {
		calls.Go(func() { outcomes[i].Record, outcomes[i].err = s.Put(t.Context(), w) })
		for s.inLine() <= i {
			runtime.Gosched()
		}
	}
	meanwhile()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	return outcomes
}

func (s *Store) inLine() int {
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	return len(s.line.waiting)
}

func nothing() {}

// Writes that are in line together share a transaction, and each keeps its own condition.
func TestTogether(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	defer s.Close()
	there, err := s.Put(t.Context(), records.Write{Key: "there", Value: []byte("old")})
	if err != nil {
		t.Fatal(err)
	}
	got := together(t, m, s, nothing,
		records.Write{Key: "new", Value: []byte("first")},
		records.Write{Key: "new", Value: []byte("second")},
		records.Write{Key: "there", Value: []byte("stale"), If: there.Version - 1},
		records.Write{Key: "there", Value: []byte("fresh"), If: there.Version},
		records.Write{Key: "there", Value: []byte("late"), If: there.Version},
	)
	for i, want := range []struct{ won, current string }{
		{won: "first"}, {current: "first"}, {current: "old"}, {won: "fresh"}, {current: "fresh"},
	} {
		conflict, _ := errors.AsType[*records.Conflict](got[i].err)
		switch {
		case want.won != "" && (got[i].err != nil || string(got[i].Value) != want.won):
			t.Errorf("put %d = %q, %v, want %q", i, got[i].Value, got[i].err, want.won)
		case want.won == "" && (conflict == nil || string(conflict.Current.Value) != want.current):
			t.Errorf("put %d: %v, want a conflict with %q", i, got[i].err, want.current)
		}
	}
}

// On a full disk, all writes of a turn fail, including one that conflicted with another write of
// the turn, and none of them is in the file.
func TestTogetherFull(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	defer s.Close()
	limit := func(pages int) func() {
		return func() {
			if _, err := s.writer.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
				t.Error(err)
			}
		}
	}
	puts := []records.Write{{Key: "a"}, {Key: "a", Value: []byte("forestalled")}, {Key: "b"},
		{Key: "large", Value: make([]byte, 200_000)}, {Key: "c"}}
	for i, o := range together(t, m, s, limit(20), puts...) {
		if o.err == nil || !strings.HasSuffix(o.err.Error(), "free some space, no restart is needed") {
			t.Errorf("put %d on a full disk: version %d, %v", i, o.Version, o.err)
		}
	}
	if all, err := s.List(t.Context(), "", "", 0); len(all) != 0 || err != nil {
		t.Errorf("%d records, %v, want none", len(all), err)
	}
	limit(1000)()
	for i, o := range together(t, m, s, nothing, puts...) {
		if _, conflict := errors.AsType[*records.Conflict](o.err); conflict != (i == 1) || o.err != nil && !conflict {
			t.Errorf("put %d with room again: %v", i, o.err)
		}
	}
}

// If the commit fails, all writes of the turn fail, and none of them is in the file.
func TestTogetherUncommitted(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	defer s.Close()
	for _, statement := range []string{ // which SQLite checks at the commit
		"PRAGMA foreign_keys = ON",
		"CREATE TABLE parent (id INTEGER PRIMARY KEY)",
		"CREATE TABLE orphan (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
		`CREATE TRIGGER foreign_rule AFTER INSERT ON records WHEN NEW.key = 'b'
			BEGIN INSERT INTO orphan (id) VALUES (1); END`,
	} {
		if _, err := s.writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	puts := []records.Write{{Key: "a"}, {Key: "a", Value: []byte("forestalled")}, {Key: "b"}, {Key: "c"}}
	for i, o := range together(t, m, s, nothing, puts...) {
		if o.err == nil || !strings.Contains(o.err.Error(), "FOREIGN KEY") {
			t.Errorf("put %d: version %d, %v, want the error of the commit", i, o.Version, o.err)
		}
	}
	for i, o := range together(t, m, s, nothing, puts[0], puts[3]) {
		if o.err != nil {
			t.Errorf("put %d: %v", i, o.err)
		}
	}
	if all, err := s.List(t.Context(), "", "", 0); len(all) != 2 || err != nil {
		t.Errorf("%d records, %v, want 2", len(all), err)
	}
}

// A write that only SQLite can refuse fails alone, whether SQLite undoes the statement or the whole
// transaction.
func TestTogetherRefused(t *testing.T) {
	for _, how := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		t.Run(how, func(t *testing.T) {
			m := newMachine(t)
			s := m.open(t, 0)
			defer s.Close()
			if _, err := s.writer.ExecContext(t.Context(), `CREATE TRIGGER foreign_rule BEFORE INSERT ON records WHEN NEW.key LIKE 'bad%'
				BEGIN SELECT RAISE(`+how+`, 'not this one'); END`); err != nil {
				t.Fatal(err)
			}
			got := together(t, m, s, nothing, records.Write{Key: "a"}, records.Write{Key: "bad 1"},
				records.Write{Key: "b"}, records.Write{Key: "bad 2"}, records.Write{Key: "c"})
			for i, o := range got {
				bad := i%2 == 1
				if bad && (o.err == nil || !strings.Contains(o.err.Error(), "not this one")) || !bad && o.err != nil {
					t.Errorf("put %d: %v", i, o.err)
				}
			}
			if all, err := s.List(t.Context(), "", "", 0); len(all) != 3 || err != nil {
				t.Errorf("%d records, %v, want 3", len(all), err)
			}
		})
	}
}

// A write whose context ends while it is in line never takes effect.
func TestWithdrawn(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	defer s.Close()
	got := together(t, m, s, func() {
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for _, key := range []string{"b", "c"} {
			calls.Go(func() {
				if _, err := s.Put(ctx, records.Write{Key: key}); !errors.Is(err, context.Canceled) {
					t.Errorf("put %s: %v, want %v", key, err, context.Canceled)
				}
			})
		}
		for s.inLine() < 3 {
			runtime.Gosched()
		}
		cancel()
		calls.Wait()
	}, records.Write{Key: "a"})
	if got[0].err != nil {
		t.Error(got[0].err)
	}
	if all, err := s.List(t.Context(), "", "", 0); len(all) != 1 || err != nil {
		t.Errorf("%d records, %v, want 1", len(all), err)
	}
}

// When a call has returned, its caller may reuse the value of the write, whatever the outcome.
func TestValueIsCopied(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	defer s.Close()
	value := []byte("right")
	r, err := s.Put(t.Context(), records.Write{Key: "a", Value: value})
	if err != nil {
		t.Fatal(err)
	}
	copy(value, "wrong")
	if got, err := s.Get(t.Context(), "a"); err != nil || !bytes.Equal(got.Value, r.Value) || string(r.Value) != "right" {
		t.Errorf("the record is %q, %v", got.Value, err)
	}
}

// The turns of a long line are bounded, and none of its writes is lost.
func TestLongLine(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	defer s.Close()
	var puts []records.Write
	for i := range 2*turnMax + 10 {
		puts = append(puts, records.Write{Key: fmt.Sprint(i)})
	}
	for i := range 3 {
		puts = append(puts, records.Write{Key: fmt.Sprint("large ", i), Value: make([]byte, records.ValueMax)})
	}
	for i, o := range together(t, m, s, nothing, puts...) {
		if o.err != nil || o.Version == 0 {
			t.Errorf("put %d: version %d, %v", i, o.Version, o.err)
		}
	}
}

// Close waits for writes in line, and refuses others.
func TestCloseWaits(t *testing.T) {
	m := newMachine(t)
	s := m.open(t, 0)
	closed := make(chan error, 1)
	got := together(t, m, s, func() { go func() { closed <- s.Close() }() }, records.Write{Key: "a"})
	if err := <-closed; err != nil || got[0].err != nil {
		t.Errorf("close: %v, put: %v", err, got[0].err)
	}
	if _, err := s.Put(t.Context(), records.Write{Key: "b"}); !errors.Is(err, errClosed) {
		t.Errorf("put after close: %v, want %v", err, errClosed)
	}
	s = m.open(t, 0)
	defer s.Close()
	if all, err := s.List(t.Context(), "", "", 0); len(all) != 1 || err != nil {
		t.Errorf("%d records, %v, want 1", len(all), err)
	}
}
