package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// drainer is a relay over the box of a rig.
func (r *rig) drainer(change func(*outbox.Config)) *outbox.Relay {
	r.t.Helper()
	cfg := outbox.Config{Box: r.box, Client: r.server.Client(), Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	relay, err := outbox.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return relay
}

// Drain sends due rows, gives up a queue that accepts nothing, and does not wait for the time of a
// row.
func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		r.enqueue(outbox.Message{Queue: "jobs", Body: "1"}, outbox.Message{Queue: "jobs", Body: "2", After: time.Now().Add(time.Hour)},
			outbox.Message{Queue: "nowhere", Body: "3"})
		sick, err := r.drainer(nil).Drain(t.Context(), false)
		if err != nil || !slices.Equal(sick, []string{"nowhere"}) {
			t.Errorf("got queues %q, error %v, want nowhere to take nothing", sick, err)
		}
		if got := bodies(r.received(url)); !slices.Equal(got, []string{"1"}) {
			t.Errorf("sent %q, want what is due", got)
		}
		r.wantStats(2, 0)

		// With all it waits for the queue, and for the time of the row.
		go func() {
			time.Sleep(30 * time.Minute)
			r.server.Queue(t, "nowhere")
		}()
		began := time.Now()
		if sick, err = r.drainer(nil).Drain(t.Context(), true); err != nil || len(sick) > 0 {
			t.Errorf("got queues %q, error %v, want none", sick, err)
		}
		if took := time.Since(began); took < time.Hour-time.Minute || took > time.Hour+time.Minute {
			t.Errorf("took %v, want about 1h", took)
		}
		r.wantStats(0, 0)
	})
}

// Drain waits for what its claims returned: rows behind the first of a group, and answers under
// way.
func TestDrainWaitsForItsHand(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs.fifo")
		want := []string{"1", "2", "3", "4", "5"}
		for _, body := range want {
			r.enqueue(outbox.Message{Queue: "jobs.fifo", Group: "g", Body: body})
		}
		if _, err := r.drainer(func(c *outbox.Config) { c.Rows = 2 }).Drain(t.Context(), false); err != nil {
			t.Error(err)
		}
		if got := bodies(r.received(url)); !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
}

// A late box returns no rows at first although some are due, as pgoutbox may after a relay with
// many rows died.
type late struct {
	outbox.Box
	claims int
}

func (l *late) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
	if l.claims++; l.claims <= 3 {
		return nil, 0, nil
	}
	return l.Box.Claim(ctx, c)
}

// Drain continues after a claim that returned nothing and says that a row is due.
func TestDrainClaimsAgain(t *testing.T) {
	for _, all := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) {
			url := r.server.Queue(t, "jobs")
			r.enqueue(outbox.Message{Queue: "jobs", Body: "1"})
			if _, err := r.drainer(func(c *outbox.Config) { c.Box = &late{Box: r.box} }).Drain(t.Context(), all); err != nil {
				t.Error(err)
			}
			if got := bodies(r.received(url)); !slices.Equal(got, []string{"1"}) {
				t.Errorf("with all %t: sent %q, want the row", all, got)
			}
		})
	}
}

// Drain reports an interrupt, and a database that does not answer; with all it waits for the
// database.
func TestDrainFails(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.box.SetFault(func(call string) error {
			if call == "Claim" {
				return outboxtest.ErrInjected
			}
			return nil
		})
		began := time.Now()
		if _, err := r.drainer(nil).Drain(t.Context(), false); !errors.Is(err, outboxtest.ErrInjected) || time.Since(began) > time.Minute {
			t.Errorf("got error %v after %v, want the injected one within a minute", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := r.drainer(nil).Drain(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the deadline", err)
		}
	})
}
