package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/internal/work/clip"
)

// What becomes of messages at the queue is decided here and nowhere else, by three means that every SQS
// has: deleting a message, changing its visibility, and sending it to its dead-letter queue. A server that
// could be told outcomes and reasons directly would be told them here.

// A fate is what is known of a message when a step of its life is over.
type fate int

const (
	handle    fate = iota // the handler may run
	gone                  // it is no longer in the queue, or will be deleted when it comes back
	comesBack             // it will be received again
)

// prepare claims the work of a message.
func (w *Worker) prepare(d *delivery) fate {
	if d.err != nil && d.hold.ctx.Err() == nil {
		return w.unfetched(d, d.err)
	}
	if d.aside {
		if err := w.lookAside(d.hold.ctx, d); err != nil {
			return w.unclaimed(d, err)
		}
	}
	switch {
	case d.hold.ctx.Err() != nil:
		return w.lost(d, context.Cause(d.hold.ctx))
	case d.bad != nil:
		w.cfg.Events.Failed(d.Message, Poison(d.bad), 0)
		return w.bury(d, "it cannot be told what work the message belongs to: "+d.bad.Error())
	case w.cfg.Claims == nil && d.attempt > w.cfg.Attempts && w.dead.url != "":
		return w.bury(d, fmt.Sprintf("%d receives, and no worker said why it did not succeed", d.attempt-1))
	case w.cfg.Claims == nil:
		return handle
	}
	note := claims.Note{Message: d.ID}
	if w.cfg.Memo != nil && !d.away {
		note.Memo = w.cfg.Memo(d.Message)
	}
	if n := len(note.Memo); n > claims.MemoMax {
		err := fmt.Errorf("its memo has %d bytes, %d are allowed: keep it elsewhere and make its name the memo", n, claims.MemoMax)
		w.cfg.Events.Failed(d.Message, Poison(err), 0)
		return w.bury(d, err.Error())
	}
	rival := w.duplicates.expect(d.EffectKey(), d.handle)
	claim, err := w.cfg.Claims.AcquireWith(d.hold.ctx, d.EffectKey(), note)
	w.cfg.Events.Claimed(d.Message, err)
	var (
		busy   *claims.Busy
		done   *claims.Done
		used   *claims.UsedUp
		person *claims.NeedsPerson
	)
	known := err == nil || errors.As(err, &busy) || errors.As(err, &done) || errors.As(err, &used) || errors.As(err, &person)
	if known {
		w.ledger.note(true)
	}
	if busy == nil {
		w.duplicates.forget(d.EffectKey(), rival)
	}
	switch {
	case err == nil:
		d.claim, d.attempt = claim, claim.Attempts()
		if d.attempt > w.cfg.Attempts && w.dead.url != "" {
			d.attempt, d.unbegun = w.cfg.Attempts, true // no claim beyond them has begun a handler
			return w.bury(d, fmt.Sprintf("%d attempts, of which the last was cut short: %s", d.attempt, lastReason(claim)))
		}
		return handle
	case busy != nil:
		w.cfg.Events.Busy(d.Message, busy)
		w.busy(d, rival, busy.RetryIn)
		return comesBack
	case done != nil:
		w.cfg.Events.Duplicate(d.Message, done)
		return w.deleteDone(d)
	case used != nil:
		d.attempt = min(used.Attempts, w.cfg.Attempts)
		return w.bury(d, used.Reason)
	case person != nil:
		d.attempt = person.Attempts
		return w.bury(d, person.Error())
	}
	return w.unclaimed(d, err)
}

// unclaimed gives a message back of which the ledger does not say who has it.
func (w *Worker) unclaimed(d *delivery, err error) fate {
	failures := w.ledger.note(d.hold.ctx.Err() != nil) // which is no fault of the ledger's
	if failures > 0 && failures&(failures-1) == 0 {
		w.cfg.Logger.Warn("the ledger cannot be used, its messages are given back", "attempt", failures, "error", err)
	}
	return w.deferFor(d, backoff.Jitter(backoff.Ceiling(d.Receives, w.cfg.Lease/3, w.cfg.RetryMax)), "the ledger cannot be used: "+err.Error())
}

// lastReason is what is known about the attempt before.
func lastReason(c *claims.Claim) string {
	if before := c.TakenOver(); before != nil {
		return before.Owner + " was lost"
	}
	return cmp.Or(c.Entry().Reason, "its reason was not recorded")
}

