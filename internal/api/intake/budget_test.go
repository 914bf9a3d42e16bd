package intake

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Requests that wait in line are served in order while there is room. They are refused if there is
// none in time, or if the line is full. A request whose owner has used its share, or that is too
// large, does not hold up small ones. [WIRE-27, WIRE-29, WIRE-30]
func TestBudgetLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 20, 5) // an owner has 40 for large ones, and 50 in all
		first := b.Hold("a")
		first.Set(40)
		wait := func(owner string, n int64) chan error {
			done := make(chan error, 1)
			go func() { done <- b.Hold(owner).Wait(t.Context(), n, time.Second) }()
			synctest.Wait()
			return done
		}
		ended := func(name string, done chan error, want error) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-done:
				if !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", name, err, want)
				}
			default:
				t.Errorf("%s: it still waits, want %v", name, want)
			}
		}
		a := wait("a", 10)
		ended("another owner", wait("b", 30), nil)
		c := wait("c", 20)
		d := wait("d", 10) // would fit, but c is before it
		ended("a small one", wait("d", 5), nil)
		ended("a small one of an owner that has its share", wait("a", 5), nil)
		first.Release()
		for name, done := range map[string]chan error{"a": a, "c": c, "d": d} {
			ended(name, done, nil)
		}
		if got := b.Total(); got != 80 {
			t.Errorf("%d are held, want 80", got)
		}
		late := wait("e", 10)
		time.Sleep(time.Second)
		ended("too late", late, ErrBusy)
		for range lineLimit {
			wait("e", 10)
		}
		ended("behind a full line", wait("f", 10), ErrBusy)
		ended("small, beside a full line", wait("f", 5), nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := b.line.Len(); got != 0 {
			t.Errorf("%d still wait", got)
		}
	})
}

// A released holding holds nothing, even if it is set later.
func TestHoldingReleased(t *testing.T) {
	b := newBudget(100, 20, 5)
	h := b.Hold("a")
	h.Set(10)
	h.Release()
	h.Set(10)
	if got := h.Reserve(10); got != 0 || b.Total() != 0 || len(b.owners) != 0 {
		t.Errorf("it holds %d, all hold %d, want none", got, b.Total())
	}
}

// One address cannot use up the share of a key that it knows only the name of. [WIRE-30]
func TestBudgetOfPairs(t *testing.T) {
	b := newBudget(96, 24, 1)
	for range 100 {
		b.Hold("attacker", "key", "attacker"+pairMark+"key").Reserve(3)
	}
	if got := b.Hold("owner", "key", "owner"+pairMark+"key").Reserve(3); got != 3 {
		t.Errorf("beside an address that holds %d for the key, its owner got %d, want 3", b.Total(), got)
	}
}
