package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/internal/work/trail"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/worker"
)

func purge(r *rig) {
	r.t.Helper()
	if _, err := r.server.Client().PurgeQueue(r.t.Context(), &sqs.PurgeQueueInput{QueueUrl: &r.url}); err != nil {
		r.t.Fatal(err)
	}
}

// byBody names work by the body, as a program would by an id in it.
func byBody(cfg worker.Config) worker.Config {
	cfg.Key = func(m *worker.Message) (string, error) { return m.Body, nil }
	return cfg
}

// Two messages of the same work: the second waits for the first, and is then a duplicate. Neither
// costs an attempt.
func TestBusyThenDone(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("a")
		r.run(byBody(r.config(func(ctx context.Context, m *worker.Message) error {
			m.SetResult([]byte("paid"))
			return sleepOr(ctx, 2*time.Minute)
		})))
		r.sleep(10 * time.Minute)
		r.wantLines([]string{"started a", "done a 2m0s", "duplicate a paid"}, "started", "done", "duplicate", "failed", "dead")
		if n := len(r.lines("busy")); n < 1 || n > 3 {
			t.Errorf("busy %d times, want once a lease", n)
		}
		r.wantCount(r.url, 0)
		r.wantCount(r.dead, 0)
	})
}

// A holder that died is taken over after its lease, and the ledger's policy is asked.
func TestTakenOver(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		dead, err := r.ledger().Acquire(t.Context(), "a") // and never heard of again
		if err != nil {
			t.Fatal(err)
		}
		r.run(byBody(r.config(func(_ context.Context, m *worker.Message) error {
			if m.TakenOver() == nil || m.Fence() <= dead.Fence() || m.Attempt() != 2 {
				t.Errorf("taken over %v, fence %d after %d, attempt %d", m.TakenOver(), m.Fence(), dead.Fence(), m.Attempt())
			}
			return nil
		})))
		r.sleep(leased + 3*time.Second)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q", got)
		}
		if err := dead.Complete(t.Context(), nil); err == nil {
			t.Error("the dead one could complete")
		}
	})
}

// Work whose handlers take their process with them uses its attempts up too.
func TestCrashLoopIsDeadLettered(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		for range 3 {
			if _, err := r.ledger().Acquire(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			r.sleep(leased)
		}
		r.run(byBody(r.config(func(context.Context, *worker.Message) error {
			t.Error("a fourth attempt")
			return nil
		})))
		r.sleep(time.Minute)
		if got := r.lines("dead"); len(got) != 1 || !strings.Contains(got[0], "test was lost") {
			t.Errorf("dead %q", got)
		}
		r.wantCount(r.dead, 1)
	})
}

// Work that waits for a person goes where people look.
func TestNeedsPerson(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		if _, err := r.ledger().Acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		r.sleep(leased)
		l, err := claims.New(claims.Config{Store: r.store, Lost: func(context.Context, claims.Entry) (claims.Decision, error) {
			return claims.Park("it is unknown whether the card was charged"), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		cfg := byBody(r.config(func(context.Context, *worker.Message) error {
			t.Error("it was handled")
			return nil
		}))
		cfg.Claims = l
		r.run(cfg)
		r.sleep(time.Minute)
		if got := r.lines("dead"); len(got) != 1 || !strings.Contains(got[0], "it is unknown whether") {
			t.Errorf("dead %q", got)
		}
	})
}

// outage is a store that cannot be reached while down.
func outage(store records.Store, down *atomic.Bool) records.Store {
	return &recordstest.Faulty{Store: store, Fault: func(recordstest.Call) (f recordstest.Fault) {
		if down.Load() {
			f.How = recordstest.Before
		}
		return f
	}}
}

// A ledger that is down holds the work and loses none of it.
func TestLedgerDown(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		var down atomic.Bool
		down.Store(true)
		r.store = outage(r.store, &down)
		r.send("a")
		r.run(r.config(func(context.Context, *worker.Message) error { return nil }))
		r.sleep(5 * time.Minute)
		if got := r.lines("started", "done", "dead", "failed"); len(got) != 0 {
			t.Errorf("without a ledger: %q", got)
		}
		down.Store(false)
		r.sleep(5 * time.Minute)
		if got := r.lines("done"); len(got) != 1 {
			t.Errorf("done %q", got)
		}
	})
}

// A completion that cannot be written is retried while the claim lasts. The work is not lost, and
// the next holder learns that the previous one was.
func TestLedgerDownAtTheEnd(t *testing.T) {
	for _, lasts := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			var down atomic.Bool
			r.store = outage(r.store, &down)
			r.send("a")
			r.run(r.config(func(ctx context.Context, m *worker.Message) error {
				if m.TakenOver() != nil {
					r.note("over %s", m.Body)
					return nil
				}
				down.Store(true)
				time.AfterFunc(lasts, func() { down.Store(false) })
				return nil
			}))
			r.sleep(time.Hour)
			want := []string{"done"}
			if lasts > leased {
				want = []string{"lost", "over", "done"}
			}
			var got []string
			for _, l := range r.lines("done", "lost", "over", "dead") {
				word, _, _ := strings.Cut(l, " ")
				got = append(got, word)
			}
			if !slices.Equal(got, want) {
				t.Errorf("an outage of %v: got %q, want %q", lasts, got, want)
			}
			r.wantCount(r.url, 0)
		})
	}
}

