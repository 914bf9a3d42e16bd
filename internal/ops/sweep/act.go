package sweep

import (
	"context"
	"errors"
	"time"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/producer"
)

// Act settles and sends again what was found, and notes the results in it. open returns a client
// and the URL of a queue. Nothing is changed if a queue cannot be opened.
func (s *Sweeper) Act(
	ctx context.Context, found []*Work,
	open func(ctx context.Context, queue string) (producer.SQS, string, error),
) error {
	senders := make(map[string]*producer.Producer)
	for _, w := range found {
		if w.Action != Resend || senders[w.Queue] != nil {
			continue
		}
		client, url, err := open(ctx, w.Queue)
		if err != nil {
			return err
		}
		if senders[w.Queue], err = s.producer(client, w.Queue, url); err != nil {
			return err
		}
	}
	// A producer sees for itself that the lease of a dead sender has expired. In a store without a
	// clock that takes as long as the lease. So there are two rounds, and the second begins when
	// all these leases have expired.
	var busy []*Work
	var wait time.Duration
	for _, w := range found {
		switch w.Action {
		case Settle:
			s.settle(ctx, w)
		case Resend:
			if retryIn := s.resend(ctx, senders[w.Queue], w); retryIn > 0 {
				busy, wait = append(busy, w), max(wait, retryIn)
			}
		}
	}
	if len(busy) > 0 {
		cli.Pause(ctx, wait)
	}
	for _, w := range busy {
		if s.resend(ctx, senders[w.Queue], w) > 0 {
			w.leave("another process is sending it now")
		}
	}
	return nil
}

// settle records the claim of a message that its queue has moved as exhausted.
func (s *Sweeper) settle(ctx context.Context, w *Work) {
	var err error
	switch w.Settled, err = s.cfg.Ledger.GiveUp(ctx, w.Key, w.Message, w.Why); {
	case err != nil:
		w.Error = err.Error()
	case !w.Settled:
		w.leave("it has changed in the meantime")
	}
}

// resend sends one message. If another process may be sending it at the moment, it returns how long
// to wait before the next try.
func (s *Sweeper) resend(
	ctx context.Context, p *producer.Producer, w *Work,
) (retryIn time.Duration) {
	if w.entry != nil {
		if e, err := s.cfg.Ledger.Entry(ctx, w.Key); err == nil && e.Version != w.entry.Version {
			w.leave("it has changed in the meantime")
			return 0
		}
	}
	receipt, err := p.Resend(ctx, *w.registration)
	busy, _ := errors.AsType[*claims.Refused](err)
	switch {
	case ctx.Err() != nil && err != nil:
		w.Error = "interrupted"
	case busy != nil && busy.Why == claims.Busy:
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
