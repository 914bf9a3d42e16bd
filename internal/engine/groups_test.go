package engine_test

import (
	"fmt"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// The reads of a send, a receive and a delete on a FIFO queue depend neither on how many messages
// wait behind a locked one nor on how many groups there are, even right after a start.
// [FIFO-25, FIFO-30]
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
		r.do(&engine.Start{})
		r.do(&engine.CreateQueue{Queue: queue, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
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
		r.do(&engine.Start{})
		for i := range 20 {
			send(fmt.Sprint("new-", i))
			res := do(r, &engine.ReceiveMessage{Queue: queue, Max: some(1)}).Received
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
		// The windows that are read when a queue is first used are bounded; what they hold is not
		// the same.
		if got := cost(test.locked, test.groups); got > want+3*window {
			t.Errorf("%d messages in a locked group, %d groups: twenty lives read %d rows, want about %d",
				test.locked, test.groups, got, want)
		}
	}
}

// While expiry is paused, a receive walks neither through the groups whose first message has
// expired nor through a queue full of messages that it has just moved into itself.
// [CLOCK-7, FIFO-37, DLQ-37]
func TestWalkPastIsBounded(t *testing.T) {
	const window, looks = 100, 1000
	cfg := engine.Config{Region: "us-east-1", InFlightMax: 1 << 40, Window: window, Fault: func(s string) { panic(s) }}
	queue := engine.QueueName{Account: "000000000000", Name: "orders.fifo"}
	some := func(n int64) engine.Int { return engine.Int{Value: n, Set: true} }
	cost := func(groups int) int {
		store := &counting{Store: kv.NewMemory()}
		r := newRunner(t, engine.Open(store, cfg))
		send := func(i int) {
			r.do(&engine.SendMessage{Queue: queue, Draft: engine.NewDraft(engine.Entry{
				Body:  engine.Text{Value: "x", Set: true},
				Group: engine.Text{Value: fmt.Sprint("group-", i), Set: true},
				Dedup: engine.Text{Value: fmt.Sprint(i), Set: true},
			})})
		}
		r.do(&engine.Start{})
		r.do(&engine.CreateQueue{Queue: queue, NameSet: true, Attributes: map[string]string{
			"FifoQueue": "true", "MessageRetentionPeriod": "60"}})
		for i := range groups {
			send(i)
		}
		r.now, r.expiryPaused = r.now+3_600_000, true
		send(groups)
		store.rows = 0
		if res := do(r, &engine.ReceiveMessage{Queue: queue, Max: some(10)}).Received; len(res.Messages) != 1 {
			t.Fatalf("%d messages received while %d have expired, want 1", len(res.Messages), groups)
		}
		return store.rows
	}
	if few, many := cost(100), cost(6_000); many > few+3*window {
		t.Errorf("a receive reads %d rows when 6000 groups have expired, and %d when 100 have", many, few)
	}

	own := engine.QueueName{Account: "000000000000", Name: "own"}
	store := &counting{Store: kv.NewMemory()}
	r := newRunner(t, engine.Open(store, cfg))
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: own, NameSet: true})
	r.do(&engine.SetQueueAttributes{Queue: own, Values: map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:own","maxReceiveCount":1}`}})
	for range 6_000 {
		r.do(&engine.SendMessage{Queue: own, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "x", Set: true}})})
	}
	for range 600 {
		r.do(&engine.ReceiveMessage{Queue: own, Max: some(10), Visibility: some(0)})
	}
	op, most := &engine.ReceiveMessage{Queue: own, Max: some(10)}, 0
	for again := true; again; {
		store.rows = 0
		err := r.e.Apply(engine.Command{Now: r.now, Op: op})
		if err != nil && err != engine.ErrAgain {
			t.Fatal(err)
		}
		if wait := r.e.Commit(); wait != nil {
			wait()
		}
		again, most = err == engine.ErrAgain, max(most, store.rows)
	}
	if most > 4*looks { // of each message it reads the place, the delivery and the metadata
		t.Errorf("one step of a receive that moves 6000 messages reads %d rows, want at most about %d", most, 3*looks)
	}
}
