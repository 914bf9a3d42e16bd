package bench

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Each makes n requests of one action on a few connections, and returns when all have succeeded or
// one has failed. body returns the body of the i-th request, and may be called from many
// goroutines. done gets the share that is done, from 0 to 1, one call at a time.
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
	group, working := errgroup.WithContext(ctx)
	for range n {
		group.Go(func() error { return work(working) })
	}
	err := group.Wait()
	return cmp.Or(context.Cause(ctx), err)
}

// oneByOne serializes the calls of a progress function.
func oneByOne(done func(float64)) func(float64) {
	var mu sync.Mutex
	return func(share float64) {
		mu.Lock()
		defer mu.Unlock()
		done(share)
	}
}
