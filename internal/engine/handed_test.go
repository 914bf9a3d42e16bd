package engine

import (
	"strings"
	"testing"

	"tenaq/internal/engine/row"
)

// A FIFO queue hands out of a group what there is room for, in order, and a repeated attempt all of
// its messages or none. [RCV-24, DEDUP-19]
func TestRoomOfFIFO(t *testing.T) {
	r := newRig(t, Config{Region: "elsewhere"})
	name := QueueName{Account: "000000000000", Name: "q.fifo"}
	r.do(&CreateQueue{Queue: name, NameSet: true, Attributes: map[string]string{"FifoQueue": "true"}})
	text := func(s string) Text { return Text{Value: s, Set: true} }
	for _, body := range []string{"aaaa", "bbbb", "c"} {
		r.do(&SendMessage{Queue: name, Draft: NewDraft(Entry{Body: text(body), Group: text("g"), Dedup: text(body)})})
	}
	receive := func(room int64, want int, noRoom bool) Received {
		t.Helper()
		res := do(r, &ReceiveMessage{
			Queue: name, Max: Int{Value: 10, Set: true}, AttemptID: text("a"), Room: Int{Value: room, Set: true}}).Received
		if len(res.Messages) != want || res.NoRoom != noRoom {
			t.Errorf("with room for %d: got %d messages, no room %v, want %d, %v", room, len(res.Messages), res.NoRoom, want, noRoom)
		}
		return res
	}
	receive(3, 0, true)
	first := receive(8, 2, false)
	receive(7, 0, true)
	again := receive(8, 2, false)
	for i, d := range again.Messages {
		if d.Seq != first.Messages[i].Seq || d.Receives != 1 {
			t.Errorf("message %d of the repeated attempt is number %d, received %d times, want %d, once", i, d.Seq, d.Receives, first.Messages[i].Seq)
		}
	}
}

// The content of a message that was handed out can be read after the message has moved, for as long
// as the answer to the receive is held and no longer. [RCV-23]
func TestReadDelivered(t *testing.T) {
	for _, body := range []string{"hello", strings.Repeat("x", row.InlineMax+1)} {
		r := newRig(t, Config{Region: "elsewhere"})
		dead := QueueName{Account: testQueue.Account, Name: "dead"}
		r.do(&CreateQueue{Queue: dead, NameSet: true})
		r.do(&CreateQueue{Queue: testQueue, NameSet: true, Attributes: map[string]string{
			"VisibilityTimeout": "0",
			"RedrivePolicy":     `{"deadLetterTargetArn":"arn:aws:sqs:elsewhere:` + dead.Account + `:dead","maxReceiveCount":"1"}`}})
		r.send(testQueue, body)
		receive := &ReceiveMessage{Queue: testQueue}
		res := do(r, receive)
		for range 3 {
			if empty := do(r, &ReceiveMessage{Queue: testQueue}).Received; len(empty.Messages) != 0 {
				t.Fatalf("the message was received twice: %v", empty.Messages)
			}
		}
		d := res.Messages[0]
		if _, ok := ReadContent(r.store, d.Space, d.Seq, r.cfg.Fault); ok {
			t.Fatal("the message has not moved")
		}
		read := 0
		for from, c := range ReadDelivered(r.store, &receive.Received, r.cfg.Fault) {
			if read++; from.Seq != d.Seq || c.Body != body {
				t.Errorf("read %.20q of message %d, want %.20q", c.Body, from.Seq, body)
			}
		}
		if read != 1 {
			t.Errorf("read %d contents, want 1", read)
		}
		if r.kept == res.Kept {
			t.Error("the engine still holds the content")
		}
	}
}
