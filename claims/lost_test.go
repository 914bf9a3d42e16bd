package claims_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// decide is a policy that always says the same, and notes what it was asked.
func decide(d claims.Decision, asked *[]claims.Entry) func(context.Context, claims.Entry) (claims.Decision, error) {
	return func(_ context.Context, e claims.Entry) (claims.Decision, error) {
		*asked = append(*asked, e)
		return d, nil
	}
}

// loseHolder leaves a key whose holder died.
func loseHolder(t *testing.T, store records.Store) *claims.Claim {
	t.Helper()
	c := acquire(t, newLedger(t, store, claims.Config{Owner: "the dead"}), "k")
	time.Sleep(lease)
	return c
}

func TestLostRetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		dead := loseHolder(t, store)
		var asked []claims.Entry
		l := newLedger(t, store, claims.Config{Lost: decide(claims.Retry(), &asked)})
		c := acquire(t, l, "k")
		if len(asked) != 1 || asked[0].Owner != "the dead" || asked[0].Fence != dead.Fence() || asked[0].State != claims.Held {
			t.Errorf("asked %+v, want once, about the dead", asked)
		}
		if before := c.TakenOver(); before == nil || before.Fence != dead.Fence() || c.Attempts() != 2 {
			t.Errorf("taken over from %+v, attempt %d", before, c.Attempts())
		}
		must(t, c.Complete(t.Context(), nil))
		if len(asked) != 1 {
			t.Errorf("asked %d times", len(asked))
		}
	})
}

func TestLostSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		dead := loseHolder(t, store)
		var asked []claims.Entry
		l := newLedger(t, store, claims.Config{Lost: decide(claims.Settled([]byte("charge 42")), &asked)})
		for range 2 {
			done := refused(t, l, "k", claims.Done)
			if string(done.Result) != "charge 42" || done.Attempts != 1 || done.Fence <= dead.Fence() {
				t.Errorf("done: %+v", done.Entry)
			}
		}
		if len(asked) != 1 {
			t.Errorf("asked %d times, want once", len(asked))
		}
		wantLost(t, "the dead completes", dead.Complete(t.Context(), nil))
	})
}

func TestLostPark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := recordstest.NewMemory()
		dead := loseHolder(t, store)
		var asked []claims.Entry
		l := newLedger(t, store, claims.Config{Lost: decide(claims.Park("the bank does not say"), &asked)})
		for range 2 {
			p := refused(t, l, "k", claims.NeedsPerson)
			if p.State != claims.Parked || p.Reason != "the bank does not say" || p.Attempts != 1 {
				t.Errorf("parked: %+v", p.Entry)
			}
		}
		want := `"k" is parked (the bank does not say): find out how far it came, then reopen it or settle it as done`
		if got := refused(t, l, "k", claims.NeedsPerson).Error(); got != want {
			t.Errorf("error %q, want %q", got, want)
		}
		wantLost(t, "the dead completes", dead.Complete(ctx, nil))
		must(t, l.Reopen(ctx, "k", "nothing was charged"))
		if c := acquire(t, l, "k"); c.TakenOver() != nil || c.Attempts() != 1 || len(asked) != 1 {
			t.Errorf("after a person's word: taken over from %v, attempt %d, asked %d times", c.TakenOver(), c.Attempts(), len(asked))
		}
	})
}

