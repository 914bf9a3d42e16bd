package claims_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/records/recordstest"
)

// The usual ways to keep a job from running twice have known flaws. Each test here is named after
// one, says what the usual solution does, and shows that a ledger does otherwise. The letter is the
// kind of solution: A is a status column that workers set, C a database lock or row beside a queue.

// Usual: a crash leaves the status "downloading" forever. Ours: the lease ends.
func TestCrashDoesNotBlock_FA4(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		acquire(t, newLedger(t, store, claims.Config{}), "k") // and never heard of again
		time.Sleep(lease)
		must(t, acquire(t, newLedger(t, store, claims.Config{}), "k").Complete(t.Context(), nil))
	})
}

// Usual: a slow first task overwrites the result of the second. Ours: it has an old fence.
func TestSlowFirstCannotOverwrite_FA5(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		first := acquire(t, l, "k")
		time.Sleep(lease)
		second := acquire(t, l, "k")
		must(t, second.Complete(t.Context(), []byte("second")))
		wantLost(t, "the first completes", first.Complete(t.Context(), []byte("first")))
		if got := refused(t, l, "k", claims.Done).Result; string(got) != "second" || first.Fence() >= second.Fence() {
			t.Errorf("result %q, fences %d and %d", got, first.Fence(), second.Fence())
		}
	})
}

// Usual: a stale read finds no row, and the message is thrown away. Ours: nothing is read, so
// nothing is stale.
func TestNoRead_FA6(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &recordstest.Faulty{Store: recordstest.NewMemory(), Fault: func(c recordstest.Call) (f recordstest.Fault) {
			if c.Op != recordstest.Put {
				t.Errorf("call %d is a %s", c.N, c.Op)
			}
			return f
		}}
		l := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		refused(t, l, "k", claims.Busy)
		must(t, c.Complete(t.Context(), nil))
		refused(t, l, "k", claims.Done)
	})
}

// Usual: read the status, then write it; two workers do both at once. Ours: one conditional write.
func TestOneWriteClaims_FA7(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &recordstest.Faulty{Store: recordstest.NewMemory()}
		l := newLedger(t, store, claims.Config{})
		acquire(t, l, "k")
		if n := store.Calls(); n != 1 {
			t.Errorf("%d calls to claim a new key, want 1", n)
		}
		refused(t, l, "k", claims.Busy)
		if n := store.Calls(); n != 2 {
			t.Errorf("%d calls to find it busy, want 1", n-1)
		}
	})
}

// Usual: "in progress" and "done" both count as success, and the message is deleted. Ours: two
// answers.
func TestBusyIsNotDone_FA8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		c := acquire(t, l, "k")
		if busy := refused(t, l, "k", claims.Busy); errors.Is(busy, claims.Done) {
			t.Errorf("busy is done: %v", busy)
		}
		must(t, c.Complete(t.Context(), nil))
		if done := refused(t, l, "k", claims.Done); errors.Is(done, claims.Busy) {
			t.Errorf("done is busy: %v", done)
		}
	})
}

// Usual: "failed" can never be claimed again, so a redrive does nothing. Ours: it is claimed at
// once, under the same key.
func TestFailedCanBeRedriven_FA9(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		must(t, acquire(t, l, "k").Fail(t.Context(), "the site was down"))
		time.Sleep(5 * 24 * time.Hour)
		c := acquire(t, l, "k")
		if c.Attempts() != 2 {
			t.Errorf("attempt %d, want 2", c.Attempts())
		}
		must(t, c.Complete(t.Context(), nil))
	})
}

// Usual: the clock of each worker decides what is stuck. Ours: the clock of the store decides for
// all.
func TestStoreClockDecides_FA16(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := recordstest.NewMemory()
		acquire(t, newLedger(t, memory, claims.Config{}), "k")
		for skew, want := range map[time.Duration]time.Duration{0: lease, 10 * time.Second: lease - 10*time.Second} {
			l := newLedger(t, &recordstest.Faulty{Store: memory, Skew: skew}, claims.Config{})
			if got := refused(t, l, "k", claims.Busy).RetryIn; got != want {
				t.Errorf("the store says age %v: retry in %v, want %v", skew, got, want)
			}
		}
	})
}

// Usual: a sweeper resets what looks stuck and sends it again, beside the slow worker. Ours: no
// sweeper. A slow worker that is alive keeps its claim, and a dead one loses it without help.
func TestNoSweeper_FA17(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &recordstest.Faulty{Store: recordstest.NewMemory()}
		l := newLedger(t, store, claims.Config{})
		slow, dead := acquire(t, l, "slow"), acquire(t, l, "dead")
		_, stop := slow.Hold(t.Context())
		time.Sleep(time.Hour)
		refused(t, l, "slow", claims.Busy)
		acquire(t, l, "dead")
		wantLost(t, "the dead", dead.Complete(t.Context(), nil))
		stop()
		must(t, slow.Complete(t.Context(), nil))
	})
}

