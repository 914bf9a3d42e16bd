package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Each makes n requests of one action on a few connections, and returns when all have succeeded or
// one has not. Body says what the i-th asks, and may be called from many goroutines; done is told,
// by one at a time, how much is done, from 0 to 1.
func Each(
	ctx context.Context, e Endpoint, action string, n int64,
	done func(share float64), body func(i int64) string,
) error {
	done = oneByOne(done)
	var next atomic.Int64
	return parallel(ctx, int(min(fillers, n)), func(ctx context.Context) error {
		c, err := dial(ctx, e.URL)
		if err != nil {
			return err
		}
		defer c.close()
		r := request{endpoint: &e, action: action}
		for i := next.Add(1) - 1; i < n && ctx.Err() == nil; i = next.Add(1) - 1 {
			r.set("%s", body(i))
			_, err := c.ask(ctx, &r)
			for err == errThrottled && ctx.Err() == nil {
				time.Sleep(throttledPause)
				_, err = c.ask(ctx, &r)
			}
			if err != nil {
				return err
			}
			if i%1000 == 0 {
				done(float64(i) / float64(n))
			}
		}
		return nil
	})
}

// parallel runs work n times at the same time, and returns the first error. All of it ends early
// when ctx ends or one fails.
func parallel(ctx context.Context, n int, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// oneByOne makes a function that is told of progress fit for many goroutines.
func oneByOne(done func(float64)) func(float64) {
	var mu sync.Mutex
	return func(share float64) {
		mu.Lock()
		defer mu.Unlock()
		done(share)
	}
}
