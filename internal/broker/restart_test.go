package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// crash cuts the power and returns what is on the disk: everything that was answered.
func (r *rig) crash() *kv.Memory {
	synctest.Wait()
	store := r.cfg.Store.(*kv.Memory).Crash(0)
	r.stop()
	return store
}

// lastStamp returns the stamp in a store.
func lastStamp(store kv.Store) time.Time {
	return time.UnixMilli(engine.Open(store, engine.Config{}).LastStamp())
}

// A server that is asked to stop answers waiting polls empty at once, lets no more wait, and
// continues with everything else. [POLL-11]
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("returns")
		polls := []*call{r.begin(receiveOp("orders", 20)), r.begin(receiveOp("returns", 20)), r.begin(receiveOp("orders", 1))}
		time.Sleep(500 * time.Millisecond)
		r.Drain()
		for _, p := range polls {
			p.wantAt(500*time.Millisecond, "")
		}
		r.begin(receiveOp("orders", 20)).wantAt(0, "")
		r.send("orders", "hello")
		r.do(deleteOp("orders", r.take("orders", 30)))
	})
}

// At a stop, polls return empty, accepted requests are carried out, answered and on disk, and later
// ones are refused. [POLL-11, DUR-24]
func TestStopAnswersWhatWasTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		cfg := newConfig(t, store)
		cfg.TurnMax = 3 // several turns are needed
		r := start(t, cfg)
		r.create("orders")
		poll := r.begin(receiveOp("orders", 20))
		resume := r.occupy()
		var calls []*call
		for i := range 20 {
			calls = append(calls, r.begin(sendOp("orders", fmt.Sprint("m", i))))
		}
		late := r.begin(receiveOp("orders", 20))
		stopped := make(chan struct{})
		go func() { r.stop(); close(stopped) }()
		synctest.Wait()
		resume()
		<-stopped
		poll.wantAt(0, "m0")
		late.wantAt(0, "m1")
		for i, c := range calls {
			if <-c.done; c.err != nil {
				t.Errorf("send %d: %v", i, c.err)
			}
		}
		if err := r.Do(context.Background(), sendOp("orders", "too late")); !errors.Is(err, ErrStopped) {
			t.Errorf("a send after the stop answered %v, want %v", err, ErrStopped)
		}
		if got := store.Unconfirmed(); got != 0 {
			t.Errorf("%d batches were not confirmed when Run returned, want none", got)
		}
		r = start(t, newConfig(t, store))
		if got := r.attribute("orders", "ApproximateNumberOfMessages"); got != "18" {
			t.Errorf("%s messages after the restart, want 18", got)
		}
	})
}

// After a clean stop timeouts end when they would have ended, however long the server was away.
// [CLOCK-12, DUR-8]
func TestCleanStopNeedsNoGrace(t *testing.T) {
	for _, away := range []time.Duration{0, 5 * time.Second, 10 * time.Minute} {
		bubble(t, func(t *testing.T, r *rig) {
			r.send("orders", "hello")
			r.take("orders", 12)
			time.Sleep(7 * time.Second)
			r.stop()
			time.Sleep(away)
			cfg := newConfig(t, r.cfg.Store)
			cfg.Grace = time.Minute
			r = start(t, cfg)
			r.begin(receiveOp("orders", 20)).wantAt(max(0, 5*time.Second-away), "hello")
		})
	}
}

