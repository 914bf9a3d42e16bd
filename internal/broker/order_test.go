package broker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// gated runs f on a broker over a gated store, with the queues orders, which has the messages m0 to
// m9, and empty.
func gated(t *testing.T, f func(t *testing.T, r *rig, g *gate)) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Store: kv.NewMemory()}
		r := start(t, newConfig(t, g))
		t.Cleanup(g.open) // before the broker is stopped
		r.create("orders")
		r.create("empty")
		for i := range 10 {
			r.send("orders", fmt.Sprint("m", i))
		}
		synctest.Wait()
		f(t, r, g)
	})
}

// Nothing is answered before every earlier turn is on disk: neither a change, nor an empty receive,
// nor a read, nor a refusal, whether or not it is about the same queue. [DUR-3, DUR-5]
func TestNoAnswerBeforeTheDisk(t *testing.T) {
	ops := map[string]engine.Op{
		"send":          sendOp("orders", "hello"),
		"send of batch": &engine.SendMessageBatch{Queue: named("empty"), Given: true, Drafts: []engine.Draft{engine.NewDraft(engine.Entry{ID: text("a"), Body: text("b")})}},
		"receive":       receiveOp("orders", 0),
		"empty receive": receiveOp("empty", 0),
		"read":          &engine.GetQueueAttributes{Queue: named("empty"), Names: []string{"All"}},
		"listing":       &engine.ListQueues{Account: named("").Account},
		"refusal":       sendOp("nowhere", "hello"),
		"bad parameter": &engine.ReceiveMessage{Queue: named("orders"), Max: number(11)},
		"bad handle":    deleteOp("orders", engine.Handle{Text: "garbage"}),
	}
	for name, op := range ops {
		t.Run(name, func(t *testing.T) {
			gated(t, func(t *testing.T, r *rig, g *gate) {
				g.close()
				first := r.begin(sendOp("orders", "first"))
				later := r.begin(op)
				first.wantWaiting()
				later.wantWaiting()
				time.Sleep(time.Hour)
				first.wantWaiting()
				later.wantWaiting()
				if !g.step() {
					t.Fatal("no turn was forced")
				}
				if <-first.done; first.err != nil {
					t.Errorf("send: %v", first.err)
				}
				g.open()
				<-later.done
			})
		})
	}
}

// An effect that a client could learn of through another request waits for the disk, too: a poll
// served by a send, a receive of a message that was just sent, a delete of one that was just
// received. [DUR-3]
func TestEffectsWaitForTheDisk(t *testing.T) {
	gated(t, func(t *testing.T, r *rig, g *gate) {
		poll := r.begin(receiveOp("empty", 20))
		g.close()
		send := r.begin(sendOp("empty", "hello"))
		send.wantWaiting()
		poll.wantWaiting()
		g.step()
		<-send.done
		poll.wantAt(0, "hello")
	})
	// A poll that times out says that there was nothing, and that is news too.
	gated(t, func(t *testing.T, r *rig, g *gate) {
		poll := r.begin(receiveOp("empty", 2))
		time.Sleep(time.Second)
		g.close()
		send := r.begin(sendOp("orders", "hello"))
		time.Sleep(10 * time.Second)
		poll.wantWaiting()
		g.step()
		<-send.done
		<-poll.done
	})
}

// Answers leave turn by turn, in the order in which the turns were made, whatever is in them.
// [DUR-4]
func TestAnswersLeaveInOrder(t *testing.T) {
	gated(t, func(t *testing.T, r *rig, g *gate) {
		g.close()
		var calls []*call
		for i := range 30 {
			switch i % 3 {
			case 0:
				calls = append(calls, r.begin(sendOp("orders", "hello")))
			case 1:
				calls = append(calls, r.begin(receiveOp("empty", 0)))
			default:
				calls = append(calls, r.begin(sendOp("nowhere", "hello")))
			}
		}
		open := false
		for !open {
			open = !g.step()
			synctest.Wait()
			answered := true
			for i, c := range calls {
				if c.answered() && !answered {
					t.Fatalf("call %d was answered before the one before it", i)
				}
				answered = c.answered()
			}
		}
		for i, c := range calls {
			if !c.answered() {
				t.Errorf("call %d was not answered when everything was on disk", i)
			}
		}
	})
}

// While the disk is busy with a turn, arriving requests wait for a common turn and a common commit.
// Only many requests justify a turn that waits behind it, and there is never a third.
func TestGroupCommit(t *testing.T) {
	gated(t, func(t *testing.T, r *rig, g *gate) {
		before, many := g.forces(), turnLarge/4
		g.close()
		var calls []*call
		for i := range 100 {
			calls = append(calls, r.begin(sendOp("orders", fmt.Sprint("n", i))))
			want := 1
			if i >= many {
				want = 2
			}
			if got := g.forces() - before; got != want {
				t.Fatalf("%d turns are in flight after %d sends, want %d", got, i+1, want)
			}
		}
		if got, want := r.intake.len(), 100-1-many; got != want {
			t.Errorf("%d sends wait for a turn, want %d", got, want)
		}
		g.open()
		for _, c := range calls {
			<-c.done
		}
		if got := g.forces() - before; got != 3 {
			t.Errorf("100 sends took %d commits, want 3", got)
		}
	})
}

