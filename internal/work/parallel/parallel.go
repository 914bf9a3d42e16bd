// Package parallel runs calls concurrently, a bounded number at once.
//
// It has no cancellation: the calls end by their contexts.
package parallel

import (
	"sync"
	"sync/atomic"
)

// Each calls do for 0 to n-1, at most most of them at once, and waits for all.
func Each(most, n int, do func(i int)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(most, n) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	running.Wait()
}
