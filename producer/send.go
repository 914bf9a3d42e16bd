package producer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/records"
)

// send sends a message under a claim on its key, and ends the claim. Before is the earlier send, if
// the message is sent again on purpose.
func (p *Producer) send(
	ctx context.Context, claim *claims.Claim, m Message, before *sent,
) (Receipt, error) {
	receipt := m.receipt()
	receipt.Attempts = claim.Attempts()
	sending, cancel := context.WithDeadline(ctx, claim.Deadline()) // later, another sender may send
	defer cancel()
	if err := sending.Err(); err != nil {
		p.undo(ctx, claim, before)
		return receipt, fmt.Errorf("send %q: it was not sent: %w: call again", claim.Key(), err)
	}

	var w watch
	in := m.input(p.cfg.QueueURL, p.fifo, claim, before)
	out, err := p.cfg.Client.SendMessage(sending, in, w.option)
	if what := w.outcome(err); what != outcomeSent {
		return receipt, p.failed(ctx, claim, what, err, before)
	}
	now := newSent(out, before, time.Now())
	receipt.MessageID, receipt.SequenceNumber = now.MessageID, now.SequenceNumber
	// If the queue drops a duplicate, it answers with the id of the first message.
	receipt.New = before == nil || before.MessageID != now.MessageID
	if err := p.end(ctx, func(ctx context.Context) error {
		return claim.Complete(ctx, now.encode())
	}); err != nil {
		return receipt, fmt.Errorf("%q is sent as message %s, %w: %w", claim.Key(), now.MessageID,
			ErrUnrecorded, err)
	}
	return receipt, nil
}

// failed ends a claim whose send failed with err, and returns the error for the caller.
func (p *Producer) failed(
	ctx context.Context, claim *claims.Claim, what outcome, err error, before *sent,
) error {
	switch {
	case what == outcomeUnknown:
		p.fail(ctx, claim, "unknown whether it was sent: "+err.Error())
		return fmt.Errorf("send %q: %w: %w: call again with the same key", claim.Key(), ErrUnknown,
			err)
	case before != nil:
		p.undo(ctx, claim, before)
	case what == outcomeRefused:
		p.forget(ctx, claim)
	default:
		p.fail(ctx, claim, "not sent: "+err.Error())
	}
	if what == outcomeRefused {
		return fmt.Errorf("send %q: %w: %w: %s", claim.Key(), ErrRefused, err, advice(err))
	}
	return fmt.Errorf("send %q: it was not sent: %w: it stays registered, call again", claim.Key(),
		err)
}

// fail records why a send failed.
func (p *Producer) fail(ctx context.Context, claim *claims.Claim, reason string) {
	p.end(ctx, func(ctx context.Context) error { return claim.Fail(ctx, reason) })
}

// end ends a claim, even if ctx has ended. Otherwise the next call would have to wait for the
// lease, and a message that was sent would be sent again. So it retries for a third of the lease.
func (p *Producer) end(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Lease/3)
	defer cancel()
	for {
		err := write(ctx)
		if err == nil || errors.Is(err, claims.ErrLost) ||
			backoff.Sleep(ctx, pauseMin+rand.N(10*pauseMin)) != nil {
			return err
		}
	}
}

// undo restores a registration to what it was before the claim. Nothing was sent.
func (p *Producer) undo(ctx context.Context, claim *claims.Claim, before *sent) {
	p.end(ctx, func(ctx context.Context) error {
		if before != nil {
			return claim.Complete(ctx, before.found)
		}
		return claim.Release(ctx)
	})
}

// forget removes a registration whose message the queue refuses, so that a corrected message can
// use the key. It removes the record only if it is still what this claim wrote.
func (p *Producer) forget(ctx context.Context, claim *claims.Claim) {
	p.end(ctx, func(ctx context.Context) error {
		err := p.cfg.Store.Delete(ctx, p.cfg.Prefix+claim.Key(), claim.Entry().Version)
		if _, conflict := errors.AsType[*records.Conflict](err); conflict {
			return nil // an earlier try removed it, or another sender has taken over
		}
		return err
	})
}
