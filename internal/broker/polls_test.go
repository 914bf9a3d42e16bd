package broker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// A poll waits as long as its request says, else as long as its queue says, and then answers with
// nothing and no error. [POLL-1, POLL-4]
func TestPollWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("patient", "ReceiveMessageWaitTimeSeconds", "7")
		r.begin(&engine.ReceiveMessage{Queue: named("patient")}).wantAt(7*time.Second, "")
		r.begin(receiveOp("patient", 3)).wantAt(3*time.Second, "")
		r.begin(receiveOp("patient", 20)).wantAt(20*time.Second, "")
		r.begin(&engine.ReceiveMessage{Queue: named("orders")}).wantAt(0, "")
	})
}

// A wait of zero does not wait, whatever the queue says. [POLL-2]
func TestPollOfZeroAnswersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("patient", "ReceiveMessageWaitTimeSeconds", "7")
		r.begin(receiveOp("patient", 0)).wantAt(0, "")
	})
}

// Many polls on several queues time out each at its own moment. [POLL-1, POLL-4]
func TestPollsTimeOutInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("returns")
		waits := []int64{9, 2, 20, 5, 1, 14, 3, 8, 17, 2}
		var polls []*call
		for i, wait := range waits {
			polls = append(polls, r.begin(receiveOp([]string{"orders", "returns"}[i%2], wait)))
		}
		for i, p := range polls {
			p.wantAt(time.Duration(waits[i])*time.Second, "")
		}
	})
}

// A poll answers with the first message there is and does not wait for more. [POLL-3]
func TestPollTakesWhatIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		poll := r.begin(&engine.ReceiveMessage{Queue: named("orders"), Wait: number(20), Max: number(10)})
		time.Sleep(3 * time.Second)
		r.send("orders", "one")
		poll.wantAt(3*time.Second, "one")

		poll = r.begin(&engine.ReceiveMessage{Queue: named("orders"), Wait: number(20), Max: number(10)})
		r.do(&engine.SendMessageBatch{Queue: named("orders"), Given: true, Drafts: []engine.Draft{
			engine.NewDraft(engine.Entry{ID: text("a"), Body: text("two")}),
			engine.NewDraft(engine.Entry{ID: text("b"), Body: text("three")}),
		}})
		poll.wantAt(0, "two three")
	})
}

// A send wakes a poll at once, and only polls of its queue. [POLL-5]
func TestPollWokenBySend(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("returns")
		poll := r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		r.send("returns", "elsewhere")
		poll.wantWaiting()
		time.Sleep(1234 * time.Millisecond)
		r.send("orders", "hello")
		poll.wantAt(2234*time.Millisecond, "hello")
	})
}

// A poll gets a message the moment its visibility timeout ends, whether it became hidden before the
// poll came or while it waited. [POLL-6]
func TestPollWokenByTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "hello")
		r.take("orders", 5)
		time.Sleep(2 * time.Second)
		r.begin(receiveOp("orders", 20)).wantAt(3*time.Second, "hello")
	})
	bubble(t, func(t *testing.T, r *rig) {
		first := r.begin(&engine.ReceiveMessage{Queue: named("orders"), Wait: number(20), Visibility: number(4)})
		second := r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		r.send("orders", "hello")
		first.wantAt(time.Second, "hello")
		second.wantAt(5*time.Second, "hello")
	})
}

// A poll follows a timeout that is made longer or shorter while it waits. [POLL-6, POLL-7]
func TestPollFollowsChangedTimeout(t *testing.T) {
	for _, c := range []struct{ change, at int64 }{{10, 11}, {2, 3}, {0, 1}} {
		bubble(t, func(t *testing.T, r *rig) {
			r.send("orders", "hello")
			h := r.take("orders", 5)
			poll := r.begin(receiveOp("orders", 20))
			time.Sleep(time.Second)
			r.do(changeOp("orders", h, c.change))
			poll.wantAt(time.Duration(c.at)*time.Second, "hello")
		})
	}
}

