package producer

import (
	"context"
	"errors"
	"fmt"

	"tenaq/claims"
)

// Resend sends the message of a registration again, with its key, generation and deduplication id
// unchanged. It is safe for every registration that Stuck returns, also in several sweeps at once:
//
//   - A registration that was not completed is claimed and sent like any other. If it was completed
//     meanwhile, the receipt is that of a duplicate.
//   - A Completed registration is sent again on purpose, once for each time that it was completed:
//     if two sweeps saw it, one sends. The message carries the id of the first one as its lineage.
//     A FIFO queue that still remembers the deduplication id drops it; then the receipt is not New.
//
// Resend does not wait. If another sender is sending the key, it returns a *claims.Refused with the
// reason Busy, which says when to come back. In a store without a clock, that is always the answer
// to the first Resend after a sender died; the same Producer can send when the lease has expired.
// Other errors are those of SendOnce, but a refusal leaves a completed registration as it was.
func (p *Producer) Resend(ctx context.Context, r Registration) (Receipt, error) {
	receipt := Receipt{Key: r.Key, Generation: r.Generation}
	if r.Message == nil {
		return receipt, fmt.Errorf("resend %q: its message was not kept with the registration: "+
			"call SendOnce where the message comes from; reopen the key first if it is completed",
			r.entry.Key)
	}
	m := *r.Message
	if err := m.check(p.fifo); err != nil {
		return receipt, fmt.Errorf("resend %q: %w", r.entry.Key, err)
	}
	var before *sent
	if r.State == claims.Completed {
		switch reopened, err := p.reopen(ctx, r); {
		case err != nil:
			return receipt, fmt.Errorf("resend %q: %w", r.entry.Key, err)
		case reopened:
			s, _ := decodeSent(r.entry.Result)
			before = &s
		}
	}
	claim, err := p.ledger.AcquireWith(ctx, r.entry.Key, claims.Note{Memo: r.entry.Memo})
	if refused, ok := errors.AsType[*claims.Refused](err); ok && refused.Why == claims.Done {
		return p.duplicate(ctx, m, refused.Entry, register(m, r.Registered))
	}
	if err != nil {
		return receipt, fmt.Errorf("resend %q: %w", r.entry.Key, err)
	}
	return p.send(ctx, claim, m, before)
}

// reopen makes a completed registration claimable if it is unchanged since it was read. It reports
// false if it has changed, because another sweep has handled it.
//
// Between this and the claim, another sender may claim the key. It sends the message, and the claim
// here is refused. So each version of a registration is reopened once and sent once.
func (p *Producer) reopen(ctx context.Context, r Registration) (bool, error) {
	err := p.ledger.ReopenSeen(ctx, r.entry, "sent again on purpose, was message "+r.MessageID)
	if errors.Is(err, claims.ErrChanged) {
		return false, nil
	}
	return err == nil, err
}
