package worker

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/internal/work/sqsqueue"
)

// bury moves a message to the dead-letter queue. Its claim has been ended.
//
// A message without room for its trail stays in the queue and is not handled again. The queue moves
// it later, and keeps its message id. Poison it moves at once, if the server takes reasons.
func (w *Worker) bury(d *delivery, reason string) (gone bool) {
	if d.hold.ctx.Err() != nil {
		return w.lost(d, context.Cause(d.hold.ctx))
	}
	later := letGo(backoff.Jitter(backoff.Ceiling(d.Receives, w.cfg.RetryBase, w.cfg.RetryMax)),
		reason)
	later.end = claims.Failed // for the server, which counts the receive
	attributes, ok := w.deadAttributes(d, reason)
	switch {
	case !ok && IsPoison(d.err) && w.dead.policy && w.reasons.areTaken():
		return w.moveAsPoison(d, later)
	case !ok:
		w.cfg.Logger.Warn("cannot dead-letter a message with ten attributes: it stays in the queue until the redrive policy moves it",
			"key", d.Key, "message", d.ID, "reason", reason)
		w.hide(d, later)
		return false
	}
	var deadID string
	err := w.settle("send to the dead-letter queue", func() (err error) {
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

// moveAsPoison lets the queue move a message to its dead-letter queue. If that fails, the message
// comes back after its lease.
func (w *Worker) moveAsPoison(d *delivery, v verdict) (gone bool) {
	n := nackOf(d, v, 0)
	n.Verdict = "poison"
	if !w.custody.release(d.hold) || w.settle("move to the dead-letter queue", func() error {
		return w.reasons.batch.do(n)
	}) != nil {
		return false
	}
	w.report(d, Outcome{Kind: DeadLettered, Reason: v.reason, DeadID: d.ID})
	return true
}

// deadAttributes returns the attributes of a dead letter: those of the message, with its trail. An
// unreadable trail stays as it is.
func (w *Worker) deadAttributes(
	d *delivery, reason string,
) (attributes map[string]types.MessageAttributeValue, ok bool) {
	if d.unreadable {
		return d.raw.MessageAttributes, true
	}
	t := d.trail
	t.Generation, t.Lineage = d.Generation, d.Lineage
	t.Reason, t.Attempts, t.Source = reason, d.attempt, w.dead.source
	t.Poison = IsPoison(d.err)
	if d.Key != "" {
		t.Key = d.Key
	}
	if t.FirstSent.IsZero() {
		t.FirstSent = d.Sent
	}
	return t.Attach(d.raw.MessageAttributes)
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
