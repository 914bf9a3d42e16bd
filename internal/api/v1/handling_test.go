package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
)

// lives sends, receives and deletes n messages, each after a time with it.
func (w *world) lives(t *testing.T, queue string, n int, took time.Duration) {
	t.Helper()
	sendTo(t, w, queue, n)
	for range n {
		h := w.receive(t, queue)
		time.Sleep(took)
		w.do(t, &engine.DeleteMessage{Queue: engine.QueueName{Account: account, Name: queue}, Handle: h})
	}
}

// receive receives a message and returns its handle.
func (w *world) receive(t *testing.T, queue string) engine.Handle {
	t.Helper()
	op := &engine.ReceiveMessage{Queue: engine.QueueName{Account: account, Name: queue}}
	w.do(t, op)
	if len(op.Messages) != 1 {
		t.Fatalf("%s: received %d messages", queue, len(op.Messages))
	}
	m := op.Messages[0]
	return engine.Handle{Text: "h", Valid: true, Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation, Received: m.Received}
}

func (w *world) create(t *testing.T, queue string, timeout string) {
	t.Helper()
	w.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: queue}, NameSet: true,
		Attributes: map[string]string{"VisibilityTimeout": timeout}})
}

func (w *world) handlingOf(t *testing.T, queue string) Handling {
	t.Helper()
	var d queueDetail
	status, body := w.ask("GET", "/v1/queues/"+queue, "", "")
	if err := json.Unmarshal([]byte(body), &d); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %v in %d %s", queue, err, status, body)
	}
	return d.Handling
}

func about(t *Took, want time.Duration) bool {
	return t != nil && t.MS != nil && math.Abs(float64(*t.MS)-float64(want.Milliseconds())) < 0.07*float64(want.Milliseconds())
}

// Before a queue is watched, the bucket of its handling times is known. From then on they are
// measured, until ten minutes after the last question, and the newest replace older ones. [V1-22]
func TestHandling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(t, "q", "30")
		began := time.Now()
		w.lives(t, "q", 3, 7*time.Second)
		h := w.handlingOf(t, "q")
		if h.Messages != 3 || h.P99.MS != nil || h.P99.FromMS != 5000 || h.P99.ToMS != 15000 || !h.Watched || h.Since.After(began) {
			t.Errorf("before it is watched: %+v, p99 %+v", h, h.P99)
		}
		w.lives(t, "q", 98, 2*time.Second)
		w.lives(t, "q", 2, 20*time.Second)
		if h = w.handlingOf(t, "q"); h.Messages != 100 || !about(h.P50, 2*time.Second) || !about(h.P95, 2*time.Second) || !about(h.P99, 20*time.Second) || h.Late != 0 || h.TimeoutS != 0 {
			t.Errorf("watched: %+v, p50 %+v, p99 %+v", h, h.P50, h.P99)
		}
		// after five minutes a new part begins, and the latest two with messages are shown
		for i, want := range []int64{101, 2, 2, 1, 1} {
			time.Sleep(5*time.Minute + time.Second)
			w.handlingOf(t, "q")
			if i < 3 {
				w.lives(t, "q", 1, time.Second)
			}
			if h = w.handlingOf(t, "q"); h.Messages != want || h.TimeoutS != 0 {
				t.Errorf("part %d: %+v, want %d messages", i, h, want)
			}
		}
		time.Sleep(watchedFor + time.Second)
		if h = w.handlingOf(t, "q"); h.Messages != 106 || h.P99.MS != nil {
			t.Errorf("ten minutes after the last look: %+v, p99 %+v", h, h.P99)
		}
	})
}

// watchedFor is for how long a queue is watched after the last look.
const watchedFor = 10 * time.Minute

// A delete is late if the message could be received again, no matter which consumer has it since. A
// consumer that extends the timeout is not late, however long it takes. [V1-22]
func TestHandlingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"slow", "twice", "extended"} {
			w.create(t, name, "10")
			w.handlingOf(t, name)
		}
		w.lives(t, "slow", 2, 15*time.Second)
		if h := w.handlingOf(t, "slow"); h.Messages != 2 || h.Late != 2 || !about(h.P50, 15*time.Second) || h.TimeoutS < 28 || h.TimeoutS > 32 {
			t.Errorf("slow: %+v", h)
		}
		sendTo(t, w, "twice", 1)
		name := engine.QueueName{Account: account, Name: "twice"}
		for range 3 { // each finds the message taken over by the next
			h := w.receive(t, "twice")
			time.Sleep(11 * time.Second)
			w.receive(t, "twice")
			time.Sleep(time.Second)
			w.do(t, &engine.DeleteMessage{Queue: name, Handle: h})
			time.Sleep(9 * time.Second)
		}
		if h := w.handlingOf(t, "twice"); h.Messages != 3 || h.Late != 3 || !about(h.P99, 12*time.Second) || h.TimeoutS == 0 {
			t.Errorf("twice: %+v", h)
		}
		sendTo(t, w, "extended", 1)
		h := w.receive(t, "extended")
		name.Name = "extended"
		for range 5 {
			time.Sleep(8 * time.Second)
			w.do(t, &engine.ChangeMessageVisibility{Queue: name, Handle: h, Timeout: engine.Int{Value: 10, Set: true}})
		}
		w.do(t, &engine.DeleteMessage{Queue: name, Handle: h})
		if h := w.handlingOf(t, "extended"); h.Messages != 1 || h.Late != 0 || !about(h.P99, 40*time.Second) || h.TimeoutS != 0 {
			t.Errorf("extended: %+v", h)
		}
	})
}