// The question how far a lost holder came stays open until it is answered: over errors of the
// policy, over claims that are given back, over crashes of the holder that was to find out.
func TestLostStaysOpen(t *testing.T) {
	for name, leaveOpen := range map[string]func(*testing.T, records.Store){
		"the policy fails": func(t *testing.T, store records.Store) {
			cause := errors.New("the bank does not answer")
			l := newLedger(t, store, claims.Config{Lost: func(context.Context, claims.Entry) (claims.Decision, error) {
				return claims.Decision{}, cause
			}})
			if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, cause) {
				t.Errorf("error %v, want that of the policy", err)
			}
			wantState(t, l, "k", claims.Released) // at once for the next one
		},
		"the context ends in the policy": func(t *testing.T, store records.Store) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			l := newLedger(t, store, claims.Config{Lost: func(ctx context.Context, _ claims.Entry) (claims.Decision, error) {
				<-ctx.Done()
				return claims.Retry(), ctx.Err()
			}})
			if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			wantState(t, l, "k", claims.Released)
		},
		"released": func(t *testing.T, store records.Store) {
			must(t, acquire(t, newLedger(t, store, claims.Config{}), "k").Release(t.Context()))
		},
		"released twice": func(t *testing.T, store records.Store) {
			for range 2 {
				must(t, acquire(t, newLedger(t, store, claims.Config{}), "k").Release(t.Context()))
			}
		},
		"crashed": func(t *testing.T, store records.Store) {
			acquire(t, newLedger(t, store, claims.Config{}), "k")
			time.Sleep(lease)
		},
		"the policy panics": func(t *testing.T, store records.Store) {
			l := newLedger(t, store, claims.Config{Lost: func(context.Context, claims.Entry) (claims.Decision, error) {
				panic("a mistake in the policy")
			}})
			func() {
				defer func() { _ = recover() }()
				_, _ = l.Acquire(t.Context(), "k")
			}()
			time.Sleep(lease) // nothing renews it
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := recordstest.NewMemory()
				loseHolder(t, store)
				leaveOpen(t, store)
				var asked []claims.Entry
				c := acquire(t, newLedger(t, store, claims.Config{Lost: decide(claims.Retry(), &asked)}), "k")
				if len(asked) != 1 || c.TakenOver() == nil {
					t.Errorf("asked %d times, taken over from %v, want the question to be open", len(asked), c.TakenOver())
				}
				must(t, c.Fail(t.Context(), "answered")) // by one who knew
				if c := acquire(t, newLedger(t, store, claims.Config{Lost: decide(claims.Retry(), &asked)}), "k"); len(asked) != 1 || c.TakenOver() != nil {
					t.Errorf("asked %d times, want the question to be closed", len(asked))
				}
			})
		})
	}
}

// A person's word about a key answers the question, whichever holder has it at the time.
func TestLostIsAnsweredByReopen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		loseHolder(t, store)
		var asked []claims.Entry
		acquire(t, newLedger(t, store, claims.Config{}), "k")
		l := newLedger(t, store, claims.Config{Lost: decide(claims.Park(""), &asked)})
		must(t, l.Reopen(t.Context(), "k", "both of them are dead, and did nothing"))
		if c := acquire(t, l, "k"); c.TakenOver() != nil || len(asked) != 0 {
			t.Errorf("taken over from %v, asked about %v", c.TakenOver(), asked)
		}
	})
}

// A lost entry that goes while it is taken over leaves no question about it.
func TestLostEntryVanishes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := recordstest.NewMemory()
		dead := loseHolder(t, memory)
		store := &recordstest.Faulty{Store: memory, Fault: func(c recordstest.Call) (f recordstest.Fault) {
			if c.N == 2 { // the first was told what is there
				must(t, memory.Delete(t.Context(), c.Key, dead.Entry().Version))
			}
			return f
		}}
		l := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		if c.TakenOver() != nil || c.Attempts() != 1 || c.Fence() <= dead.Fence() {
			t.Errorf("taken over from %v, attempt %d, fence %d after %d", c.TakenOver(), c.Attempts(), c.Fence(), dead.Fence())
		}
		must(t, c.Release(t.Context()))
		if c := acquire(t, l, "k"); c.TakenOver() != nil {
			t.Errorf("later: taken over from %v", c.TakenOver())
		}
	})
}

// The claim is held while the policy finds out, however long that takes. If it is lost in the
// meantime, the context of the policy ends, and no caller gets the claim.
func TestLostIsHeldMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		loseHolder(t, store)
		other := newLedger(t, store, claims.Config{})
		slow := newLedger(t, store, claims.Config{Lost: func(ctx context.Context, _ claims.Entry) (claims.Decision, error) {
			for range 10 {
				time.Sleep(lease)
				refused(t, other, "k", claims.Busy)
			}
			return claims.Retry(), ctx.Err()
		}})
		c := acquire(t, slow, "k")
		if left := time.Until(c.Deadline()); left < safe-lease/3 {
			t.Errorf("handed out with %v left", left)
		}
		time.Sleep(lease)

		down := newLedger(t, &recordstest.Faulty{Store: store, Fault: func(c recordstest.Call) (f recordstest.Fault) {
			if c.N > 2 { // of Acquire
				f.How = recordstest.Before
			}
			return f
		}}, claims.Config{Lost: func(ctx context.Context, _ claims.Entry) (claims.Decision, error) {
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != claims.ErrLost {
				t.Errorf("the policy's context ended by %v, want ErrLost", cause)
			}
			return claims.Retry(), nil // as if it had not noticed
		}})
		if c, err := down.Acquire(t.Context(), "k"); !errors.Is(err, claims.ErrLost) {
			t.Errorf("claim %v, error %v, want ErrLost", c, err)
		}
	})
}

