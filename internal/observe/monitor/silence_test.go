package monitor

import (
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"tenaq/internal/observe/alarm"
)

// A silence suppresses notices. Alarms that have changed by its end send notices then. [ALARM-49]
func TestSilence(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped = true
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		if err := w.Put(putVisible("waiting", "copy")); err != nil {
			t.Fatal(err)
		}
		w.minutes(2)
		w.notices()
		if about, err := w.Silence(Silence{Match: "wait*", Until: w.Now().Add(5 * time.Minute)}); err != nil || about != 1 {
			t.Fatal(about, err)
		}
		w.send("orders", "x")
		w.minutes(2)
		w.restart()
		if n := len(w.notices()); n != 0 || len(w.Silences()) != 1 {
			t.Errorf("got %d notices under a silence, want none", n)
		}
		w.minutes(5)
		if all := w.notices(); len(all) != 1 || !strings.Contains(all[0], `"state":"ALARM"`) {
			t.Errorf("after the silence got %q, want one notice", all)
		}
	})
}

func TestSilenceMatches(t *testing.T) {
	for _, tt := range []struct {
		match, name string
		want        bool
	}{
		{"*", "orders/dead-letters", true}, {"orders/*", "orders/dead-letters", true}, {"orders/*", "orders-dlq/dead-letters", false},
		{"orders", "orders/dead-letters", false}, {"*/dead-letters", "orders/dead-letters", true}, {"o*s/*rs", "orders/dead-letters", true},
		{"[prod] x", "[prod] x", true}, {"a*a", "a", false}, {"a**b", "ab", true},
	} {
		if got := (&Silence{Match: tt.match}).means(tt.name); got != tt.want {
			t.Errorf("%q means %q: got %v, want %v", tt.match, tt.name, got, tt.want)
		}
	}
}

// An alarm that continues sends reminders until someone acknowledges it. [ALARM-47]
func TestAcknowledge(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped, cfg.Repeat = true, time.Hour
	bubble(t, cfg, func(w *world) {
		w.create(noticeQueue)
		w.create("orders")
		if err := w.Put(putVisible("waiting", "copy")); err != nil {
			t.Fatal(err)
		}
		w.send("orders", "x")
		w.minutes(125)
		all := w.notices()
		if len(all) != 3 || !strings.Contains(all[2], `"again":true`) {
			t.Errorf("in two hours got %q, want one and two again", all)
		}
		if err := w.Acknowledge("waiting", Ack{}); err != nil {
			t.Fatal(err)
		}
		w.minutes(125)
		if all := w.notices(); len(all) != 0 {
			t.Errorf("after it was acknowledged got %q, want nothing", all)
		}
		for range 2 { // the second one changes nothing
			if err := w.EndAcknowledgement("waiting"); err != nil {
				t.Fatal(err)
			}
		}
		w.minutes(65)
		if all := w.notices(); len(all) != 2 || !strings.Contains(all[0], `"again":true`) {
			t.Errorf("in the hour after the acknowledgement ended got %q, want what was due and one more", all)
		}
		if err := w.EndAcknowledgement("other"); !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown alarm: got %v", err)
		}
		w.remove("orders", w.take("orders", 60))
		w.minutes(1)
		w.send("orders", "y")
		w.minutes(1)
		if n := len(w.notices()); n != 2 {
			t.Errorf("got %d notices, want that it is over and that it is back", n)
		}
	})
}

