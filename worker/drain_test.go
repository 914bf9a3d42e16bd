package worker_test

import (
	"context"
	"testing"
	"time"

	"tenaq/worker"
)

// A worker that is stopped lets handlers finish, gives back at once the messages that none has
// begun, and receives no more.
func TestDrain(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for _, body := range []string{"a", "b", "c"} {
			r.send(body)
		}
		cfg := r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, 20*time.Second) })
		cfg.Concurrency, cfg.Prefetch = 1, 2
		stop := r.start(cfg)
		r.sleep(5 * time.Second)
		began := time.Now()
		r.mustStop(stop)
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("it took %v, want the rest of the handler's 20s", took)
		}
		if got := r.lines("started", "done"); len(got) != 2 {
			t.Errorf("got %q, want one handled", got)
		}
		if got := r.lines("deferred"); len(got) != 2 {
			t.Errorf("given back %q, want two", got)
		}
		r.receive(r.url) // visible at once
		r.wantCount(r.url, 2)
	})
}

// The context of a handler that takes too long to end is cancelled; this does not count as an
// attempt.
func TestDrainInterrupts(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			err := sleepOr(ctx, time.Hour)
			if err != worker.ErrDraining {
				t.Errorf("the context ended with %v", err)
			}
			return err
		})
		stop := r.start(cfg)
		r.sleep(5 * time.Second)
		began := time.Now()
		r.mustStop(stop)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v, want Drain", took)
		}
		r.receive(r.url)
		e, err := r.ledger().List(t.Context(), "", "", 0)
		if err != nil || len(e) != 1 || e[0].Attempts != 0 {
			t.Errorf("the ledger has %+v, error %v; want no attempt", e, err)
		}
	})
}

// An idle worker ends at once, although a poll is under way.
func TestDrainIdle(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		stop := r.start(r.config(func(context.Context, *worker.Message) error { return nil }))
		r.sleep(5 * time.Second)
		began := time.Now()
		r.mustStop(stop)
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		// The poll is gone from the server too: messages that arrive now go to others.
		r.send("a")
		r.receive(r.url)
	})
}

// Polls adapt: one while there is nothing to do, more while they come back full.
func TestPolls(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		cfg := r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, time.Second) })
		cfg.Concurrency = 100
		r.run(cfg)
		r.sleep(10 * time.Minute)
		if got := r.client.Calls("ReceiveMessage"); got < 30 || got > 31 {
			t.Errorf("%d polls in ten idle minutes, want one every 20s", got)
		}
		const messages = 1000
		for range messages {
			r.send("a")
		}
		before := r.client.Calls("ReceiveMessage")
		r.sleep(time.Minute)
		if got := len(r.lines("done")); got != messages {
			t.Errorf("%d done in a minute, want %d: 100 at a time, each takes a second", got, messages)
		}
		if got := r.client.Calls("ReceiveMessage") - before; got < messages/10 || got > 3*messages/10 {
			t.Errorf("%d polls for %d messages", got, messages)
		}
	})
}
