package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

func (r *rig) tag(queue, key, value string) {
	r.t.Helper()
	r.do(&engine.TagQueue{Queue: named(queue), Tags: []engine.Tag{{Key: key, Value: value}}})
}

func (r *rig) untag(queue, key string) {
	r.t.Helper()
	r.do(&engine.UntagQueue{Queue: named(queue), Keys: []string{key}})
}

// Polls wait during a pause, those from before it too, and the end of the pause serves them in
// their order. [EXT-1, EXT-3]
func TestPauseHoldsPolls(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		before := r.begin(receiveOp("orders", 20))
		r.tag("orders", "tenaq:paused", "true")
		time.Sleep(time.Second)
		r.send("orders", "first")
		r.send("orders", "second")
		during := r.begin(receiveOp("orders", 20))
		r.begin(receiveOp("orders", 0)).wantAt(0, "")
		r.begin(receiveOp("orders", 3)).wantAt(3*time.Second, "")
		before.wantWaiting()
		during.wantWaiting()
		r.untag("orders", "tenaq:paused")
		before.wantAt(4*time.Second, "first")
		during.wantAt(3*time.Second, "second")
	})
}

// A poll at the limit of the queue waits until a message is no longer in flight, or until the limit
// is raised. [EXT-7, EXT-8]
func TestInFlightLimitHoldsPolls(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.tag("orders", "tenaq:max-in-flight", "1")
		for _, body := range []string{"one", "two", "three", "four"} {
			r.send("orders", body)
		}
		h := r.take("orders", 10)
		r.begin(receiveOp("orders", 0)).wantAt(0, "")
		poll := r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		poll.wantWaiting()
		r.do(deleteOp("orders", h))
		poll.wantAt(time.Second, "two")

		poll = r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		poll.wantWaiting()
		r.tag("orders", "tenaq:max-in-flight", "2")
		poll.wantAt(time.Second, "three")

		// The timeout of the second message ends thirty seconds after its receive.
		r.begin(receiveOp("orders", 20)).wantAt(20*time.Second, "")
		r.begin(receiveOp("orders", 20)).wantAt(9*time.Second, "four")
	})
}

// A poll that finds only groups at their limit waits until a message of one leaves or returns.
// [EXT-44]
func TestGroupLimitHoldsPolls(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.tag("orders", "tenaq:fair", "true")
		r.tag("orders", "tenaq:max-in-flight-per-group", "1")
		for _, body := range []string{"one", "two", "three"} {
			r.do(&engine.SendMessage{Queue: named("orders"), Draft: engine.NewDraft(engine.Entry{
				Body: engine.Text{Value: body, Set: true}, Group: engine.Text{Value: "g", Set: true}})})
		}
		h := r.take("orders", 10)
		r.begin(receiveOp("orders", 0)).wantAt(0, "")
		poll := r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		poll.wantWaiting()
		r.do(deleteOp("orders", h))
		poll.wantAt(time.Second, "two")

		// The timeout of the second message ends thirty seconds after its receive. It is again the
		// only one of its group.
		r.begin(receiveOp("orders", 20)).wantAt(20*time.Second, "")
		r.begin(receiveOp("orders", 20)).wantAt(10*time.Second, "three")
	})
}

// A message in flight that expires makes room. [EXT-7, LIM-4]
func TestExpiryMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("brief", "MessageRetentionPeriod", "60")
		r.tag("brief", "tenaq:max-in-flight", "1")
		r.send("brief", "old")
		r.take("brief", 600)
		time.Sleep(55 * time.Second)
		r.send("brief", "new")
		poll := r.begin(receiveOp("brief", 20))
		time.Sleep(4999 * time.Millisecond)
		poll.wantWaiting()
		time.Sleep(time.Millisecond)
		r.attribute("brief", "ApproximateNumberOfMessages") // any command on the queue notices
		poll.wantAt(5*time.Second, "new")
	})
}

// Consumers that always wait get what the rate allows, plus one message at once.
// [EXT-12, EXT-13, EXT-14]
func TestRateIsMet(t *testing.T) {
	for _, test := range []struct {
		rate string
		want int // deliveries in a minute
	}{{"50/s", 3000}, {"7", 420}, {"6/m", 6}, {"90/m", 90}, {"100/h", 1}} {
		bubble(t, func(t *testing.T, r *rig) {
			r.tag("orders", "tenaq:rate", test.rate)
			for range 40 {
				r.send("orders", "again and again")
			}
			began, got := time.Now(), 0
			for time.Since(began) < time.Minute {
				op := &engine.ReceiveMessage{Queue: named("orders"), Max: number(10),
					Visibility: number(0), Wait: number(1)}
				if err := r.Do(context.Background(), op); err != nil {
					t.Fatal(err)
				}
				if time.Since(began) < time.Minute {
					got += len(op.Messages)
				}
			}
			if got < test.want || got > test.want+1 {
				t.Errorf("%s: %d deliveries in a minute, want %d, and one more at once",
					test.rate, got, test.want)
			}
		})
	}
}

// The writer wakes for a tick when nothing else happens, and a poll that waits gets its message. A
// restart between two ticks sends none again, and one that lasts sends one for all that it missed.
// [SCHED-6, SCHED-7]
func TestScheduleWakesWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		r := start(t, newConfig(t, store))
		r.create("orders")
		r.tag("orders", "tenaq:schedule", "@every 10m body=tick")
		begun := time.Now()
		sleepTo := func(d time.Duration) { t.Helper(); time.Sleep(time.Until(begun.Add(d))) }
		sleepTo(10*time.Minute - 5*time.Second) // the bubble begins at midnight
		r.begin(receiveOp("orders", 20)).wantAt(5*time.Second, "tick")
		r.stop()
		r = start(t, newConfig(t, store))
		sleepTo(10*time.Minute + 20*time.Second)
		r.begin(receiveOp("orders", 1)).wantAt(time.Second, "")
		r.stop()
		sleepTo(55 * time.Minute)
		r = start(t, newConfig(t, store))
		r.begin(receiveOp("orders", 1)).wantAt(0, "tick")
		r.begin(receiveOp("orders", 1)).wantAt(0, "tick") // the first one, once more
		r.begin(receiveOp("orders", 1)).wantAt(time.Second, "")
	})
}

// Schedules wait while the disk is full, and then send one message for all missed ticks. [SCHED-10]
func TestScheduleWaitsForDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.tag("orders", "tenaq:schedule", "@every 10s body=tick")
		r.RefuseSends(true)
		r.begin(receiveOp("orders", 20)).wantAt(20*time.Second, "")
		poll := r.begin(receiveOp("orders", 20))
		time.Sleep(time.Second)
		r.RefuseSends(false)
		poll.wantAt(time.Second, "tick")
		r.begin(receiveOp("orders", 1)).wantAt(time.Second, "")
	})
}

// A clock that is set back while the server is down brings no tick again. [SCHED-11]
func TestScheduleWithClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newConfig(t, kv.NewMemory())
		r := start(t, cfg)
		r.create("orders")
		r.tag("orders", "tenaq:schedule", "@every 10s body=tick")
		r.begin(receiveOp("orders", 20)).wantAt(10*time.Second, "tick")
		r.stop()
		cfg.Wall = func() time.Time { return time.Now().Add(-5 * time.Second) }
		r = start(t, cfg)
		if got := do(r, receiveOp("orders", 8)).Messages; len(got) > 0 {
			t.Errorf("%d messages, want none", len(got))
		}
	})
}
