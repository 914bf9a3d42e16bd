package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/sqstest"
	"tenaq/worker"
)

const (
	renewal = "ChangeMessageVisibilityBatch"
	leased  = time.Minute // the default lease
)

// A lease that cannot be renewed ends the handler's context before it ends at the queue, and
// nothing more is done to the message.
func TestLeaseLost(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.client.SetFault(func(operation string) sqstest.Fault {
			if operation == renewal {
				return sqstest.Dropped
			}
			return sqstest.None
		})
		var ended time.Duration
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			if m.Receives > 1 {
				return nil
			}
			err := sleepOr(ctx, time.Hour)
			ended = time.Since(r.at)
			return err
		})
		r.run(cfg)
		r.sleep(leased - time.Second)
		r.wantLines([]string{"lost a the lease of the message was lost"}, "lost", "done", "failed")
		if ended >= leased || ended < leased/2 {
			t.Errorf("told after %v, want shortly before %v", ended, leased)
		}
		if n := r.client.Calls("DeleteMessageBatch"); n != 0 {
			t.Errorf("%d deletes by the one who lost it", n)
		}
		// The next delivery need not wait for the claim.
		r.sleep(2 * time.Second)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done: %q", got)
		}
		r.client.SetFault(nil)
	})
}

// A handler that finishes although its lease was lost has done the work: it is recorded, for the
// ledger still knows its claim, and the message is left to the worker that has it now.
func TestDoneWithoutLease(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.client.SetFault(func(operation string) sqstest.Fault {
			if operation == renewal {
				return sqstest.Dropped
			}
			return sqstest.None
		})
		r.run(r.config(func(context.Context, *worker.Message) error {
			<-time.After(leased - 2*time.Second)
			return nil
		}))
		r.sleep(leased - time.Second)
		r.wantLines([]string{"done a 58s"}, "done", "lost", "failed")
		if n := r.client.Calls("DeleteMessageBatch"); n != 0 {
			t.Errorf("%d deletes by the one who lost it", n)
		}
		r.sleep(3 * time.Second)
		if got := r.lines("duplicate"); len(got) != 1 {
			t.Errorf("duplicate %q", got)
		}
		r.wantCount(r.url, 0)
		r.client.SetFault(nil)
	})
}

// A slowClient has renewals reach the server late.
type slowClient struct {
	worker.SQS
	by time.Duration
}

func (c slowClient) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	if in.Entries[0].VisibilityTimeout == int32(leased/time.Second) {
		<-time.After(c.by)
	}
	return c.SQS.ChangeMessageVisibilityBatch(ctx, in, options...)
}

// A renewal that is under way when a message is given back does not undo that.
func TestRenewalUnderWay(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		cfg := r.config(func(_ context.Context, m *worker.Message) error {
			if m.Receives > 1 {
				return nil
			}
			<-time.After(leased/3 + time.Second) // a renewal has begun and takes five seconds
			return worker.Later(time.Second, "not yet")
		})
		cfg.Client = slowClient{r.client, 5 * time.Second}
		r.run(cfg)
		r.sleep(leased/3 + 10*time.Second)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q ten seconds after the message was to be back in one", got)
		}
	})
}

// SQS hides a message for twelve hours in all; what would be longer is as long as can be.
func TestLaterThanPossible(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			if m.Receives > 1 {
				return nil
			}
			if err := sleepOr(ctx, 10*time.Hour); err != nil {
				return err
			}
			return worker.Later(5*time.Hour, "not today")
		})
		cfg.Client = plain(r.client)
		r.run(cfg)
		r.sleep(11*time.Hour + 55*time.Minute)
		if got := r.lines("error", "done"); len(got) != 0 {
			t.Errorf("got %q", got)
		}
		r.sleep(10 * time.Minute)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q", got)
		}
	})
}

// A few renewals that fail do no harm.
func TestRenewalsFail(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		n := 0
		r.client.SetFault(func(operation string) sqstest.Fault {
			if operation != renewal {
				return sqstest.None
			}
			n++
			return []sqstest.Fault{sqstest.Dropped, sqstest.Throttled, sqstest.Unanswered, sqstest.None, sqstest.Broken, sqstest.Doubled}[n%6]
		})
		r.run(r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, time.Hour) }))
		r.sleep(time.Hour + time.Second)
		r.wantLines([]string{"started a", "done a 1h0m0s"}, "started", "done", "lost", "failed", "busy", "duplicate")
		r.client.SetFault(nil)
	})
}

