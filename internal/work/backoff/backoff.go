// Package backoff computes pauses between retries, and waits.
//
// Full and Ceiling are pure: the number of attempts and the random number are arguments.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Full returns the pause after a number of attempts with full jitter: chance, in [0, 1), times
// Ceiling. Pauses over the whole range keep callers that failed together from retrying together.
func Full(attempt int, base, most time.Duration, chance float64) time.Duration {
	return time.Duration(chance * float64(Ceiling(attempt, base, most)))
}

// Ceiling returns base, doubled with every attempt after the first, and at most most. The first
// attempt is 1.
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

// Jitter returns a random duration between half of d and d.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Sleep waits for d. It returns the error of ctx if ctx ends first or has ended.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
