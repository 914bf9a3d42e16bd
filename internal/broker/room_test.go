package broker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
)

// A testRoom is for some bytes of messages.
type testRoom struct {
	owner       string
	free, taken atomic.Int64
}

func newRoom(owner string, free int64) *testRoom {
	r := &testRoom{owner: owner}
	r.free.Store(free)
	return r
}

func (r *testRoom) Reserve() int64  { return r.free.Load() }
func (r *testRoom) Keep(size int64) { r.free.Add(-size); r.taken.Add(size) }
func (r *testRoom) Owner() string   { return r.owner }

// beginIn is begin for a receive with room.
func (r *rig) beginIn(room Room, op *engine.ReceiveMessage) *call {
	r.t.Helper()
	c := r.beginWith(op, func(ctx context.Context) error {
		pending, err := r.SubmitReceive(op, room)
		if err != nil {
			return err
		}
		return pending.Wait(ctx)
	})
	synctest.Wait()
	return c
}

// A receive hands out the messages that its answer has room for, and takes the room for them.
// Messages without room are neither hidden nor counted: the receive waits for room, and is refused
// in the end. [RCV-24]
func TestReceiveWithinRoom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, body := range []string{"1234", "5678", "9"} {
			r.send("orders", body)
		}
		ten := func(wait int64) *engine.ReceiveMessage {
			return &engine.ReceiveMessage{Queue: named("orders"), Max: number(10), Wait: number(wait)}
		}
		room := newRoom("a", 8)
		r.beginIn(room, ten(0)).wantAt(0, "1234 5678")
		if room.taken.Load() != 8 {
			t.Errorf("%d bytes are taken, want 8", room.taken.Load())
		}
		for _, wait := range []int64{0, 3} {
			c := r.beginIn(room, ten(wait))
			want := time.Duration(wait) * time.Second
			if wait == 0 {
				want = roomWait * time.Millisecond
			}
			time.Sleep(want - time.Millisecond)
			if c.answered() {
				t.Fatalf("a receive without room was answered with %v, want it to wait for %v", c.err, want)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if !c.answered() || !errors.Is(c.err, ErrThrottled) {
				t.Errorf("a receive without room was answered with %v after %v, want %v", c.err, want, ErrThrottled)
			}
		}
		if got := r.attribute("orders", "ApproximateNumberOfMessages"); got != "1" {
			t.Errorf("%s messages can be received, want 1: the one without room is not hidden", got)
		}

		c := r.beginIn(room, ten(0))
		time.Sleep(time.Second)
		synctest.Wait()
		room.free.Store(1)
		time.Sleep((roomRetry + 1) * time.Millisecond)
		synctest.Wait()
		if !c.answered() || len(c.res.Messages) != 1 || c.res.Messages[0].Receives != 1 {
			t.Errorf("when there is room: got %v, %v, want the message for the first time", c.res.Messages, c.err)
		}
	})
}

// A short poll that waits for room answers empty when its messages have gone to others.
func TestReceiveWithoutRoomFindsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "hello")
		c := r.beginIn(newRoom("a", 0), receiveOp("orders", 0))
		time.Sleep(time.Second)
		r.take("orders", 600)
		time.Sleep((roomRetry + 1) * time.Millisecond)
		synctest.Wait()
		if !c.answered() || c.err != nil || len(c.res.Messages) != 0 {
			t.Errorf("got %v, %v, want an empty answer", c.res.Messages, c.err)
		}
	})
}

// A poll without room lets those of other owners pass.
func TestRoomOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		full := newRoom("a", 0)
		first, second := r.beginIn(full, receiveOp("orders", 20)), r.beginIn(full, receiveOp("orders", 20))
		other := r.beginIn(newRoom("b", 10), receiveOp("orders", 20))
		synctest.Wait()
		r.send("orders", "hello")
		other.wantAt(0, "hello")
		if first.answered() || second.answered() {
			t.Error("a poll without room was answered")
		}
	})
}

// Each receive that counts can show its message, even if other receives move the message to the
// dead-letter queue before its content is read, in the same turn or in a later one. [RCV-23]
func TestReceiveShowsWhatItCounts(t *testing.T) {
	for _, turns := range []int{1, 4} {
		bubble(t, func(t *testing.T, r *rig) {
			r.create("dead")
			r.create("jobs", "VisibilityTimeout", "0", "RedrivePolicy",
				`{"deadLetterTargetArn":"arn:aws:sqs:elsewhere:000000000000:dead","maxReceiveCount":"3"}`)
			r.send("jobs", "hello")
			resume := func() {}
			if turns == 1 {
				resume = r.occupy()
			}
			var calls []*call
			for range 4 {
				calls = append(calls, r.begin(receiveOp("jobs", 0)))
				synctest.Wait()
			}
			resume()
			synctest.Wait()
			if got := r.attribute("dead", "ApproximateNumberOfMessages"); got != "1" {
				t.Fatalf("%s dead letters, want 1", got)
			}
			for i, c := range calls {
				if !c.answered() || c.err != nil {
					t.Fatalf("receive %d: %v", i, c.err)
				}
				if i == 3 {
					if len(c.res.Messages) != 0 {
						t.Errorf("the last receive was given %v", c.res.Messages)
					}
					continue
				}
				var shown []string
				for _, content := range r.ReadDelivered(&c.res) {
					shown = append(shown, content.Body)
				}
				if !slices.Equal(shown, []string{"hello"}) {
					t.Errorf("in %d turns: receive %d counted and shows %q, want hello", turns, i, shown)
				}
			}
		})
	}
}

// A poll that waits for room gets it soon after there is some, however many receives without room
// come meanwhile. [RCV-24]
func TestRoomIsNotPutOff(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "hello")
		a := newRoom("a", 0)
		first := r.beginIn(a, receiveOp("orders", 20))
		time.Sleep(time.Second)
		for i := 0; i < 200 && !first.answered(); i++ {
			if i == 2 {
				a.free.Store(10)
			}
			r.beginIn(newRoom("b", 0), receiveOp("orders", 0))
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if i == 10 {
				t.Fatal("the first poll still waits 160 ms after there was room for it")
			}
		}
	})
}

// A short poll that waits for room is answered empty when another receive has taken the message.
// [RCV-24]
func TestRoomForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("orders", "hello")
		c := r.beginIn(newRoom("a", 0), receiveOp("orders", 0))
		time.Sleep(10 * time.Millisecond)
		r.take("orders", 600)
		r.begin(receiveOp("orders", 20)) // polls again
		time.Sleep(time.Second)
		synctest.Wait()
		if !c.answered() || c.err != nil {
			t.Errorf("after a second: answered %v, error %v, want an empty answer", c.answered(), c.err)
		}
	})
}