// On a FIFO queue, a delete that is refused because it comes too late is one of these deletes too.
// [V1-22]
func TestHandlingFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		name := engine.QueueName{Account: account, Name: "q.fifo"}
		w.do(t, &engine.CreateQueue{Queue: name, NameSet: true, Attributes: map[string]string{"FifoQueue": "true", "VisibilityTimeout": "10"}})
		w.handlingOf(t, "q.fifo")
		text := func(s string) engine.Text { return engine.Text{Value: s, Set: true} }
		w.do(t, &engine.SendMessage{Queue: name, Draft: engine.NewDraft(engine.Entry{Body: text("x"), Group: text("g"), Dedup: text("d")})})
		first := w.receive(t, "q.fifo")
		first.Received = 0
		time.Sleep(12 * time.Second)
		if err := w.broker.Do(t.Context(), &engine.DeleteMessage{Queue: name, Handle: first}); err == nil {
			t.Error("a late delete of a FIFO queue has an effect")
		}
		w.receive(t, "q.fifo")
		time.Sleep(3 * time.Second)
		_ = w.broker.Do(t.Context(), &engine.DeleteMessage{Queue: name, Handle: first})
		if h := w.handlingOf(t, "q.fifo"); h.Messages != 2 || h.Late != 2 || !about(h.P50, 12*time.Second) || !about(h.P99, 13*time.Second) {
			t.Errorf("got %+v, p50 %v, p99 %v", h, *h.P50.MS, *h.P99.MS)
		}
	})
}

// The times of a queue that is deleted and created again start over, even while a page watches it.
// [V1-22]
func TestHandlingOfNewQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(t, "q", "30")
		ctx, leave := context.WithCancel(t.Context())
		_, ended := open(ctx, w, "?queues=q", nil)
		w.handlingOf(t, "q")
		w.lives(t, "q", 2, 9*time.Second)
		w.do(t, &engine.DeleteQueue{Queue: engine.QueueName{Account: account, Name: "q"}})
		if status, body := w.ask("GET", "/v1/queues/q", "", ""); status != http.StatusNotFound {
			t.Errorf("deleted: got %d %s", status, body)
		}
		time.Sleep(2 * time.Minute)
		w.create(t, "q", "30")
		if h := w.handlingOf(t, "q"); h.Messages != 0 || h.P99 != nil {
			t.Errorf("created again: %+v", h)
		}
		w.lives(t, "q", 1, 3*time.Second)
		if h := w.handlingOf(t, "q"); h.Messages != 1 || !about(h.P99, 3*time.Second) {
			t.Errorf("created again, and used: %+v", h)
		}
		leave()
		<-ended
		time.Sleep(2 * time.Second)
	})
}

// As many queues are watched as streams show. Another one has its bucket, unless a stream shows it:
// then one that no stream shows makes room. [V1-22]
func TestHandlingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range liveQueuesTogether + 2 {
			w.create(t, fmt.Sprint("q", i), "30")
		}
		last, other := fmt.Sprint("q", liveQueuesTogether), fmt.Sprint("q", liveQueuesTogether+1)
		ctx, leave := context.WithCancel(t.Context())
		_, first := open(ctx, w, "?queues=q0", nil)
		time.Sleep(time.Minute)
		for i := range liveQueuesTogether {
			time.Sleep(time.Second)
			if !w.handlingOf(t, fmt.Sprint("q", i)).Watched {
				t.Errorf("queue %d is not watched", i)
			}
		}
		w.lives(t, last, 1, 7*time.Second)
		for range 2 {
			if h := w.handlingOf(t, last); h.Watched || h.P99.MS != nil || h.P99.ToMS != 15000 {
				t.Errorf("one more: %+v", h)
			}
			w.lives(t, last, 1, 7*time.Second)
		}
		_, second := open(ctx, w, "?queues="+last, nil)
		time.Sleep(time.Second)
		w.lives(t, last, 1, 7*time.Second)
		if h := w.handlingOf(t, last); !h.Watched || h.Messages != 1 || !about(h.P99, 7*time.Second) {
			t.Errorf("one more that a stream shows: %+v", h)
		}
		if h := w.handlingOf(t, "q0"); !h.Watched {
			t.Errorf("a queue that a stream shows has made room: %+v", h)
		}
		if h := w.handlingOf(t, other); h.Watched {
			t.Errorf("yet another one: %+v", h)
		}
		leave()
		<-first
		<-second
		time.Sleep(watchedFor + time.Second)
		if h := w.handlingOf(t, other); !h.Watched {
			t.Errorf("ten minutes later there is no room: %+v", h)
		}
	})
}
