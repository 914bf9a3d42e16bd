package engine_test

import (
	"iter"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// A counting store counts the rows that its readers get to see.
type counting struct {
	kv.Store
	rows int
}

func (c *counting) Get(dst, key []byte) ([]byte, bool) {
	c.rows++
	return c.Store.Get(dst, key)
}

func (c *counting) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range c.Store.Scan(lo, hi) {
			if c.rows++; !yield(k, v) {
				return
			}
		}
	}
}

// The reads of a start, a send, a receive and a delete depend neither on how much is waiting, nor
// on how much was deleted in front of it. [DUR-26, DUR-27, DUR-28]
func TestDepthCostsNothing(t *testing.T) {
	const window = 100
	cfg := engine.Config{InFlightMax: 1 << 40, Window: window, Fault: func(s string) { panic(s) }}
	cost := func(depth, deleted int) (start, life int) {
		store := &counting{Store: kv.NewMemory()}
		r := newRunner(t, engine.Open(store, cfg))
		r.do(&engine.Start{})
		r.do(&engine.CreateQueue{Queue: orders, NameSet: true})
		for range depth + deleted {
			r.send("x")
		}
		for range deleted {
			r.life()
		}
		store.rows = 0
		r = newRunner(t, engine.Open(store, cfg))
		r.do(&engine.Start{})
		start, store.rows = store.rows, 0
		for range 10 {
			r.send("x")
			r.life()
		}
		return start, store.rows
	}
	start, life := cost(1_000, 0)
	for _, test := range []struct{ depth, deleted int }{{20_000, 0}, {1_000, 20_000}} {
		gotStart, gotLife := cost(test.depth, test.deleted)
		if gotStart != start {
			t.Errorf("%d waiting, %d deleted: a start reads %d rows, want %d", test.depth, test.deleted, gotStart, start)
		}
		// The segments and the piece of the front that a queue looks at when it is first used are
		// bounded; where the front lies in them is not the same everywhere.
		if gotLife > life+2*window {
			t.Errorf("%d waiting, %d deleted: ten lives read %d rows, want about %d", test.depth, test.deleted, gotLife, life)
		}
	}
}

var orders = engine.QueueName{Account: "000000000000", Name: "orders"}

// A runner applies operations one turn at a time.
type runner struct {
	t            *testing.T
	e            *engine.Engine
	now          int64
	expiryPaused bool
	seed         [16]byte
}

func newRunner(t *testing.T, e *engine.Engine) *runner {
	return &runner{t: t, e: e, now: max(e.LastStamp(), 1_700_000_000_000)}
}

// do carries out an operation, in as many turns as it takes, and returns it with its answer.
func do[O engine.Op](r *runner, op O) O {
	r.t.Helper()
	r.do(op)
	return op
}

func (r *runner) do(op engine.Op) {
	r.t.Helper()
	r.seed[r.now%16]++
	for {
		err := r.e.Apply(engine.Command{Now: r.now, ExpiryPaused: r.expiryPaused, Seed: r.seed, Op: op})
		if err != nil && err != engine.ErrAgain {
			r.t.Fatal(err)
		}
		if wait := r.e.Commit(); wait != nil {
			wait()
		}
		if err == nil {
			return
		}
	}
}

func (r *runner) send(body string) {
	r.do(&engine.SendMessage{Queue: orders, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: body, Set: true}})})
}

// life receives the message at the front and deletes it.
func (r *runner) life() {
	r.t.Helper()
	res := do(r, &engine.ReceiveMessage{Queue: orders}).Received
	if len(res.Messages) != 1 {
		r.t.Fatalf("%d messages received, want 1", len(res.Messages))
	}
	m := res.Messages[0]
	r.do(&engine.DeleteMessage{Queue: orders, Handle: engine.Handle{
		Text: "h", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation,
	}})
}
