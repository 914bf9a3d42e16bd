package engine

import (
	"fmt"
	"testing"

	"tenaq/internal/engine/row"
)

// Unused queues leave memory after a while. Housekeeping over all queues does not bring them back,
// but still removes their expired rows.
func TestRest(t *testing.T) {
	const queues = 700
	r := newRig(t, Config{})
	r.do(&Start{})
	name := func(i int) QueueName { return QueueName{Account: "a", Name: fmt.Sprintf("q%03d", i)} }
	fifo, full := QueueName{Account: "a", Name: "p.fifo"}, name(10)
	for i := range queues {
		r.do(&CreateQueue{Queue: name(i), NameSet: true})
	}
	r.do(&CreateQueue{Queue: fifo, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
	r.do(&SendMessage{Queue: fifo, Draft: NewDraft(Entry{
		Body: Text{Value: "x", Set: true}, Group: Text{Value: "g", Set: true}, Dedup: Text{Value: "d", Set: true},
	})})
	_, h := r.receive(fifo, 3600)
	r.do(&DeleteMessage{Queue: fifo, Handle: h})
	r.send(full, "x")

	// look does what a server does now and then, and returns how many queues and messages there
	// are.
	look := func() (all int, messages int64) {
		survey, sweep := &Survey{Max: 50, More: true}, &Sweep{Max: 100, More: true}
		for ; survey.More; survey.After = survey.Last {
			r.do(survey)
			for _, g := range survey.Gauges {
				all, messages = all+1, messages+g.Visible+g.InFlight+g.Delayed
			}
		}
		for ; sweep.More; sweep.After = sweep.Last {
			r.do(sweep)
		}
		return all, messages
	}
	want := func(inMemory int, messages int64) {
		t.Helper()
		if all, got := look(); all != queues+1 || got != messages {
			t.Errorf("a survey tells of %d queues and %d messages, want %d and %d", all, got, queues+1, messages)
		}
		if got := len(r.queues); got != inMemory {
			t.Errorf("%d queues are in memory, want %d", got, inMemory)
		}
	}
	r.now += restAfter - 1
	want(queues+1, 1)
	r.now++
	want(2, 1) // one with a message, and one that remembers a deduplication
	r.now += dedupWindow + row.DedupBucket
	look()
	r.now += restAfter
	want(1, 1)
	stored, _ := r.rows.queue(fifo)
	prefix := row.SpaceKey(stored.Space, row.KindDedup)
	for k := range r.store.Scan(prefix, row.Below(prefix).Hi) {
		t.Errorf("the row %x of a deduplication is left", k)
	}
	r.now += 5 * 24 * 3600_000
	look() // the message expires
	r.now += restAfter
	want(0, 0)
	r.send(name(20), "y")
	want(1, 1)
}
