package worker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/worker"
)

// A message whose work the ledger can never record becomes a dead letter at once, with a reason.
// The ledger is not to blame, so nothing else waits for it.
func TestUnrecordable(t *testing.T) {
	for _, test := range []struct {
		name, key string
		memo      int
		reason    string
	}{
		{"zero byte in the key", "a\x00", 0, "it is unknown what work the message belongs to: "},
		{"key that is not UTF-8", "a\xff", 0, "it is unknown what work the message belongs to: "},
		{"long key", strings.Repeat("k", 513), 0, "it is unknown what work the message belongs to: its key has 513 bytes"},
		{"large memo", "a", claims.MemoMax + 1, "its memo has 32769 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, "", func(t *testing.T, r *rig) {
				cfg := r.config(func(context.Context, *worker.Message) error { return nil })
				cfg.Key = func(m *worker.Message) (string, error) {
					if m.Body == "bad" {
						return test.key, nil
					}
					return m.Body, nil
				}
				cfg.Memo = func(m *worker.Message) []byte {
					if m.Body == "bad" {
						return make([]byte, test.memo)
					}
					return nil
				}
				r.run(cfg)
				r.send("bad")
				r.sleep(time.Second)
				r.send("good")
				r.sleep(time.Second)
				if got := r.lines("dead"); len(got) != 1 || !strings.HasPrefix(got[0], "dead bad "+test.reason) {
					t.Errorf("dead letters are %q, want one because %q", got, test.reason)
				}
				r.wantLines([]string{"done good 0s"}, "done", "deferred")
				r.wantCount(r.url, 0)
				r.wantCount(r.dead, 1)
			})
		})
	}
}

// A result that is too large is refused when it is set. The handler may do something about it; if
// it does not, its work is done all the same, and never done again.
func TestLargeResult(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.run(r.config(func(_ context.Context, m *worker.Message) error {
			if err := m.SetResult(make([]byte, claims.ResultMax+1)); err == nil {
				t.Error("a result that is too large was taken")
			}
			return nil
		}))
		r.send("a")
		r.sleep(time.Second)
		r.wantLines([]string{"started a", "done a 0s"}, "started", "done", "failed")
		r.wantCount(r.url, 0)
	})
}

// When the claim of one message of a batch is lost, the others are not: no attempt of theirs is
// used up, and they do not wait for the end of their leases.
func TestBatchMatesAreNotLost(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		attempts := make(map[string][]int)
		cfg := r.config(nil)
		cfg.BatchSize = 3
		cfg.Key = func(m *worker.Message) (string, error) { return m.Body, nil }
		cfg.Handler = batchFunc(func(ctx context.Context, batch []*worker.Message) error {
			r.mu.Lock()
			first := len(attempts) == 0
			for _, m := range batch {
				attempts[m.Body] = append(attempts[m.Body], m.Attempt())
			}
			r.mu.Unlock()
			if !first {
				return nil
			}
			return sleepOr(ctx, time.Hour)
		})
		for _, body := range []string{"a", "b", "c"} {
			r.send(body)
		}
		r.run(cfg)
		r.sleep(5 * time.Second)
		if err := r.ledger().Reopen(t.Context(), "b", "taken away"); err != nil {
			t.Fatal(err)
		}
		r.sleep(30 * time.Second)
		for _, body := range []string{"a", "c"} {
			r.mu.Lock()
			got := slices.Clone(attempts[body])
			r.mu.Unlock()
			if !slices.Equal(got, []int{1, 1}) {
				t.Errorf("%s had the attempts %v, want the first one twice within half a minute", body, got)
			}
		}
		r.sleep(10 * time.Minute)
		r.wantLines([]string{"lost b " + worker.ErrLost.Error()}, "lost")
		r.wantCount(r.url, 0)
	})
}

// A dead letter says how many handlers began, and the last reason that is known.
func TestLastAttemptCutShort(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		cfg := r.config(func(ctx context.Context, m *worker.Message) error {
			if m.Attempt() == 1 {
				return errSick
			}
			return sleepOr(ctx, time.Hour)
		})
		cfg.Attempts = 2
		stop := r.start(cfg)
		id := r.send("a")
		for len(r.lines("started")) < 2 {
			r.sleep(time.Second)
		}
		r.client.SetFault(func(operation string) sqstest.Fault {
			if operation == "ChangeMessageVisibilityBatch" {
				return sqstest.Dropped
			}
			return sqstest.None
		})
		r.sleep(10 * time.Minute)
		r.wantLines([]string{"dead a 2 attempts, of which the last was cut short: " + worker.ErrLost.Error()}, "dead")
		r.mustStop(stop)
		entry, err := r.ledger().Entry(t.Context(), id)
		if err != nil || entry.State != claims.Exhausted || entry.Attempts != 2 {
			t.Errorf("the ledger says %+v, error %v; want exhausted after 2 attempts", entry, err)
		}
	})
}
