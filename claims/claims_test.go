package claims_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/records/recordstest"
)

// The state of a key decides the answer of the next Acquire and its count of attempts.
func TestAcquireAfter(t *testing.T) {
	ctx := context.Background()
	sleep := func(d time.Duration) func(*testing.T, *claims.Ledger) {
		return func(*testing.T, *claims.Ledger) { time.Sleep(d) }
	}
	end := func(end func(*claims.Claim) error) func(*testing.T, *claims.Ledger) {
		return func(t *testing.T, l *claims.Ledger) { must(t, end(acquire(t, l, "k"))) }
	}
	hold := func(t *testing.T, l *claims.Ledger) { acquire(t, l, "k") }
	fail := end(func(c *claims.Claim) error { return c.Fail(ctx, "no luck") })
	release := end(func(c *claims.Claim) error { return c.Release(ctx) })
	complete := end(func(c *claims.Claim) error { return c.Complete(ctx, []byte("ok")) })

	for name, c := range map[string]struct {
		steps    []func(*testing.T, *claims.Ledger)
		want     string
		attempts int
		doubt    bool // whether TakenOver says that a holder was lost
	}{
		"nothing":             {nil, "claim", 1, false},
		"held":                {[]func(*testing.T, *claims.Ledger){hold}, "busy", 1, false},
		"held, not over":      {[]func(*testing.T, *claims.Ledger){hold, sleep(lease - 1)}, "busy", 1, false},
		"held, over":          {[]func(*testing.T, *claims.Ledger){hold, sleep(lease)}, "claim", 2, true},
		"completed":           {[]func(*testing.T, *claims.Ledger){complete}, "done", 1, false},
		"completed long ago":  {[]func(*testing.T, *claims.Ledger){complete, sleep(14 * 24 * time.Hour)}, "done", 1, false},
		"completed, expired":  {[]func(*testing.T, *claims.Ledger){complete, sleep(15 * 24 * time.Hour)}, "claim", 1, false},
		"failed":              {[]func(*testing.T, *claims.Ledger){fail}, "claim", 2, false},
		"failed twice":        {[]func(*testing.T, *claims.Ledger){fail, fail}, "claim", 3, false},
		"released":            {[]func(*testing.T, *claims.Ledger){release}, "claim", 1, false},
		"failed, released":    {[]func(*testing.T, *claims.Ledger){fail, release}, "claim", 2, false},
		"lost, released":      {[]func(*testing.T, *claims.Ledger){hold, sleep(lease), release}, "claim", 2, true},
		"lost, failed":        {[]func(*testing.T, *claims.Ledger){hold, sleep(lease), fail}, "claim", 3, false},
		"lost, released, not": {[]func(*testing.T, *claims.Ledger){hold, sleep(lease), release, release, fail}, "claim", 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := newLedger(t, recordstest.NewMemory(), claims.Config{})
				for _, step := range c.steps {
					step(t, l)
				}
				claim, err := l.Acquire(t.Context(), "k")
				got, attempts := "error", 0
				refused, ok := errors.AsType[*claims.Refused](err)
				switch {
				case err == nil:
					got, attempts = "claim", claim.Attempts()
					if doubt := claim.TakenOver() != nil; doubt != c.doubt {
						t.Errorf("TakenOver() = %+v, want doubt: %t", claim.TakenOver(), c.doubt)
					}
				case ok:
					got, attempts = string(refused.Why), refused.Attempts
				}
				if got != c.want || attempts != c.attempts {
					t.Errorf("got %s (%v) with %d attempts, want %s with %d", got, err, attempts, c.want, c.attempts)
				}
			})
		})
	}
}

func TestClaimSaysWhatItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{Owner: "worker-1"})
		c := acquire(t, l, "k")
		if got, want := time.Until(c.Deadline()), safe; got != want {
			t.Errorf("deadline in %v, want %v", got, want)
		}
		e := c.Entry()
		if c.Key() != "k" || e.Key != "k" || e.State != claims.Held || e.Owner != "worker-1" || e.Lease != lease ||
			e.Fence != c.Fence() || e.Fence != uint64(e.Version) || c.Attempts() != 1 || e.Age != 0 {
			t.Errorf("claim %q, entry %+v", c.Key(), e)
		}
		time.Sleep(time.Second)
		must(t, c.Renew(t.Context()))
		if got := time.Until(c.Deadline()); got != safe {
			t.Errorf("renewed until in %v, want %v", got, safe)
		}
		if now := c.Entry(); now.Fence != e.Fence || now.Version <= e.Version {
			t.Errorf("after a renewal fence %d and version %d, were %d and %d", now.Fence, now.Version, e.Fence, e.Version)
		}
		time.Sleep(time.Second)
		read, err := l.Entry(t.Context(), "k")
		must(t, err)
		if left, known := read.Remaining(); left != lease-time.Second || !known || read.Age != time.Second {
			t.Errorf("remaining %v (known: %t), age %v", left, known, read.Age)
		}
	})
}

func TestBusySaysWhenToComeBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		first := newLedger(t, store, claims.Config{Owner: "worker-1", Lease: 45 * time.Second})
		second := newLedger(t, store, claims.Config{Owner: "worker-2"}) // its own lease says nothing about others
		acquire(t, first, "k")
		time.Sleep(10 * time.Second)
		busy := refused(t, second, "k", claims.Busy)
		if busy.RetryIn != 35*time.Second || busy.Owner != "worker-1" {
			t.Errorf("retry in %v, held by %s", busy.RetryIn, busy.Owner)
		}
		if got, want := busy.Error(), `"k" is claimed by worker-1: try again in 35s`; got != want {
			t.Errorf("error %q, want %q", got, want)
		}
		time.Sleep(busy.RetryIn)
		acquire(t, second, "k")
	})
}

func TestDoneHasTheResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{Owner: "worker-1"})
		result := bytes.Repeat([]byte{0, 255}, claims.ResultMax/2)
		must(t, acquire(t, l, "k").Complete(t.Context(), result))
		for range 2 {
			done := refused(t, l, "k", claims.Done)
			if !bytes.Equal(done.Result, result) || done.Owner != "worker-1" {
				t.Errorf("result of %d bytes by %s, want %d", len(done.Result), done.Owner, len(result))
			}
		}
	})
}

func TestResultTooLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		c := acquire(t, l, "k")
		if err := c.Complete(t.Context(), make([]byte, claims.ResultMax+1)); err == nil || errors.Is(err, claims.ErrLost) {
			t.Errorf("complete: error %v", err)
		}
		must(t, c.Complete(t.Context(), []byte("s3://results/17")))
		if err := l.Settle(t.Context(), "k", make([]byte, claims.ResultMax+1), ""); err == nil {
			t.Error("settled with a result that is too long")
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("tried again for %v what can never work", waited)
		}
	})
}

// A fence is larger than every earlier one of the key, whatever became of that.
func TestFencesRise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{Retention: time.Hour})
		var last uint64
		var c *claims.Claim
		next := func(after string) {
			t.Helper()
			c = acquire(t, l, "k")
			if c.Fence() <= last {
				t.Errorf("after %s: fence %d, the one before was %d", after, c.Fence(), last)
			}
			last = c.Fence()
		}
		next("nothing")
		must(t, c.Release(ctx))
		next("a release")
		must(t, c.Fail(ctx, ""))
		next("a failure")
		time.Sleep(lease)
		next("a take-over")
		must(t, c.Renew(ctx))
		must(t, c.Complete(ctx, nil))
		must(t, l.Reopen(ctx, "k", ""))
		if e := wantState(t, l, "k", claims.Released); e.Fence <= last {
			t.Errorf("reopened under fence %d, the holder's was %d", e.Fence, last)
		}
		next("a reopening")
		time.Sleep(time.Hour)
		next("expiry")
		must(t, store.Delete(ctx, "claim/k", c.Entry().Version))
		next("a deletion")
	})
}

// Every write of a holder is refused after a take-over, and when a person decided otherwise.
func TestLostHolderIsRefused(t *testing.T) {
	writes := map[string]func(context.Context, *claims.Claim) error{
		"renew":    func(ctx context.Context, c *claims.Claim) error { return c.Renew(ctx) },
		"complete": func(ctx context.Context, c *claims.Claim) error { return c.Complete(ctx, []byte("mine")) },
		"fail":     func(ctx context.Context, c *claims.Claim) error { return c.Fail(ctx, "mine") },
		"release":  func(ctx context.Context, c *claims.Claim) error { return c.Release(ctx) },
	}
	ctx := context.Background()
	thefts := map[string]func(*testing.T, *claims.Ledger){
		"held": func(t *testing.T, l *claims.Ledger) { time.Sleep(lease); acquire(t, l, "k") },
		"completed": func(t *testing.T, l *claims.Ledger) {
			time.Sleep(lease)
			must(t, acquire(t, l, "k").Complete(ctx, nil))
		},
		"failed":   func(t *testing.T, l *claims.Ledger) { time.Sleep(lease); must(t, acquire(t, l, "k").Fail(ctx, "")) },
		"released": func(t *testing.T, l *claims.Ledger) { time.Sleep(lease); must(t, acquire(t, l, "k").Release(ctx)) },
		"reopened": func(t *testing.T, l *claims.Ledger) { must(t, l.Reopen(ctx, "k", "")) },
		"settled":  func(t *testing.T, l *claims.Ledger) { must(t, l.Settle(ctx, "k", []byte("mine"), "")) },
		"deleted": func(t *testing.T, l *claims.Ledger) {
			time.Sleep(15 * 24 * time.Hour) // the record has expired
		},
	}
	for theft, steal := range thefts {
		for name, write := range writes {
			t.Run(theft+"/"+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					l := newLedger(t, recordstest.NewMemory(), claims.Config{})
					c := acquire(t, l, "k")
					steal(t, l)
					before, _ := l.Entry(ctx, "k")
					wantLost(t, name, write(ctx, c))
					wantLost(t, name+" again", write(ctx, c))
					if after, _ := l.Entry(ctx, "k"); after.Version != before.Version {
						t.Errorf("the entry changed from %+v to %+v", before, after)
					}
				})
			})
		}
	}
}