// After an unclean stop, messages in flight stay hidden for as long as the server was away, counted
// from its last stamp, and for at most the grace; or until their timeout ends, if that is later.
// [CLOCK-10, CLOCK-11, CLOCK-13, DUR-8]
func TestUncleanStopGivesGrace(t *testing.T) {
	for _, c := range []struct {
		visibility int64
		up, away   time.Duration
		grace      time.Duration
	}{
		{12, 11 * time.Second, 10 * time.Second, time.Minute},       // ended while the server was away
		{30, 11 * time.Second, 10 * time.Second, time.Minute},       // ends during the grace
		{100, 11 * time.Second, 10 * time.Second, time.Minute},      // ends after it
		{12, 11 * time.Second, 50 * time.Millisecond, time.Minute},  // hardly away
		{12, 11 * time.Second, 57 * time.Second, time.Minute},       // just below the bound
		{12, 11 * time.Second, time.Hour, time.Minute},              // beyond it
		{12, 11 * time.Second, time.Hour, 5 * time.Second},          // another bound
		{12, 11 * time.Second, 10 * time.Second, 0},                 // switched off
		{100, 11 * time.Second, 10 * time.Second, 0},                // switched off
		{12, 1 * time.Second, 2 * time.Hour, time.Minute},           // before the first stamp
		{43200, 6 * time.Hour, 3 * time.Second, time.Minute},        // stamps were written for hours
		{43200, 12*time.Hour - time.Second, time.Hour, time.Minute}, // and the timeout ended while away
	} {
		name := fmt.Sprintf("timeout %d up %v away %v grace %v", c.visibility, c.up, c.away, c.grace)
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("orders", "held")
				r.take("orders", c.visibility)
				end := time.Now().Add(time.Duration(c.visibility) * time.Second)
				time.Sleep(c.up)
				store := r.crash()
				crashed := time.Now()
				stamp := lastStamp(store)
				if lag := crashed.Sub(stamp); lag > 5*time.Second+slack {
					t.Errorf("the last stamp is %v old, want at most 5s", lag)
				}
				time.Sleep(c.away)
				cfg := newConfig(t, store)
				cfg.Grace = c.grace
				r = start(t, cfg)
				if until := time.Now().Add(min(c.grace, time.Since(stamp))); end.Before(until) && c.grace > 0 {
					end = until
				}
				for range 3 { // early, in the middle, and near the end
					r.takeNothingBefore("orders", end)
					time.Sleep(max(0, (time.Until(end)-10*time.Second)/2))
				}
				time.Sleep(max(0, time.Until(end)-10*time.Second))
				r.begin(receiveOp("orders", 20)).wantAt(max(0, time.Until(end)), "held")
			})
		})
	}
}

// The grace applies to messages in flight: waiting messages are delivered at once, and a message
// received after the start has its own timeout. [CLOCK-10]
func TestGraceHoldsNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "given back")
		r.do(changeOp("orders", r.take("orders", 30), 0))
		r.send("orders", "never received")
		time.Sleep(7 * time.Second)
		store := r.crash()
		time.Sleep(30 * time.Second)
		cfg := newConfig(t, store)
		cfg.Grace = time.Minute
		r = start(t, cfg)
		first := r.begin(&engine.ReceiveMessage{Queue: named("orders"), Visibility: number(2)})
		first.wantAt(0, "given back")
		r.begin(receiveOp("orders", 0)).wantAt(0, "never received")
		r.begin(receiveOp("orders", 20)).wantAt(2*time.Second, "given back")
	})
}

// If a server dies again before the grace has ended, the messages in flight at the first death get
// another grace, whether or not the first had begun; a server that stops cleanly keeps the grace as
// it was. [CLOCK-10, CLOCK-12, DUR-8]
func TestGraceAfterGrace(t *testing.T) {
	for name, second := range map[string]func(r *rig) kv.Store{
		"clean stop":       func(r *rig) kv.Store { time.Sleep(2 * time.Second); r.stop(); return r.cfg.Store },
		"crash":            func(r *rig) kv.Store { time.Sleep(2 * time.Second); return r.crash() },
		"crash at once":    func(r *rig) kv.Store { return r.crash() },
		"crash before Run": nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("orders", "held")
				r.take("orders", 12)
				time.Sleep(11 * time.Second)
				store := r.crash()
				time.Sleep(20 * time.Second)
				cfg := newConfig(t, store)
				cfg.Grace = time.Minute
				end := time.Now().Add(time.Since(lastStamp(store)))
				if second == nil {
					mustNew(t, cfg)
					cfg.Store = store.Crash(0)
				} else {
					cfg.Store = second(start(t, cfg))
				}
				again := lastStamp(cfg.Store)
				time.Sleep(8 * time.Second)
				if until := time.Now().Add(time.Since(again)); name != "clean stop" && until.After(end) {
					end = until
				}
				r = start(t, cfg)
				r.begin(receiveOp("orders", 20)).wantAt(time.Until(end), "held")
			})
		})
	}
}

