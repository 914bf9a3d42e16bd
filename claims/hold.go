package claims

import (
	"context"
	"sync"
	"time"

	"tenaq/internal/work/backoff"
)

// Hold renews the claim in the background, three to six times per lease, until stop is called, ctx
// ends, or the claim is ended or lost.
//
// The context that it returns ends with ctx, with stop, or with the cause ErrLost when the claim is
// lost. That happens as soon as the ledger says so, and at Deadline at the latest, even if the
// store does not answer. After Deadline, the context has ended when Hold returns. Work that goes on
// then does so without the claim. Complete, Fail and Release end the renewals and leave the context
// as it is.
//
// Stop waits until no renewal is in progress, at most a third of the lease if the store respects
// contexts. It may be called more than once. A claim is renewed for as long as it is held, so give
// Hold a context with a timeout if the work could hang.
func (c *Claim) Hold(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	if time.Until(c.Deadline()) <= 0 {
		cancel(ErrLost) // at once, because the caller looks before it begins
	}
	var running sync.WaitGroup
	running.Go(func() { c.watch(held, cancel) })
	running.Go(func() { c.beat(held) })
	return held, func() {
		cancel(context.Canceled)
		running.Wait()
	}
}

// watch ends the context when the claim is lost. It runs beside the renewals, because a store that
// does not answer must not delay it.
func (c *Claim) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		left := time.Until(c.Deadline())
		if left <= 0 {
			cancel(ErrLost)
			return
		}
		if c.pause(ctx, left) { // it may have been renewed meanwhile
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.why == ErrLost {
			cancel(ErrLost)
		}
		return
	}
}

// beat renews the claim until ctx ends or the claim is over.
func (c *Claim) beat(ctx context.Context) {
	lease := c.ledger.cfg.Lease
	for pause := lease / 3; c.pause(ctx, backoff.Jitter(pause)); {
		// Stop does not cancel a renewal, because its outcome would be unknown. A call that hangs
		// leaves time for another one.
		renewCtx, giveUp := context.WithTimeout(context.WithoutCancel(ctx), lease/3)
		err := c.Renew(renewCtx)
		giveUp()
		pause = lease / 3
		if err != nil {
			pause = lease / 12 // retry until the deadline
		}
	}
}

// pause waits for d. It reports false if ctx ended or the claim was over first.
func (c *Claim) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.over:
	}
	return false
}
