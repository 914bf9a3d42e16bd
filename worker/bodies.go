package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"tenaq/offload"
)

// fetchMax bounds the time in which a body has to be fetched. The lease and the claim are renewed
// meanwhile.
const fetchMax = 5 * time.Minute

// fetch gets the body of a message that is kept beside the queue. Its key is told then, if it is
// for Config.Key to tell.
func (w *Worker) fetch(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithTimeout(ctx, fetchMax)
	defer cancel()
	body, attributes, err := w.cfg.Offload.In(ctx, d.Body, d.Attributes)
	// the store has answered
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

// noBody reports whether an error of fetch says that there is no body to be had for the message,
// now or later.
func noBody(err error) bool {
	return errors.Is(err, offload.ErrNotFound) || errors.Is(err, offload.ErrPointer) ||
		errors.Is(err, offload.ErrTooLarge)
}

// fetchEarly fetches bodies before the claims, for the functions that name the work and describe
// it: all of them at once, because a claim that is won would not be renewed during the next fetch.
// When there is no body to be had and no name without it, it is unknown what work the message is.
// Without a name to be found it is tried again under the claim, where attempts are counted: the
// work may be done, and its body deleted.
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

// away returns those whose bodies have not been fetched yet.
func away(unit []*delivery) (some []*delivery) {
	for _, d := range unit {
		if d.away {
			some = append(some, d)
		}
	}
	return some
}

// fetchLate fetches the bodies of messages that have been claimed.
func (w *Worker) fetchLate(unit []*delivery) {
	missing := away(unit)
	if len(missing) == 0 {
		return
	}
	for _, d := range unit { // those whose bodies are here wait for the others
		d.keep()
	}
	began := time.Now()
	together(missing, func(d *delivery) { d.err = w.fetch(d.held, d) })
	for _, d := range unit {
		d.took = time.Since(began)
	}
}

// fetched returns what is known about a message that should have its body. An attempt has failed
// when there is none to be had, so the message ends as a dead letter, which still says where its
// body should have been.
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

// deleteDone removes a message whose work is recorded as completed, and then its body if that is
// wanted: in this order, or the message could come back and find none. What is left behind expires.
func (w *Worker) deleteDone(d *delivery) (gone bool) {
	gone = w.delete(d)
	if !gone || !w.cfg.DeleteBodies {
		return gone
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestMax)
	defer cancel()
	if err := w.cfg.Offload.Delete(ctx, aws.ToString(d.raw.Body),
		d.raw.MessageAttributes); err != nil {
		w.cfg.Logger.Warn("the body of a message that is done is left in the store", "key", d.Key,
			"message", d.ID, "error", err)
	}
	return gone
}