// finish settles a message whose handler has returned. Cause is why its context ended before that, if it
// did.
func (w *Worker) finish(d *delivery, cause error, took time.Duration) fate {
	defer d.endClaim()
	var (
		later       *laterError
		poison      *poisonError
		unavailable *unavailableError
	)
	switch err := d.err; {
	case err == nil:
		return w.complete(d, took)
	case errors.As(err, &unavailable):
		return w.letGo(d, backoff.Jitter(backoff.Ceiling(d.Receives, w.cfg.Lease/3, w.cfg.RetryMax)), err.Error())
	case cause == ErrLost && d.whyEnded() != ErrLost:
		return w.letGo(d, 0, "another message of its batch was lost")
	case cause == ErrLost:
		// Whoever is given the message next need not wait for the end of this claim.
		_ = w.endWith(d, func(ctx context.Context) error { return d.claim.Fail(ctx, ErrLost.Error()) })
		return w.lost(d, err)
	case cause == ErrDraining:
		return w.letGo(d, 0, "the worker stops")
	case errors.As(err, &later):
		return w.letGo(d, later.after, later.reason)
	case errors.As(err, &poison), d.attempt >= w.cfg.Attempts && w.dead.url != "":
		w.count(d.Message, false)
		w.cfg.Events.Failed(d.Message, err, took)
		return w.bury(d, reasonOf(err, cause))
	default:
		w.count(d.Message, false)
		w.cfg.Events.Failed(d.Message, err, took)
		return w.fail(d, reasonOf(err, cause))
	}
}

// reasonOf is what is recorded about a failure: what the handler says, and why it was told to stop.
func reasonOf(err, cause error) string {
	if cause != nil && !errors.Is(err, cause) {
		return fmt.Sprintf("%v: %v", cause, err)
	}
	return err.Error()
}

// complete records that the work is done, and deletes the message.
func (w *Worker) complete(d *delivery, took time.Duration) fate {
	var result []byte
	if r := d.result.Load(); r != nil {
		result = *r
	}
	err := w.endWith(d, func(ctx context.Context) error { return d.claim.Complete(ctx, result) })
	if err != nil && err != errDone {
		return w.lost(d, err)
	}
	return w.done(d, took)
}

// done ends a message whose work is recorded as completed.
func (w *Worker) done(d *delivery, took time.Duration) fate {
	w.count(d.Message, true)
	w.cfg.Events.Done(d.Message, took)
	w.showDuplicates(d)
	return w.deleteDone(d)
}

// fail records a failed attempt, and gives the message back for a while.
func (w *Worker) fail(d *delivery, reason string) fate {
	if err := w.endWith(d, func(ctx context.Context) error { return d.claim.Fail(ctx, reason) }); err != nil {
		return w.lost(d, err)
	}
	w.giveBack(d, backoff.Full(d.attempt, w.cfg.RetryBase, w.cfg.RetryMax, rand.Float64()))
	return comesBack
}

// letGo gives the claim and the message back without an attempt being counted.
func (w *Worker) letGo(d *delivery, after time.Duration, reason string) fate {
	if err := w.endWith(d, func(ctx context.Context) error { return d.claim.Release(ctx) }); err != nil {
		return w.lost(d, err)
	}
	return w.deferFor(d, after, reason)
}

// errDone is that the claim has been completed: by the handler itself, in a transaction of its own, whatever
// it said afterwards.
var errDone = errors.New("the handler has completed the work itself")

// endWith ends the claim of a message, if it has one. It goes on trying for as long as the claim may be
// relied on.
func (w *Worker) endWith(d *delivery, end func(context.Context) error) error {
	if d.claim == nil {
		return nil
	}
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), requestMax)
		err := end(ctx)
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
			w.cfg.Logger.Error("what became of the work could not be recorded: the next one will find out that this handler was lost",
				"key", d.Key, "message", d.ID, "error", err)
			return err
		}
		time.Sleep(pause)
	}
}

// lost ends the custody of a message that is not the worker's any more, unless its work turns out to be done.
func (w *Worker) lost(d *delivery, err error) fate {
	if err == errDone {
		return w.done(d, 0)
	}
	w.custody.drop(d.hold)
	w.cfg.Events.Lost(d.Message, err)
	return comesBack
}

// abandon gives a handler up that does not return. What it has done is unknown: its claim is left to be
// taken over, where claims.Config.Lost decides.
func (w *Worker) abandon(d *delivery, cause error) {
	go d.endClaim() // which waits for a renewal that is under way
	w.custody.drop(d.hold)
	w.cfg.Logger.Error("a handler has not returned after its context ended; its place is not free until it does",
		"key", d.Key, "message", d.ID, "cause", cause)
	w.cfg.Events.Abandoned(d.Message, cause)
}

// settleTries is how often a delete or a change of visibility is tried. The client tries each of them
// several times itself.
const settleTries = 3

// delete removes a message whose work is done. When it cannot be removed it comes back, and is found to be
// done.
func (w *Worker) delete(d *delivery) fate {
	if !w.custody.release(d.hold) {
		return comesBack
	}
	if err := w.settle("delete", func() error { return w.deletes.do(d.handle) }); err != nil {
		return comesBack
	}
	return gone
}

