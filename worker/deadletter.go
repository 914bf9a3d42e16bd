package worker

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/internal/work/clip"
	"tenaq/internal/work/sqsqueue"
	"tenaq/internal/work/trail"
)

// bury moves a message to the dead-letter queue. Its claim has been ended, so if the worker dies
// here, the next one buries the message.
//
// A tenaq server moves the message in one step. On any other server, the worker sends a copy with
// its trail, and then deletes the message. There, a message without room for its trail stays in the
// queue and is not handled again. The queue moves it later, and keeps its message id.
func (w *Worker) bury(d *delivery, reason string) (gone bool) {
	if d.hold.ctx.Err() != nil {
		return w.lost(d, context.Cause(d.hold.ctx))
	}
	later := letGo(backoff.Jitter(backoff.Ceiling(d.Receives, w.cfg.RetryBase, w.cfg.RetryMax)),
		reason)
	later.end = claims.Failed // for the server, which counts the receive
	deadID, err := d.ID, errNotMoved
	if w.dead.policy && w.reasons.areTaken() {
		err = w.moveDead(d, reason)
	}
	switch {
	case err == nil:
		w.custody.release(d.hold)
		w.report(d, Outcome{Kind: DeadLettered, Reason: reason, DeadID: deadID})
		return true
	case err == ErrLost:
		return w.lost(d, err)
	case err != errNotMoved:
		later.reason = "the dead-letter queue cannot be used: " + err.Error()
		w.hide(d, later)
		return false
	}
	attributes, ok := w.deadAttributes(d, reason)
	if !ok {
		w.cfg.Logger.Warn("cannot dead-letter a message with ten attributes: it stays in the queue until the redrive policy moves it",
			"key", d.Key, "message", d.ID, "reason", reason)
		w.hide(d, later)
		return false
	}
	err = w.settle("send to the dead-letter queue", func() (err error) {
		deadID, err = w.sendDead(d, attributes)
		return err
	})
	if err != nil {
		later.reason = "the dead-letter queue cannot be used: " + err.Error()
		w.hide(d, later)
		return false
	}
	w.report(d, Outcome{Kind: DeadLettered, Reason: reason, DeadID: deadID})
	return w.delete(d)
}

// errNotMoved says that the server has not moved a message to its dead-letter queue, and will not.
var errNotMoved = errors.New("the server does not move the message")

// Codes of a message that its handle no longer moves. [NACK-7]
const (
	codeGone     = "ResourceNotFoundException"
	codeReceived = "Conflict" // again
	codeDenied   = "AccessDenied"
)

// moveDead lets a tenaq server move a message to the dead-letter queue. The result is ErrLost if
// the message is that of another consumer, errNotMoved if the worker has to move it otherwise, and
// any other error if it is unknown whether the server has moved it. Then a copy could be a second
// dead letter, so the worker leaves the message to its next receive. [NACK-8, NACK-18]
func (w *Worker) moveDead(d *delivery, reason string) (err error) {
	n := nack{Handle: d.handle, Verdict: exhausted, Text: clip.To(reason, textMax),
		Trail: w.deadTrail(d, reason)}
	if IsPoison(d.err) {
		n.Verdict = poison
	}
	for try := 1; try <= settleTries; try++ {
		unknown := err != nil // whether an earlier request has moved it
		err = w.reasons.batch.do(n)
		refused, ok := errors.AsType[*entryError](err)
		switch {
		case err == nil, unknown && ok && refused.code == codeGone:
			return nil
		case ok && (refused.code == codeGone || refused.code == codeReceived):
			return ErrLost
		case ok && refused.code == codeDenied && n.Trail != "":
			// The worker may not send there either. The reason goes with the message. [NACK-22]
			w.queueError("move to the dead-letter queue with a trail", try, err)
			n.Trail = ""
			try--
		case ok:
			w.queueError("move to the dead-letter queue", try, err)
			return errNotMoved
		case isRefusal(err):
			return errNotMoved
		}
		w.queueError("move to the dead-letter queue", try, err)
		if try < settleTries {
			time.Sleep(backoff.Jitter(backoff.Ceiling(try, 100*time.Millisecond, time.Second)))
		}
	}
	return err
}

// deadTrail returns the trail of a message that the server moves, or nothing if there is no room. A
// message that moves keeps the time of its send, so the trail has that of its death. An unreadable
// trail stays as it is.
func (w *Worker) deadTrail(d *delivery, reason string) string {
	switch {
	case d.unreadable:
		return aws.ToString(d.raw.MessageAttributes[trail.Attribute].StringValue)
	case trail.MayBeAside(d.raw.MessageAttributes):
		return ""
	}
	t := w.trailOf(d, reason)
	t.Died = time.Now()
	return t.String()
}

// deadAttributes returns the attributes of a dead letter: those of the message, with its trail. An
// unreadable trail stays as it is.
func (w *Worker) deadAttributes(
	d *delivery, reason string,
) (attributes map[string]types.MessageAttributeValue, ok bool) {
	if d.unreadable {
		return d.raw.MessageAttributes, true
	}
	return w.trailOf(d, reason).Attach(d.raw.MessageAttributes)
}

// trailOf returns the trail of a dead letter.
func (w *Worker) trailOf(d *delivery, reason string) trail.Trail {
	t := d.trail
	t.Generation, t.Lineage = d.Generation, d.Lineage
	t.Reason, t.Attempts, t.Source = reason, d.attempt, w.dead.source
	t.Poison, t.Died = IsPoison(d.err), time.Time{}
	if d.Key != "" {
		t.Key = d.Key
	}
	if t.FirstSent.IsZero() {
		t.FirstSent = d.Sent
	}
	return t
}

// sendDead puts a message into the dead-letter queue.
func (w *Worker) sendDead(
	d *delivery, attributes map[string]types.MessageAttributeValue,
) (id string, err error) {
	in := &sqs.SendMessageInput{
		QueueUrl:          &w.dead.url,
		MessageBody:       d.raw.Body,
		MessageAttributes: attributes,
	}
	sqsqueue.KeepTrace(in, d.TraceHeader)
	if d.Group != "" {
		in.MessageGroupId = &d.Group
	}
	if w.dead.fifo() {
		// Like SQS. Another dead letter of the same work has another message id, so the queue does
		// not drop it.
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