// Commands that wait for a turn in flight are taken up when it is on disk, without another event.
func TestGathered(t *testing.T) {
	gated(t, func(t *testing.T, r *rig, g *gate) {
		for range 100 {
			before := g.forces()
			g.close()
			first := r.begin(sendOp("orders", "first"))
			gathered := []*call{r.begin(sendOp("orders", "a")), r.begin(receiveOp("empty", 0)), r.begin(sendOp("orders", "b"))}
			began := time.Now()
			g.open()
			<-first.done
			for _, c := range gathered {
				<-c.done
			}
			if took := time.Since(began); took != 0 {
				t.Fatalf("what was gathered waited for %v, want no time", took)
			}
			if got := g.forces() - before; got != 2 {
				t.Fatalf("four requests took %d commits, want 2", got)
			}
		}
	})
}

// A step of a task that falls due while a turn is on its way to the disk is taken meanwhile, and
// goes to the disk with the next turn: it delays no request, and needs no commit of its own.
func TestStepMeanwhile(t *testing.T) {
	gated(t, func(t *testing.T, r *rig, g *gate) {
		r.create("dead")
		r.create("jobs", "RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:elsewhere:000000000000:dead","maxReceiveCount":3}`)
		for range 10 {
			r.send("dead", "hello")
		}
		r.do(&engine.StartMessageMoveTask{Account: "000000000000",
			Source:      text("arn:aws:sqs:elsewhere:000000000000:dead"),
			Destination: text("arn:aws:sqs:elsewhere:000000000000:jobs"), Rate: number(1)})
		moved, before := r.moved(), g.forces()
		g.close()
		first := r.begin(sendOp("orders", "first"))
		time.Sleep(1500 * time.Millisecond) // a message is due every second
		gathered := r.begin(sendOp("orders", "gathered"))
		if got := g.forces() - before; got != 1 {
			t.Fatalf("%d turns are in flight, want the one of the first send", got)
		}
		g.open()
		<-first.done
		<-gathered.done
		if got := g.forces() - before; got != 2 {
			t.Errorf("two sends and a step took %d commits, want 2", got)
		}
		if got := r.moved() - moved; got != 1 {
			t.Errorf("the task has moved %d messages meanwhile, want 1", got)
		}
	})
}

// A turn takes at most TurnMax requests. The next turn takes the rest by itself.
func TestTurnMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newConfig(t, kv.NewMemory())
		g := &gate{Store: cfg.Store}
		cfg.Store, cfg.TurnMax = g, 7
		r := start(t, cfg)
		r.create("orders")
		before, resume := g.forces(), r.occupy()
		var calls []*call
		for range 30 {
			calls = append(calls, r.begin(sendOp("orders", "hello")))
		}
		resume()
		for _, c := range calls {
			<-c.done
		}
		if got := g.forces() - before; got != 5 {
			t.Errorf("30 sends took %d commits, want 5", got)
		}
	})
}

// A disk that never comes back keeps every answer back, and callers can still give up. [DUR-3]
func TestDiskThatHangs(t *testing.T) {
	gated(t, func(t *testing.T, r *rig, g *gate) {
		g.close()
		hung := r.begin(sendOp("orders", "hello"))
		for name, op := range map[string]engine.Op{"receive": receiveOp("empty", 0), "survey": &engine.Survey{Max: 1}, "send": sendOp("orders", "more")} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := r.Do(ctx, op); err != context.DeadlineExceeded {
				t.Errorf("a %s behind a hung disk ended with %v, want %v", name, err, context.DeadlineExceeded)
			}
		}
		time.Sleep(24 * time.Hour)
		hung.wantWaiting()
		if got := r.Silence(); got < 24*time.Hour {
			t.Errorf("silent for %v, want more than a day", got)
		}
		g.open()
		<-hung.done
		synctest.Wait()
		if got := r.Silence(); got > stampEvery {
			t.Errorf("silent for %v after the disk came back, want at most %v", got, stampEvery)
		}
	})
}

// Without work, turns still happen, so that silence means that something hangs.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 1000 {
			time.Sleep(777 * time.Millisecond)
			if got := r.Silence(); got > stampEvery+slack {
				t.Fatalf("silent for %v, want at most %v", got, stampEvery)
			}
		}
	})
}

// A stop waits for the disk as well. [DUR-24]
func TestStopWaitsForTheDisk(t *testing.T) {
	gated(t, func(t *testing.T, r *rig, g *gate) {
		g.close()
		send := r.begin(sendOp("orders", "hello"))
		stopped := make(chan struct{})
		go func() { r.stop(); close(stopped) }()
		time.Sleep(time.Hour)
		select {
		case <-stopped:
			t.Fatal("stopped before the disk had everything")
		default:
		}
		g.open()
		<-stopped
		if <-send.done; send.err != nil {
			t.Errorf("send: %v", send.err)
		}
	})
}