// Usual: the lock of a statement's transaction is gone when the statement is. Ours: a record that
// stays.
func TestClaimOutlivesTheStatement_FC1(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		c := acquire(t, newLedger(t, store, claims.Config{}), "k")
		for range 3 {
			time.Sleep(lease / 4)
			refused(t, newLedger(t, store, claims.Config{}), "k", claims.Busy)
		}
		must(t, c.Complete(t.Context(), nil))
	})
}

// Usual: a lock belongs to a connection, and the pool gives out another. Ours: it belongs to a
// fence, whatever connection carries it.
func TestClaimBelongsToNoConnection_FC2(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := recordstest.NewMemory()
		store := faulty(memory, script(2, times(2, recordstest.Fault{How: recordstest.Before, Err: errors.New("connection reset")})...))
		c := acquire(t, newLedger(t, store, claims.Config{}), "k")
		must(t, c.Renew(t.Context())) // over the third connection
		refused(t, newLedger(t, memory, claims.Config{}), "k", claims.Busy)
		must(t, c.Complete(t.Context(), nil))
	})
}

// Usual: the repair of that holds a transaction open while a payment takes 45 s. Ours: no call is
// under way while the work is, and other keys are not in its way.
func TestNothingIsHeldOpen_FC3(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		time.Sleep(45 * time.Second / 2)
		began := time.Now()
		must(t, acquire(t, l, "another").Complete(t.Context(), nil))
		if waited := time.Since(began); waited != 0 {
			t.Errorf("another key waited %v", waited)
		}
		must(t, c.Complete(t.Context(), nil))
	})
}

// Usual: a row inserted before a crash makes every later delivery a "duplicate". Ours: the next
// worker takes over, and learns that it is unknown how far the first one came.
func TestCrashAfterClaimIsTakenOver_FC4(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		acquire(t, newLedger(t, store, claims.Config{Owner: "dead"}), "k")
		time.Sleep(lease)
		c := acquire(t, newLedger(t, store, claims.Config{}), "k")
		if before := c.TakenOver(); before == nil || before.Owner != "dead" {
			t.Errorf("taken over from %+v", before)
		}
	})
}

// Usual: any exception leaves that row as well, so retries are off. Ours: a failure gives the key
// free, with its reason.
func TestFailureGivesFree_FC5(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		must(t, acquire(t, l, "k").Fail(t.Context(), "the card network hiccuped"))
		if e := wantState(t, l, "k", claims.Failed); e.Reason != "the card network hiccuped" {
			t.Errorf("reason %q", e.Reason)
		}
		acquire(t, l, "k")
	})
}

// Usual: a duplicate of a completed order is not deleted and wanders into the dead-letter queue.
// Ours: each time it asks, it learns that the work is done, and the result.
func TestDuplicateGetsTheResult_FC6(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		must(t, acquire(t, l, "k").Complete(t.Context(), []byte("receipt 42")))
		for range 5 {
			time.Sleep(24 * time.Hour)
			if got := refused(t, l, "k", claims.Done).Result; string(got) != "receipt 42" {
				t.Errorf("result %q", got)
			}
		}
	})
}

// Usual: a worker that does not get the lock returns, so the message comes back at once and uses up
// its receives while the first worker is well. Ours: Busy says when to come back, and is not an
// attempt.
func TestBusyIsNoAttempt_FC7(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		c := acquire(t, l, "k")
		for range 10 {
			if busy := refused(t, l, "k", claims.Busy); busy.RetryIn > lease || busy.RetryIn <= 0 || busy.Attempts != 1 {
				t.Errorf("retry in %v, %d attempts", busy.RetryIn, busy.Attempts)
			}
		}
		must(t, c.Fail(t.Context(), ""))
		if c := acquire(t, l, "k"); c.Attempts() != 2 {
			t.Errorf("attempt %d, want 2", c.Attempts())
		}
	})
}

// Usual: errors of the heartbeat are "safe to ignore", and the work continues without a lease.
// Ours: its context ends, in time.
func TestLostHeartbeatStopsTheWork_FC8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := recordstest.NewMemory()
		store := &recordstest.Faulty{Store: memory, Fault: func(c recordstest.Call) (f recordstest.Fault) {
			if c.N > 1 {
				f.How = recordstest.Before
			}
			return f
		}}
		c := acquire(t, newLedger(t, store, claims.Config{}), "k")
		held, stop := c.Hold(t.Context())
		defer stop()
		<-held.Done()
		if context.Cause(held) != claims.ErrLost {
			t.Errorf("cause %v, want ErrLost", context.Cause(held))
		}
		refused(t, newLedger(t, memory, claims.Config{}), "k", claims.Busy) // so the work had time to stop
	})
}

