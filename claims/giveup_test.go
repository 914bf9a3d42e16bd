package claims_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// Work that no holder will finish can be given up, for the message that claimed it last. Nothing
// else can.
func TestGiveUp(t *testing.T) {
	release := func(t *testing.T, c *claims.Claim) { must(t, c.Release(t.Context())) }
	for name, row := range map[string]struct {
		end     func(*testing.T, *claims.Claim)
		message string
		want    claims.State
		done    bool
	}{
		"released":             {release, "m-1", claims.Exhausted, true},
		"failed":               {func(t *testing.T, c *claims.Claim) { must(t, c.Fail(t.Context(), "sick")) }, "m-1", claims.Exhausted, true},
		"held, lease expired":  {func(*testing.T, *claims.Claim) { time.Sleep(lease) }, "m-1", claims.Exhausted, true},
		"held":                 {func(*testing.T, *claims.Claim) { time.Sleep(lease - time.Second) }, "m-1", claims.Held, false},
		"completed":            {func(t *testing.T, c *claims.Claim) { must(t, c.Complete(t.Context(), nil)) }, "m-1", claims.Completed, false},
		"by another message":   {release, "m-2", claims.Released, false},
		"by no message at all": {release, "", claims.Released, false},
	} {
		bubble(t, func(t *testing.T) {
			l := newLedger(t, recordstest.NewMemory(), claims.Config{})
			c, err := l.AcquireWith(t.Context(), "k", claims.Note{Message: "m-1"})
			must(t, err)
			attempts := c.Attempts()
			row.end(t, c)
			if done, err := l.GiveUp(t.Context(), "k", row.message, "moved"); done != row.done || err != nil {
				t.Errorf("%s: given up %t, error %v", name, done, err)
			}
			e := wantState(t, l, "k", row.want)
			if !row.done {
				return
			}
			if e.Reason != "moved" || e.Message != "m-1" || e.Attempts > attempts || e.Fence == c.Fence() {
				t.Errorf("%s: %+v", name, e)
			}
			if err := c.Complete(t.Context(), nil); err == nil {
				t.Errorf("%s: the holder could still complete", name)
			}
			// As with the dead letters of a worker: the same message is refused, another one begins
			// with attempt one.
			if _, err := l.AcquireWith(t.Context(), "k", claims.Note{Message: "m-1"}); !errors.Is(err, claims.UsedUp) {
				t.Errorf("%s: the same message again: %v", name, err)
			}
			c, err = l.AcquireWith(t.Context(), "k", claims.Note{Message: "m-2"})
			must(t, err)
			if c.Attempts() != 1 {
				t.Errorf("%s: attempt %d of the message that was brought back", name, c.Attempts())
			}
			if lost := c.TakenOver() != nil; lost != (name == "held, lease expired") {
				t.Errorf("%s: taken over %+v", name, c.TakenOver())
			}
		})
	}
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		if done, err := l.GiveUp(t.Context(), "never heard of", "m-1", "moved"); done || err != nil {
			t.Errorf("without an entry: given up %t, error %v", done, err)
		}
	})
}

// Giving up does not answer how far a lost holder came: the next claim asks.
func TestGiveUpLeavesQuestionOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := 0
		l := newLedger(t, recordstest.NewMemory(), claims.Config{Lost: func(context.Context, claims.Entry) (claims.Decision, error) {
			asked++
			return claims.Settled([]byte("it was charged")), nil
		}})
		_, err := l.AcquireWith(t.Context(), "k", claims.Note{Message: "m-1"})
		must(t, err)
		time.Sleep(lease)
		if done, err := l.GiveUp(t.Context(), "k", "m-1", "moved"); !done || err != nil {
			t.Fatalf("given up %t, error %v", done, err)
		}
		if _, err := l.AcquireWith(t.Context(), "k", claims.Note{Message: "m-2"}); !errors.Is(err, claims.Done) || asked != 1 {
			t.Errorf("asked %d times, error %v", asked, err)
		}
	})
}

// A betweenReads is a store with something happening after a read.
type betweenReads struct {
	records.Store
	then func()
}

func (s *betweenReads) Get(ctx context.Context, key string) (records.Record, error) {
	r, err := s.Store.Get(ctx, key)
	s.then()
	return r, err
}

// A claim that begins while an entry is given up wins: its message was brought back.
func TestGiveUpMeetsClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{})
		c, err := l.AcquireWith(t.Context(), "k", claims.Note{Message: "m-1"})
		must(t, err)
		must(t, c.Release(t.Context()))
		racing := newLedger(t, &betweenReads{store, func() {
			c, err = l.AcquireWith(t.Context(), "k", claims.Note{Message: "m-2"})
			must(t, err)
		}}, claims.Config{})
		if done, err := racing.GiveUp(t.Context(), "k", "m-1", "moved"); done || err != nil {
			t.Errorf("given up %t, error %v", done, err)
		}
		wantState(t, l, "k", claims.Held)
		must(t, c.Complete(t.Context(), nil))
	})
}