// The note of an acknowledgement is kept as long as that: it survives a restart and a change of the
// leader, and goes when the state changes or the acknowledgement ends. [ALARM-47, ALARM-44]
func TestAckNote(t *testing.T) {
	for name, keep := range map[string]func(*world){"file": func(*world) {}, "rows": (*world).inRows} {
		t.Run(name, func(t *testing.T) {
			cfg := toQueue()
			cfg.NoShipped = true
			bubble(t, cfg, func(w *world) {
				keep(w)
				w.create(noticeQueue)
				w.create("orders")
				if err := w.Put(putVisible("waiting", "copy")); err != nil {
					t.Fatal(err)
				}
				w.send("orders", "x")
				w.minutes(5)
				ack := func(note string) error { return w.Acknowledge("waiting", Ack{Note: note, By: "ops"}) }
				has := func(when, note string) {
					t.Helper()
					if a := w.Status()[0].Ack; a == nil || a.Note != note || a.By != "ops" || a.At.IsZero() {
						t.Errorf("%s got %+v, want the note %q of ops", when, a, note)
					}
				}
				for _, bad := range []string{strings.Repeat("é", 251), "two\nlines", "\x1b[2J", "\xff"} {
					if err := ack(bad); !errors.Is(err, ErrInvalid) || w.Status()[0].Ack != nil {
						t.Errorf("%q: got %v, and %+v", bad, err, w.Status()[0].Ack)
					}
				}
				for _, step := range []struct{ note, want string }{{"", ""}, {"Ann looks", "Ann looks"}, {"", "Ann looks"},
					{strings.Repeat("é", 250), strings.Repeat("é", 250)}, {"Ann asks the bank", "Ann asks the bank"}} {
					if err := ack(step.note); err != nil {
						t.Fatal(err)
					}
					has("after "+step.note, step.want)
				}
				if name == "rows" {
					w.cfg.Keeper = Rows(w.broker) // of another node
				}
				w.restart()
				has("after a restart", "Ann asks the bank")
				w.minutes(5)
				has("while the state is the same", "Ann asks the bank")
				if err := w.EndAcknowledgement("waiting"); err != nil || w.Status()[0].Ack != nil {
					t.Errorf("after its end got %+v, %v", w.Status()[0].Ack, err)
				}
				if err := ack("again"); err != nil {
					t.Fatal(err)
				}
				w.remove("orders", w.take("orders", 60))
				w.minutes(2)
				if s := w.Status()[0]; s.State != alarm.OK || s.Ack != nil {
					t.Errorf("in another state got %s, %+v", s.State, s.Ack)
				}
			})
		})
	}
}

// What an older program has stored is an acknowledgement without a note, and one that cannot be
// stored leaves the earlier one as it was. [ALARM-44, ALARM-47]
func TestAckOfOlderProgram(t *testing.T) {
	cfg := toQueue()
	cfg.NoShipped = true
	bubble(t, cfg, func(w *world) {
		w.create("orders")
		if err := w.Put(putVisible("waiting", "copy")); err != nil {
			t.Fatal(err)
		}
		if err := w.SetState("waiting", alarm.Alarm, "because", ""); err != nil {
			t.Fatal(err)
		}
		if err := w.Acknowledge("waiting", Ack{Note: "new", By: "ops"}); err != nil {
			t.Fatal(err)
		}
		disk := &failing{Keeper: w.cfg.Keeper}
		w.cfg.Keeper = disk
		w.restart()
		disk.err = syscall.ENOSPC
		for what, err := range map[string]error{"ack": w.Acknowledge("waiting", Ack{Note: "lost", By: "ops"}), "end": w.EndAcknowledgement("waiting")} {
			if a := w.Status()[0].Ack; !errors.Is(err, syscall.ENOSPC) || a == nil || a.Note != "new" {
				t.Errorf("%s on a full disk: got %v, and %+v", what, err, a)
			}
		}
		disk.err = nil
		w.stop()
		w.stop = nil
		text, err := w.cfg.Keeper.Load()
		if err != nil {
			t.Fatal(err)
		}
		var older map[string]any
		if err := json.Unmarshal(text, &older); err != nil {
			t.Fatal(err)
		}
		delete(older["alarms"].([]any)[0].(map[string]any), "acknowledgement")
		if text, err = json.Marshal(older); err != nil {
			t.Fatal(err)
		}
		if err := w.cfg.Keeper.Store(text); err != nil {
			t.Fatal(err)
		}
		w.start()
		if a := w.Status()[0].Ack; a == nil || *a != (Ack{}) {
			t.Errorf("got %+v, want an acknowledgement without a note", a)
		}
	})
}
