package engine_test

import (
	"fmt"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/enginetest"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// A finder plays commands against a store and looks for messages in it.
type finder struct {
	*runner
	store kv.Store
}

func newFinder(t *testing.T) *finder {
	store := kv.NewMemory()
	r := newRunner(t, engine.Open(store, peekConfig()))
	r.do(&engine.Start{})
	return &finder{r, store}
}

// reopen starts again with the store after change has rewritten its rows.
func (f *finder) reopen(change func(kv.Batch)) {
	f.t.Helper()
	b := f.store.NewBatch()
	change(b)
	b.Force()()
	f.runner = newRunner(f.t, engine.Open(f.store, peekConfig()))
	f.seed[0] = 7 // not that of the first start
	f.do(&engine.Start{})
}

func (f *finder) create(name engine.QueueName, attributes map[string]string) {
	f.t.Helper()
	f.do(&engine.CreateQueue{Queue: name, NameSet: true, Attributes: attributes})
}

// dies sends a message to a queue and lets it become a dead letter.
func (f *finder) dies(q engine.QueueName) engine.MessageID {
	f.t.Helper()
	id := f.sendTo(q, engine.Entry{})
	for range 2 {
		f.do(&engine.ReceiveMessage{Queue: q, Visibility: number(0)})
	}
	return id
}

// want looks for a message, and for faults in the rows.
func (f *finder) want(id engine.MessageID, queue string) engine.Peeked {
	f.t.Helper()
	op := do(f.runner, &engine.Find{Account: "1", ID: id})
	if op.Queue.Name != queue {
		f.t.Errorf("message %s is in %q, want %q", id, op.Queue.Name, queue)
	}
	if err := enginetest.Audit(f.store); err != nil {
		f.t.Error(err)
	}
	return op.Message
}

func (f *finder) moved() (n int) {
	for range f.store.Scan([]byte{row.FamilyMoved}, []byte{row.FamilyMoved + 1}) {
		n++
	}
	return n
}

func named(name string) engine.QueueName { return engine.QueueName{Account: "1", Name: name} }

func policyTo(dead string) map[string]string {
	return map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:1:` + dead + `","maxReceiveCount":"1"}`}
}

// A store of an older version has no owner rows, and its ids carry no places. The first search
// writes the former, in steps. A message is found once it has moved. [ID-10]
func TestFindInOlderStore(t *testing.T) {
	f := newFinder(t)
	const queues = 1100 // three steps
	f.create(named("dead"), nil)
	for i := range queues {
		f.create(named(fmt.Sprintf("q%04d", i)), policyTo("dead"))
	}
	old := f.sendTo(named("q0007"), engine.Entry{})
	f.reopen(func(b kv.Batch) {
		for k, v := range f.store.Scan([]byte{row.FamilySystem}, nil) {
			if s, ok := row.DecodeSystem(v); k[0] == row.FamilySystem && ok {
				s.IDKey, s.Unowned = row.IDKey{}, true
				b.Set(k, s.Encode(nil))
			}
			if k[0] == row.FamilySpace && row.Kind(k[row.SpacePrefixLen-1]) == row.KindOwner {
				b.Delete(k)
			}
		}
	})
	id := f.sendTo(named(fmt.Sprintf("q%04d", queues-1)), engine.Entry{})
	f.want(id, fmt.Sprintf("q%04d", queues-1))
	f.want(old, "")
	f.do(&engine.ReceiveMessage{Queue: named("q0007"), Visibility: number(0)})
	f.do(&engine.ReceiveMessage{Queue: named("q0007"), Visibility: number(0)})
	if m := f.want(old, "dead"); m.Fence != 1 {
		t.Errorf("the fence is %d, want 1", m.Fence)
	}
	f.create(named("new"), nil)
	f.do(&engine.PurgeQueue{Queue: named("q0007")})
	f.want(f.sendTo(named("q0007"), engine.Entry{}), "q0007")
}

// Sweeps remove the rows that a purge has left, even if one step does not suffice, and keep those
// of other queues.
func TestSweepMoved(t *testing.T) {
	f := newFinder(t)
	const many = 1500
	for _, name := range []string{"dead", "kept"} {
		f.create(named(name), nil)
		f.create(named("to-"+name), policyTo(name))
	}
	var kept engine.MessageID
	for i := range many {
		f.dies(named("to-dead"))
		if i%5 == 0 {
			kept = f.dies(named("to-kept"))
		}
	}
	sweeps := func() (n int) {
		for op := (&engine.Sweep{Max: 10}); ; n++ {
			if f.do(op); !op.Moved {
				return n
			}
		}
	}
	if n := sweeps(); n != 0 || f.moved() != many+many/5 {
		t.Errorf("%d rows are left after %d sweeps of a store in which nothing fell", f.moved(), n+1)
	}
	f.do(&engine.PurgeQueue{Queue: named("dead")})
	f.want(kept, "kept")
	half := &engine.Sweep{Max: 10}
	f.do(half)
	if half.More || !half.Moved {
		t.Errorf("after the first sweep, more queues: %v, more rows: %v; want false and true",
			half.More, half.Moved)
	}
	f.reopen(func(kv.Batch) {}) // which changes nothing
	f.do(&engine.PurgeQueue{Queue: named("to-dead")})
	if f.do(half); f.moved() != many/5 || !half.Moved {
		t.Errorf("%d rows are left after the second sweep, want %d; more rows: %v, want true",
			f.moved(), many/5, half.Moved) // it went on, and then begins again for the second purge
	}
	if n := sweeps(); n != 0 || f.moved() != many/5 {
		t.Errorf("%d rows are left after %d more sweeps, want %d after 1", f.moved(), n+1, many/5)
	}
	f.do(&engine.DeleteQueue{Queue: named("kept")})
	sweeps()
	f.want(kept, "")
	if f.moved() != 0 {
		t.Errorf("%d rows are left, want none", f.moved())
	}
}

// A message whose place is too large for an id is found all the same.
func TestFindBeyondIDs(t *testing.T) {
	f := newFinder(t)
	f.create(named("dead"), nil)
	f.create(named("q"), policyTo("dead"))
	const last = 1<<38 - 1
	f.reopen(func(b kv.Batch) {
		for k, v := range f.store.Scan([]byte{row.FamilySpace}, nil) {
			if st, ok := row.DecodeState(v); ok && row.Kind(k[row.SpacePrefixLen-1]) == row.KindState {
				st = row.NewState(last)
				b.Set(k, st.Encode(nil))
			}
		}
	})
	for range 3 {
		f.want(f.sendTo(named("q"), engine.Entry{}), "q")
	}
	if f.moved() != 2 {
		t.Errorf("%d rows in moved, want one for each message behind %d", f.moved(), last)
	}
	for {
		op := do(f.runner, &engine.ReceiveMessage{Queue: named("q"), Visibility: number(0)})
		if len(op.Messages) == 0 {
			break
		}
	}
	for _, m := range f.pages(&engine.Peek{Queue: named("dead"), Max: 10}) {
		f.want(m.ID, "dead")
	}
	f.now += 14 * 24 * 3600 * 1000
	f.do(&engine.Sweep{Max: 10})
	if f.moved() != 0 {
		t.Errorf("%d rows are left after all has expired, want none", f.moved())
	}
}

// Messages that a task moved in the millisecond of their send take their rows in moved along when a
// whole segment expires, although none of them is older than it seems.
func TestSegmentOfMovedExpires(t *testing.T) {
	f := newFinder(t)
	f.create(named("dead"), nil)
	f.create(named("q"), policyTo("dead"))
	id := f.dies(named("q"))
	f.do(&engine.StartMessageMoveTask{Account: "1", Source: text("arn:aws:sqs:us-east-1:1:dead")})
	f.do(&engine.MoveStep{})
	if m := f.want(id, "q"); m.FirstSent != m.Sent {
		t.Fatalf("sent at %d and first at %d, so this proves nothing", m.Sent, m.FirstSent)
	}
	for range 1 << row.SegmentBits {
		f.sendTo(named("q"), engine.Entry{})
	}
	f.now += 14 * 24 * 3600 * 1000
	f.want(id, "")
	if f.moved() != 0 {
		t.Errorf("%d rows are left in moved, want none", f.moved())
	}
}

// Finding a message reads a few rows, whatever else there is. [ID-8]
func TestFindReadsFewRows(t *testing.T) {
	f := newFinder(t)
	f.create(named("dead"), nil)
	f.create(named("q"), policyTo("dead"))
	moved := f.dies(named("q"))
	ids := []engine.MessageID{moved}
	for i := range 10_000 {
		id := f.sendTo(named("q"), engine.Entry{})
		if i%2000 == 0 {
			ids = append(ids, id)
		}
	}
	counted := &counting{Store: f.store}
	f.runner = newRunner(t, engine.Open(counted, peekConfig()))
	f.do(&engine.Start{})
	for _, id := range ids {
		counted.rows = 0
		op := do(f.runner, &engine.Find{Account: "1", ID: id})
		if op.Message.ID != id || counted.rows > 20 {
			t.Errorf("found %s for %s in %d rows, want at most 20", op.Message.ID, id, counted.rows)
		}
	}
}
