package extension

import (
	"fmt"
	"strconv"
	"strings"
)

// A Backoff is the pause after a failed attempt, in milliseconds: Base after the first attempt, and
// Factor times as long after each further one, up to Most. The zero value is no pause.
type Backoff struct{ Base, Most, Factor int64 }

// The bounds that a tag may set. No message is hidden for longer than twelve hours. [VIS-11]
const (
	pauseMin      = 1000
	pauseMax      = 12 * 3600 * 1000
	factorDefault = 2
	factorMax     = 10
)

// jitterPart is the part of a pause that jitter adds at most. [EXT-20]
const jitterPart = 10

var pauses = []unit{{"h", 3_600_000}, {"m", 60_000}, {"s", 1000}}

// readRetry reads a pause such as 10s, a range such as 10s..15m in which pauses double, or a range
// with another factor: 10s..15m/x3. [EXT-17]
func readRetry(value string, s *Set) (ok bool) {
	b := Backoff{Factor: factorDefault}
	value, factor, has := strings.Cut(value, "/x")
	if has && (!readCount(factor, factorMax, &b.Factor) || b.Factor < 2) {
		return false
	}
	base, most, ranged := strings.Cut(value, "..")
	if b.Base, ok = measure(base, pauses, pauseMin, pauseMax); !ok {
		return false
	}
	if ranged {
		b.Most, ok = measure(most, pauses, b.Base, pauseMax)
	} else if b.Most = b.Base; has {
		return false // one pause has no factor
	}
	s.Retry = b
	return ok
}

func (b Backoff) String() string {
	text := inUnits(b.Base, pauses)
	if b.Most > b.Base {
		text += ".." + inUnits(b.Most, pauses)
		if b.Factor != factorDefault {
			text += "/x" + strconv.FormatInt(b.Factor, 10)
		}
	}
	return strings.ReplaceAll(text, " ", "")
}

func sayRetry(s *Set) string {
	b := s.Retry
	base, most := inUnits(b.Base, pauses), inUnits(b.Most, pauses)
	switch {
	case b.Most == b.Base:
		return "a failed attempt is repeated after " + base
	case b.Factor == 2:
		return fmt.Sprintf("a failed attempt is repeated after %s, and then after pauses that double up to %s", base, most)
	}
	return fmt.Sprintf("a failed attempt is repeated after %s, and then after pauses %d times as long, up to %s",
		base, b.Factor, most)
}

// Pause returns the pause after an attempt; the first one is 1. Up to a tenth is added, so that
// messages that failed together do not come back together. It follows from the number of the
// message, because every machine must find the same. [EXT-17, EXT-20]
func (b Backoff) Pause(attempt uint32, message uint64) int64 {
	pause := b.Base
	for n := attempt; n > 1 && pause < b.Most; n-- {
		pause = min(pause*b.Factor, b.Most)
	}
	return pause + int64(mix(message<<8|uint64(attempt&0xff))%uint64(pause/jitterPart+1))
}

// all is the time of all pauses before the last of several receives, without jitter.
func (b Backoff) all(receives int) (sum int64) {
	for pause := b.Base; receives > 1; receives-- {
		sum += pause
		pause = min(pause*b.Factor, b.Most)
	}
	return sum
}

// mix makes of neighbouring numbers numbers that have nothing in common: the end of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
