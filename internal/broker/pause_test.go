package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/kv"
)

// A start long after the last stamp pauses expiry: messages past their retention are neither
// delivered nor removed, others are delivered, and after ten minutes those that are over are
// removed. [CLOCK-6, CLOCK-7, CLOCK-8]
func TestPausedExpiry(t *testing.T) {
	for _, clean := range []bool{true, false} {
		bubble(t, func(t *testing.T, r *rig) {
			r.create("brief", "MessageRetentionPeriod", "3600")
			r.create("untouched", "MessageRetentionPeriod", "3600")
			r.send("brief", "over")
			r.send("untouched", "over")
			r.send("orders", "good")
			store := r.cfg.Store.(*kv.Memory)
			if clean {
				r.stop()
			} else {
				store = r.crash()
			}
			time.Sleep(2 * time.Hour)
			r = start(t, newConfig(t, store))
			r.take("orders", 30)
			poll := r.begin(receiveOp("brief", 20))
			r.takeNothing("brief")
			poll.wantAt(20*time.Second, "")
			if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != "1" {
				t.Errorf("%s messages while expiry is paused, want 1", got)
			}
			r.send("brief", "new")
			r.do(deleteOp("brief", r.take("brief", 30)))
			time.Sleep(9 * time.Minute)
			r.takeNothing("brief")
			if got := countMessages(store); got != 3 {
				t.Errorf("%d messages are stored while expiry is paused, want 3", got)
			}
			time.Sleep(40*time.Second + slack)
			if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != "0" {
				t.Errorf("%s messages after the pause, want 0", got)
			}
			time.Sleep(sweepRest + 2*sweepEvery)
			if got := countMessages(store); got != 1 {
				t.Errorf("%d messages are stored after the pause, want 1", got)
			}
		})
	}
}

// A stop of less than an hour pauses nothing: what expired meanwhile is gone. [CLOCK-6, DUR-11]
func TestShortStopPausesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.create("brief", "MessageRetentionPeriod", "60")
		r.send("brief", "over")
		store := r.crash()
		time.Sleep(59 * time.Minute)
		r = start(t, newConfig(t, store))
		r.takeNothing("brief")
		if got := countMessages(store); got != 0 {
			t.Errorf("%d messages are stored, want none", got)
		}
	})
}

// A wall clock that jumps while the server runs, by any amount, expires nothing and brings no
// message back early or late by more than one part in twenty. [CLOCK-4, CLOCK-5]
func TestStepsExpireNothing(t *testing.T) {
	for _, step := range steps {
		synctest.Test(t, func(t *testing.T) {
			w := newWall()
			cfg := newConfig(t, kv.NewMemory())
			cfg.Wall = w.now
			r := start(t, cfg)
			r.create("brief", "MessageRetentionPeriod", "600")
			r.send("brief", "hello")
			w.step(step)
			time.Sleep(9 * time.Minute)
			r.send("brief", "world")
			if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != "2" {
				t.Errorf("%v: %s messages before their retention is over, want 2", step, got)
			}
			time.Sleep(2 * time.Minute)
			if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != "1" {
				t.Errorf("%v: %s messages after the retention of one, want 1", step, got)
			}
		})
	}
}

// After a restart with a wall clock that was set back, broker time continues from the last stamp: a
// message in flight comes back, a poll ends, and nothing waits for the wall clock. [CLOCK-5,
// CLOCK-9]
func TestWallClockSetBackAtRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWall()
		cfg := newConfig(t, kv.NewMemory())
		cfg.Wall = w.now
		r := start(t, cfg)
		r.create("orders")
		r.send("orders", "hello")
		r.take("orders", 10)
		r.stop()
		w.step(-day)
		r = start(t, cfg)
		// Broker time is a day ahead of the wall clock, and so runs slower by a twentieth.
		slower := func(d time.Duration) time.Duration { return d * slewShare / (slewShare - 1) }
		r.begin(receiveOp("orders", 20)).wantAt(slower(10*time.Second), "hello")
		r.begin(receiveOp("orders", 15)).wantAt(slower(15*time.Second), "")
	})
}

// A restart during the ten minutes does not end them: an operator who finds the clock wrong, sets
// it right and restarts the server has lost nothing. [CLOCK-6, CLOCK-8]
func TestRestartWhilePaused(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWall()
				cfg := newConfig(t, kv.NewMemory())
				cfg.Wall = w.now
				r := start(t, cfg)
				r.create("brief", "MessageRetentionPeriod", "3600")
				r.send("brief", "good")
				cfg.Store = stop(r)
				w.step(day)
				r = start(t, cfg)
				time.Sleep(time.Minute)
				cfg.Store = stop(r)
				w.step(-day)
				r = start(t, cfg)
				if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != "1" {
					t.Errorf("%s messages a minute after a jump and a restart, want 1", got)
				}
				time.Sleep(9 * time.Minute)
				if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != "1" {
					t.Errorf("%s messages ten minutes after a jump and nine after a restart, want 1", got)
				}
				time.Sleep(2 * time.Minute)
				if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != "0" {
					t.Errorf("%s messages eleven minutes after the restart, want 0", got)
				}
			})
		})
	}
}

// The minutes of several lives add up, so that a server which is started again every few minutes
// does not pause expiry forever. [CLOCK-8, DEDUP-23]
func TestPauseAddsUp(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWall()
				cfg := newConfig(t, kv.NewMemory())
				cfg.Wall = w.now
				r := start(t, cfg)
				r.create("brief", "MessageRetentionPeriod", "60")
				r.send("brief", "good")
				cfg.Store = stop(r)
				time.Sleep(2 * time.Hour)
				for life, want := range []string{"1", "1", "1", "0"} { // after 0, 4, 8 and 12 minutes
					r = start(t, cfg)
					if got := r.attribute("brief", "ApproximateNumberOfMessages"); got != want {
						t.Errorf("%s messages %d minutes after the first start, want %s", got, 4*life, want)
					}
					time.Sleep(4 * time.Minute)
					cfg.Store = stop(r)
					time.Sleep(time.Second)
				}
			})
		})
	}
}
