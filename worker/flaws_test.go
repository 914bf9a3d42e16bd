package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/worker"
)

// The usual ways to run handlers for a queue have known flaws. Each test here is named after one,
// says what the usual solution does, and shows that a worker does otherwise. The letter is the kind
// of work: A is a file that is downloaded, C an order that is charged. More of them are in package
// claims.

// Usual: the queue's receive count passes for the number of tries. Ours: a try is a handler that
// began; busy, later, outages and restarts are none.
func TestAttemptsAreNotReceives_FA3(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		other, err := r.ledger().Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		cfg := byBody(r.config(func(_ context.Context, m *worker.Message) error {
			if m.Receives < 4 {
				return worker.Later(time.Second, "not yet")
			}
			if m.Receives-m.Attempt() < 3 {
				t.Errorf("attempt %d at receive %d", m.Attempt(), m.Receives)
			}
			return errSick
		}))
		cfg.Client = plain(r.client)
		stop := r.start(cfg)
		r.sleep(10 * time.Second) // busy
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.sleep(2 * time.Minute)
		r.mustStop(stop)
		stop = r.start(cfg)
		r.sleep(time.Hour)
		if got := r.lines("failed"); len(got) != 3 {
			t.Errorf("failed %q, want exactly three attempts", got)
		}
		r.wantCount(r.dead, 1)
		r.mustStop(stop)
	})
}

// Usual: "busy" and "done" are skipped alike, and the message of a job that then fails is gone.
// Ours: busy comes back, done goes.
func TestBusyIsNotDone_FA8(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("a")
		first := true
		r.run(byBody(r.config(func(ctx context.Context, m *worker.Message) error {
			if first {
				first = false
				_ = sleepOr(ctx, 30*time.Second)
				return worker.Poison(errSick) // its message leaves the queue, the work is not done
			}
			return nil
		})))
		r.sleep(10 * time.Minute)
		r.wantLines([]string{"dead a sick", "done a 0s"}, "dead", "done")
	})
}

// Usual: a row that says failed is never claimed again, so bringing a dead letter back does
// nothing. Ours: it is done, under the same effect key, and with attempts of its own.
func TestDeadLetterBroughtBack_FA9(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.send("a", "dedup=file-1")
		sick := true
		var keys []string
		r.run(r.config(func(_ context.Context, m *worker.Message) error {
			keys = append(keys, fmt.Sprint(m.EffectKey(), " ", m.Attempt()))
			if sick {
				return errSick
			}
			return nil
		}))
		r.sleep(time.Hour)
		sick = false
		if _, err := r.client.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{
			SourceArn: new(sqstest.ARN("dead.fifo")), DestinationArn: new(sqstest.ARN("work.fifo")),
		}); err != nil {
			t.Fatal(err)
		}
		r.sleep(time.Minute)
		if want := []string{"file-1 1", "file-1 2", "file-1 3", "file-1 1"}; !slices.Equal(keys, want) {
			t.Errorf("handled as %q, want %q", keys, want)
		}
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q", got)
		}
	})
}

// Usual: one group for everything is blocked by one bad file, for three visibility timeouts of an
// hour. Ours: it is blocked for three attempts and the pauses between them, and with one group for
// each file not at all.
func TestBadFileHoldsOnlyItsGroup_FA13(t *testing.T) {
	for _, groups := range []string{"one", "each"} {
		inBubble(t, ".fifo", func(t *testing.T, r *rig) {
			for _, body := range []string{"bad", "b", "c"} {
				group := "g"
				if groups == "each" {
					group = body
				}
				r.send(body, "group="+group)
			}
			r.run(r.config(func(_ context.Context, m *worker.Message) error {
				if m.Body == "bad" {
					return errSick
				}
				return nil
			}))
			r.sleep(time.Minute)
			if got := bodies(r.lines("done", "dead")); groups == "one" && !slices.Equal(got, []string{"bad", "b", "c"}) ||
				groups == "each" && got[2] != "bad" {
				t.Errorf("one group for %s: %q", groups, got)
			}
		})
	}
}

