package broker

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// A wall is the wall clock of a machine, which the test can set. It runs with the bubble's clock.
type wall struct{ offset atomic.Int64 }

func (w *wall) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

func (w *wall) step(by time.Duration) { w.offset.Add(int64(by)) }

// newWall sets the clock to a year in which thirty years fit in front of it and behind it.
func newWall() *wall {
	w := new(wall)
	w.step(time.Until(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)))
	return w
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// steps are what happens to the clocks of machines.
var steps = []time.Duration{
	0,
	time.Second, 5 * time.Minute, day, 30 * year,
	-time.Second, -5 * time.Minute, -day, -30 * year,
}

// While the server runs, broker time never decreases, runs with the monotonic clock but for one
// part in twenty, closes the distance to the wall clock at that rate and no faster, then stays with
// it, and stops for nothing. [CLOCK-1, CLOCK-3, CLOCK-4, CLOCK-5]
func TestClockFollowsSlowly(t *testing.T) {
	for _, step := range steps {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWall()
				c := newClock(w.now, 1, 0, 0)
				before, _ := c.look()
				w.step(step)
				for range 100_000 { // more than 24 hours
					const pause = time.Second
					distance := w.now().Sub(time.UnixMilli(before))
					time.Sleep(pause)
					now, paused := c.look()
					advance := time.Duration(now-before) * time.Millisecond
					slewed := min(max(distance, -pause/slewShare), pause/slewShare)
					if want := pause + slewed; advance < want-2*time.Millisecond || advance > want+2*time.Millisecond {
						t.Fatalf("%v from the wall clock, broker time advanced by %v in %v, want %v", distance, advance, pause, want)
					}
					if paused {
						t.Fatalf("expiry is paused after a step, which broker time does not follow")
					}
					before = now
				}
				distance := w.now().Sub(time.UnixMilli(before))
				if step.Abs() < 100_000/slewShare*time.Second && distance.Abs() > time.Millisecond {
					t.Errorf("broker time ended %v from the wall clock, want none", distance)
				}
			})
		})
	}
}

// However the wall clock is set, again and again, and however irregularly it is looked at, broker
// time never decreases. [CLOCK-1]
func TestClockNeverDecreases(t *testing.T) {
	rng := proof.Random(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWall()
		c := newClock(w.now, 1, 0, 0)
		before, _ := c.look()
		for range 100_000 {
			if rng.IntN(10) == 0 {
				if step := steps[rng.IntN(len(steps))]; w.now().Add(step).Year() > 1970 && w.now().Add(step).Year() < 2200 {
					w.step(step)
				}
			}
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(50*time.Millisecond)))
			now, _ := c.look()
			if now < before {
				t.Fatalf("broker time went from %d to %d", before, now)
			}
			before = now
		}
	})
}

// After a restart broker time begins with the wall clock, or with the last stamp when the wall
// clock is behind it. Beyond an hour after the last stamp, expiry is paused, for ten minutes of
// broker time. [CLOCK-6, CLOCK-8, CLOCK-9]
func TestClockAfterRestart(t *testing.T) {
	const fresh = -1 // no stamp
	for _, c := range []struct {
		gap    time.Duration // from the last stamp to the wall clock at the start
		start  time.Duration // of broker time, after the last stamp
		paused bool
	}{
		{fresh, 0, false},
		{0, 0, false},
		{time.Second, time.Second, false},
		{5 * time.Minute, 5 * time.Minute, false},
		{time.Hour, time.Hour, false},
		{time.Hour + time.Millisecond, time.Hour + time.Millisecond, true},
		{day, day, true},
		{30 * year, 30 * year, true},
		{-time.Second, 0, false},
		{-5 * time.Minute, 0, false},
		{-day, 0, false},
		{-30 * year, 0, false},
	} {
		t.Run(c.gap.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWall()
				stamp := w.now().Add(-c.gap).UnixMilli()
				if c.gap == fresh {
					stamp = 0
				}
				clock := newClock(w.now, 1, stamp, 0)
				now, paused := clock.look()
				want := stamp + c.start.Milliseconds()
				if c.gap == fresh {
					want = w.now().UnixMilli()
				}
				if now != want || paused != c.paused {
					t.Fatalf("broker time began at %d, paused %v; want %d, %v", now, paused, want, c.paused)
				}
				for range 599 {
					time.Sleep(time.Second)
					if _, paused = clock.look(); paused != c.paused {
						t.Fatalf("paused is %v before ten minutes have passed, want %v", paused, c.paused)
					}
				}
				time.Sleep(steadyFor/slewShare + time.Second) // broker time may be the slower one
				if _, paused = clock.look(); paused {
					t.Errorf("expiry is still paused after ten minutes")
				}
			})
		})
	}
}

