package claims_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/records/recordstest"
)

// A holder that knows the key and the fence can renew and end its claim, and nothing but its own.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{Lease: 10 * time.Second})
		resume := func(fence uint64, want error) *claims.Claim {
			t.Helper()
			c, err := l.Resume(t.Context(), "order", fence)
			if !errors.Is(err, want) {
				t.Fatalf("resume with fence %d: got %v, want %v", fence, err, want)
			}
			return c
		}
		is := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
		}
		resume(1, claims.ErrLost) // no entry
		first, err := l.Acquire(t.Context(), "order")
		must(t, err)
		resume(first.Fence()+1, claims.ErrLost)

		for range 3 { // in the last moment of the lease
			time.Sleep(9999 * time.Millisecond)
			is("renew", resume(first.Fence(), nil).Renew(t.Context()), nil)
		}
		time.Sleep(10 * time.Second)
		is("renew when the lease has expired", resume(first.Fence(), nil).Renew(t.Context()), claims.ErrLost)

		second, err := l.Acquire(t.Context(), "order")
		must(t, err)
		resume(first.Fence(), claims.ErrLost)
		c := resume(second.Fence(), nil)
		if c.Fence() != second.Fence() || c.Attempts() != 2 || c.Key() != "order" {
			t.Errorf("resumed fence %d, attempt %d", c.Fence(), c.Attempts())
		}
		is("complete", c.Complete(t.Context(), []byte("receipt")), nil)
		is("complete again", resume(second.Fence(), nil).Complete(t.Context(), []byte("receipt")), nil)
		is("complete otherwise", resume(second.Fence(), nil).Complete(t.Context(), []byte("other")), claims.ErrEnded)
		is("renew when it is completed", resume(second.Fence(), nil).Renew(t.Context()), claims.ErrEnded)
		is("the first holder", first.Complete(t.Context(), nil), claims.ErrLost)

		// A decision of a person ends the claim.
		must(t, l.Reopen(t.Context(), "order", "by mistake"))
		resume(second.Fence(), claims.ErrLost)
	})
}

// Without a clock, no look shows how much of a lease is left.
func TestResumeWithoutClock(t *testing.T) {
	l := newLedger(t, &recordstest.Faulty{Store: recordstest.NewMemory(), NoClock: true}, claims.Config{})
	c, err := l.Acquire(t.Context(), "order")
	must(t, err)
	if _, err := l.Resume(t.Context(), "order", c.Fence()); err == nil || errors.Is(err, claims.ErrLost) {
		t.Errorf("got %v, want an error that says why", err)
	}
}
