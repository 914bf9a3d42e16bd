package metric

import (
	"sync"
	"time"
)

// A Recent counts values of the latest five to ten minutes in the buckets of a Fine. Its memory is
// fixed. The zero Recent is ready.
type Recent struct {
	mu          sync.Mutex
	first       time.Time // when it was first used
	began       time.Time // of the period of now; that of before is in front of it
	before, now FineCounts
}

const recentPeriod = 5 * time.Minute

// Observe counts a value.
func (r *Recent) Observe(v int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(time.Now())
	r.now[fineBucket(v)]++
}

// Quantiles returns, for each share, the value that this share of the values does not exceed, to
// 7 %; none without values. It also returns how many values there are, and since when they count.
func (r *Recent) Quantiles(shares ...float64) (values []int64, n int64, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(time.Now())
	counts := r.before
	for i, more := range r.now {
		counts[i] += more
	}
	if n = counts.Sum(); n > 0 {
		values = counts.Quantiles(shares...)
	}
	if since = r.began.Add(-recentPeriod); since.Before(r.first) {
		since = r.first
	}
	return values, n, since
}

// forget begins a new period if the present one is over.
func (r *Recent) forget(now time.Time) {
	if r.first.IsZero() {
		r.first, r.began = now, now
	}
	over := now.Sub(r.began) / recentPeriod
	if over <= 0 {
		return
	}
	r.began = r.began.Add(over * recentPeriod)
	r.before, r.now = r.now, FineCounts{}
	if over > 1 {
		r.before = FineCounts{}
	}
}