// giveBack makes a message receivable again after a while. When it cannot, it reports false, and the message
// comes back at the end of its lease.
func (w *Worker) giveBack(d *delivery, after time.Duration) bool {
	if !w.custody.release(d.hold) {
		return false
	}
	left := visibilityMax - time.Since(d.received) - time.Minute
	after = max(0, min(after, left))
	after = (after + time.Second - 1).Truncate(time.Second)
	return w.settle("change the visibility", func() error { return w.shows.do(show{d.handle, after}) }) == nil
}

// deferFor gives a message back of which no attempt is counted.
func (w *Worker) deferFor(d *delivery, after time.Duration, reason string) fate {
	w.giveBack(d, after)
	w.cfg.Events.Deferred(d.Message, after, reason)
	return comesBack
}

// settle tries an operation a few times, unless the queue says that it will always refuse it.
func (w *Worker) settle(operation string, do func() error) (err error) {
	for try := 1; try <= settleTries; try++ {
		if err = do(); err == nil {
			return nil
		}
		w.queueError(operation, try, err)
		var refused *entryError
		if errors.As(err, &refused) && refused.final() {
			return err
		}
		if try < settleTries {
			time.Sleep(backoff.Jitter(backoff.Ceiling(try, 100*time.Millisecond, time.Second)))
		}
	}
	return err
}

// bury moves a message to the dead-letter queue. The ledger is told first: a worker that dies in between
// leaves a message behind whose attempts are used up, and the next one to receive it goes on here.
//
// A message that has no room for the attribute which tells what work it is stays where it is, without being
// handled again: the queue itself moves it then, and keeps the message id. Without a dead-letter queue it is
// as if more attempts were left.
func (w *Worker) bury(d *delivery, reason string) fate {
	reason = clip.To(reason, reasonMax)
	if w.dead.url == "" {
		return w.fail(d, reason)
	}
	err := w.endWith(d, func(ctx context.Context) error {
		if d.unbegun {
			return d.claim.ExhaustUnbegun(ctx, reason)
		}
		return d.claim.Exhaust(ctx, reason)
	})
	if err != nil {
		return w.lost(d, err)
	}
	if d.hold.ctx.Err() != nil {
		return w.lost(d, context.Cause(d.hold.ctx))
	}
	retry := backoff.Jitter(backoff.Ceiling(d.Receives, w.cfg.RetryBase, w.cfg.RetryMax))
	attributes, ok := w.deadAttributes(d, reason)
	if !ok {
		w.cfg.Logger.Warn("a message with ten attributes is not to be handled again; it is left to the queue's redrive policy to move it",
			"key", d.Key, "message", d.ID, "reason", reason)
		return w.deferFor(d, retry, reason)
	}
	var deadID string
	err = w.settle("send to the dead-letter queue", func() (err error) {
		deadID, err = w.sendDead(d, attributes)
		return err
	})
	if err != nil {
		return w.deferFor(d, retry, "the dead-letter queue cannot be used: "+err.Error())
	}
	w.cfg.Events.DeadLettered(d.Message, reason, deadID)
	return w.delete(d)
}

// deadAttributes are the attributes of a dead letter: those of the message, with what is known about it.
// What says which work it is, and cannot be read here, stays as it is.
func (w *Worker) deadAttributes(d *delivery, reason string) (attributes map[string]types.MessageAttributeValue, ok bool) {
	if d.unreadable {
		return d.raw.MessageAttributes, true
	}
	t := d.trail
	t.Generation, t.Lineage = d.Generation, d.Lineage
	t.Reason, t.Attempts, t.Source = reason, d.attempt, w.dead.source
	var poison *poisonError
	t.Poison = errors.As(d.err, &poison)
	if d.Key != "" {
		t.Key = d.Key
	}
	if t.FirstSent.IsZero() {
		t.FirstSent = d.Sent
	}
	return t.Attach(d.raw.MessageAttributes)
}

// sendDead puts a message into the dead-letter queue.
func (w *Worker) sendDead(d *delivery, attributes map[string]types.MessageAttributeValue) (id string, err error) {
	in := &sqs.SendMessageInput{
		QueueUrl:          &w.dead.url,
		MessageBody:       d.raw.Body,
		MessageAttributes: attributes,
	}
	if trace, ok := d.raw.Attributes[string(types.MessageSystemAttributeNameAWSTraceHeader)]; ok {
		in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			string(types.MessageSystemAttributeNameAWSTraceHeader): {DataType: aws.String("String"), StringValue: &trace},
		}
	}
	if d.Group != "" {
		in.MessageGroupId = &d.Group
	}
	if w.dead.fifo() {
		// As SQS does it. Another dead-lettering of the same work has another message id, so it is not
		// taken for this one.
		in.MessageDeduplicationId = &d.ID
	}
	ctx, cancel := context.WithTimeout(d.hold.ctx, requestMax)
	defer cancel()
	out, err := w.cfg.Client.SendMessage(ctx, in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.MessageId), nil
}
