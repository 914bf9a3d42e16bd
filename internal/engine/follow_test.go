package engine_test

import (
	"maps"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// follow asks what became of a message.
func (r *runner) follow(q engine.QueueName, mark string) engine.MessageState {
	r.t.Helper()
	return do(r, &engine.Follow{Queue: q, Mark: mark}).Fate.State
}

// marked sends a message that can be followed.
func (r *runner) marked(q engine.QueueName, e engine.Entry) string {
	r.t.Helper()
	e.Body = text("body")
	return do(r, &engine.SendMessage{Queue: q, Draft: engine.NewDraft(e), Follow: true}).Sent.Mark
}

// A message is followed through its states to its end, among others that were sent in the same
// millisecond, and is not received by it. [PEEK-9]
func TestFollow(t *testing.T) {
	r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
	r.do(&engine.Start{})
	dead := engine.QueueName{Account: orders.Account, Name: "dead"}
	r.do(&engine.CreateQueue{Queue: dead, NameSet: true})
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true, Attributes: map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:` + orders.Account + `:dead","maxReceiveCount":"1"}`,
	}})
	want := func(mark string, want engine.MessageState) {
		t.Helper()
		if got := r.follow(orders, mark); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	first := r.marked(orders, engine.Entry{})
	second := r.marked(orders, engine.Entry{})
	late := r.marked(orders, engine.Entry{Delay: number(60)})
	for range 3 {
		want(first, engine.StateVisible)
	}
	want(late, engine.StateDelayed)
	one := do(r, &engine.ReceiveMessage{Queue: orders, Visibility: number(10)}).Received
	if n := one.Messages[0].Receives; n != 1 {
		t.Errorf("it was received %d times, want once", n)
	}
	want(first, engine.StateInFlight)
	r.do(&engine.ReceiveMessage{Queue: orders, Visibility: number(10)})
	r.do(&engine.DeleteMessage{Queue: orders, Handle: engine.Handle{
		Text: "x", Valid: true, Incarnation: one.Incarnation, Space: one.Messages[0].Space, Seq: one.Messages[0].Seq, Generation: one.Messages[0].Generation,
	}})
	want(first, engine.StateDeleted)
	want(second, engine.StateInFlight)
	r.now += 11_000
	r.do(&engine.ReceiveMessage{Queue: orders})
	want(second, engine.StateDeadLetter)
	want(first, engine.StateDeleted)
	r.now += 60_000
	want(late, engine.StateVisible)
	r.do(&engine.PurgeQueue{Queue: orders})
	want(late, engine.StateUnknown)
	old := r.marked(orders, engine.Entry{})
	r.now += 4 * 24 * 3600 * 1000
	want(old, engine.StateUnknown)
	r.do(&engine.DeleteQueue{Queue: orders})
	r.now += 60_000
	r.do(&engine.CreateQueue{Queue: orders, NameSet: true})
	r.marked(orders, engine.Entry{})
	want(first, engine.StateUnknown)
	for _, mark := range []string{"", "x", first[:20], first + "AA"} {
		r.refused(&engine.Follow{Queue: orders, Mark: mark})
	}
	if do(r, &engine.SendMessage{Queue: orders, Draft: engine.NewDraft(engine.Entry{Body: text("x")})}).Sent.Mark != "" {
		t.Error("there is a mark although none was asked for")
	}
}

// In a FIFO queue, a message that waits for its group is blocked, and a duplicate has no mark.
// [PEEK-9]
func TestFollowFIFO(t *testing.T) {
	r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
	r.do(&engine.Start{})
	q := engine.QueueName{Account: "1", Name: "q.fifo"}
	r.do(&engine.CreateQueue{Queue: q, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
	first := r.marked(q, engine.Entry{Group: text("g"), Dedup: text("a")})
	second := r.marked(q, engine.Entry{Group: text("g"), Dedup: text("b")})
	if again := r.marked(q, engine.Entry{Group: text("g"), Dedup: text("b")}); again != "" {
		t.Errorf("a duplicate has the mark %s", again)
	}
	r.do(&engine.ReceiveMessage{Queue: q, Visibility: number(10)})
	if a, b := r.follow(q, first), r.follow(q, second); a != engine.StateInFlight || b != engine.StateBlocked {
		t.Errorf("they are %s and %s", a, b)
	}
}

// A message that its consumer moves with a trail is a dead letter, although its retention starts
// again, and a FIFO queue says so too. The message that replaces it can be followed. [PEEK-9,
// NACK-18, NACK-19]
func TestFollowMoved(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		r := newRunner(t, engine.Open(kv.NewMemory(), peekConfig()))
		r.do(&engine.Start{})
		q, dead := engine.QueueName{Account: "1", Name: "q" + suffix}, engine.QueueName{Account: "1", Name: "dead" + suffix}
		attributes, entry := map[string]string{}, engine.Entry{}
		if suffix != "" {
			attributes["FifoQueue"], entry = "true", engine.Entry{Group: text("g"), Dedup: text("a")}
		}
		r.do(&engine.CreateQueue{Queue: dead, NameSet: true, Attributes: maps.Clone(attributes)})
		attributes["RedrivePolicy"] = `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:1:dead` + suffix + `","maxReceiveCount":"5"}`
		r.do(&engine.CreateQueue{Queue: q, NameSet: true, Attributes: attributes})
		handle := func(of engine.QueueName) engine.Handle {
			one := do(r, &engine.ReceiveMessage{Queue: of, Visibility: number(30)}).Received
			m := one.Messages[0]
			return engine.Handle{Text: "x", Valid: true, Incarnation: one.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation}
		}
		mark := r.marked(q, entry)
		r.now += 1000
		r.do(&engine.Nack{Queue: q, Entries: []engine.NackEntry{{Handle: handle(q), Verdict: engine.Exhausted, Trail: text("v=1")}}})
		if got := r.follow(q, mark); got != engine.StateDeadLetter {
			t.Errorf("%s: the dead letter is %s", q.Name, got)
		}
		back := do(r, &engine.Replace{Queue: dead, Handle: handle(dead), Draft: engine.NewDraft(engine.Entry{Body: text("x")})}).Sent.Mark
		if got := r.follow(q, mark); got != engine.StateDeleted {
			t.Errorf("%s: after its redrive, the dead letter is %s", q.Name, got)
		}
		if got := r.follow(q, back); got != engine.StateVisible {
			t.Errorf("%s: the redriven message is %s", q.Name, got)
		}
	}
}