// In a batch of visibility changes, those to zero wake polls too. [POLL-7]
func TestPollWokenByBatchOfChanges(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "hello")
		h := r.take("orders", 50)
		poll := r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		r.do(&engine.ChangeMessageVisibilityBatch{Queue: named("orders"), Given: true,
			Entries: []engine.VisibilityEntry{{ID: text("a"), Handle: h, Timeout: number(0)}}})
		poll.wantAt(time.Second, "hello")
	})
}

// A poll gets a message the moment its delay ends. [POLL-8]
func TestPollWokenByDelay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(delayedOp("orders", "before", 5))
		poll := r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		r.do(delayedOp("orders", "during", 2)) // ends earlier than what the poll was waiting for
		poll.wantAt(3*time.Second, "during")
		r.begin(receiveOp("orders", 20)).wantAt(2*time.Second, "before")
	})
}

// At the in-flight limit a poll waits, is served the moment there is room, and otherwise answers
// empty. [LIM-3, LIM-4]
func TestPollAtLimit(t *testing.T) {
	room := map[string]func(r *rig, held engine.Handle){
		"delete": func(r *rig, held engine.Handle) { r.do(deleteOp("orders", held)) },
		"batch of deletes": func(r *rig, held engine.Handle) {
			r.do(&engine.DeleteMessageBatch{Queue: named("orders"), Given: true,
				Entries: []engine.DeleteEntry{{ID: text("a"), Handle: held}}})
		},
		"change": func(r *rig, held engine.Handle) { r.do(changeOp("orders", held, 0)) },
		"purge":  func(r *rig, _ engine.Handle) { r.do(&engine.PurgeQueue{Queue: named("orders")}); r.send("orders", "b") },
	}
	for name, make := range room {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := atLimit(t)
				held := r.take("orders", 100)
				r.takeOverLimit("orders")
				poll := r.begin(receiveOp("orders", 20))
				time.Sleep(3 * time.Second)
				poll.wantWaiting()
				make(r, held)
				poll.wantAt(3*time.Second, "b") // which was available before a was again [ORD-3]
			})
		})
	}
	t.Run("timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := atLimit(t)
			r.take("orders", 6)
			r.begin(receiveOp("orders", 20)).wantAt(6*time.Second, "b")
		})
	})
	t.Run("none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := atLimit(t)
			r.take("orders", 100)
			r.begin(receiveOp("orders", 20)).wantAt(20*time.Second, "")
		})
	})
}

// atLimit returns a rig whose queue may have one message in flight and has the messages a and b.
func atLimit(t *testing.T) *rig {
	cfg := newConfig(t, kv.NewMemory())
	cfg.Engine.InFlightMax = 1
	r := start(t, cfg)
	r.create("orders")
	r.send("orders", "a")
	r.send("orders", "b")
	return r
}

// takeOverLimit checks that a short poll is refused for the limit.
func (r *rig) takeOverLimit(queue string) {
	r.t.Helper()
	r.begin(receiveOp(queue, 0)).wantRefused(engine.CodeOverLimit)
}

// Ten polls and ten sends meet in the order of their arrival, sent one by one or in one turn.
// [POLL-9]
func TestPollsServedInOrder(t *testing.T) {
	for _, apart := range []bool{true, false} {
		bubble(t, func(t *testing.T, r *rig) {
			var polls []*call
			for range 10 {
				polls = append(polls, r.begin(receiveOp("orders", 20)))
				time.Sleep(10 * time.Millisecond)
			}
			var batch engine.SendMessageBatch
			for i := range 10 {
				body := fmt.Sprint("m", i)
				if apart {
					r.send("orders", body)
					time.Sleep(10 * time.Millisecond)
				}
				batch.Drafts = append(batch.Drafts, engine.NewDraft(engine.Entry{ID: text(body), Body: text(body)}))
			}
			if !apart {
				batch.Queue, batch.Given = named("orders"), true
				r.do(&batch)
			}
			for i, p := range polls {
				if <-p.done; r.bodies(p.res) != fmt.Sprint("m", i) {
					t.Errorf("apart=%v: poll %d received %q, want m%d", apart, i, r.bodies(p.res), i)
				}
			}
		})
	}
}

