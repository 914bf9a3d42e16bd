package claims_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/records/recordstest"
)

// A decision is taken back to what it was about: state, holder, attempts, reason and result. The
// entry gets a version of its own, and cannot be taken back twice. [REC-19]
func TestUndo(t *testing.T) {
	decisions := map[string]func(l *claims.Ledger) error{
		"settle": func(l *claims.Ledger) error { return l.Settle(t.Context(), "k", []byte("by hand"), "why") },
		"reopen": func(l *claims.Ledger) error { return l.Reopen(t.Context(), "k", "why") },
	}
	befores := map[string]func(t *testing.T, l *claims.Ledger){
		"failed":    func(t *testing.T, l *claims.Ledger) { must(t, acquire(t, l, "k").Fail(t.Context(), "no luck")) },
		"exhausted": func(t *testing.T, l *claims.Ledger) { must(t, acquire(t, l, "k").Exhaust(t.Context(), "used up")) },
		"released":  func(t *testing.T, l *claims.Ledger) { must(t, acquire(t, l, "k").Release(t.Context())) },
		"completed": func(t *testing.T, l *claims.Ledger) {
			must(t, acquire(t, l, "k").Complete(t.Context(), []byte("ch_1")))
		},
		"lease expired": func(t *testing.T, l *claims.Ledger) {
			acquire(t, l, "k")
			time.Sleep(2 * time.Minute)
		},
	}
	for before, prepare := range befores {
		for name, decide := range decisions {
			bubble(t, func(t *testing.T) {
				ctx := t.Context()
				l := newLedger(t, recordstest.NewMemory(), claims.Config{Owner: "worker"})
				person := newLedger(t, l.Store(), claims.Config{Owner: "alice"})
				prepare(t, l)
				was, err := l.Entry(ctx, "k")
				must(t, err)
				must(t, decide(person))
				decided, err := l.Entry(ctx, "k")
				must(t, err)
				if !decided.Undoable || was.Undoable {
					t.Errorf("%s, %s: undoable is %t, and was %t", before, name, decided.Undoable, was.Undoable)
				}
				must(t, person.Undo(ctx, "k", decided.Fence))
				e, err := l.Entry(ctx, "k")
				must(t, err)
				if e.Version <= decided.Version || e.Fence <= decided.Fence {
					t.Errorf("%s, %s: version %d and fence %d after %d and %d", before, name, e.Version, e.Fence, decided.Version, decided.Fence)
				}
				if left, _ := e.Remaining(); left > 0 {
					t.Errorf("%s, %s: a holder that was lost has a lease of %v again", before, name, left)
				}
				want := was
				want.Version, want.Fence, want.Age, want.Lease = e.Version, e.Fence, e.Age, 0
				if !reflect.DeepEqual(e, want) {
					t.Errorf("%s, %s: after an undo %+v, want %+v", before, name, e, want)
				}
				if err := person.Undo(ctx, "k", e.Fence); !errors.Is(err, claims.ErrFinal) {
					t.Errorf("%s, %s: a second undo: %v", before, name, err)
				}
				if err := person.Undo(ctx, "k", decided.Fence); !errors.Is(err, claims.ErrChanged) {
					t.Errorf("%s, %s: an undo that is repeated: %v", before, name, err)
				}
				if before == "lease expired" {
					if c := acquire(t, l, "k"); c.TakenOver() == nil || c.TakenOver().Owner != "worker" {
						t.Errorf("%s: the next holder does not learn that one was lost: %+v", name, c.TakenOver())
					}
				}
			})
		}
	}
}

// A lost claim stays lost: a decision is final if it ended a claim whose lease ran, or may have
// run, or if a worker has claimed the key since. [REC-19]
func TestUndoRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLedger(t, recordstest.NewMemory(), claims.Config{Owner: "worker"})
		person := newLedger(t, l.Store(), claims.Config{Owner: "alice"})
		fence := func() uint64 {
			e, err := l.Entry(ctx, "k")
			must(t, err)
			return e.Fence
		}
		if err := person.Undo(ctx, "k", 1); !errors.Is(err, claims.ErrNoEntry) {
			t.Errorf("without an entry: %v", err)
		}
		held := acquire(t, l, "k")
		if err := person.Undo(ctx, "k", fence()); !errors.Is(err, claims.ErrFinal) {
			t.Errorf("of a claim: %v", err)
		}
		must(t, held.Renew(ctx))
		must(t, person.Reopen(ctx, "k", "its host is off"))
		if err := person.Undo(ctx, "k", fence()); !errors.Is(err, claims.ErrFinal) {
			t.Errorf("of a decision about a claim whose lease ran: %v", err)
		}
		wantLost(t, "complete", held.Complete(ctx, nil))
		must(t, person.Settle(ctx, "k", nil, "by hand"))
		must(t, person.Reopen(ctx, "k", "it was not"))
		decision := fence()
		again := acquire(t, l, "k")
		if err := person.Undo(ctx, "k", decision); !errors.Is(err, claims.ErrChanged) {
			t.Errorf("after a worker claimed the key: %v", err)
		}
		must(t, again.Renew(ctx))
		must(t, again.Fail(ctx, "no luck"))
		if e, err := l.Entry(ctx, "k"); err != nil || e.Undoable {
			t.Errorf("a worker's entry can be taken back: %+v, %v", e, err)
		}
		// Both results do not fit into a record.
		large := bytes.Repeat([]byte("r"), claims.ResultMax)
		must(t, acquire(t, l, "k").Complete(ctx, large))
		must(t, person.Settle(ctx, "k", large, strings.Repeat("y", 5000)))
		if err := person.Undo(ctx, "k", fence()); !errors.Is(err, claims.ErrFinal) {
			t.Errorf("of a decision that replaced a large result: %v", err)
		}
	})
}

// An undo and a worker that claims the key at the same moment never both succeed. [REC-19]
func TestUndoWhileClaimed(t *testing.T) {
	l := newLedger(t, recordstest.NewMemory(), claims.Config{Owner: "worker"})
	must(t, acquire(t, l, "k").Fail(t.Context(), "no luck"))
	for range 300 {
		must(t, l.Reopen(t.Context(), "k", "again"))
		e, err := l.Entry(t.Context(), "k")
		must(t, err)
		var undone error
		var both sync.WaitGroup
		both.Go(func() { undone = l.Undo(t.Context(), "k", e.Fence) })
		c, err := l.Acquire(t.Context(), "k")
		both.Wait()
		refusal, refused := errors.AsType[*claims.Refused](err)
		switch {
		case err == nil && undone == nil:
			// the undo came first, to a state that gives way to a claim
			if c.TakenOver() != nil {
				t.Fatalf("a claim was taken back: %+v", c.TakenOver())
			}
			must(t, c.Renew(t.Context()))
		case err == nil && !errors.Is(undone, claims.ErrChanged):
			t.Fatalf("a worker claimed the key, and an undo returns %v", undone)
		case refused && refusal.Why != claims.Done, err != nil && !refused:
			t.Fatalf("a worker gets %v", err)
		}
		if err == nil {
			must(t, c.Complete(t.Context(), nil))
		}
	}
}
