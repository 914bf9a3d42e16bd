package claims

import (
	"context"
	"slices"
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
	end := c.Keep(held, func() { cancel(ErrLost) })
	return held, func() {
		cancel(context.Canceled)
		end()
	}
}

// Keep is Hold for a caller that has a context already. It renews the claim until stop is called,
// ctx ends, or the claim is ended or lost. Where Hold would end its context with ErrLost, it calls
// lost, perhaps more than once. Lost must return at once and not use the claim.
func (c *Claim) Keep(ctx context.Context, lost func()) (stop func()) {
	h := &holding{claim: c, ctx: ctx, lost: lost}
	c.mu.Lock()
	left := time.Until(c.deadline)
	if left <= 0 || c.why == ErrLost {
		lost() // at once, because the caller looks before it begins
	}
	c.holdings = append(c.holdings, h)
	c.mu.Unlock()
	// Most work ends before the first renewal. Until then, a timer is cheaper than goroutines.
	h.begin = time.AfterFunc(min(left, backoff.Jitter(c.ledger.cfg.Lease/3)), h.run)
	return h.stop
}

// A holding is the time between a call of Keep and its stop.
type holding struct {
	claim *Claim
	ctx   context.Context
	lost  func()
	begin *time.Timer

	mu      sync.Mutex
	stopped bool
	end     context.CancelFunc // of the renewals, once they have begun
	running sync.WaitGroup     // the renewals and what watches them
}

// run begins the renewals.
func (h *holding) run() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claim.mu.Lock()
	over := h.claim.why != nil
	h.claim.mu.Unlock()
	if h.stopped || over {
		return
	}
	var ctx context.Context
	ctx, h.end = context.WithCancel(h.ctx)
	h.running.Go(func() { h.claim.watch(ctx, h.lost) })
	h.running.Go(func() { h.claim.beat(ctx) })
}

func (h *holding) stop() {
	h.begin.Stop()
	h.mu.Lock()
	h.stopped = true
	if h.end != nil {
		h.end()
	}
	h.mu.Unlock()
	c := h.claim
	c.mu.Lock()
	c.holdings = slices.DeleteFunc(c.holdings, func(other *holding) bool { return other == h })
	c.mu.Unlock()
	h.running.Wait()
}

// watch calls lost when the claim is lost. It runs beside the renewals, because a store that does
// not answer must not delay it.
func (c *Claim) watch(ctx context.Context, lost func()) {
	for {
		left := time.Until(c.Deadline())
		if left <= 0 {
			lost()
			return
		}
		if !c.pause(ctx, left) {
			return
		}
	}
}

// beat renews the claim until ctx ends or the claim is over.
func (c *Claim) beat(ctx context.Context) {
	lease := c.ledger.cfg.Lease
	for pause := time.Duration(0); c.pause(ctx, backoff.Jitter(pause)); {
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