// Time is stamped every five seconds while something is in flight, and not much longer. [CLOCK-11]
func TestStampsOnlyWhileInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		store := r.cfg.Store.(*kv.Memory)
		begun := lastStamp(store)
		time.Sleep(time.Hour)
		if got := lastStamp(store); !got.Equal(begun) {
			t.Errorf("stamped %v after the start although nothing was in flight", got.Sub(begun))
		}
		r.send("orders", "hello")
		h := r.take("orders", 60)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if lag := time.Since(lastStamp(store)); lag > 5*time.Second+slack {
				t.Fatalf("the last stamp is %v old, want at most 5s", lag)
			}
		}
		time.Sleep(2 * time.Minute)
		ended := lastStamp(store)
		time.Sleep(time.Hour)
		if got := lastStamp(store); !got.Equal(ended) {
			t.Errorf("stamped %v later although nothing was in flight", got.Sub(ended))
		}
		r.do(deleteOp("orders", h))
	})
}

// Expired messages of unused queues are removed, however many there are, and then the server rests.
// [RET-1]
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gate{Store: kv.NewMemory()}
		r := start(t, newConfig(t, store))
		const queues, many = 250, 70_000
		for i := range queues {
			queue := fmt.Sprintf("queue-%03d", i)
			r.create(queue, "MessageRetentionPeriod", "60")
			r.send(queue, "hello")
		}
		r.create("zzz", "MessageRetentionPeriod", "60")
		batch := &engine.SendMessageBatch{Queue: named("zzz"), Given: true}
		for i := range 10 {
			id := fmt.Sprint("m", i)
			batch.Drafts = append(batch.Drafts, engine.NewDraft(engine.Entry{ID: text(id), Body: text(id)}))
		}
		for range many / 10 {
			r.do(batch)
		}
		if got := countMessages(store); got != queues+many {
			t.Fatalf("%d messages are stored, want %d", got, queues+many)
		}
		time.Sleep(59 * time.Second)
		if got := countMessages(store); got != queues+many {
			t.Errorf("%d messages are stored before their retention is over, want %d", got, queues+many)
		}
		time.Sleep(sweepRest + 10*time.Second)
		if got := countMessages(store); got != 0 {
			t.Errorf("%d messages are still stored after their retention, want none", got)
		}
		before, scans := store.forces(), store.scans.Load()
		time.Sleep(time.Hour)
		if got := store.forces(); got != before {
			t.Errorf("%d batches were written in an hour without work, want none", got-before)
		}
		// A minute lies between two walks through the catalogue, and a walk is three steps.
		if got := store.scans.Load() - scans; got > 3*60 {
			t.Errorf("%d scans in an hour without work, want at most %d", got, 3*60)
		}
	})
}

// stops are the ways in which a server ends; each returns the store that is left.
var stops = map[string]func(r *rig) kv.Store{
	"clean stop": func(r *rig) kv.Store { r.stop(); return r.cfg.Store },
	"crash":      func(r *rig) kv.Store { return r.crash() },
}

// fifoOp sends a message to a group, under its body as deduplication ID.
func fifoOp(queue, group, body string) *engine.SendMessage {
	return &engine.SendMessage{
		Queue: named(queue),
		Draft: engine.NewDraft(engine.Entry{Body: text(body), Group: text(group), Dedup: text(body)}),
	}
}

