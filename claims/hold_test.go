package claims_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// renewals calls note with the time since the call before of every write of a key, the first one
// included.
func renewals(store records.Store, note func(time.Duration)) *recordstest.Faulty {
	last := time.Now()
	return &recordstest.Faulty{Store: store, Fault: func(recordstest.Call) recordstest.Fault {
		note(time.Since(last))
		last = time.Now()
		return recordstest.Fault{}
	}}
}

// A held claim is renewed at a third of its lease at the latest, not always after the same time,
// and stays the holder's for as long as that takes.
func TestHoldRenews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var pauses []time.Duration
		store := recordstest.NewMemory()
		l := newLedger(t, renewals(store, func(d time.Duration) { pauses = append(pauses, d) }), claims.Config{})
		other := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		held, stop := c.Hold(t.Context())
		for range 600 {
			time.Sleep(time.Second)
			refused(t, other, "k", claims.Busy)
			if left := time.Until(c.Deadline()); left < safe-lease/3 {
				t.Fatalf("the claim is good for %v only", left)
			}
		}
		if err := held.Err(); err != nil {
			t.Errorf("the context ended: %v, %v", err, context.Cause(held))
		}
		stop()
		different := make(map[time.Duration]bool)
		for _, p := range pauses[1:] {
			different[p] = true
			if p < lease/6 || p > lease/3 {
				t.Errorf("renewed after %v, want between a sixth and a third of %v", p, lease)
			}
		}
		if len(different) < len(pauses)/2 {
			t.Errorf("%d different pauses in %d renewals, want jitter", len(different), len(pauses))
		}
		must(t, c.Complete(t.Context(), nil))
	})
}

// The context ends with the first of several causes, and says which; after that, nothing renews.
func TestHoldEnds(t *testing.T) {
	type env struct {
		*testing.T
		l      *claims.Ledger
		c      *claims.Claim
		cancel context.CancelFunc
		stop   func()
	}
	for name, c := range map[string]struct {
		end   func(env)
		cause error // nil when the context goes on
	}{
		"stop":           {func(e env) { e.stop(); e.stop() }, context.Canceled},
		"its context":    {func(e env) { e.cancel() }, context.Canceled},
		"complete":       {func(e env) { must(e, e.c.Complete(context.Background(), nil)) }, nil},
		"fail":           {func(e env) { must(e, e.c.Fail(context.Background(), "")) }, nil},
		"release":        {func(e env) { must(e, e.c.Release(context.Background())) }, nil},
		"reopened":       {func(e env) { must(e, e.l.Reopen(context.Background(), "k", "")) }, claims.ErrLost},
		"settled":        {func(e env) { must(e, e.l.Settle(context.Background(), "k", nil, "")) }, claims.ErrLost},
		"lost by a call": {func(e env) { must(e, e.l.Reopen(context.Background(), "k", "")); _ = e.c.Renew(context.Background()) }, claims.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &recordstest.Faulty{Store: recordstest.NewMemory()}
				l := newLedger(t, store, claims.Config{})
				claim := acquire(t, l, "k")
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				held, stop := claim.Hold(ctx)
				time.Sleep(time.Minute)
				c.end(env{t, l, claim, cancel, stop})
				wait := lease / 3 // until the next renewal finds out
				if name == "lost by a call" {
					wait = 0
				}
				time.Sleep(wait)
				synctest.Wait()
				if got := context.Cause(held); got != c.cause {
					t.Errorf("cause %v, want %v", got, c.cause)
				}
				calls := store.Calls()
				time.Sleep(2 * lease)
				if got := store.Calls(); got != calls {
					t.Errorf("%d calls of the store after the end", got-calls)
				}
				if got := context.Cause(held); got != c.cause {
					t.Errorf("later: cause %v, want %v", got, c.cause)
				}
				stop()
			})
		})
	}
}

// For any behavior of the store, the context ends by the holder's own clock: at Deadline, and so
// before another holder can take over.
func TestHoldEndsAtDeadline(t *testing.T) {
	for name, fault := range map[string]recordstest.Fault{
		"fails before":    {How: recordstest.Before},
		"fails late":      {How: recordstest.Late, LateBy: 2 * time.Hour},
		"hangs":           {Delay: 24 * time.Hour},
		"slow, and fails": {How: recordstest.Before, Delay: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				memory := recordstest.NewMemory()
				var down atomic.Bool
				store := &recordstest.Faulty{Store: memory, Fault: func(recordstest.Call) recordstest.Fault {
					if down.Load() {
						return fault
					}
					return recordstest.Fault{}
				}}
				defer store.Close()
				c := acquire(t, newLedger(t, store, claims.Config{}), "k")
				held, stop := c.Hold(t.Context())
				defer stop()
				time.Sleep(time.Hour)
				down.Store(true)
				time.Sleep(time.Nanosecond)
				deadline := c.Deadline()
				<-held.Done()
				if late := time.Since(deadline); late != 0 || context.Cause(held) != claims.ErrLost {
					t.Errorf("ended %v after the deadline by %v, want at it by ErrLost", late, context.Cause(held))
				}
				other := newLedger(t, memory, claims.Config{})
				refused(t, other, "k", claims.Busy) // the margin
				time.Sleep(lease - safe)
				acquire(t, other, "k")
				wantLost(t, "renew", c.Renew(t.Context()))
			})
		})
	}
}

