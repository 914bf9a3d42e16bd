// Package backoff says how long to wait before the next try. It is pure: the history comes in, and chance
// as a number.
package backoff

import "time"

// Full is full jitter: anything between zero and base doubled with every attempt before, at most most. The
// first attempt is 1, chance is in [0, 1). Waits that are all over the range keep those who failed together
// from coming back together.
func Full(attempt int, base, most time.Duration, chance float64) time.Duration {
	return time.Duration(chance * float64(Ceiling(attempt, base, most)))
}

// Ceiling is base doubled with every attempt before, at most most.
func Ceiling(attempt int, base, most time.Duration) time.Duration {
	d := base
	for ; attempt > 1 && d < most; attempt-- {
		if d > most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}
