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

// script makes calls n, n+1 and so on fail.
func script(n int, faults ...recordstest.Fault) map[int]recordstest.Fault {
	m := make(map[int]recordstest.Fault)
	for i, f := range faults {
		m[n+i] = f
	}
	return m
}

func times(n int, f recordstest.Fault) []recordstest.Fault {
	fs := make([]recordstest.Fault, n)
	for i := range fs {
		fs[i] = f
	}
	return fs
}

// The faults that one call meets. Three calls are what a write tries.
var faultRows = map[string]struct {
	faults []recordstest.Fault
	fails  bool // whether the caller gets the error
}{
	"once before":      {times(1, recordstest.Fault{How: recordstest.Before}), false},
	"once after":       {times(1, recordstest.Fault{How: recordstest.After}), false},
	"once late":        {times(1, recordstest.Fault{How: recordstest.Late, LateBy: time.Second}), false},
	"late in between":  {times(2, recordstest.Fault{How: recordstest.Late, LateBy: 150 * time.Millisecond}), false},
	"slow":             {times(1, recordstest.Fault{Delay: 5 * time.Second}), false},
	"slow and after":   {times(2, recordstest.Fault{How: recordstest.After, Delay: 3 * time.Second}), false},
	"always before":    {times(3, recordstest.Fault{How: recordstest.Before}), true},
	"always after":     {times(3, recordstest.Fault{How: recordstest.After}), true},
	"always late":      {times(3, recordstest.Fault{How: recordstest.Late, LateBy: time.Second}), true},
	"before and late":  {append(times(2, recordstest.Fault{How: recordstest.Before}), recordstest.Fault{How: recordstest.Late, LateBy: 20 * time.Second}), true},
	"after and before": {append(times(1, recordstest.Fault{How: recordstest.After}), times(2, recordstest.Fault{How: recordstest.Before})...), true},
}

var holderWrites = map[string]struct {
	do    func(context.Context, *claims.Claim) error
	state claims.State
}{
	"renew":    {func(ctx context.Context, c *claims.Claim) error { return c.Renew(ctx) }, claims.Held},
	"complete": {func(ctx context.Context, c *claims.Claim) error { return c.Complete(ctx, []byte("r")) }, claims.Completed},
	"fail":     {func(ctx context.Context, c *claims.Claim) error { return c.Fail(ctx, "no luck") }, claims.Failed},
	"release":  {func(ctx context.Context, c *claims.Claim) error { return c.Release(ctx) }, claims.Released},
}

// A holder whose write met a fault is never told that it lost the claim, and may try again until it
// knows.
func TestHolderWritesUnderFaults(t *testing.T) {
	for row, f := range faultRows {
		for write, w := range holderWrites {
			t.Run(row+"/"+write, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					ctx := t.Context()
					store := faulty(recordstest.NewMemory(), script(2, f.faults...))
					defer store.Close()
					l := newLedger(t, store, claims.Config{})
					c := acquire(t, l, "k")
					err := w.do(ctx, c)
					if f.fails != (err != nil) || errors.Is(err, claims.ErrLost) {
						t.Errorf("first: error %v, want one: %t", err, f.fails)
					}
					time.Sleep(2 * time.Second)
					if err := w.do(ctx, c); err != nil {
						t.Errorf("again: error %v", err)
					}
					e := wantState(t, l, "k", w.state)
					if e.Fence != c.Fence() {
						t.Errorf("fence %d, want that of the claim, %d", e.Fence, c.Fence())
					}
					if w.state == claims.Held {
						must(t, c.Complete(ctx, nil))
					} else if attempts := map[bool]int{true: 0, false: 1}[w.state == claims.Released]; e.Attempts != attempts {
						t.Errorf("%d attempts, want %d", e.Attempts, attempts)
					}
				})
			})
		}
	}
}

// An end whose answer was an error stays the end when the claim is renewed behind it: the renewal
// does not bring the claim back to life, nor does the holder learn that it lost.
func TestUncertainEndAndRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := faulty(recordstest.NewMemory(), script(2, times(3, recordstest.Fault{How: recordstest.After})...))
		l := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		held, stop := c.Hold(ctx)
		defer stop()
		if err := c.Complete(ctx, []byte("r")); !errors.Is(err, recordstest.ErrInjected) {
			t.Fatalf("complete: error %v", err)
		}
		time.Sleep(2 * lease)
		if err := context.Cause(held); err != nil {
			t.Errorf("the context ended by %v", err)
		}
		must(t, c.Complete(ctx, []byte("r")))
		if err := c.Fail(ctx, ""); err == nil || errors.Is(err, claims.ErrLost) {
			t.Errorf("fail after complete: error %v", err)
		}
		wantState(t, l, "k", claims.Completed)
	})
}

