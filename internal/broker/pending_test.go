package broker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
)

// told collects the results that Then gets.
type told []error

func (to *told) take(err error) { *to = append(*to, err) }

func (r *rig) submit(op engine.Op) Pending {
	r.t.Helper()
	p, err := r.Submit(op)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// If a caller stops waiting for an operation, the operation continues, and its answer is passed to
// another function, once.
func TestPendingThen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		op := receiveOp("orders", 20)
		p, start := r.submit(op), time.Now()
		if answered, err := p.WaitFor(t.Context(), time.Second); answered || err != nil || time.Since(start) != time.Second {
			t.Fatalf("answered: %v, %v, after %v; want that it waits, after 1s", answered, err, time.Since(start))
		}
		var to told
		p.Then(to.take)
		r.send("orders", "hello")
		synctest.Wait()
		if got := r.bodies(op.Received); len(to) != 1 || got != "hello" || to[0] != nil {
			t.Errorf("told %v with %q, want the message, once", to, got)
		}
		if p.Abandon() {
			t.Errorf("an operation that has its answer was abandoned")
		}
		r.send("orders", "again")
		r.begin(receiveOp("orders", 0)).wantAt(0, "again")
	})
}

// A caller that asks late gets the answer all the same.
func TestPendingThenAfterAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		p := r.submit(&engine.DeleteQueue{Queue: named("nowhere")})
		synctest.Wait()
		var to told
		p.Then(to.take)
		synctest.Wait()
		if len(to) != 1 || to[0] == nil {
			t.Errorf("told %+v, want the refusal, once", to)
		}
	})
}

// Do returns an answer that arrives in time. The answer of an abandoned operation goes to no one,
// and the operation gets no messages. [POLL-10]
func TestPendingWaitForAndAbandon(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		p := r.submit(receiveOp("orders", 20))
		var to told
		p.Then(to.take)
		synctest.Wait()
		if !p.Abandon() {
			t.Errorf("a poll that waits was not abandoned")
		}
		r.send("orders", "hello")
		op := receiveOp("orders", 20)
		answered, err := r.submit(op).WaitFor(t.Context(), time.Second)
		if got := r.bodies(op.Received); !answered || err != nil || got != "hello" {
			t.Errorf("got %q, answered: %v, %v; want hello", got, answered, err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if answered, err := r.submit(receiveOp("orders", 20)).WaitFor(gone, time.Second); !answered || !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone got %v, answered: %v; want %v", err, answered, context.Canceled)
		}
		synctest.Wait()
		if got := r.polls.count; got != 0 {
			t.Errorf("%d polls wait, want none", got)
		}
		if len(to) != 0 {
			t.Errorf("who abandoned was told %+v", to)
		}
	})
}
