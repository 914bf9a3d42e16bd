package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/sqslimits"
)

// Polls are long polls on a queue, one after the other on each connection. A nil *Polls has none.
type Polls struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	failed atomic.Pointer[error]
}

// Poll starts n clients that poll a queue. All connect before the first one polls, so that their
// polls begin and end together.
func Poll(ctx context.Context, e Endpoint, url string, n int) (*Polls, error) {
	clients := make([]*conn, 0, n)
	for i := range n {
		c, err := dial(ctx, e.URL)
		if err != nil {
			for _, c := range clients {
				c.close()
			}
			return nil, fmt.Errorf("long poll %d of %d: %w", i+1, n, err)
		}
		clients = append(clients, c)
	}
	p := &Polls{}
	var waiting context.Context
	waiting, p.cancel = context.WithCancel(context.Background())
	for _, c := range clients {
		r := &request{endpoint: &e, action: "ReceiveMessage", wait: sqslimits.WaitMax}
		r.set(`{"QueueUrl":%q,"WaitTimeSeconds":%d}`, url, int(sqslimits.WaitMax.Seconds()))
		stop := context.AfterFunc(waiting, c.close)
		p.wg.Go(func() {
			defer c.close()
			defer stop()
			for waiting.Err() == nil {
				if err := poll(waiting, c, r); err != nil && waiting.Err() == nil {
					p.failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	return p, nil
}

func poll(ctx context.Context, c *conn, r *request) error {
	switch _, err := c.ask(ctx, r); err {
	case nil:
		return nil
	case errThrottled: // thousands that begin at once may be too many
		_ = backoff.Sleep(ctx, throttledPause)
		return nil
	default:
		return fmt.Errorf("long poll: %w", err)
	}
}

// Err returns the error of the first poll that failed, if any.
func (p *Polls) Err() error {
	if p == nil {
		return nil
	}
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Stop ends the polls.
func (p *Polls) Stop() {
	if p != nil {
		p.cancel()
		p.wg.Wait()
	}
}
