package broker

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/kv"
)

// A new leader's clock starts where the previous leader's has arrived, whatever its own wall clock
// says: at most a second early, and never before the last stamp.
func TestClockTakeOver(t *testing.T) {
	for name, c := range map[string]struct {
		wall, since time.Duration // the wall clock is so far ahead of the true time
		want        time.Duration // of broker time, from the true time
	}{
		"equal clocks":            {0, 3 * time.Second, 0},
		"slightly ahead":          {700 * time.Millisecond, 3 * time.Second, 700 * time.Millisecond},
		"a minute ahead":          {time.Minute, 3 * time.Second, time.Second},
		"a minute ahead, at once": {time.Minute, 0, time.Second},
		"years ahead":             {30 * year, time.Hour, time.Second},
		"two seconds behind":      {-2 * time.Second, 3 * time.Second, -2 * time.Second},
		"a minute behind":         {-time.Minute, 3 * time.Second, -3 * time.Second},
		"years behind":            {-30 * year, 3 * time.Second, -3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWall()
				stamp := w.now().UnixMilli()
				time.Sleep(c.since)
				want := w.now().Add(c.want).UnixMilli()
				w.step(c.wall)
				clock := newClock(w.now, 1, stamp, 0)
				clock.takeOver(stamp, c.since, takeOverSlack, 0)
				now, paused := clock.look()
				if now != want || paused {
					t.Errorf("broker time is %d ms from what it should be, paused %v", now-want, paused)
				}
				time.Sleep(time.Minute)
				later, _ := clock.look()
				got := time.Duration(later-now) * time.Millisecond
				if limit := time.Minute / slewShare; got < time.Minute-limit || got > time.Minute+limit {
					t.Errorf("a minute later broker time has advanced by %v", got)
				}
			})
		})
	}
}

// A pause of expiry under the old leader continues, and lasts no longer than one that begins now.
func TestClockTakeOverPaused(t *testing.T) {
	for _, c := range []struct{ left, want time.Duration }{
		{0, 0}, {time.Minute, time.Minute}, {time.Hour, steadyFor}, {math.MaxInt64, steadyFor},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWall()
			stamp, until := w.now().UnixMilli(), int64(math.MaxInt64)
			switch c.left {
			case 0:
				until = 0
			case math.MaxInt64:
			default:
				until = w.now().Add(c.left).UnixMilli()
			}
			w.step(time.Hour * 24)
			clock := newClock(w.now, 1, stamp, until)
			clock.takeOver(stamp, 0, takeOverSlack, until)
			got := max(0, clock.pausedUntil-time.Duration(stamp)*time.Millisecond)
			if (got - c.want).Abs() > 2*time.Second {
				t.Errorf("paused for %v, want %v", got, c.want)
			}
		})
	}
}

// A message that the old leader has hidden becomes visible when its timeout ends, although the new
// leader's wall clock is a minute ahead. Without grace only the clock keeps it hidden.
func TestTakeOverKeepsVisibility(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		r, ended := runLost(t, newConfig(t, store))
		r.send("orders", "hidden")
		r.take("orders", 30)
		applied := time.Now()
		r.Abandon()
		<-ended
		time.Sleep(5 * time.Second)
		cfg := newConfig(t, store)
		cfg.Applied = applied
		cfg.Wall = func() time.Time { return time.Now().Add(time.Minute) }
		next := start(t, cfg)
		next.takeNothing("orders")
		time.Sleep(10 * time.Second)
		c := next.begin(receiveOp("orders", 20))
		<-c.done
		// A second is the slack, and broker time is one part in twenty faster while it follows.
		if got := time.Since(applied); next.bodies(c.res) != "hidden" || got < 27*time.Second || got > 30*time.Second {
			t.Errorf("received %q after %v, want the message after 30 s", next.bodies(c.res), got)
		}
	})
}

// A node that has been given the rows only now takes over from a leader that had nothing to do for
// a day: its clock is behind by no more than the time between two stamps. A single node that has
// nothing to do writes nothing.
func TestIdleLeaderStamps(t *testing.T) {
	for name, cluster := range map[string]bool{"cluster": true, "single node": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &countingStore{Store: kv.NewMemory()}
				cfg := newConfig(t, store)
				if cluster {
					cfg.Confirm = func() error { return nil }
				}
				r, ended := runLost(t, cfg)
				time.Sleep(time.Minute)
				before := store.forced.Load()
				time.Sleep(day)
				stamps := store.forced.Load() - before
				r.Abandon()
				<-ended
				if !cluster {
					if stamps != 0 {
						t.Errorf("an idle day wrote %d times, want none", stamps)
					}
					return
				}
				if want := int64(day / stampEvery); stamps < want-1 || stamps > want+1 {
					t.Errorf("an idle day wrote %d times, want %d", stamps, want)
				}
				cfg.Applied = time.Now()
				next := mustNew(t, cfg)
				if behind := time.Now().UnixMilli() - next.now; behind < 0 || behind > stampEvery.Milliseconds() {
					t.Errorf("the clock of the next leader is %d ms behind, want at most 5 s", behind)
				}
			})
		})
	}
}

// A countingStore counts the batches that were forced and wrote something.
type countingStore struct {
	kv.Store
	forced atomic.Int64
}

func (s *countingStore) NewBatch() kv.Batch { return &countingBatch{s.Store.NewBatch(), s} }

type countingBatch struct {
	kv.Batch
	store *countingStore
}

func (b *countingBatch) Force() (wait func() error) {
	if b.Len() > 0 {
		b.store.forced.Add(1)
	}
	return b.Batch.Force()
}

// A message that was hidden when the old leader was lost stays hidden for as much longer as there
// was no leader.
func TestTakeOverGivesGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		r, ended := runLost(t, newConfig(t, store))
		r.send("orders", "hidden")
		r.take("orders", 5)
		applied := time.Now()
		r.Abandon()
		<-ended
		time.Sleep(4 * time.Second)
		cfg := newConfig(t, store)
		cfg.Applied, cfg.Grace = applied, time.Minute
		next := start(t, cfg)
		c := next.begin(receiveOp("orders", 20))
		<-c.done
		got := time.Since(applied)
		if next.bodies(c.res) != "hidden" || got < 7900*time.Millisecond || got > 8500*time.Millisecond {
			t.Errorf("received %q after %v, want the message after 8 s", next.bodies(c.res), got)
		}
	})
}

// A leader that stopped in order leaves its clock and no grace. Had that clock been behind, the new
// leader gains nothing on it at once: a message becomes visible when its timeout ends.
func TestTakeOverAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		first, ended := runLost(t, newConfig(t, store))
		first.send("orders", "hidden")
		first.take("orders", 1)
		hidden := time.Now()
		first.stop()
		<-ended
		cfg := newConfig(t, store)
		cfg.Applied = time.Now()
		cfg.Wall = func() time.Time { return time.Now().Add(10 * time.Second) }
		next := start(t, cfg)
		c := next.begin(receiveOp("orders", 20))
		<-c.done
		// Broker time is one part in twenty faster while it follows the wall clock.
		if got := time.Since(hidden); next.bodies(c.res) != "hidden" || got < 950*time.Millisecond {
			t.Errorf("received %q after %v, want the message after a second", next.bodies(c.res), got)
		}
	})
}
