package extension

import (
	"strconv"
	"strings"
)

// A Rate bounds the messages delivered in a period, in milliseconds. The zero value has no bound.
//
// It is measured with a bucket of tokens in whole numbers, so that every machine counts the same: a
// token is Period units, and each millisecond adds Messages units. [EXT-13]
type Rate struct{ Messages, Period int64 }

// rateMax is how many messages a rate may have in its period.
const rateMax = 100_000

var periods = []unit{{"s", 1000}, {"m", 60_000}, {"h", 3_600_000}}

// readRate reads a number of messages and a period: 50/s, 6/m, or 50, which is 50/s. [EXT-12]
func readRate(value string, s *Set) bool {
	count, period, _ := strings.Cut(value, "/")
	if !strings.Contains(value, "/") {
		period = "s"
	}
	for _, p := range periods {
		if p.name == period {
			s.Rate.Period = p.size
			return readCount(count, rateMax, &s.Rate.Messages)
		}
	}
	return false
}

func (r Rate) String() string {
	for _, p := range periods {
		if p.size == r.Period {
			return strconv.FormatInt(r.Messages, 10) + "/" + p.name
		}
	}
	return ""
}

func sayRate(s *Set) string {
	period := map[int64]string{1000: " a second", 60_000: " a minute",
		3_600_000: " an hour"}[s.Rate.Period]
	return "at most " + counted(s.Rate.Messages, "delivery", "deliveries") + period
}

// Full is how many units the bucket holds: one second's worth, and at least one token. [EXT-13]
func (r Rate) Full() int64 { return max(r.Period, r.Messages*1000) }

// Refill returns the units in a bucket that had level units and has been filled for elapsed
// milliseconds.
func (r Rate) Refill(level, elapsed int64) int64 {
	full := r.Full()
	if elapsed > full/r.Messages {
		return full // also when the product would overflow
	}
	return min(full, level+elapsed*r.Messages)
}

// Wait returns how many milliseconds pass until there is a token, when there are level units.
func (r Rate) Wait(level int64) int64 {
	return max(0, (r.Period-level+r.Messages-1)/r.Messages)
}

// Interval is how many milliseconds lie between two deliveries, rounded down.
func (r Rate) Interval() int64 { return r.Period / r.Messages }
