package worker_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"tenaq/worker"
)

// A message is handled, recorded and deleted, and the worker ends in peace.
func TestHandled(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.run(r.config(func(ctx context.Context, m *worker.Message) error {
			m.SetResult([]byte("fine"))
			return sleepOr(ctx, 5*time.Minute)
		}))
		r.sleep(6 * time.Minute)
		r.wantLines([]string{"done a 5m0s"}, "done", "failed", "lost", "deferred")
		r.wantCount(r.url, 0)
		e, err := r.ledger().List(t.Context(), "", "", 0)
		if err != nil || len(e) != 1 || string(e[0].Result) != "fine" || e[0].Attempts != 1 {
			t.Errorf("the ledger has %+v, error %v", e, err)
		}
	})
}

// A failing message is retried, and moves to the dead-letter queue with its reason after exactly
// its attempts. A tenaq server moves it in one step, so it stays the same message.
// [NACK-17, NACK-18, ID-2]
func TestDeadLettered(t *testing.T) {
	for _, tenaq := range []bool{true, false} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			id := r.send("a", "colour=blue")
			cfg := r.config(func(context.Context, *worker.Message) error { return errSick })
			if !tenaq {
				cfg.Client = plain(cfg.Client)
			}
			r.run(cfg)
			r.sleep(time.Hour)
			r.wantLines([]string{
				"started a", "failed a sick", "started a", "failed a sick", "started a", "failed a sick", "dead a sick",
			}, "started", "failed", "dead", "lost")
			r.wantCount(r.url, 0)
			r.wantCount(r.dead, 1)
			m := r.receive(r.dead)
			if *m.Body != "a" || *m.MessageAttributes["colour"].StringValue != "blue" {
				t.Errorf("the dead letter is %q with %v", *m.Body, m.MessageAttributes)
			}
			got, died := *m.MessageAttributes["tenaq"].StringValue, ""
			if tenaq {
				died = regexp.MustCompile(`&died=\d+`).FindString(got)
			}
			want := fmt.Sprintf("v=1&attempts=3%s&first-sent=%d&key=%s&lineage=%[3]s&reason=sick&source=arn%%3Aaws%%3Asqs%%3Aus-east-1%%3A000000000000%%3Awork",
				died, r.at.UnixMilli(), id)
			if got != want || tenaq != (died != "") {
				t.Errorf("it carries\n%s\nwant\n%s", got, want)
			}
			if tenaq != (*m.MessageId == id) || tenaq != (m.Attributes["DeadLetterQueueSourceArn"] != "") {
				t.Errorf("the dead letter of %s is %s from %s", id, *m.MessageId, m.Attributes["DeadLetterQueueSourceArn"])
			}
			if n := r.client.Calls("SendMessage"); n > 0 == tenaq {
				t.Errorf("the worker sent %d messages", n)
			}
		})
	}
}

// Poison is not tried again.
func TestPoison(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.run(r.config(func(context.Context, *worker.Message) error { return worker.Poison(errSick) }))
		r.sleep(time.Minute)
		r.wantLines([]string{"started a", "failed a sick", "dead a sick"}, "started", "failed", "dead")
		r.wantCount(r.dead, 1)
	})
}

// Later uses up no attempt, however often it is returned.
func TestLater(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		n := 0
		r.run(r.config(func(_ context.Context, m *worker.Message) error {
			if m.Attempt() != 1 {
				t.Errorf("attempt %d, want 1", m.Attempt())
			}
			if n++; n < 8 {
				return worker.Later(time.Minute, "the file is not there yet")
			}
			return nil
		}))
		r.sleep(10 * time.Minute)
		if got := r.lines("done", "failed", "dead"); len(got) != 1 || n != 8 {
			t.Errorf("%d runs, %q", n, got)
		}
		r.wantCount(r.url, 0)
	})
}

// A panic is a failed attempt, and the worker continues.
func TestPanic(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("b")
		r.run(r.config(func(_ context.Context, m *worker.Message) error {
			if m.Body == "a" {
				panic("oh")
			}
			return nil
		}))
		r.sleep(time.Hour)
		if got := r.lines("dead"); len(got) != 1 || got[0] != "dead a the handler panicked: oh" {
			t.Errorf("got %q", got)
		}
		r.wantCount(r.url, 0)
	})
}