// Usual: the visibility timeout is as long as the longest job, so a crash is noticed after an hour.
// Ours: it is noticed after a short lease, and jobs of any length keep theirs.
func TestShortLeaseLongJob_FA14(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("long")
		stop := r.start(r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, 5*time.Hour) }))
		r.sleep(5*time.Hour + time.Second)
		r.wantLines([]string{"started long", "done long 5h0m0s"}, "started", "done")
		r.mustStop(stop)

		// A worker that died: it renews nothing.
		r.send("crash")
		r.receiveFor(r.url, leased)
		began := time.Now()
		stop = r.start(r.config(func(context.Context, *worker.Message) error { return nil }))
		for len(r.lines("done")) < 2 && time.Since(began) < time.Hour {
			r.sleep(time.Second)
		}
		if took := time.Since(began); took > leased+time.Second {
			t.Errorf("taken over after %v, want at most %v", took, leased+time.Second)
		}
		r.mustStop(stop)
	})
}

// Usual: an alarm sums a gauge of the dead-letter queue, and says nothing of what or why. Ours:
// every dead letter is an event with its message and its reason, and the message carries the
// reason.
func TestDeadLetterSaysWhy_FA19(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		var said string
		cfg := r.config(func(context.Context, *worker.Message) error { return worker.Poison(errSick) })
		cfg.Events.Outcome = func(m *worker.Message, o worker.Outcome) {
			if o.Kind == worker.DeadLettered {
				said = fmt.Sprint(m.Body, " ", o.Reason, " ", o.DeadID != "")
			}
		}
		r.run(cfg)
		r.sleep(time.Minute)
		if said != "a sick true" {
			t.Errorf("the event said %q", said)
		}
		if got := *r.receive(r.dead).MessageAttributes["tenaq"].StringValue; !strings.Contains(got, "reason=sick") {
			t.Errorf("the dead letter carries %q", got)
		}
	})
}

// Usual: the entry of completed work is gone before the last copy of its message. Ours: a worker
// does not start with a ledger that forgets sooner than its queues do.
func TestLedgerOutlivesMessages_FA20(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		// The queue keeps messages for four days, its dead-letter queue for fourteen.
		dead := r.server.Queue(t, "long", "MessageRetentionPeriod", "1209600")
		ledger, err := claims.New(claims.Config{Store: r.store, Retention: 14 * 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		cfg := r.config(func(context.Context, *worker.Message) error { return nil })
		cfg.DeadLetterURL, cfg.Claims = dead, ledger
		w, err := worker.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "forgets") {
			t.Errorf("got error %v", err)
		}
	})
}

// Usual: the one that finds a job busy lets its message burn receives until it is dead-lettered,
// while the job is healthy. Ours: it is given back until the holder's lease has expired, and waits
// for a job of an hour with few receives.
func TestBusyDoesNotBurnReceives_FC7(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.run(byBody(r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, 5*time.Minute) })))
		r.send("a")
		r.sleep(time.Second)
		r.send("a")
		r.sleep(time.Hour)
		r.wantLines([]string{"done a 5m0s", "duplicate a "}, "done", "duplicate", "dead", "failed")
		r.wantCount(r.dead, 0)
	})
}

// Usual: a heartbeat that fails is logged, and the work continues without a lease. Ours: the
// context of the handler ends at once, with the cause; if the store does not answer, the handler's
// own clock ends it.
func TestHeartbeatLossEndsHandler_FC8(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		var cause error
		var at time.Duration
		r.run(r.config(func(ctx context.Context, m *worker.Message) error {
			if m.Receives == 1 {
				r.client.SetFault(func(string) sqstest.Fault { return sqstest.Dropped })
				<-ctx.Done()
				cause, at = context.Cause(ctx), time.Since(r.at)
				r.client.SetFault(nil)
				return cause
			}
			return nil
		}))
		r.sleep(10 * time.Minute)
		if cause != worker.ErrLost || at >= leased {
			t.Errorf("ended by %v after %v", cause, at)
		}
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q", got)
		}
	})
}

// Usual: a handler that hangs keeps its message for twelve hours. Ours: it has a longest time, and
// may have to show progress. See also TestTimeout and TestStall.
func TestHangingHandlerEnds_FC9(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			if m.Attempt() == 1 {
				return sleepOr(ctx, 24*time.Hour)
			}
			return nil
		})
		cfg.Stall = time.Minute
		r.run(cfg)
		r.sleep(3 * time.Minute)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q within three minutes", got)
		}
	})
}

