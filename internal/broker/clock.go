package broker

import (
	"time"
)

// Rules of the clock.
const (
	// slewShare is how much faster or slower than the monotonic clock broker time may run while it
	// follows the wall clock: one part in twenty.
	slewShare = 20

	// jumpMax is the forward jump that pauses expiry. Expiry continues when time has then run for
	// steadyFor without another surprise. [CLOCK-6, CLOCK-8]
	jumpMax   = time.Hour
	steadyFor = 10 * time.Minute

	// takeOverSlack is what a new leader's clock may gain on the old one's after a crash. The grace
	// is longer by as much, so that nothing is visible too early.
	takeOverSlack = time.Second

	// surprise is how much the wall clock must move between two looks, beyond the monotonic clock,
	// to count as a step.
	surprise = time.Second
)

// A clock is broker time: it starts at the wall clock's, runs with the monotonic clock and follows
// the wall clock only slowly, so that a step of the wall clock neither stalls nor expires anything.
// [CLOCK-3, CLOCK-4, CLOCK-5] It belongs to the writer.
type clock struct {
	wall  func() time.Time
	scale float64 // broker time passes this many times as fast

	looked      time.Time     // monotonic reading of the last look
	now         time.Duration // broker time of the last look, since the Unix epoch
	wallThen    time.Duration // the wall clock at the last look
	pausedUntil time.Duration // of expiry, in broker time
}

// newClock starts broker time at the wall clock, or at the last stamp if that is later. [CLOCK-9]
// PausedUntil, in Unix milliseconds, continues an earlier pause of expiry. The pause begins again
// if the wall clock was set back since the stamp, or is far ahead of it. [CLOCK-6, CLOCK-8]
func newClock(wall func() time.Time, scale float64, stamp, pausedUntil int64) *clock {
	c := &clock{wall: wall, scale: scale, looked: time.Now()}
	c.wallThen = time.Duration(wall().UnixNano())
	last := time.Duration(stamp) * time.Millisecond
	c.now = max(c.wallThen, last)
	if stamp == 0 {
		return c
	}
	anew := c.now + steadyFor
	switch paused := pausedUntil != 0; {
	case c.now-last > jumpMax, paused && last-c.wallThen > surprise:
		c.pausedUntil = anew
	case paused && pausedUntil < anew.Milliseconds():
		c.pausedUntil = time.Duration(pausedUntil) * time.Millisecond
	case paused:
		c.pausedUntil = anew // the store does not say until when
	}
	return c
}

// takeOver starts broker time where the leader on another machine left it: at its last stamp, and
// since later, when this machine got that. Where the wall clock of this machine is ahead, broker
// time gains slack at once and follows the rest slowly. Otherwise messages would be delivered
// before their visibility timeout by the difference between two clocks. Expiry that was paused
// stays paused.
func (c *clock) takeOver(stamp int64, since, slack time.Duration, pausedUntil int64) {
	if stamp == 0 {
		return // no leader has written yet
	}
	last := time.Duration(stamp) * time.Millisecond
	c.now = max(last, min(c.wallThen, last+since+slack))
	pausedUntil = min(pausedUntil, (c.now + steadyFor).Milliseconds())
	c.pausedUntil = time.Duration(pausedUntil) * time.Millisecond
}

// look returns broker time in Unix milliseconds and whether expiry has to wait.
func (c *clock) look() (now int64, paused bool) {
	mono := time.Now()
	passed := max(0, mono.Sub(c.looked))
	c.looked = mono
	wall := time.Duration(c.wall().UnixNano())
	stepped := (wall - c.wallThen - passed).Abs() > surprise
	c.wallThen = wall

	if c.scale != 1 {
		c.now += time.Duration(float64(passed) * c.scale)
		return c.now.Milliseconds(), false
	}
	frozen := passed > jumpMax
	c.now += passed
	limit := passed / slewShare
	c.now += min(max(wall-c.now, -limit), limit)
	if frozen || stepped && c.now < c.pausedUntil {
		c.pausedUntil = c.now + steadyFor // [CLOCK-6]
	}
	return c.now.Milliseconds(), c.now < c.pausedUntil
}

// until returns how long to sleep until broker time reaches at. While the wall clock is behind,
// broker time runs slower than this assumes. The sleep then ends early, which costs only another
// look.
func (c *clock) until(at int64) time.Duration {
	d := time.Duration(at)*time.Millisecond - c.now
	if c.scale != 1 {
		d = time.Duration(float64(d) / c.scale)
	} else {
		d -= min(max(c.wallThen-c.now, 0), max(d, 0)/(slewShare+1))
	}
	return max(0, d-time.Since(c.looked)) + time.Millisecond/4
}