// Any number of renewals that take effect after their errors do not hide the claim from its holder.
func TestLateRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		late := func(after time.Duration) recordstest.Fault {
			return recordstest.Fault{How: recordstest.Late, LateBy: after}
		}
		before := recordstest.Fault{How: recordstest.Before}
		// The first renewal lands after 1 s. The second finds it, writes over it, and that lands
		// between the conflict that Complete gets and the write that Complete makes of it.
		store := faulty(recordstest.NewMemory(), map[int]recordstest.Fault{
			2: late(time.Second), 3: before, 4: before,
			6: late(10 * time.Second), 7: before, 8: before,
			10: {Delay: 20 * time.Second},
		})
		defer store.Close()
		l := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		for range 2 {
			if err := c.Renew(ctx); !errors.Is(err, recordstest.ErrInjected) {
				t.Fatalf("renew: error %v", err)
			}
			time.Sleep(2 * time.Second)
		}
		must(t, c.Complete(ctx, nil))
		wantState(t, l, "k", claims.Completed)
	})
}

// A caller that asks for a key during faults either gets it, or gets an error and can claim it when
// the lease expires, at the latest. If the store can still answer, no caller finds the key busy
// because of its own claim.
func TestAcquireUnderFaults(t *testing.T) {
	before := map[string]func(*testing.T, *claims.Ledger) (fence uint64){
		"new": func(*testing.T, *claims.Ledger) uint64 { return 0 },
		"failed": func(t *testing.T, l *claims.Ledger) uint64 {
			c := acquire(t, l, "k")
			must(t, c.Fail(t.Context(), ""))
			return c.Fence()
		},
		"lost": func(t *testing.T, l *claims.Ledger) uint64 {
			c := acquire(t, l, "k")
			time.Sleep(lease)
			return c.Fence()
		},
	}
	for row, f := range faultRows {
		for state, prepare := range before {
			for first := 1; first <= 2; first++ {
				if state == "new" && first == 2 {
					continue // one write is all
				}
				t.Run(fmt.Sprintf("%s/%s/%d", row, state, first), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						ctx := t.Context()
						memory := recordstest.NewMemory()
						other := newLedger(t, memory, claims.Config{})
						fence := prepare(t, other)
						store := faulty(memory, script(first, f.faults...))
						defer store.Close()
						l := newLedger(t, store, claims.Config{})
						c, err := l.Acquire(ctx, "k")
						if f.fails != (err != nil) || err != nil && !errors.Is(err, recordstest.ErrInjected) {
							t.Fatalf("acquire: error %v, want one: %t", err, f.fails)
						}
						if err == nil {
							refused(t, other, "k", claims.Busy)
							must(t, c.Complete(ctx, nil))
							return
						}
						time.Sleep(time.Minute)
						c = acquire(t, l, "k")
						if c.Fence() <= fence {
							t.Errorf("fence %d, the one before was %d", c.Fence(), fence)
						}
						must(t, c.Complete(ctx, nil))
					})
				})
			}
		}
	}
}

// A store whose client retries by itself reports a conflict with its own write.
func TestStoreThatTriesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLedger(t, insistent{recordstest.NewMemory()}, claims.Config{})
		c := acquire(t, l, "k")
		must(t, c.Renew(ctx))
		must(t, c.Fail(ctx, "no luck"))
		must(t, acquire(t, l, "k").Release(ctx))
		must(t, l.Reopen(ctx, "k", ""))
		must(t, l.Settle(ctx, "k", nil, ""))
		wantState(t, l, "k", claims.Completed)
	})
}

// insistent is a store that sends every write twice and returns the second answer.
type insistent struct{ records.Store }

func (s insistent) Put(ctx context.Context, w records.Write) (records.Record, error) {
	_, _ = s.Store.Put(ctx, w)
	return s.Store.Put(ctx, w)
}

// A call ends with its context when the store does, and the claim is not lost by that.
func TestContextEnds(t *testing.T) {
	for write, w := range holderWrites {
		t.Run(write, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := acquire(t, newLedger(t, faulty(recordstest.NewMemory(), script(2, recordstest.Fault{Delay: time.Hour})), claims.Config{}), "k")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				if err := w.do(ctx, c); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
					t.Errorf("after %v: error %v", time.Since(began), err)
				}
				must(t, w.do(t.Context(), c))
			})
		})
	}
	bubble(t, func(t *testing.T) {
		l := newLedger(t, faulty(recordstest.NewMemory(), script(1, recordstest.Fault{Delay: time.Hour})), claims.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire: error %v", err)
		}
		acquire(t, l, "k")
	})
}

// If the clock of the store jumps ahead, take-overs are early. The fence protects where the clock
// does not.
func TestClockJumps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := recordstest.NewMemory()
		first := acquire(t, newLedger(t, memory, claims.Config{}), "k")
		held, stop := first.Hold(t.Context())
		defer stop()
		jumped := newLedger(t, &recordstest.Faulty{Store: memory, Skew: time.Hour}, claims.Config{})
		second := acquire(t, jumped, "k")
		<-held.Done()
		if context.Cause(held) != claims.ErrLost {
			t.Errorf("cause %v, want ErrLost", context.Cause(held))
		}
		wantLost(t, "complete", first.Complete(t.Context(), nil))
		must(t, second.Complete(t.Context(), nil))
	})
}