// Names of the work, in the order in which they are looked for.
func TestKey(t *testing.T) {
	body := "a"
	for _, c := range []struct {
		name, suffix string
		options      []string
		want         func(id string) string
	}{
		{"the producer's", "", []string{"tenaq=" + trail.Trail{Key: "k"}.String()}, func(string) string { return "k" }},
		{"with a generation", "", []string{"tenaq=" + trail.Trail{Key: "k", Generation: 2}.String()}, func(string) string { return "k#2" }},
		{"deduplication id", ".fifo", []string{"dedup=d"}, func(string) string { return "d" }},
		{"made from the body", ".fifo", []string{"dedup=ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}, func(id string) string { return id }},
		{"lineage", "", []string{"tenaq=" + trail.Trail{Lineage: "first"}.String()}, func(string) string { return "first" }},
		{"message id", "", nil, func(id string) string { return id }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, c.suffix, func(t *testing.T, r *rig) {
				id := r.send(body, c.options...)
				var got string
				r.run(r.config(func(_ context.Context, m *worker.Message) error {
					got = m.EffectKey()
					if _, has := m.Attributes["tenaq"]; has {
						t.Error("the handler sees the packed attribute")
					}
					return nil
				}))
				r.sleep(time.Second)
				if want := c.want(id); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		})
	}
}

// A message whose work is unknown goes to the dead-letter queue as it came.
func TestUnreadableTrail(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a", "tenaq=v=7&key=k")
		r.run(r.config(func(context.Context, *worker.Message) error {
			t.Error("it was handled")
			return nil
		}))
		r.sleep(time.Second)
		if got := r.lines("dead"); len(got) != 1 || !strings.Contains(got[0], `version "7"`) {
			t.Errorf("dead %q", got)
		}
		if got := *r.receive(r.dead).MessageAttributes["tenaq"].StringValue; got != "v=7&key=k" {
			t.Errorf("it carries %q", got)
		}
	})
}

// A message with ten attributes has no room for the attribute of its work. On a server other than
// tenaq, it is no longer handled, and the queue itself moves it, with its id.
func TestTenAttributes(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		id := r.send("a", "a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1", "h=1", "i=1", "j=1")
		cfg := r.config(func(context.Context, *worker.Message) error { return errSick })
		cfg.Client = plain(cfg.Client)
		r.run(cfg)
		r.sleep(3 * time.Hour)
		if n := len(r.lines("started")); n != 3 {
			t.Errorf("handled %d times, want 3", n)
		}
		r.wantCount(r.url, 0)
		if m := r.receive(r.dead); aws.ToString(m.MessageId) != id || len(m.MessageAttributes) != 10 {
			t.Errorf("dead letter %s with %d attributes, want %s with 10", aws.ToString(m.MessageId), len(m.MessageAttributes), id)
		}
	})
}

// A worker that dies while it sends a dead letter, on a server other than tenaq, leaves nothing
// undone and starts no further attempts.
func TestDiesWhileBurying(t *testing.T) {
	for _, fault := range []sqstest.Fault{sqstest.Dropped, sqstest.Unanswered} {
		inBubble(t, ".fifo", func(t *testing.T, r *rig) {
			r.send("a")
			r.client.SetFault(func(operation string) sqstest.Fault {
				if operation == "SendMessage" && time.Since(r.at) < time.Minute {
					return fault
				}
				return sqstest.None
			})
			cfg := r.config(func(context.Context, *worker.Message) error { return errSick })
			cfg.Client = plain(cfg.Client)
			r.run(cfg)
			r.sleep(time.Hour)
			if n := len(r.lines("started")); n != 3 {
				t.Errorf("handled %d times, want 3", n)
			}
			r.wantCount(r.url, 0)
			r.wantCount(r.dead, 1)
		})
	}
}

// Without a ledger, the queue counts attempts, and messages are handled all the same.
func TestWithoutLedger(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("bad")
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			if m.Body == "bad" {
				return errSick
			}
			return sleepOr(ctx, 5*time.Minute)
		})
		cfg.Claims, cfg.NoClaims = nil, true
		r.run(cfg)
		r.sleep(time.Hour)
		r.wantLines([]string{"failed bad sick", "failed bad sick", "failed bad sick", "dead bad sick", "done a 5m0s"}, "done", "failed", "dead", "lost")
		r.wantCount(r.url, 0)
	})
}

