package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tenaq/claims"
)

// claim asks the ledger for the work of a message, and returns the facts about it.
func (w *Worker) claim(d *delivery) facts {
	if d.err != nil && d.hold.ctx.Err() == nil {
		w.bodiesFailed(d.err)
		return facts{unfetched: d.err}
	}
	if d.aside {
		if err := w.lookAside(d.hold.ctx, d); err != nil {
			return w.ledgerFailed(d, err)
		}
	}
	if d.hold.ctx.Err() != nil || d.unnamed != nil || w.cfg.Claims == nil {
		return facts{ended: context.Cause(d.hold.ctx), unnamed: d.unnamed}
	}
	note := claims.Note{Message: d.ID}
	if w.cfg.Memo != nil && !d.away {
		note.Memo = w.cfg.Memo(d.Message)
	}
	if n := len(note.Memo); n > claims.MemoMax {
		return facts{invalid: fmt.Errorf("its memo has %d bytes, and %d are allowed: store it elsewhere and its name in the memo",
			n, claims.MemoMax)}
	}
	return w.acquire(d, note)
}

// acquire asks the ledger for the claim.
func (w *Worker) acquire(d *delivery, note claims.Note) facts {
	d.rival = w.duplicates.expect(d.EffectKey(), d.handle)
	claim, err := w.cfg.Claims.AcquireWith(d.hold.ctx, d.EffectKey(), note)
	w.cfg.Events.Claimed(d.Message, err)
	refused, ok := errors.AsType[*claims.Refused](err)
	if err == nil || ok {
		w.ledger.note(true)
	}
	if !ok || refused.Why != claims.Busy {
		w.duplicates.forget(d.EffectKey(), d.rival)
	}
	switch {
	case err == nil:
		d.claim, d.attempt = claim, claim.Attempts()
		f := facts{claimed: true, before: lastReason(claim), attempt: d.attempt}
		if w.dead.url != "" { // further attempts do not begin
			d.attempt = min(d.attempt, w.cfg.Attempts)
		}
		return f
	case !ok:
		return w.ledgerFailed(d, err)
	case refused.Why == claims.UsedUp:
		d.attempt = min(refused.Attempts, w.cfg.Attempts)
	case refused.Why == claims.NeedsPerson:
		d.attempt = refused.Attempts
	}
	return facts{refused: refused}
}

// ledgerFailed notes an error of the ledger.
func (w *Worker) ledgerFailed(d *delivery, err error) facts {
	failures := w.ledger.note(d.hold.ctx.Err() != nil) // an ended context is not its fault
	if failures > 0 && failures&(failures-1) == 0 {
		w.cfg.Logger.Warn("the ledger cannot be used, its messages are given back", "attempt",
			failures, "error", err)
	}
	return facts{unknown: err}
}

// lastReason returns what is known about the previous attempt.
func lastReason(c *claims.Claim) string {
	if before := c.TakenOver(); before != nil {
		return before.Owner + " was lost"
	}
	return cmp.Or(c.Entry().Reason, "its reason was not recorded")
}