// Usual: the heartbeat of a handler that hangs keeps the message for twelve hours. Ours: a limit on
// the context is one on the claim.
func TestHungHandlerLosesTheClaim_FC9(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, _ = acquire(t, l, "k").Hold(ctx) // and the handler never returns to stop it
		time.Sleep(5*time.Minute - 1)
		refused(t, l, "k", claims.Busy)
		time.Sleep(lease + 1)
		acquire(t, l, "k")
	})
}

// Usual: the first heartbeat comes after two thirds of the lease, and slow ones overlap. Ours:
// within a third, one at a time.
func TestHeartbeatIsEarlyAndAlone_FC10(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		began, under := time.Now(), 0
		store := &recordstest.Faulty{Store: recordstest.NewMemory(), Fault: func(c recordstest.Call) (f recordstest.Fault) {
			if c.N == 2 && time.Since(began) > lease/3 {
				t.Errorf("first heartbeat after %v", time.Since(began))
			}
			mu.Lock()
			under++
			mu.Unlock()
			f.Delay = lease / 4
			time.AfterFunc(f.Delay-1, func() {
				mu.Lock()
				defer mu.Unlock()
				if under--; under != 0 {
					t.Errorf("%d calls at once", under+1)
				}
			})
			return f
		}}
		c := acquire(t, newLedger(t, store, claims.Config{}), "k")
		began = time.Now()
		held, stop := c.Hold(t.Context())
		time.Sleep(20 * lease)
		if held.Err() != nil {
			t.Errorf("lost to a slow store: %v", context.Cause(held))
		}
		stop()
		synctest.Wait()
	})
}

// Usual: locks are 64-bit hashes of keys, and strangers collide. Ours: keys are keys.
func TestStrangersDoNotCollide_FC11(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		for _, key := range []string{"Aa", "BB", "order-1", "order-10", "order-1 ", "Order-1"} {
			acquire(t, l, key)
		}
	})
}

// Usual: the idempotency key is new with each delivery, or forgotten by the provider before a late
// redrive. Ours: it is the same for every attempt, and the ledger outlives the provider's memory.
func TestEffectKeyIsStable_FC12(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		first := acquire(t, l, "order-17")
		must(t, first.Fail(t.Context(), "timeout"))
		time.Sleep(10 * 24 * time.Hour)
		second := acquire(t, l, "order-17")
		if a, b := claims.EffectKey(first.Key(), 0), claims.EffectKey(second.Key(), 0); a != b || second.Attempts() != 2 {
			t.Errorf("keys %q and %q, attempt %d", a, b, second.Attempts())
		}
	})
}

// Usual: UPDATE … SET status = 'completed' by the last writer. Ours: by the holder of the claim.
func TestCompletionIsTheHolders_FC13(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		first := acquire(t, l, "k")
		time.Sleep(lease)
		second := acquire(t, l, "k")
		wantLost(t, "the first completes", first.Complete(t.Context(), []byte("first")))
		wantState(t, l, "k", claims.Held)
		must(t, second.Complete(t.Context(), []byte("second")))
	})
}

// Usual: "exactly once, proven". Ours: two holders may both have begun, and the second one learns
// this. The effect happens once because it checks the fence or the key.
func TestEffectOnceNeedsTheFence_FC18(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		var unfenced, fenced []string
		var largest uint64
		effect := func(c *claims.Claim, what string) {
			unfenced = append(unfenced, what)
			if c.Fence() >= largest {
				largest = c.Fence()
				fenced = append(fenced, what)
			}
		}
		first := acquire(t, l, "k")
		time.Sleep(lease)
		second := acquire(t, l, "k")
		effect(second, "second")
		effect(first, "first") // a zombie that wakes up
		if got := fmt.Sprint(unfenced, fenced); got != "[second first] [second]" || second.TakenOver() == nil {
			t.Errorf("effects %s, taken over: %v", got, second.TakenOver())
		}
	})
}

// Usual: an old receipt handle is accepted and does nothing. Ours: an old claim is an error that
// says why.
func TestOldClaimIsAnError_FC19(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		first := acquire(t, l, "k")
		time.Sleep(lease)
		acquire(t, l, "k")
		want := `end the claim on "k" as released: the claim was lost: its lease expired before it was renewed or ended`
		if err := first.Release(t.Context()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	})
}

// Usual: the business table is the claim table, and forgets with the business. Ours: entries of
// their own, kept for longer than a queue can keep a message.
func TestRetentionOutlivesTheQueue_FC20(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		must(t, acquire(t, l, "k").Complete(t.Context(), nil))
		time.Sleep(14 * 24 * time.Hour)
		refused(t, l, "k", claims.Done)
		if l.Retention() <= 14*24*time.Hour {
			t.Errorf("retention %v", l.Retention())
		}
	})
}
