package worker

import (
	"context"
	"errors"
	"time"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/sqslimits"
)

// There are three ways to settle a message: delete it, change its visibility, or send it to its
// dead-letter queue. The ledger comes first: if a worker dies in between, the next one settles the
// message in the same way.

// carryOut carries out a verdict other than handle. It reports whether the message is gone from the
// queue; otherwise it will be received again.
func (w *Worker) carryOut(d *delivery, v verdict) (gone bool) {
	defer d.endClaim()
	if v.failed != nil {
		if d.handled {
			w.count(d.Message, false)
		}
		w.report(d, Outcome{Kind: Failed, Err: v.failed, Took: d.took})
	}
	ended := w.endClaim(d, v)
	switch {
	case v.do == abandon: // whatever the ledger says
		return w.lost(d, v.err)
	case v.do == remove && ended == errDone: // as decided
	case ended != nil:
		return w.lost(d, ended)
	}
	switch v.do {
	case giveBack:
		w.hide(d, v)
		return false
	case remove:
		return w.remove(d, v)
	}
	return w.bury(d, clip.To(v.reason, reasonMax))
}

// hide makes a message receivable again after a pause.
func (w *Worker) hide(d *delivery, v verdict) {
	switch v.told {
	case Busy:
		w.report(d, Outcome{Kind: Busy, Err: v.err, After: v.after})
		w.busy(d, v)
	case Deferred:
		w.giveBack(d, v, v.after)
		w.report(d, Outcome{Kind: Deferred, After: v.after, Reason: v.reason})
	default:
		w.giveBack(d, v, v.after)
	}
}

// remove deletes a message whose work is recorded as completed, now or earlier.
func (w *Worker) remove(d *delivery, v verdict) (gone bool) {
	if v.told == Duplicate {
		w.report(d, Outcome{Kind: Duplicate, Err: v.err})
	} else {
		w.count(d.Message, true)
		w.report(d, Outcome{Kind: Done, Took: d.took})
		w.showDuplicates(d)
	}
	return w.deleteDone(d)
}

// errDone says that the handler has completed the claim itself, in a transaction of its own.
var errDone = errors.New("the handler has completed the work itself")

// endClaim ends the claim of a message as decided, if it has one. It retries until the deadline of
// the claim.
func (w *Worker) endClaim(d *delivery, v verdict) error {
	if d.claim == nil || v.end == "" {
		return nil
	}
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), requestMax)
		err := w.writeEnd(ctx, d, v)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, claims.ErrEnded) && d.claim.Entry().State == claims.Completed:
			return errDone
		case errors.Is(err, claims.ErrLost):
			return ErrLost
		}
		pause := backoff.Jitter(backoff.Ceiling(try, 100*time.Millisecond, 5*time.Second))
		if !time.Now().Add(pause).Before(d.claim.Deadline()) {
			w.cfg.Logger.Error("cannot record the outcome of the work; the next worker will treat this handler as lost",
				"key", d.Key, "message", d.ID, "error", err)
			return err
		}
		time.Sleep(pause)
	}
}

// writeEnd records the end of the claim.
func (w *Worker) writeEnd(ctx context.Context, d *delivery, v verdict) error {
	switch v.end {
	case claims.Completed:
		if w.ends.areTaken() {
			return w.completeAndDelete(ctx, d)
		}
		return d.claim.Complete(ctx, d.recorded())
	case claims.Failed:
		return d.claim.Fail(ctx, v.reason)
	case claims.Exhausted:
		return d.claim.Exhaust(ctx, v.reason)
	case unbegun:
		return d.claim.ExhaustUnbegun(ctx, v.reason)
	}
	return d.claim.Release(ctx)
}

// lost ends the custody of a message that the worker has lost, unless its work turns out to be
// done.
func (w *Worker) lost(d *delivery, err error) (gone bool) {
	if err == errDone {
		d.took = 0
		return w.remove(d, verdict{told: Done})
	}
	w.custody.drop(d.hold)
	w.report(d, Outcome{Kind: Lost, Err: err})
	return false
}

// giveUp abandons a message whose handler does not return. Its effects are unknown, so its claim is
// left to be taken over, where claims.Config.Lost decides.
func (w *Worker) giveUp(d *delivery, cause error) {
	go d.endClaim() // it waits for a renewal in progress
	w.custody.drop(d.hold)
	w.cfg.Logger.Error("a handler has not returned after its context ended; it keeps its place until it does",
		"key", d.Key, "message", d.ID, "cause", cause)
	w.report(d, Outcome{Kind: Abandoned, Err: cause})
}

// delete deletes a message whose work is done, or which is in the dead-letter queue. If that fails,
// the message comes back and is found to be done.
func (w *Worker) delete(d *delivery) (gone bool) {
	if d.deleted {
		w.custody.release(d.hold)
		return true
	}
	return w.custody.release(d.hold) && w.settle("delete", func() error {
		return w.deletes.do(d.handle)
	}) == nil
}

// giveBack makes a message receivable again after a pause. If that fails, it reports false, and the
// message comes back at the end of its lease.
func (w *Worker) giveBack(d *delivery, v verdict, after time.Duration) bool {
	if !w.custody.release(d.hold) {
		return false
	}
	left := sqslimits.VisibilityMax - time.Since(d.received) - time.Minute
	after = max(0, min(after, left))
	after = (after + time.Second - 1).Truncate(time.Second)
	return w.settle("change the visibility", func() error {
		return w.reasons.giveBackWith(nackOf(d, v, after), func() error {
			return w.shows.do(show{d.handle, after})
		})
	}) == nil
}

// settleTries is how often a delete or a change of visibility is tried. The client retries each of
// them by itself, too.
const settleTries = 3

// settle tries an operation a few times, unless the queue refuses it for good.
func (w *Worker) settle(operation string, do func() error) (err error) {
	for try := 1; try <= settleTries; try++ {
		if err = do(); err == nil {
			return nil
		}
		w.queueError(operation, try, err)
		if refused, ok := errors.AsType[*entryError](err); ok && refused.final() {
			return err
		}
		if try < settleTries {
			time.Sleep(backoff.Jitter(backoff.Ceiling(try, 100*time.Millisecond, time.Second)))
		}
	}
	return err
}
