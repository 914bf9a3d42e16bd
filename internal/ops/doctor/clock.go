package doctor

import (
	"fmt"
	"math"
	"time"

	"tenaq/internal/cli"
)

// Differences of clocks. SQS rejects a signature that is 15 minutes off, and other services one
// that is 5.
const (
	skewWarns   = time.Minute
	skewSigns   = 5 * time.Minute
	skewRefused = 15 * time.Minute
	stepWarns   = 200 * time.Millisecond
)

// setClock is what to do about a clock that is wrong.
const setClock = "synchronize the clock of this machine or of the endpoint with NTP: timedatectl set-ntp true, or chrony"

// checkClock compares the clock of this machine with that of the endpoint, which its answer has to
// the second.
func checkClock(p probe) Finding {
	if p.date.IsZero() {
		return unchecked("", "the endpoint does not report its time")
	}
	middle := p.asked.Add(p.took / 2)
	skew := middle.Sub(p.date.Add(500 * time.Millisecond))
	figures := map[string]float64{"skewSeconds": math.Round(skew.Seconds()*10) / 10}
	off := max(0, skew.Abs()-500*time.Millisecond-p.took/2) // at the least
	says := fmt.Sprintf("this clock is %s %s that of the endpoint", cli.RoughDuration(skew.Abs()),
		aheadOrBehind(skew))
	switch {
	case off >= skewRefused:
		return problem(setClock, "%s: SQS rejects signatures that are 15 min off",
			says).with(figures)
	case off >= skewSigns:
		return problem(setClock, "%s: most services of AWS reject signatures that are 5 min off, and SQS rejects them at 15", says).with(figures)
	case off >= skewWarns:
		return warning(setClock, "%s", says).with(figures)
	}
	return fine("within %s of the clock of the endpoint",
		cli.HumanDuration(max(time.Second, skew.Abs().Round(time.Second)))).with(figures)
}

func aheadOrBehind(skew time.Duration) string {
	if skew < 0 {
		return "behind"
	}
	return "ahead of"
}

// clockSteps watch whether the wall clock jumps. The zero value has not looked yet.
type clockSteps struct {
	first, last time.Time
	largest     time.Duration // the difference of what both clocks say has passed
}

// look compares the clocks; now has readings of both.
func (s *clockSteps) look(now time.Time) { s.lookAt(now, now.Round(0)) }

// lookAt takes the monotonic clock from now and the wall clock from wall.
func (s *clockSteps) lookAt(now, wall time.Time) {
	if s.first.IsZero() {
		s.first, s.last = now, wall
		return
	}
	passed := now.Sub(s.first)
	step := wall.Sub(s.last) - passed
	s.first, s.last = now, wall
	if step.Abs() > s.largest.Abs() {
		s.largest = step
	}
}

func (s *clockSteps) check() Finding {
	figures := map[string]float64{"stepSeconds": math.Round(s.largest.Seconds()*1000) / 1000}
	if s.largest.Abs() >= stepWarns {
		return warning("find what sets the clock, and slew it instead (chrony, ntpd -x): leases and schedules of other programs jump with it",
			"the wall clock jumped by %+.1f s during this check", s.largest.Seconds()).with(figures)
	}
	return fine("the wall clock did not jump").with(figures)
}
