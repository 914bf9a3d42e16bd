package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"tenaq/offload"
)

// fetchMax is the time limit for fetching a body. The lease and the claim are renewed meanwhile.
const fetchMax = 5 * time.Minute

// fetch fetches the body of a message that has a pointer. Then Config.Key, if set, names the work.
func (w *Worker) fetch(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithTimeout(ctx, fetchMax)
	defer cancel()
	body, attributes, err := w.cfg.Offload.In(ctx, d.Body, d.Attributes)
	// In these cases, the store has answered.
	if err == nil || errors.Is(err, offload.ErrNotFound) || errors.Is(err, offload.ErrTooLarge) {
		w.bodies.note(true)
	}
	if err != nil {
		return err
	}
	d.Body, d.Attributes, d.away = body, attributes, false
	if w.cfg.Key != nil && d.unnamed == nil {
		d.unnamed = w.name(d.Message, d.trail)
	}
	return nil
}

// noBody reports whether an error of fetch says that there is no body, now or later.
func noBody(err error) bool {
	return errors.Is(err, offload.ErrNotFound) || errors.Is(err, offload.ErrPointer) ||
		errors.Is(err, offload.ErrTooLarge)
}

// fetchEarly fetches bodies before the claims, for Config.Key and Config.Memo. It fetches all of
// them at once, because a claim would not be renewed during the next fetch.
//
// If there is no body and Config.Key needs it, the work of the message is unknown. If only
// Config.Memo needs it, the fetch is repeated under the claim, where attempts count: the work may
// be done, and its body deleted.
func (w *Worker) fetchEarly(unit []*delivery) {
	if w.cfg.Key == nil && w.cfg.Memo == nil {
		return
	}
	together(away(unit), func(d *delivery) {
		err := w.fetch(d.hold.ctx, d)
		switch {
		case !noBody(err):
			d.err = err
		case w.cfg.Key != nil:
			d.unnamed, d.aside = err, false
		}
	})
}

// away returns the messages whose bodies have not been fetched.
func away(unit []*delivery) (some []*delivery) {
	for _, d := range unit {
		if d.away {
			some = append(some, d)
		}
	}
	return some
}

// fetchLate fetches the bodies of messages that have been claimed. It reports whether there were
// any.
func (w *Worker) fetchLate(unit []*delivery) (fetched bool) {
	missing := away(unit)
	if len(missing) == 0 {
		return false
	}
	for _, d := range unit { // messages with bodies wait for the others
		d.keep()
	}
	began := time.Now()
	together(missing, func(d *delivery) { d.err = w.fetch(d.hold.ctx, d) })
	for _, d := range unit {
		d.took = time.Since(began)
	}
	return true
}

// fetched returns the facts about a message that should have its body now. If there is no body, an
// attempt has failed, so the message ends as a dead letter, which keeps the pointer.
func (w *Worker) fetched(d *delivery) facts {
	why := d.whyEnded()
	switch {
	case why != nil:
		d.err = cmp.Or(d.err, why)
	case d.err == nil:
		return facts{}
	case !noBody(d.err):
		w.bodiesFailed(d.err)
		return facts{unfetched: d.err}
	case errors.Is(d.err, offload.ErrPointer):
		d.err = Poison(d.err)
	}
	return facts{handled: true, err: d.err, stopped: why, ended: why}
}

// bodiesFailed notes that a body cannot be fetched now.
func (w *Worker) bodiesFailed(err error) {
	if failures := w.bodies.note(false); failures&(failures-1) == 0 {
		w.cfg.Logger.Warn("the store of bodies cannot be used, their messages are given back",
			"attempt", failures, "error", err)
	}
}

// deleteDone deletes a message whose work is recorded as completed, and then its body if
// Config.DeleteBodies is set. In the other order, the message could come back without its body.
func (w *Worker) deleteDone(d *delivery) (gone bool) {
	gone = w.delete(d)
	if !gone || !w.cfg.DeleteBodies {
		return gone
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestMax)
	defer cancel()
	if err := w.cfg.Offload.Delete(ctx, aws.ToString(d.raw.Body),
		d.raw.MessageAttributes); err != nil {
		w.cfg.Logger.Warn("cannot delete the body of a completed message", "key", d.Key,
			"message", d.ID, "error", err)
	}
	return gone
}
