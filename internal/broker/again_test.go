package broker

import (
	"fmt"
	"testing"
	"time"

	"tenaq/internal/engine"
)

// fill sends n messages to a queue, all with one delay in seconds.
func (r *rig) fill(queue string, n int, delay int64) {
	r.t.Helper()
	batch := &engine.SendMessageBatch{Queue: named(queue), Given: true}
	for i := range 10 {
		id := fmt.Sprint("m", i)
		batch.Drafts = append(batch.Drafts, engine.NewDraft(engine.Entry{ID: text(id), Body: text(id), Delay: number(delay)}))
	}
	for range n / 10 {
		r.do(batch)
	}
}

// Work that is too much for one command is done in several turns, and then the request is answered;
// the poll that waits is served before the receive that came later. [POLL-9, RET-1]
func TestRequestsThatTakeManyTurns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("brief", "MessageRetentionPeriod", "60")
		r.fill("brief", 4000, 900)
		time.Sleep(50 * time.Second)
		waiting := r.begin(receiveOp("brief", 20))
		time.Sleep(10 * time.Second) // everything expires, and is removed in pieces
		resume := r.occupy()
		send := r.begin(sendOp("brief", "hello"))
		late := r.begin(receiveOp("brief", 20))
		resume()
		<-send.done
		waiting.wantAt(10*time.Second, "hello")
		late.wantAt(20*time.Second, "")
		if got := countMessages(r.cfg.Store); got != 1 {
			t.Errorf("%d messages are stored, want 1", got)
		}
	})
}

// So is the grace of many messages in flight, no matter which request comes first. [CLOCK-10]
func TestGraceOfMany(t *testing.T) {
	firsts := map[string]engine.Op{
		"send":    sendOp("orders", "hello"),
		"receive": receiveOp("orders", 0),
		"poll":    receiveOp("orders", 2),
		"delete":  deleteOp("orders", engine.Handle{Text: "h", Valid: true}),
	}
	for name, first := range firsts {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				const many = 2000
				r.fill("orders", many, 0)
				for range many / 10 {
					r.do(&engine.ReceiveMessage{Queue: named("orders"), Max: number(10), Visibility: number(12)})
				}
				time.Sleep(11 * time.Second)
				store := r.crash()
				stamp := lastStamp(store)
				time.Sleep(20 * time.Second)
				cfg := newConfig(t, store)
				cfg.Grace = time.Minute
				r = start(t, cfg)
				end := time.Now().Add(time.Since(stamp))
				op := r.begin(first)
				<-op.done
				if got := r.attribute("orders", "ApproximateNumberOfMessagesNotVisible"); got != fmt.Sprint(many) {
					t.Errorf("%s messages in flight during the grace, want %d", got, many)
				}
				time.Sleep(time.Until(end) + slack)
				if got := r.attribute("orders", "ApproximateNumberOfMessagesNotVisible"); got != "0" {
					t.Errorf("%s messages in flight after the grace, want 0", got)
				}
			})
		})
	}
}