// Usual: the first heartbeat comes late, and messages that wait in the process have none. Ours: a
// third of a lease after the receipt, for all that is in the worker's hands. See also
// TestPrefetchedAreRenewed.
func TestBeatsFromReceipt_FC10(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for range 10 {
			r.send("a")
		}
		var beats []time.Duration
		cfg := r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, leased/2) })
		cfg.Concurrency, cfg.Prefetch = 1, 9
		cfg.Events.Renewed = func(n int, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			beats = append(beats, time.Since(r.at))
		}
		r.run(cfg)
		r.sleep(leased / 2)
		r.mu.Lock()
		if len(beats) == 0 || beats[0] > leased/3 {
			t.Errorf("renewals at %v, want one within %v", beats, leased/3)
		}
		r.mu.Unlock()
		r.sleep(10 * time.Minute)
		if got := r.lines("done", "lost"); len(got) != 10 {
			t.Errorf("got %q, want ten done", got)
		}
	})
}

// Usual: a timeout of the payment provider counts as a failure, and the next attempt charges again.
// Ours: the next attempt has the same effect key, and where there is none to give, the policy is
// asked whose handler was lost.
func TestUnknownOutcome_FC15(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("order-1")
		charges := map[string]int{} // a provider that honours the key
		var asked []string
		ledger, err := claims.New(claims.Config{Store: r.store, Lost: func(_ context.Context, e claims.Entry) (claims.Decision, error) {
			asked = append(asked, e.Key)
			return claims.Retry(), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		cfg := byBody(r.config(func(ctx context.Context, m *worker.Message) error {
			charges[m.EffectKey()] = 1
			if m.Attempt() == 1 {
				return context.DeadlineExceeded // charged, without an answer
			}
			return nil
		}))
		cfg.Claims = ledger
		stop := r.start(cfg)
		r.sleep(time.Minute)
		if len(charges) != 1 || len(asked) != 0 {
			t.Errorf("charges %v, asked %v", charges, asked)
		}
		r.mustStop(stop)

		// A handler that was lost in the middle: there the policy is asked.
		r.send("order-2")
		if _, err := r.ledger().Acquire(t.Context(), "order-2"); err != nil {
			t.Fatal(err)
		}
		stop = r.start(cfg)
		r.sleep(5 * time.Minute)
		if !slices.Equal(asked, []string{"order-2"}) {
			t.Errorf("asked about %v", asked)
		}
		r.mustStop(stop)
	})
}

// Usual: deletes divided by sends is watched, which tolerates doubles and cannot see skipped work.
// Ours: each outcome is counted where it is decided.
func TestOutcomesAreCounted_FC16(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for _, body := range []string{"a", "a", "bad", "c"} {
			r.send(body)
		}
		r.run(byBody(r.config(func(ctx context.Context, m *worker.Message) error {
			if m.Body == "bad" {
				return worker.Poison(errSick)
			}
			return sleepOr(ctx, 10*time.Second)
		})))
		r.sleep(10 * time.Minute)
		for word, want := range map[string]int{"done": 2, "duplicate": 1, "dead": 1, "lost": 0} {
			if got := r.lines(word); len(got) != want {
				t.Errorf("%s: %q, want %d", word, got, want)
			}
		}
		if len(r.lines("busy")) == 0 {
			t.Error("busy was not seen")
		}
	})
}

// Usual: the visibility timeout is set to twice the median of a job, and the slow ones lose their
// messages. Ours: no setting has to follow how long jobs take.
func TestNoSettingFollowsDuration_FC17(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for _, d := range []time.Duration{time.Second, 20 * time.Second, 50 * time.Second, 10 * time.Minute, time.Hour} {
			r.send(d.String())
		}
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			d, err := time.ParseDuration(m.Body)
			if err != nil {
				return err
			}
			return sleepOr(ctx, d)
		})
		cfg.Lease = 10 * time.Second
		r.run(cfg)
		r.sleep(2 * time.Hour)
		if got := r.lines("done"); len(got) != 5 {
			t.Errorf("done %q", got)
		}
		if got := r.lines("lost", "failed", "duplicate", "busy"); len(got) != 0 {
			t.Errorf("and %q", got)
		}
	})
}