// If another worker takes the message away, the next renewal notices.
func TestHandleStale(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.run(r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, time.Hour) }))
		r.sleep(time.Second)
		// An operator purges the queue, so the handle is no longer valid.
		purge(r)
		r.sleep(leased / 2) // its lease here has not ended yet
		if got := r.lines("lost"); len(got) != 1 {
			t.Errorf("lost: %q", got)
		}
	})
}

// Renewals go ten in a request, and a third of the lease apart.
func TestRenewalsAreBatched(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		const messages, minutes = 50, 20
		for range messages {
			r.send("a")
		}
		cfg := r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, minutes*time.Minute) })
		cfg.Concurrency = messages
		var all atomic.Int64
		cfg.Events.Renewed = func(n int, err error) {
			if all.Add(int64(n)); err != nil {
				t.Error(err)
			}
		}
		r.run(cfg)
		r.sleep(minutes*time.Minute + time.Minute)
		if got := len(r.lines("done")); got != messages {
			t.Fatalf("%d done, want %d", got, messages)
		}
		calls, renewed := r.client.Calls(renewal), int(all.Load())
		ideal := messages * minutes * 3 // every third of a lease
		t.Logf("%d renewals in %d requests; one by one, on time, it would be %d", renewed, calls, ideal)
		if renewed < ideal || renewed > ideal*3/2 {
			t.Errorf("%d renewals, want %d to half as many more", renewed, ideal)
		}
		if calls > renewed/6 {
			t.Errorf("%d requests for %d renewals, want them gathered", calls, renewed)
		}
	})
}

// Messages that wait behind others are renewed from their receipt on.
func TestPrefetchedAreRenewed(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for _, body := range []string{"a", "b", "c"} {
			r.send(body)
		}
		cfg := r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, 10*time.Minute) })
		cfg.Concurrency, cfg.Prefetch = 1, 5
		r.run(cfg)
		r.sleep(30*time.Minute + time.Second)
		if got := r.lines("done", "lost"); len(got) != 3 {
			t.Errorf("got %q, want three done", got)
		}
		if n := len(r.lines("started")); n != 3 {
			t.Errorf("%d started, want 3", n)
		}
	})
}

// The context of a handler that hangs is cancelled. If the handler ignores that, its work goes to
// another worker.
func TestTimeout(t *testing.T) {
	for _, listens := range []bool{true, false} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.send("a")
			release := make(chan struct{})
			cfg := r.config(func(ctx context.Context, m *worker.Message) error {
				if m.Receives > 1 {
					return nil
				}
				if listens {
					return sleepOr(ctx, time.Hour)
				}
				<-release
				return nil
			})
			cfg.Timeout, cfg.Drain = 5*time.Minute, 20*time.Second
			stop := r.start(cfg)
			r.sleep(10 * time.Minute)
			want := []string{"failed a the handler exceeded its time limit", "done a 0s"}
			if !listens {
				want = []string{"abandoned a the handler exceeded its time limit", "done a 0s"}
			}
			r.wantLines(want, "failed", "done", "abandoned", "lost")
			if listens {
				r.mustStop(stop)
				return
			}
			if err := stop(); err == nil {
				t.Error("it ended in peace with a handler that hangs")
			}
			close(release)
		})
	}
}

// Only a handler that reports progress may run for long.
func TestStall(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("moves")
		r.send("hangs")
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			for range 30 {
				if err := sleepOr(ctx, time.Minute); err != nil {
					return err
				}
				if m.Body == "moves" {
					m.Progress()
				}
			}
			return nil
		})
		cfg.Stall = 2 * time.Minute
		cfg.Attempts = 1
		r.run(cfg)
		r.sleep(time.Hour)
		r.wantLines([]string{"failed hangs the handler made no progress within its time limit", "done moves 30m0s"}, "failed", "done", "lost")
		r.wantCount(r.dead, 1)
	})
}