// A process that was frozen for more than an hour finds its monotonic clock that much later: time
// has jumped, and expiry is paused. [CLOCK-6]
func TestClockOfAFrozenProcess(t *testing.T) {
	for frozen, want := range map[time.Duration]bool{
		time.Minute:             false,
		time.Hour:               false,
		time.Hour + time.Second: true,
		30 * day:                true,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(newWall().now, 1, 0, 0)
			before, _ := c.look()
			time.Sleep(frozen)
			now, paused := c.look()
			if got := time.Duration(now-before) * time.Millisecond; got != frozen || paused != want {
				t.Errorf("after %v broker time advanced by %v, paused %v; want paused %v", frozen, got, paused, want)
			}
			time.Sleep(steadyFor)
			if _, paused := c.look(); paused {
				t.Errorf("after %v and ten minutes expiry is still paused", frozen)
			}
		})
	}
}

// Another jump while expiry is paused restarts the ten minutes, and so does a step of the wall
// clock: both say that time is not steady. [CLOCK-8]
func TestClockPauseBeginsAnew(t *testing.T) {
	disturb := map[string]func(w *wall){
		"set forward": func(w *wall) { w.step(5 * time.Minute) },
		"set back":    func(w *wall) { w.step(-5 * time.Minute) },
		"frozen":      func(*wall) { time.Sleep(2 * time.Hour) },
	}
	for name, disturb := range disturb {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWall()
				c := newClock(w.now, 1, w.now().Add(-day).UnixMilli(), 0)
				time.Sleep(9 * time.Minute)
				c.look()
				disturb(w)
				c.look()
				time.Sleep(9 * time.Minute)
				if _, paused := c.look(); !paused {
					t.Errorf("expiry goes on nine minutes after the second surprise, want it paused")
				}
				time.Sleep(2 * time.Minute)
				if _, paused := c.look(); paused {
					t.Errorf("expiry is still paused eleven minutes after the second surprise")
				}
			})
		})
	}
}

// A wall clock that is off and set right in small steps, as by a time server, is no surprise.
// [CLOCK-8]
func TestClockSmallSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWall()
		c := newClock(w.now, 1, w.now().Add(-day).UnixMilli(), 0)
		for range 11 * 60 {
			time.Sleep(time.Second)
			w.step(400 * time.Millisecond)
			c.look()
		}
		if _, paused := c.look(); paused {
			t.Errorf("expiry is paused after eleven minutes with small steps, want it to go on")
		}
	})
}

// Timeouts, delays and polls end when broker time says so, on the millisecond, also while broker
// time is far from the wall clock and runs faster or slower. [CLOCK-2, CLOCK-5, POLL-6, POLL-8]
func TestTimersWhileSlewing(t *testing.T) {
	for _, step := range steps {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWall()
				cfg := newConfig(t, kv.NewMemory())
				cfg.Wall = w.now
				r := start(t, cfg)
				r.create("orders")
				time.Sleep(time.Second)
				r.send("orders", "hello") // a look at the clock right before the step
				w.step(step)
				r.take("orders", 10)
				r.do(delayedOp("orders", "world", 15))
				const second = time.Second
				rate := func(d time.Duration) time.Duration { // real time in which broker time advances by d
					switch {
					case step >= d/(slewShare+1):
						return d * slewShare / (slewShare + 1)
					case step <= -d/(slewShare-1):
						return d * slewShare / (slewShare - 1)
					}
					return d - step
				}
				timeout, delay, end := r.begin(receiveOp("orders", 20)), r.begin(receiveOp("orders", 20)), r.begin(receiveOp("orders", 20))
				timeout.wantAt(rate(10*second), "hello")
				delay.wantAt(rate(15*second), "world")
				end.wantAt(rate(20*second), "")
			})
		})
	}
}

// With a time scale broker time passes that many times as fast: polls, timeouts, delays and
// retention end that much earlier. [CLOCK-14]
func TestTimeScale(t *testing.T) {
	for _, scale := range []float64{0.5, 1, 60, 3600} {
		t.Run(fmt.Sprint(scale), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := newConfig(t, kv.NewMemory())
				cfg.TimeScale = scale
				r := start(t, cfg)
				r.create("orders", "MessageRetentionPeriod", "60", "VisibilityTimeout", "100")
				scaled := func(seconds float64) time.Duration { return time.Duration(seconds / scale * float64(time.Second)) }
				r.begin(receiveOp("orders", 20)).wantAt(scaled(20), "")
				r.send("orders", "hello")
				r.take("orders", 10)
				r.do(delayedOp("orders", "world", 15))
				timeout, delay := r.begin(receiveOp("orders", 20)), r.begin(receiveOp("orders", 20))
				timeout.wantAt(scaled(10), "hello")
				delay.wantAt(scaled(15), "world")
				time.Sleep(scaled(30)) // and retention
				if got := r.attribute("orders", "ApproximateNumberOfMessagesNotVisible"); got != "2" {
					t.Errorf("%s messages in flight after 45 s, want 2", got)
				}
				time.Sleep(scaled(16))
				if got := r.attribute("orders", "ApproximateNumberOfMessagesNotVisible"); got != "0" {
					t.Errorf("%s messages in flight after their retention, want 0", got)
				}
			})
		})
	}
}