// A receive that arrives in the same turn as the message, or at the moment a timeout or a delay
// ends, does not overtake the poll that waits, nor does a short poll. [POLL-9]
func TestReceiveDoesNotOvertake(t *testing.T) {
	begins := map[string]func(r *rig){
		"timeout": func(r *rig) { r.send("orders", "hello"); r.take("orders", 5) },
		"delay":   func(r *rig) { r.do(delayedOp("orders", "hello", 5)) },
	}
	for name, begin := range begins {
		for _, wait := range []int64{0, 20} {
			t.Run(fmt.Sprintf("%s wait %d", name, wait), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					begin(r)
					waiting := r.begin(receiveOp("orders", 20))
					// The writer is busy when the time comes, so it meets the poll that became
					// servable and the new receive in one turn.
					resume := r.occupy()
					time.Sleep(5 * time.Second)
					late := r.begin(receiveOp("orders", wait))
					resume()
					waiting.wantAt(5*time.Second, "hello")
					late.cancel()
					if <-late.done; len(late.res.Messages) > 0 {
						t.Errorf("the late receive got a message")
					}
				})
			})
		}
	}
	t.Run("send", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			waiting := r.begin(receiveOp("orders", 20))
			resume := r.occupy()
			send := r.begin(sendOp("orders", "hello"))
			late := r.begin(receiveOp("orders", 0))
			resume()
			<-send.done
			waiting.wantAt(0, "hello")
			late.wantAt(0, "")
		})
	})
}

// occupy keeps the writer from beginning another turn until resume is called. The writer then finds
// in one turn what has arrived meanwhile.
func (r *rig) occupy() (resume func()) {
	for range cap(r.slots) {
		r.launch()
	}
	synctest.Wait()
	return func() {
		for range cap(r.slots) {
			r.land()
		}
	}
}

// A poll whose client has gone away gets nothing: the message goes to the next one, and its receive
// count is that of one receive. [POLL-10]
func TestPollOfGoneClient(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gone := r.begin(receiveOp("orders", 20))
		next := r.begin(receiveOp("orders", 20))
		gone.cancel()
		if <-gone.done; !errors.Is(gone.err, context.Canceled) {
			t.Errorf("the cancelled poll ended with %v, want %v", gone.err, context.Canceled)
		}
		synctest.Wait()
		if got := r.polls.count; got != 1 {
			t.Errorf("%d polls wait, want 1", got)
		}
		r.send("orders", "hello")
		next.wantAt(0, "hello")
		if got := next.res.Messages[0].Receives; got != 1 {
			t.Errorf("received %d times, want 1", got)
		}
	})
}

// A client that goes away while its request is still in line gets nothing either. [POLL-10]
func TestReceiveOfGoneClientInLine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "hello")
		resume := r.occupy()
		gone := r.begin(receiveOp("orders", 20))
		gone.cancel()
		<-gone.done
		resume()
		next := r.begin(receiveOp("orders", 0))
		next.wantAt(0, "hello")
		if got := next.res.Messages[0].Receives; got != 1 {
			t.Errorf("received %d times, want 1", got)
		}
	})
}

// A client that has disconnected gets nothing, even if a receive that has just arrived lets the
// polls in front of it try first: the writer may not know yet which clients have left. [POLL-10]
func TestPollOfGoneClientBeforeReceive(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gone := r.begin(receiveOp("orders", 20))
		resume := r.occupy()
		gone.cancel()
		<-gone.done
		r.begin(sendOp("orders", "hello"))
		next := r.begin(receiveOp("orders", 0))
		resume()
		next.wantAt(0, "hello")
	})
}