// Exactly one of the ends counts. The same call again finds that it has been done.
func TestEndedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		c := acquire(t, l, "k")
		must(t, c.Complete(ctx, []byte("one")))
		must(t, c.Complete(ctx, []byte("one")))
		for what, err := range map[string]error{
			"another result": c.Complete(ctx, []byte("two")),
			"fail":           c.Fail(ctx, ""),
			"release":        c.Release(ctx),
			"renew":          c.Renew(ctx),
		} {
			if err == nil || errors.Is(err, claims.ErrLost) {
				t.Errorf("%s after complete: error %v, want one that does not say lost", what, err)
			}
		}
		if got := refused(t, l, "k", claims.Done).Result; string(got) != "one" {
			t.Errorf("result %q, want one", got)
		}
	})
}

// After Deadline it is too late to renew, but the end is still for the holder to record until
// another holder takes over.
func TestAfterDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		c := acquire(t, l, "k")
		time.Sleep(safe)
		must(t, c.Renew(t.Context()))
		time.Sleep(safe + 1)
		wantLost(t, "renew after the deadline", c.Renew(t.Context()))
		time.Sleep(lease)
		must(t, c.Complete(t.Context(), nil))
		wantState(t, l, "k", claims.Completed)
	})
}

// If many try at once, exactly one gets the key: when the key is new, and when a lease has expired.
func TestOneWinner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		for round := range 3 {
			var mu sync.Mutex
			won, busy := 0, 0
			var running sync.WaitGroup
			for range 20 {
				running.Go(func() {
					_, err := newLedger(t, store, claims.Config{}).Acquire(t.Context(), "k")
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won++
					case errors.Is(err, claims.Busy):
						busy++
					}
				})
			}
			running.Wait()
			if won != 1 || busy != 19 {
				t.Errorf("round %d: %d won and %d found it busy, want 1 and 19", round, won, busy)
			}
			time.Sleep(lease)
		}
	})
}

// A message that has used its attempts is recognized; another message starts from the first
// attempt.
func TestExhausted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		take := func(message string) (*claims.Claim, error) {
			return l.AcquireWith(t.Context(), "k", claims.Note{Message: message})
		}
		c, err := take("m1")
		must(t, err)
		must(t, c.Fail(t.Context(), "first"))
		c, err = take("m1")
		must(t, err)
		if got := c.Attempts(); got != 2 {
			t.Errorf("attempts after a failure: got %d, want 2", got)
		}
		must(t, c.Exhaust(t.Context(), "no key decrypts it"))
		for range 2 {
			_, err := take("m1")
			used, ok := errors.AsType[*claims.Refused](err)
			if !ok || used.Why != claims.UsedUp || used.Attempts != 2 || used.Reason != "no key decrypts it" || used.Message != "m1" {
				t.Errorf("the same message: got %v, want that its attempts are used up", err)
			}
		}
		c, err = take("m2")
		must(t, err)
		if c.Attempts() != 1 || c.TakenOver() != nil {
			t.Errorf("brought back: attempt %d, taken over %v; want 1, nil", c.Attempts(), c.TakenOver())
		}
		must(t, c.Exhaust(t.Context(), "still"))
		// A caller that names no message may always try.
		if c := acquire(t, l, "k"); c.Attempts() != 1 {
			t.Errorf("without a message: attempt %d, want 1", c.Attempts())
		}
	})
}

// The first memo of a key stays, whichever holder claims it later.
func TestMemoStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		c, err := l.AcquireWith(t.Context(), "k", claims.Note{Memo: []byte("first")})
		must(t, err)
		must(t, c.Renew(t.Context()))
		must(t, c.Fail(t.Context(), "no"))
		c, err = l.AcquireWith(t.Context(), "k", claims.Note{Memo: []byte("second")})
		must(t, err)
		must(t, c.Complete(t.Context(), []byte("done")))
		if e := refused(t, l, "k", claims.Done); string(e.Memo) != "first" || string(e.Result) != "done" {
			t.Errorf("memo %q, result %q", e.Memo, e.Result)
		}
		if _, err := l.AcquireWith(t.Context(), "other", claims.Note{Memo: make([]byte, claims.MemoMax+1)}); err == nil {
			t.Error("a memo that is too long was taken")
		}
		// The longest of everything fits into a record.
		c, err = l.AcquireWith(t.Context(), "long", claims.Note{Message: strings.Repeat("m", claims.MessageMax), Memo: make([]byte, claims.MemoMax)})
		must(t, err)
		must(t, c.Complete(t.Context(), make([]byte, claims.ResultMax)))
	})
}
