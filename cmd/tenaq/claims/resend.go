package claims

import (
	"context"
	"errors"
	"time"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/producer"
)

// senders makes a producer for every queue that something is to be sent to.
func (s *sweeper) senders(ctx context.Context, found []*stuckWork) (map[string]*producer.Producer, error) {
	var c *cli.Client
	senders := make(map[string]*producer.Producer)
	for _, w := range found {
		if w.Action != actionResend || senders[w.Queue] != nil {
			continue
		}
		var err error
		if c == nil {
			if c, err = s.flags.client.Connect(ctx); err != nil {
				return nil, err
			}
		}
		url, err := c.QueueURL(ctx, w.Queue)
		if err != nil {
			return nil, err
		}
		if senders[w.Queue], err = s.producer(c.Client, w.Queue, url); err != nil {
			return nil, err
		}
	}
	return senders, nil
}

// resendAll sends what is to be sent, and notes with each what came of it.
//
// In a store without a clock a producer has to see for itself that the lease of a dead sender is over. So
// there are two rounds, and the second comes when the leases that were met in the first are over.
func (s *sweeper) resendAll(ctx context.Context, senders map[string]*producer.Producer, found []*stuckWork) {
	var busy []*stuckWork
	var wait time.Duration
	for _, w := range found {
		if w.Action != actionResend {
			continue
		}
		if retryIn := s.resend(ctx, senders[w.Queue], w); retryIn > 0 {
			busy, wait = append(busy, w), max(wait, retryIn)
		}
	}
	if len(busy) == 0 {
		return
	}
	cli.Pause(ctx, wait)
	for _, w := range busy {
		if s.resend(ctx, senders[w.Queue], w) > 0 {
			w.leave("somebody is sending it now")
		}
	}
}

// resend sends one message. When somebody may be sending it at the moment, it returns how long to wait
// before it makes sense to try again.
func (s *sweeper) resend(ctx context.Context, p *producer.Producer, w *stuckWork) (retryIn time.Duration) {
	if w.entry != nil {
		e, err := s.work.Entry(ctx, w.Key)
		if err == nil && e.Version != w.entry.Version {
			w.leave("somebody has been at it meanwhile")
			return 0
		}
	}
	receipt, err := p.Resend(ctx, *w.registration)
	var busy *claims.Busy
	switch {
	case ctx.Err() != nil && err != nil:
		w.Error = "interrupted"
	case errors.As(err, &busy):
		return max(busy.RetryIn, time.Millisecond)
	case err != nil:
		w.Error = err.Error()
	case !receipt.New:
		w.leave("it was sent before, as message " + receipt.MessageID)
	default:
		w.Sent = receipt.MessageID
	}
	return 0
}

// leave is what becomes of work that turns out to need nothing.
func (w *stuckWork) leave(why string) { w.Action, w.Why = actionNone, why }