// A store that is ill for less than the rest of the lease costs nothing, nor does one call that
// hangs.
func TestHoldOutlivesTrouble(t *testing.T) {
	for name, fault := range map[string]func(since time.Duration) recordstest.Fault{
		"down for a while": func(since time.Duration) (f recordstest.Fault) {
			if since < 12*time.Second {
				f.How = recordstest.Before
			}
			return f
		},
		"applied, not answered": func(since time.Duration) (f recordstest.Fault) {
			if since < 12*time.Second {
				f.How = recordstest.After
			}
			return f
		},
		"one call hangs": func(since time.Duration) (f recordstest.Fault) {
			if since < lease/3 {
				f.Delay = time.Hour
			}
			return f
		},
		"always slow": func(time.Duration) recordstest.Fault { return recordstest.Fault{Delay: 5 * time.Second} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				began := time.Now()
				store := &recordstest.Faulty{Store: recordstest.NewMemory(), Fault: func(c recordstest.Call) recordstest.Fault {
					if c.N == 1 {
						return recordstest.Fault{}
					}
					return fault(time.Since(began))
				}}
				l := newLedger(t, store, claims.Config{})
				c := acquire(t, l, "k")
				held, stop := c.Hold(t.Context())
				time.Sleep(10 * lease)
				if err := context.Cause(held); err != nil {
					t.Errorf("the context ended: %v", err)
				}
				stop()
				must(t, c.Complete(t.Context(), nil))
			})
		})
	}
}

// Stop waits for a renewal that is under way, and no longer than a renewal may take.
func TestStopWaits(t *testing.T) {
	for name, c := range map[string]struct{ delay, want time.Duration }{
		"slow":  {3 * time.Second, 3 * time.Second},
		"hangs": {24 * time.Hour, lease / 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				called := make(chan struct{}, 10)
				store := &recordstest.Faulty{Store: recordstest.NewMemory(), Fault: func(call recordstest.Call) (f recordstest.Fault) {
					if call.N == 2 {
						f.Delay = c.delay
						called <- struct{}{}
					}
					return f
				}}
				claim := acquire(t, newLedger(t, store, claims.Config{}), "k")
				_, stop := claim.Hold(t.Context())
				<-called
				began := time.Now()
				stop()
				if waited := time.Since(began); waited != c.want {
					t.Errorf("stop waited %v, want %v", waited, c.want)
				}
				must(t, claim.Complete(t.Context(), nil))
			})
		})
	}
}

// A call that waits for a renewal gives up with its own context.
func TestEndWaitsNoLongerThanItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := acquire(t, newLedger(t, faulty(recordstest.NewMemory(), map[int]recordstest.Fault{2: {Delay: time.Hour}}), claims.Config{}), "k")
		_, stop := c.Hold(t.Context())
		defer stop()
		time.Sleep(lease / 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := c.Complete(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: error %v, want that of the context after 1s", time.Since(began), err)
		}
	})
}

// A renewal by hand counts for Hold too, and the other way round.
func TestHoldBesideRenew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := acquire(t, newLedger(t, recordstest.NewMemory(), claims.Config{}), "k")
		held, stop := c.Hold(t.Context())
		again, stopAgain := c.Hold(t.Context())
		for range 1000 {
			time.Sleep(time.Second)
			must(t, c.Renew(t.Context()))
		}
		stop()
		time.Sleep(5 * lease)
		if held.Err() == nil || again.Err() != nil {
			t.Errorf("contexts: %v, %v, want the first to have ended", held.Err(), again.Err())
		}
		stopAgain()
	})
}

// A lease runs from before the call that began it: the store may have written early and answered
// late.
func TestDeadlineCountsFromTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := recordstest.NewMemory()
		other := newLedger(t, memory, claims.Config{})
		c := acquire(t, newLedger(t, answersLate{memory}, claims.Config{}), "k")
		for what := range 2 {
			deadline := c.Deadline()
			if got := time.Until(deadline); got != safe-answerDelay {
				t.Errorf("call %d: good for %v, want %v", what, got, safe-answerDelay)
			}
			if busy := refused(t, other, "k", claims.Busy); time.Now().Add(busy.RetryIn).Before(deadline) {
				t.Errorf("call %d: others may begin in %v", what, busy.RetryIn)
			}
			time.Sleep(time.Second)
			must(t, c.Renew(t.Context()))
		}
	})
}

const answerDelay = 8 * time.Second

// answersLate is a store that writes at once and answers later.
type answersLate struct{ records.Store }

func (s answersLate) Put(ctx context.Context, w records.Write) (records.Record, error) {
	r, err := s.Store.Put(ctx, w)
	time.Sleep(answerDelay)
	return r, err
}

// When the claim is ended nothing continues in the background, whether stop is called or not.
func TestEndLeavesNothingRunning(t *testing.T) {
	bubble(t, func(t *testing.T) { // which waits for all goroutines
		c := acquire(t, newLedger(t, recordstest.NewMemory(), claims.Config{}), "k")
		_, _ = c.Hold(context.Background())
		time.Sleep(lease)
		must(t, c.Complete(t.Context(), nil))
	})
}

// A claim that is lost already is not held for a moment.
func TestHoldOfALostClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := acquire(t, newLedger(t, recordstest.NewMemory(), claims.Config{}), "k")
		time.Sleep(safe)
		held, stop := c.Hold(t.Context())
		defer stop()
		synctest.Wait()
		if context.Cause(held) != claims.ErrLost {
			t.Errorf("cause %v, want ErrLost", context.Cause(held))
		}
	})
}

// The context of a claim whose time is over has ended when Hold returns.
func TestHoldTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := acquire(t, newLedger(t, recordstest.NewMemory(), claims.Config{}), "k")
		time.Sleep(time.Until(c.Deadline()))
		held, stop := c.Hold(t.Context())
		defer stop()
		if context.Cause(held) != claims.ErrLost {
			t.Errorf("got %v, want ErrLost at once", context.Cause(held))
		}
	})
}