// Work that is dead-lettered, brought back and dead-lettered again within minutes is there again:
// the second dead letter is not taken for the first.
func TestDeadLetteredTwice(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.send("a", "dedup=file-1")
		r.run(r.config(func(context.Context, *worker.Message) error { return worker.Poison(errSick) }))
		r.sleep(10 * time.Second)
		if _, err := r.client.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{
			SourceArn: new(sqstest.ARN("dead.fifo")), DestinationArn: new(sqstest.ARN("work.fifo")),
		}); err != nil {
			t.Fatal(err)
		}
		r.sleep(time.Minute)
		if got := r.lines("dead"); len(got) != 2 {
			t.Errorf("dead %q, want twice", got)
		}
		r.wantCount(r.dead, 1)
		r.wantCount(r.url, 0)
	})
}

// Without a dead-letter queue, failed messages are retried less and less often.
func TestNoDeadLetterQueue(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.url = r.server.Queue(t, "alone")
		r.send("a")
		r.run(r.config(func(_ context.Context, m *worker.Message) error {
			switch {
			case m.Attempt() > 20:
				return nil
			case m.Attempt()%2 == 0:
				return worker.Poison(errSick)
			}
			return errSick
		}))
		r.sleep(12 * time.Hour)
		if got := r.lines("done", "dead", "error"); len(got) != 1 {
			t.Errorf("got %q, want done", got)
		}
	})
}

// A handler may complete its claim itself, in a transaction of its own. Then the work is done,
// whatever the handler says afterwards.
func TestHandlerCompletes(t *testing.T) {
	for _, says := range []error{nil, errSick, worker.Poison(errSick), worker.Later(time.Hour, "not yet")} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.send("a")
			r.run(r.config(func(ctx context.Context, m *worker.Message) error {
				if err := m.Claim().Complete(ctx, []byte("in the transaction")); err != nil {
					t.Error(err)
				}
				return says
			}))
			r.sleep(time.Minute)
			if got := r.lines("done", "dead", "lost", "deferred"); len(got) != 1 || !strings.HasPrefix(got[0], "done") {
				t.Errorf("it says %v: got %q, want done", says, got)
			}
			r.wantCount(r.url, 0)
			r.wantCount(r.dead, 0)
		})
	}
}

// A handler that cannot work uses up neither attempts nor receives, although a queue allows few of
// these. When it can work again, everything is done.
func TestUnavailable(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for i := range 50 {
			r.send(fmt.Sprint(i))
		}
		var away atomic.Bool
		away.Store(true)
		cfg := r.config(func(_ context.Context, m *worker.Message) error {
			if away.Load() {
				return fmt.Errorf("start the task: %w", worker.Unavailable(errSick))
			}
			if m.Attempt() != 1 || m.Receives != 1 {
				t.Errorf("%s: attempt %d, receive %d, want the first", m.Body, m.Attempt(), m.Receives)
			}
			return nil
		})
		cfg.Attempts, cfg.Stall = 1, 10*time.Second
		r.run(cfg)
		r.sleep(2 * time.Hour)
		r.wantLines(nil, "failed", "dead", "lost", "error", "deferred")
		if got := r.lines("started"); len(got) != 10 {
			t.Errorf("%d started, want as many as there are places", len(got))
		}
		r.wantCount(r.dead, 0)
		away.Store(false)
		r.sleep(2 * time.Minute)
		if got := r.lines("done"); len(got) != 50 {
			t.Errorf("%d done, want all", len(got))
		}
		r.wantCount(r.url, 0)
		r.wantCount(r.dead, 0)
	})
}

// A worker that stops does not wait for a handler that can do no work: the messages are given back,
// and no attempt is counted.
func TestUnavailableDrains(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		stop := r.start(r.config(func(context.Context, *worker.Message) error { return worker.Unavailable(errSick) }))
		r.sleep(time.Minute)
		began := time.Now()
		r.mustStop(stop)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it stopped after %v", took)
		}
		if got := r.lines("deferred", "failed"); len(got) != 1 || !strings.HasPrefix(got[0], "deferred a ") {
			t.Errorf("deferred or failed %q", got)
		}
		e, err := r.ledger().List(t.Context(), "", "", 0)
		if err != nil || len(e) != 1 || e[0].State != claims.Released || e[0].Attempts != 0 {
			t.Errorf("the ledger has %+v, error %v", e, err)
		}
	})
}

// If only some messages of a batch can be handled, the rest are given back.
func TestUnavailableInBatch(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("b")
		first := true
		cfg := r.config(nil)
		cfg.Handler = batchFunc(func(_ context.Context, batch []*worker.Message) error {
			failures := make(worker.Failures)
			for _, m := range batch {
				if m.Body == "a" && first {
					first = false
					failures[m.ID] = worker.Unavailable(errSick)
				}
			}
			return failures
		})
		r.run(cfg)
		r.sleep(2 * time.Minute)
		got := r.lines("done")
		slices.Sort(got)
		if want := []string{"done a 0s", "done b 0s"}; !slices.Equal(got, want) || len(r.lines("deferred")) != 1 || len(r.lines("failed")) != 0 {
			t.Errorf("got %q, want %q; log %q", got, want, r.log)
		}
	})
}
