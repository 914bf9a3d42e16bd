package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// pages reads a queue to its end, in pages of max.
func (r *runner) pages(op *engine.Peek) (all []engine.Peeked) {
	r.t.Helper()
	for {
		res := do(r, op)
		if len(res.Messages) > op.Max {
			r.t.Fatalf("a page of %d messages, want at most %d", len(res.Messages), op.Max)
		}
		all = append(all, res.Messages...)
		if op.After = res.Next; op.After == "" {
			return all
		}
	}
}

func (r *runner) sendTo(q engine.QueueName, e engine.Entry) engine.MessageID {
	r.t.Helper()
	if !e.Body.Set {
		e.Body = engine.Text{Value: "body", Set: true}
	}
	return do(r, &engine.SendMessage{Queue: q, Draft: engine.NewDraft(e)}).Sent.ID
}

func (r *runner) refused(op engine.Op) string {
	r.t.Helper()
	err := r.e.Apply(engine.Command{Now: r.now, Op: op})
	r.e.Commit()
	if err == nil {
		r.t.Fatalf("%+v is not refused", op)
	}
	return err.Error()
}

func peekConfig() engine.Config {
	return engine.Config{Region: "us-east-1", InFlightMax: 1 << 40, Fault: func(s string) { panic(s) }}
}

func text(s string) engine.Text { return engine.Text{Value: s, Set: true} }
func number(n int64) engine.Int { return engine.Int{Value: n, Set: true} }

