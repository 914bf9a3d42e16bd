package engine_test

import (
	"fmt"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// What a send, a receive and a delete on a FIFO queue read depends neither on how many messages wait
// behind a locked one nor on how many groups there are, right after a start as well. [FIFO-25, FIFO-30]
func TestGroupsCostNothing(t *testing.T) {
	const window = 100
	cfg := engine.Config{InFlightMax: 1 << 40, Window: window, Fault: func(s string) { panic(s) }}
	queue := engine.QueueName{Account: "000000000000", Name: "orders.fifo"}
	some := func(n int64) engine.Int { return engine.Int{Value: n, Set: true} }
	cost := func(locked, groups int) int {
		store := &counting{Store: kv.NewMemory()}
		r := newRunner(t, engine.Open(store, cfg))
		sent := 0
		send := func(group string) {
			sent++
			r.do(&engine.SendMessage{Queue: queue, Draft: engine.NewDraft(engine.Entry{
				Body:  engine.Text{Value: "x", Set: true},
				Group: engine.Text{Value: group, Set: true},
				Dedup: engine.Text{Value: fmt.Sprint(sent), Set: true},
			})})
		}
		r.do(engine.Start{})
		r.do(engine.CreateQueue{Queue: queue, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
		for range locked {
			send("locked")
		}
		if locked > 0 {
			r.do(&engine.ReceiveMessage{Queue: queue, Visibility: some(43200)})
		}
		for i := range groups {
			send(fmt.Sprint("group-", i))
		}
		store.rows = 0
		r = newRunner(t, engine.Open(store, cfg))
		r.do(engine.Start{})
		for i := range 20 {
			send(fmt.Sprint("new-", i))
			res := r.do(&engine.ReceiveMessage{Queue: queue, Max: some(1)})
			if len(res.Messages) != 1 {
				t.Fatalf("%d messages received, want 1", len(res.Messages))
			}
			m := res.Messages[0]
			r.do(&engine.DeleteMessage{Queue: queue, Handle: engine.Handle{
				Text: "h", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation,
			}})
		}
		return store.rows
	}
	want := cost(1, 500)
	for _, test := range []struct{ locked, groups int }{{8_000, 500}, {1, 8_000}} {
		// The windows that are read when a queue is first used are bounded; what they hold is not the same.
		if got := cost(test.locked, test.groups); got > want+3*window {
			t.Errorf("%d messages in a locked group, %d groups: twenty lives read %d rows, want about %d",
				test.locked, test.groups, got, want)
		}
	}
}
