package claims

import (
	"context"
	"sync"
	"time"

	"tenaq/internal/work/backoff"
)

// Hold renews the claim in the background, three to six times per lease, until stop is called, ctx
// ends, or the claim is ended or lost. The context it returns ends with ctx, with stop, or with
// ErrLost as its cause when the claim is lost: as soon as the ledger says so, and at Deadline at
// the latest, whether the store can be reached or not. Work that goes on after that does so without
// the claim. Complete, Fail and Release end the renewals and leave the context as it is.
//
// Stop waits until no renewal is under way, a third of the lease at most when the store gives up in
// time. It may be called more than once. Give Hold a context with a timeout when the work could
// hang: a claim is renewed for as long as it is held.
func (c *Claim) Hold(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { c.watch(held, cancel) })
	running.Go(func() { c.beat(held) })
	return held, func() {
		cancel(context.Canceled)
		running.Wait()
	}
}

// watch ends the context when the claim is lost. It does so beside the renewals: a store that does
// not answer must not hold it up.
func (c *Claim) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		left := time.Until(c.Deadline())
		if left <= 0 {
			cancel(ErrLost)
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C: // unless it was renewed meanwhile
		case <-ctx.Done():
			timer.Stop()
			return
		case <-c.over:
			timer.Stop()
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.why == ErrLost {
				cancel(ErrLost)
			}
			return
		}
	}
}

// beat renews the claim until ctx ends or the claim is over.
func (c *Claim) beat(ctx context.Context) {
	lease := c.ledger.cfg.Lease
	pause := backoff.Jitter(lease / 3)
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-c.over:
			timer.Stop()
			return
		case <-timer.C:
		}
		// Stop does not cut off a renewal: what it was told by then would be unknown. A call that
		// hangs leaves time for another one.
		renewCtx, giveUp := context.WithTimeout(context.WithoutCancel(ctx), lease/3)
		err := c.Renew(renewCtx)
		giveUp()
		pause = backoff.Jitter(lease / 3)
		if err != nil {
			pause = backoff.Jitter(lease / 12) // the store is ill: try until the deadline
		}
	}
}
