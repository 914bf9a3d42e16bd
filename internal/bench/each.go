package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done = oneByOne(done)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(fillers, n) {
		wg.Go(func() {
			c, err := dial(ctx, e.URL)
			if err != nil {
				cancel(err)
				return
			}
			defer c.close()
			r := request{endpoint: &e, action: action}
			for i := next.Add(1) - 1; i < n && ctx.Err() == nil; i = next.Add(1) - 1 {
				r.set("%s", body(i))
				if err := insist(ctx, c, &r); err != nil {
					cancel(fmt.Errorf("%s: %w", action, err))
					return
				}
				if i%1000 == 0 {
					done(float64(i) / float64(n))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// insist makes a request until it is not refused for overload.
func insist(ctx context.Context, c *conn, r *request) error {
	for {
		wire, err := r.wire(ctx)
		if err != nil {
			return err
		}
		if err := c.c.SetDeadline(time.Now().Add(answerMax)); err != nil {
			return err
		}
		status, answer, err := c.do(wire, 0)
		switch {
		case err != nil:
			return err
		case status == 200 && !bytes.Contains(answer, []byte(`"Failed":[{`)):
			return nil
		case !isThrottled(status, answer):
			return fmt.Errorf("status %d: %.300s", status, answer)
		}
		time.Sleep(throttledPause)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
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
