package extension

import (
	"strings"
	"time"
)

// delayMax is the longest delay that a tag may allow. [EXT-24]
const delayMax = 365 * 24 * 3600 * 1000

// ReadDelay reads a delay such as 30s or 90d, and returns it in milliseconds. It has no bound but
// that of a number. [EXT-25]
func ReadDelay(text string) (int64, bool) { return measure(text, times, 0, 1<<52) }

// ReadTime reads a time as in RFC 3339, and returns it in Unix milliseconds. [EXT-25]
func ReadTime(text string) (int64, bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at.UnixMilli(), err == nil
}

// SayDelay is a delay of a tag as it is written.
func SayDelay(ms int64) string { return strings.ReplaceAll(inUnits(ms, times), " ", "") }

func readDelayMax(value string, s *Set) (ok bool) {
	s.DelayMax, ok = measure(value, times, ageMin, delayMax)
	return ok
}

func sayDelayMax(s *Set) string {
	return "attributes of a message delay it for up to " + inUnits(s.DelayMax, times)
}