// A client that goes away at the very moment at which its poll tries again, and finds nothing, is
// not forgotten. [POLL-10]
func TestPollOfClientGoneWhileTried(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gone := r.begin(receiveOp("orders", 20))
		resume := r.occupy()
		waiting := r.polls.queues[named("orders")].first
		waiting.take() // as the writer does before it tries
		gone.cancel()
		<-gone.done
		waiting.release()
		resume()
		r.do(&engine.GetQueueURL{Queue: named("orders"), NameSet: true})
		if got := r.polls.count; got != 0 {
			t.Errorf("%d polls wait, want 0", got)
		}
		r.send("orders", "hello")
		next := r.begin(receiveOp("orders", 0))
		next.wantAt(0, "hello")
	})
}

// Polls leave nothing behind, however they end. [POLL-10]
func TestEndedPollsLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var freed atomic.Int32
		for i := range 300 {
			op := receiveOp("orders", int64(1+i%20))
			runtime.AddCleanup(op, func(n *atomic.Int32) { n.Add(1) }, &freed)
			c := r.begin(op)
			switch i % 3 {
			case 0:
				c.cancel()
			case 1:
				r.send("orders", "hello")
			}
		}
		time.Sleep(20*time.Second + slack)
		synctest.Wait()
		p := &r.polls
		if p.count != 0 || len(p.queues) != 0 || len(p.deadlines) != 0 || len(p.readies) != 0 || len(p.stirred) != 0 {
			t.Errorf("%d polls, %d queues, %d deadlines, %d ready times, %d stirred are left, want none",
				p.count, len(p.queues), len(p.deadlines), len(p.readies), len(p.stirred))
		}
		// A reused buffer may still hold the last poll.
		for range 10 {
			r.do(&engine.GetQueueURL{Queue: named("orders"), NameSet: true})
		}
		for range 100 { // cleanups run some time after the collection that found their object
			if runtime.GC(); freed.Load() >= 290 {
				return
			}
		}
		t.Errorf("the memory of %d of 300 receives was given back, want nearly all", freed.Load())
	})
}

// Polls end early, with nothing and no error, when their queue is deleted; later receives are
// refused. [QUEUE-17, QUEUE-32]
func TestPollsEndWithTheirQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("other")
		polls := []*call{r.begin(receiveOp("orders", 20)), r.begin(receiveOp("orders", 20))}
		other := r.begin(receiveOp("other", 20))
		time.Sleep(2 * time.Second)
		r.do(&engine.DeleteQueue{Queue: named("orders")})
		for _, p := range polls {
			p.wantAt(2*time.Second, "")
		}
		other.wantWaiting()
		r.begin(receiveOp("orders", 20)).wantRefused(engine.CodeNoQueue)
		other.wantAt(20*time.Second, "")
	})
}

// Polls of a deleted queue do not move to a queue of the same name that is created in the same
// turn. [QUEUE-17]
func TestPollsDoNotMoveToASuccessor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		poll := r.begin(receiveOp("orders", 20))
		resume := r.occupy()
		r.begin(&engine.DeleteQueue{Queue: named("orders")})
		r.begin(&engine.CreateQueue{Queue: named("orders"), NameSet: true})
		send := r.begin(sendOp("orders", "hello"))
		resume()
		<-send.done
		poll.wantAt(0, "")
		r.take("orders", 30)
	})
}

// A purge leaves polls waiting. [POLL-3]
func TestPollsOutliveAPurge(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "old")
		r.take("orders", 5)
		poll := r.begin(receiveOp("orders", 20))
		r.do(&engine.PurgeQueue{Queue: named("orders")})
		time.Sleep(10 * time.Second)
		r.send("orders", "new")
		poll.wantAt(10*time.Second, "new")
	})
}

// A long poll beyond PollMax is answered at once instead of waiting. [RCV-21]
func TestPollMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newConfig(t, kv.NewMemory())
		cfg.PollMax = 2
		r := start(t, cfg)
		r.create("orders")
		first, second := r.begin(receiveOp("orders", 20)), r.begin(receiveOp("orders", 20))
		r.begin(receiveOp("orders", 20)).wantAt(0, "")
		first.cancel()
		synctest.Wait()
		third := r.begin(receiveOp("orders", 20))
		second.wantWaiting()
		third.wantWaiting()
	})
}