// A deduplication id is known for the rest of its window, however the server ended, and a group
// stays locked and in order. [DEDUP-12, FIFO-16, FIFO-17]
func TestGroupsSurviveRestart(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.create("line.fifo", "FifoQueue", "true")
				begun := time.Now()
				first := do(r, fifoOp("line.fifo", "g", "a")).Sent
				r.do(fifoOp("line.fifo", "g", "b"))
				r.take("line.fifo", 250)
				time.Sleep(100 * time.Second)
				store := stop(r)
				time.Sleep(100 * time.Second)
				r = start(t, newConfig(t, store))
				again := do(r, fifoOp("line.fifo", "g", "a")).Sent
				if !again.Duplicate || again.ID != first.ID || again.Sequence != first.Sequence {
					t.Errorf("a repeated send answers %+v, want the first message, %+v", again, first)
				}
				r.takeNothing("line.fifo")
				time.Sleep(time.Until(begun.Add(251 * time.Second)))
				r.begin(&engine.ReceiveMessage{Queue: named("line.fifo"), Max: number(10)}).wantAt(0, "a b")
				time.Sleep(time.Until(begun.Add(301 * time.Second)))
				if late := do(r, fifoOp("line.fifo", "g", "a")).Sent; late.Duplicate || late.Sequence <= first.Sequence {
					t.Errorf("a send after the window answers %+v, want a new message", late)
				}
			})
		})
	}
}

// A receive repeated under its attempt id returns the same messages with the same handles, even if
// it was made before a restart. [DEDUP-19, DEDUP-20]
func TestReceiveAttemptsSurviveRestart(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.create("line.fifo", "FifoQueue", "true")
				for _, body := range []string{"a", "b", "c"} {
					r.do(fifoOp("line.fifo", "g", body))
				}
				attempt := &engine.ReceiveMessage{
					Queue: named("line.fifo"), Max: number(2), Visibility: number(200), AttemptID: text("attempt"),
				}
				first := do(r, attempt).Received
				time.Sleep(10 * time.Second)
				store := stop(r)
				time.Sleep(90 * time.Second)
				r = start(t, newConfig(t, store))
				again := do(r, attempt).Received
				if got := r.bodies(again); got != "a b" {
					t.Fatalf("a repeated receive returned %q, want %q", got, "a b")
				}
				r.takeNothing("line.fifo")
				for i := range first.Messages {
					if a, b := handleOf(first, i), handleOf(again, i); a != b {
						t.Errorf("the handle is %v and then %v, want the same", a.Text, b.Text)
					}
					r.do(deleteOp("line.fifo", handleOf(first, i)))
				}
				r.begin(receiveOp("line.fifo", 0)).wantAt(0, "c")
			})
		})
	}
}

// A move task continues where it was, at its rate, and makes up for hardly anything of the time
// that the server was away; it moves each message once and in its order. [MOVE-13, MOVE-14,
// MOVE-26]
func TestMoveTaskSurvivesRestart(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				source := "arn:aws:sqs:elsewhere:000000000000:dead"
				r.create("dead")
				r.create("jobs", "RedrivePolicy", fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":1}`, source))
				const count, rate, before = 20, 2, 4
				for i := range count {
					r.send("dead", fmt.Sprint("m", i))
				}
				r.do(&engine.StartMessageMoveTask{
					Account: named("").Account, Source: text(source), Rate: number(rate),
					Destination: text("arn:aws:sqs:elsewhere:000000000000:orders"),
				})
				moved := func() int64 {
					return do(r, &engine.ListMessageMoveTasks{Account: named("").Account, Source: text(source)}).Tasks[0].Moved
				}
				time.Sleep((before*1000/rate - 250) * time.Millisecond)
				if got := moved(); got != before {
					t.Errorf("%d messages moved before the stop, want %d", got, before)
				}
				store := stop(r)
				time.Sleep(time.Hour)
				r = start(t, newConfig(t, store))
				time.Sleep(100 * time.Millisecond)
				if got := moved(); got < before || got > before+2 {
					t.Errorf("%d messages moved at the restart, want %d and one or two more", got, before)
				}
				time.Sleep((count - before) * time.Second / rate)
				if got := moved(); got != count {
					t.Errorf("%d messages moved in the end, want %d", got, count)
				}
				var want []string
				for i := range count {
					want = append(want, fmt.Sprint("m", i))
				}
				var got []string
				for range count / 10 {
					got = append(got, r.bodies(do(r, &engine.ReceiveMessage{Queue: named("orders"), Max: number(10)}).Received))
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("moved %q, want %q", got, want)
				}
				r.takeNothing("dead")
			})
		})
	}
}
