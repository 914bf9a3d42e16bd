package worker

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A crew runs every function, one after the other on the same goroutines, also behind one that ends
// its goroutine, and while it ends. The bubble waits for all goroutines, so none is left.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crew
		var ran, goroutines atomic.Int64
		round := func() {
			var running sync.WaitGroup
			for i := range 8 {
				running.Add(1)
				c.run(func() {
					defer running.Done()
					ran.Add(1)
					if i == 3 {
						runtime.Goexit()
					}
				})
			}
			running.Wait()
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			goroutines.Store(int64(len(c.idle)))
		}
		for range 10 {
			round()
		}
		if got := ran.Load(); got != 80 {
			t.Errorf("%d functions ran, want 80", got)
		}
		if got := goroutines.Load(); got < 1 || got > 7 {
			t.Errorf("%d goroutines wait, want up to 7", got)
		}
		c.run(func() { c.end() })
		round()
		if got := goroutines.Load(); got != 0 {
			t.Errorf("%d goroutines wait after the end", got)
		}
	})
}
