package claims

import (
	"context"
	"errors"
	"time"
)

// Hold renews the claim in the background, about three times per lease, until stop is called or the claim
// is lost. The context it returns ends with ctx, with stop, or with ErrLost as its cause when the claim is
// lost: when the ledger says so, and at Deadline at the latest, whether the store can be reached or not.
// Work that goes on after that does so without the claim.
//
// Stop waits until no renewal is under way. It may be called more than once.
func (c *Claim) Hold(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.beat(held, cancel)
	}()
	return held, func() {
		cancel(context.Canceled)
		<-done
	}
}

// beat renews the claim until ctx ends or the claim is lost.
func (c *Claim) beat(ctx context.Context, cancel context.CancelCauseFunc) {
	lease := c.ledger.cfg.Lease
	pause := jitter(lease / 3)
	for {
		// The deadline is watched beside the renewal: a store that does not answer must not hold it up.
		deadline := time.NewTimer(time.Until(c.Deadline()))
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			deadline.Stop()
			wait.Stop()
			return
		case <-deadline.C:
			wait.Stop()
			cancel(ErrLost)
			return
		case <-wait.C:
		}
		renewed := make(chan error, 1)
		renewCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
		go func() { renewed <- c.Renew(renewCtx) }()
		var err error
		select {
		case err = <-renewed:
		case <-deadline.C:
			cancel(ErrLost)
			giveUp()
			<-renewed
			return
		}
		giveUp()
		deadline.Stop()
		switch {
		case err == nil:
			pause = jitter(lease / 3)
		case errors.Is(err, ErrLost):
			cancel(ErrLost)
			return
		case errors.Is(err, errEnded):
			cancel(context.Canceled)
			return
		default:
			pause = jitter(lease / 12) // the store is ill: try until the deadline
		}
	}
}