// A failure that was recorded leaves no question.
func TestLostIsNotAskedAboutFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked []claims.Entry
		l := newLedger(t, recordstest.NewMemory(), claims.Config{Lost: decide(claims.Park(""), &asked)})
		must(t, acquire(t, l, "k").Fail(t.Context(), "no luck"))
		must(t, acquire(t, l, "k").Release(t.Context()))
		acquire(t, l, "k")
		if len(asked) != 0 {
			t.Errorf("asked about %+v", asked)
		}
	})
}

// Without a clock in the store one look does not tell the age of a claim: a ledger takes
// over when it has seen the same entry for a whole lease, by its own clock.
func TestNoClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := &recordstest.Faulty{Store: recordstest.NewMemory(), NoClock: true}
		holder := newLedger(t, store, claims.Config{})
		a, b := newLedger(t, store, claims.Config{}), newLedger(t, store, claims.Config{})
		c := acquire(t, holder, "k")
		if e := wantState(t, a, "k", claims.Held); e.Age != records.AgeUnknown {
			t.Errorf("age %v", e.Age)
		} else if left, known := e.Remaining(); left != lease || known {
			t.Errorf("remaining %v, known: %t", left, known)
		}
		time.Sleep(10 * lease)
		if got := refused(t, a, "k", claims.Busy).RetryIn; got != lease {
			t.Errorf("first look: retry in %v, want %v", got, lease)
		}
		time.Sleep(10 * time.Second)
		if got := refused(t, a, "k", claims.Busy).RetryIn; got != lease-10*time.Second {
			t.Errorf("second look: retry in %v, want %v", got, lease-10*time.Second)
		}
		if got := refused(t, b, "k", claims.Busy).RetryIn; got != lease {
			t.Errorf("another ledger: retry in %v, want %v", got, lease)
		}
		time.Sleep(lease - 10*time.Second - 1)
		refused(t, a, "k", claims.Busy)
		time.Sleep(time.Nanosecond)
		d := acquire(t, a, "k")
		wantLost(t, "complete", c.Complete(ctx, nil))

		// A renewal restarts the watch.
		for range 20 {
			time.Sleep(lease / 3)
			must(t, d.Renew(ctx))
			refused(t, b, "k", claims.Busy)
		}
		time.Sleep(lease)
		acquire(t, b, "k")
	})
}

// A take-over that the store prevents does not cost the watch.
func TestNoClockKeepsItsWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := &recordstest.Faulty{Store: recordstest.NewMemory(), NoClock: true}
		acquire(t, newLedger(t, memory, claims.Config{}), "k")
		fail := recordstest.Fault{How: recordstest.Before}
		l := newLedger(t, faulty(memory, map[int]recordstest.Fault{3: fail, 4: fail, 5: fail}), claims.Config{})
		refused(t, l, "k", claims.Busy)
		time.Sleep(lease)
		if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, recordstest.ErrInjected) {
			t.Fatalf("error %v, want the injected one", err)
		}
		acquire(t, l, "k")
	})
}

// Any number of keys is taken over in the end, whether the ledger can watch all of them at once or
// not.
func TestNoClockManyKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("tens of thousands of claims")
	}
	bubble(t, func(t *testing.T) {
		const keys = 12_000
		store := &recordstest.Faulty{Store: recordstest.NewMemory(), NoClock: true}
		dead, l := newLedger(t, store, claims.Config{}), newLedger(t, store, claims.Config{})
		open := make(map[string]bool)
		for i := range keys {
			key := fmt.Sprint(i)
			acquire(t, dead, key)
			open[key] = true
		}
		rounds := 0
		for ; len(open) > 0 && rounds < 20; rounds++ {
			for key := range open {
				if _, err := l.Acquire(t.Context(), key); err == nil {
					delete(open, key)
				}
			}
			time.Sleep(lease)
		}
		if len(open) > 0 {
			t.Errorf("%d of %d keys are not taken over after %d leases", len(open), keys, rounds)
		}
		t.Logf("took %d rounds", rounds)
	})
}
