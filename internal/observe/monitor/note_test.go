package monitor

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"tenaq/internal/engine"
)

func (w *world) note(queue, kind, text string) error {
	return w.PutNote(w.t.Context(), Note{Queue: queue, Kind: kind, Text: text, By: "ops"})
}

// wantNotes checks the notes about a queue: kinds and texts, in turn.
func (w *world) wantNotes(when, queue string, want ...string) {
	w.t.Helper()
	notes, err := w.Notes(w.t.Context(), queue)
	if err != nil {
		w.t.Fatal(err)
	}
	right := len(notes) == len(want)/2
	for i := 0; i < len(want); i += 2 {
		n := notes[want[i]]
		right = right && n != nil && n.Text == want[i+1] && n.By == "ops" && !n.At.IsZero()
	}
	if !right {
		w.t.Errorf("%s, %s has %d notes, want %q", when, queue, len(notes), want)
		for _, n := range notes {
			w.t.Logf("%+v", *n)
		}
	}
}

// A note is there until it is removed or its queue is deleted, also after a restart and for the
// next leader of a cluster. It is not that of another queue of the same name. [NACK-23, ALARM-44]
func TestNotes(t *testing.T) {
	for name, keep := range map[string]func(*world){"file": func(*world) {}, "rows": (*world).inRows} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(w *world) {
				keep(w)
				again := func() {
					if name == "rows" {
						w.cfg.Keeper = Rows(w.broker) // of another node
					}
					w.restart()
				}
				w.create("dead")
				w.create("other")
				for _, n := range [][3]string{{"dead", "k3f9", "ask bank"}, {"dead", "unknown", "soon"}, {"other", "k3f9", strings.Repeat("é", 250)},
					{"dead", "k3f9", "ask the bank"}, {"dead", "unknown", ""}, {"dead", "never", ""}} {
					if err := w.note(n[0], n[1], n[2]); err != nil {
						t.Fatal(n, err)
					}
				}
				w.wantNotes("at first", "dead", "k3f9", "ask the bank")
				w.wantNotes("at first", "other", "k3f9", strings.Repeat("é", 250))
				again()
				w.wantNotes("after a restart", "dead", "k3f9", "ask the bank")
				w.wantNotes("after a restart", "other", "k3f9", strings.Repeat("é", 250))
				if err := w.note("dead", "k3f9", ""); err != nil {
					t.Fatal(err)
				}
				again()
				w.wantNotes("removed", "dead")

				w.do(&engine.DeleteQueue{Queue: queueNamed("other")})
				if _, err := w.Notes(t.Context(), "other"); err == nil {
					t.Error("a deleted queue has notes")
				}
				if err := w.note("other", "k3f9", "x"); err == nil {
					t.Error("a deleted queue got a note")
				}
				w.minutes(2) // until its name is free
				w.create("other")
				w.wantNotes("created again", "other")
				if err := w.note("other", "unknown", "new"); err != nil {
					t.Fatal(err)
				}
				w.wantNotes("noted again", "other", "unknown", "new")
				if n := len(w.allNotes()); n != 1 {
					t.Errorf("%d notes are kept, want 1", n)
				}
			})
		})
	}
}

// A text that cannot be a note is refused. [NACK-23]
func TestNoteRefused(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		w.create("dead")
		for _, n := range [][2]string{{"", "x"}, {"a b", "x"}, {"K3F9", "x"}, {strings.Repeat("k", 65), "x"}, {"k", strings.Repeat("x", 501)},
			{"k", strings.Repeat("é", 251)}, {"k", "two\nlines"}, {"k", "\x1b[31m"}, {"k", "\xff"}} {
			if err := w.note("dead", n[0], n[1]); !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: got %v", n, err)
			}
		}
		w.wantNotes("then", "dead")
		if err := w.note("dead", strings.Repeat("k", 64), strings.Repeat("x", 500)); err != nil {
			t.Error(err)
		}
	})
}

// There are at most 500 notes. Those of queues that were deleted make room for others. [NACK-23]
func TestNotesAreBounded(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		for _, queue := range []string{"dead", "gone", "again", "new"} {
			w.create(queue)
		}
		put := func(queue string, i int) error {
			return w.note(queue, fmt.Sprint("kind", i), strings.Repeat("x", noteMax))
		}
		for i := range notesMax {
			queue := "dead"
			switch i {
			case 1, 2:
				queue = "gone"
			case 3:
				queue = "again"
			}
			if err := put(queue, i); err != nil {
				t.Fatal(i, err)
			}
		}
		var full *NotesFull
		if err := put("new", 0); !errors.As(err, &full) || full.Oldest.Queue != "dead" || !strings.Contains(err.Error(), "tenaq dead note dead kind0 --remove") {
			t.Errorf("one more: got %v", err)
		}
		w.wantNotes("refused", "new")
		if err := w.note("dead", "kind0", "another text"); err != nil {
			t.Errorf("in the place of another: %v", err)
		}
		for _, queue := range []string{"gone", "again"} {
			w.do(&engine.DeleteQueue{Queue: queueNamed(queue)})
		}
		w.minutes(2)
		w.create("again")
		for i := range 4 {
			if err := put("new", i); (err == nil) != (i < 3) {
				t.Errorf("with room for three, note %d: %v", i, err)
			}
		}
		if err := w.note("new", "kind1", ""); err != nil {
			t.Error(err)
		}
		if err := put("new", 3); err != nil {
			t.Errorf("after one was removed: %v", err)
		}
		if n := len(w.allNotes()); n != notesMax {
			t.Errorf("%d notes are kept, want %d", n, notesMax)
		}
	})
}

// A failing is a keeper whose disk is full at times.
type failing struct {
	Keeper
	err error
}

func (f *failing) Store(document []byte) error {
	if f.err != nil {
		return fmt.Errorf("check the disk of the server: %w", f.err)
	}
	return f.Keeper.Store(document)
}

// A note that cannot be stored is refused, and the one before stays. [NACK-23]
func TestNoteNotStored(t *testing.T) {
	bubble(t, Config{}, func(w *world) {
		disk := &failing{Keeper: w.cfg.Keeper}
		w.cfg.Keeper = disk
		w.restart()
		w.create("dead")
		if err := w.note("dead", "k3f9", "before"); err != nil {
			t.Fatal(err)
		}
		disk.err = syscall.ENOSPC
		for _, text := range []string{"after", ""} {
			if err := w.note("dead", "k3f9", text); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%q: got %v", text, err)
			}
			if err := w.note("dead", "other", "x"); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v", err)
			}
			w.wantNotes("refused", "dead", "k3f9", "before")
		}
		disk.err = nil
		if err := w.note("dead", "other", "x"); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.wantNotes("after a restart", "dead", "k3f9", "before", "other", "x")
	})
}
