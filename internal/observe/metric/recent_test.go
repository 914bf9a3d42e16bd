package metric

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A Recent has the values of the latest five to ten minutes, says since when, and counts each value
// for as long. [V1-25]
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recent
		began := time.Now()
		at := func(after time.Duration) { time.Sleep(time.Until(began.Add(after))) }
		want := func(values []int64, n int64, since time.Duration) {
			t.Helper()
			got, count, from := r.Quantiles(0.5, 0.99)
			if !slices.Equal(got, values) || count != n || from.Sub(began) != since {
				t.Errorf("after %v: got %v of %d values since %v, want %v of %d since %v", time.Since(began), got, count, from.Sub(began), values, n, since)
			}
		}
		want(nil, 0, 0)
		for v := range int64(10) {
			r.Observe(v)
		}
		want([]int64{4, 9}, 10, 0)
		at(5*time.Minute - 1)
		r.Observe(15)
		want([]int64{5, 15}, 11, 0)
		at(5 * time.Minute)
		want([]int64{5, 15}, 11, 0)
		r.Observe(1)
		at(10*time.Minute - 1)
		want([]int64{4, 15}, 12, 0)
		at(10 * time.Minute)
		want([]int64{1, 1}, 1, 5*time.Minute)
		at(11 * time.Minute)
		r.Observe(3)
		want([]int64{1, 3}, 2, 5*time.Minute)
		at(24*time.Minute + time.Second) // 20 to 25 minutes is the period of now
		want(nil, 0, 15*time.Minute)
		r.Observe(7)
		want([]int64{7, 7}, 1, 15*time.Minute)
	})
}