// Everything known about a message is shown, and looking at it changes nothing. [PEEK-1, PEEK-2]
func TestPeekShows(t *testing.T) {
	r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
	r.do(&engine.Start{})
	q, dead := engine.QueueName{Account: "1", Name: "q.fifo"}, engine.QueueName{Account: "1", Name: "dead.fifo"}
	r.do(&engine.CreateQueue{Queue: dead, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
	r.do(&engine.CreateQueue{Queue: q, NameSet: true, Attributes: map[string]string{
		"FifoQueue": "true", "RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:1:dead.fifo","maxReceiveCount":"1"}`,
	}})
	sent := r.now
	id := r.sendTo(q, engine.Entry{Group: text("g"), Dedup: text("d")})
	next := r.sendTo(q, engine.Entry{Group: text("g"), Dedup: text("e")})
	r.now += 1000
	r.do(&engine.ReceiveMessage{Queue: q, Visibility: number(5)})
	r.now += 2000
	want := []engine.Peeked{
		{
			State: engine.StateInFlight, Age: 3000, VisibleAt: sent + 6000, LastReceive: sent + 1000, Arrived: sent, Based: sent,
			Delivery: engine.Delivery{
				ID: id, Lineage: id, Size: 4, Sent: sent, Receives: 1, Generation: 1, FirstReceive: sent + 1000, Group: "g", Dedup: "d", Sequence: 1, Seq: 1,
				Fence: 1, FirstSent: sent,
			},
		},
		{
			State: engine.StateBlocked, Age: 3000, VisibleAt: sent, Arrived: sent, Based: sent,
			Delivery: engine.Delivery{ID: next, Lineage: next, Size: 4, Sent: sent, Group: "g", Dedup: "e", Sequence: 2, Seq: 2, FirstSent: sent},
		},
	}
	for range 3 {
		got := r.pages(&engine.Peek{Queue: q, Max: 10})
		for i := range got {
			if one := r.pages(&engine.Peek{Queue: q, Max: 10, After: got[i].Place}); len(one) != len(got)-1-i {
				t.Errorf("behind the place of message %d are %d, want %d", i, len(one), len(got)-1-i)
			}
			got[i].Space, got[i].Place = 0, ""
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got\n%+v\nwant\n%+v", got, want)
		}
	}
	r.now += 10_000
	r.do(&engine.ReceiveMessage{Queue: q}) // one time too many for the first
	got := r.pages(&engine.Peek{Queue: dead, Max: 10})
	if len(got) != 1 || got[0].ID != id || got[0].Source != "arn:aws:sqs:us-east-1:1:q.fifo" || got[0].Receives != 1 ||
		got[0].State != engine.StateVisible || got[0].Age != 13_000 || got[0].Sent != sent || got[0].Arrived != r.now {
		t.Errorf("the dead letter is %+v", got)
	}
}

// Only messages in the state that is asked for are shown, and all of them. [PEEK-2, PEEK-4]
func TestPeekOneState(t *testing.T) {
	r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true})
	for i := range 3000 {
		e := engine.Entry{}
		if i%1000 == 999 {
			e.Delay = number(60)
		}
		r.sendTo(orders, e)
	}
	for range 7 {
		r.do(&engine.ReceiveMessage{Queue: orders})
	}
	for state, want := range map[engine.MessageState]int{
		"": 3000, engine.StateVisible: 2990, engine.StateInFlight: 7, engine.StateDelayed: 3, engine.StateBlocked: 0,
	} {
		for _, size := range []int{1, 3, 100} {
			if size == 1 && want > 10 {
				continue
			}
			got := r.pages(&engine.Peek{Queue: orders, State: state, Max: size})
			if len(got) != want {
				t.Errorf("%d messages are %q in pages of %d, want %d", len(got), state, size, want)
			}
			for i, m := range got {
				if state != "" && m.State != state || i > 0 && m.Seq <= got[i-1].Seq {
					t.Fatalf("among those that are %q: message %d, which is %s, behind %d", state, m.Seq, m.State, got[max(i, 1)-1].Seq)
				}
			}
		}
	}
}

// The last page says so, and a page ends before its messages are too large together. [PEEK-5]
func TestPeekPages(t *testing.T) {
	r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true})
	for _, n := range []int{10, 500, 5000, 20, 30} {
		r.sendTo(orders, engine.Entry{Body: text(strings.Repeat("x", n))})
	}
	if res := do(r, &engine.Peek{Queue: orders, Max: 5}); len(res.Messages) != 5 || res.Next != "" {
		t.Errorf("%d of 5 messages on a page, and then %q", len(res.Messages), res.Next)
	}
	var sizes []string
	for op := (&engine.Peek{Queue: orders, Max: 5, Bytes: 510}); ; {
		res := do(r, op)
		var page []string
		for _, m := range res.Messages {
			page = append(page, fmt.Sprint(m.Size))
		}
		sizes = append(sizes, strings.Join(page, "+"))
		if op.After = res.Next; op.After == "" {
			break
		}
	}
	if got, want := strings.Join(sizes, " "), "10+500 5000 20+30"; got != want {
		t.Errorf("pages of %s, want %s", got, want)
	}
}

// A place is of one queue, not of its name; a purge does not end it. [PEEK-4]
func TestPeekPlaces(t *testing.T) {
	r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
	r.do(&engine.Start{})
	create := &engine.CreateQueue{Queue: orders, NameSet: true}
	r.do(create)
	r.send("a")
	r.send("b")
	place := do(r, &engine.Peek{Queue: orders, Max: 1}).Next
	if got := r.pages(&engine.Peek{Queue: orders, After: place, Max: 1}); len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("behind the first message is %+v", got)
	}
	r.do(&engine.PurgeQueue{Queue: orders})
	if got := r.pages(&engine.Peek{Queue: orders, After: place, Max: 1}); len(got) != 0 {
		t.Errorf("after a purge there is %+v", got)
	}
	r.send("c")
	if got := r.pages(&engine.Peek{Queue: orders, After: place, Max: 1}); len(got) != 1 {
		t.Errorf("%d messages behind the place after a purge and a send, want 1", len(got))
	}
	r.do(&engine.DeleteQueue{Queue: orders})
	if got := r.refused(&engine.Peek{Queue: orders, Max: 1}); !strings.Contains(got, "NonExistentQueue") {
		t.Errorf("of a queue that was deleted: %s", got)
	}
	r.do(create)
	for _, op := range []engine.Peek{
		{After: place, Max: 1}, {After: "x", Max: 1}, {After: place[:8], Max: 1}, {After: place + "AA", Max: 1},
		{Max: 0}, {Max: 101}, {State: "gone", Max: 1},
	} {
		op.Queue = orders
		if got := r.refused(&op); !strings.HasPrefix(got, "InvalidParameterValue: ") {
			t.Errorf("%+v: %s", op, got)
		}
	}
}

// The reads of a page depend neither on how many messages wait nor on how many were deleted before
// or within it. [PEEK-5]
func TestPeekCostsTheSameAtAnyDepth(t *testing.T) {
	for _, depth := range []int{1_000, 20_000, proof.Count(20_000, 100_000, 100_000, 1_000_000)} {
		store := &counting{Store: kv.NewMemory()}
		r := newRunner(t, engine.Open(store, peekConfig()))
		r.do(&engine.Start{})
		r.do(&engine.CreateQueue{Queue: orders, NameSet: true})
		r.send("stays")
		first := do(r, &engine.ReceiveMessage{Queue: orders, Visibility: number(43200)}).Received
		if len(first.Messages) != 1 {
			t.Fatal("nothing received")
		}
		r.fill(orders, depth)
		for range depth / 2 {
			r.life() // so that the second message stands half the depth behind the first
		}
		middle := do(r, &engine.Peek{Queue: orders, Max: 1}).Next
		for name, op := range map[string]engine.Peek{
			"front":          {Max: 100},
			"middle":         {Max: 100, After: middle},
			"none in flight": {Max: 100, After: middle, State: engine.StateInFlight},
		} {
			op.Queue = orders
			store.rows = 0
			res := do(r, &op)
			t.Logf("depth %d, %s: %d messages, %d rows", depth, name, len(res.Messages), store.rows)
			// A message has two rows at most, and one message more than is shown is read, or while
			// one state is looked for about 512. The few others are of segments.
			limit := 2*101 + 20
			if op.State != "" {
				limit = 2*(512+101) + 20
			}
			if store.rows > limit {
				t.Errorf("depth %d, %s: %d rows are read, want at most %d", depth, name, store.rows, limit)
			}
			if want := 100; op.State == "" && len(res.Messages) != want {
				t.Errorf("depth %d, %s: %d messages, want %d", depth, name, len(res.Messages), want)
			}
		}
	}
}

// If nearly all messages were deleted, a page passes only a bounded number of empty places, and the
// pages together show all remaining messages. [PEEK-4, PEEK-5]
func TestPeekBetweenTheDeleted(t *testing.T) {
	store := &counting{Store: kv.NewMemory()}
	r := newRunner(t, engine.Open(store, peekConfig()))
	r.do(&engine.Start{})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true})
	var want []uint64
	for i := range 4500 {
		r.fill(orders, 10)
		res := do(r, &engine.ReceiveMessage{Queue: orders, Max: number(10), Visibility: number(43200)}).Received
		remove := &engine.DeleteMessageBatch{Queue: orders, Given: true}
		for j, m := range res.Messages {
			if i%400 == 0 && j == 0 {
				want = append(want, m.Seq)
				continue
			}
			remove.Entries = append(remove.Entries, engine.DeleteEntry{ID: text(fmt.Sprint(j)), Handle: engine.Handle{
				Text: "h", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation,
			}})
		}
		r.do(remove)
	}
	var got []uint64
	pages := 0
	for op := (&engine.Peek{Queue: orders, Max: 100}); ; {
		store.rows = 0
		res := do(r, op)
		for _, m := range res.Messages {
			got = append(got, m.Seq)
		}
		if pages++; store.rows > 50 {
			t.Errorf("page %d reads %d rows", pages, store.rows)
		}
		if op.After = res.Next; op.After == "" {
			break
		}
	}
	if !slices.Equal(got, want) || pages != 2 {
		t.Errorf("got %v in %d pages, want %v in 2", got, pages, want)
	}
}

// On a FIFO queue, a peek also reads the group of each message. This costs a bounded number of rows
// too. [PEEK-5]
func TestPeekCostOfGroups(t *testing.T) {
	q := engine.QueueName{Account: "1", Name: "q.fifo"}
	for _, groups := range []int{1, 1000} {
		store := &counting{Store: kv.NewMemory()}
		r := newRunner(t, engine.Open(store, peekConfig()))
		r.do(&engine.Start{})
		r.do(&engine.CreateQueue{Queue: q, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
		for i := range 5000 {
			r.sendTo(q, engine.Entry{Group: text(fmt.Sprint(i % groups)), Dedup: text(fmt.Sprint(i))})
		}
		for range 20 {
			res := do(r, &engine.ReceiveMessage{Queue: q, Max: number(10)}).Received
			for i, m := range res.Messages {
				if groups == 1 || i%2 == 0 { // given back, so that those behind it decide
					r.do(&engine.ChangeMessageVisibility{Queue: q, Timeout: number(0), Handle: engine.Handle{
						Text: "h", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation,
					}})
				}
			}
		}
		store.rows = 0
		got := do(r, &engine.Peek{Queue: q, Max: 100}).Messages
		t.Logf("%d groups: %d messages, %d rows", groups, len(got), store.rows)
		if limit := 2*101 + 101*20 + 10; store.rows > limit || len(got) != 100 {
			t.Errorf("%d groups: %d rows are read for %d messages, want at most %d for 100", groups, store.rows, len(got), limit)
		}
	}
}

// fill sends n messages in batches.
func (r *runner) fill(q engine.QueueName, n int) {
	drafts := make([]engine.Draft, 10)
	for i := range drafts {
		drafts[i] = engine.NewDraft(engine.Entry{ID: text(fmt.Sprint(i)), Body: text("x")})
	}
	for ; n > 0; n -= len(drafts) {
		r.do(&engine.SendMessageBatch{Queue: q, Drafts: drafts, Given: true})
	}
}
