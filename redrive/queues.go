package redrive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/parallel"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
	"tenaq/internal/work/sqsqueue"
	"tenaq/internal/work/trail"
)

// This file uses the queues: it receives, sends and deletes, as every SQS allows. See onestep.go
// for what tenaq allows.

// A target is a queue to which messages are redriven.
type target struct {
	url     string
	arn     string  // as a dead letter names it; empty with Config.TargetURL
	silence Silence // of messages that were sent there
}

// depth returns the number of dead letters by the count of the queue.
func (r *Redriver) depth(ctx context.Context) (int, error) {
	attributes, err := sqsqueue.Attributes(ctx, r.cfg.Client, r.cfg.DeadLetterURL)
	if err != nil {
		return 0, fmt.Errorf("the dead-letter queue %s cannot be used: %w", r.cfg.DeadLetterURL,
			err)
	}
	n := 0
	for _, name := range []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	} {
		one, _ := strconv.Atoi(attributes[string(name)])
		n += one
	}
	return n, nil
}

// receive receives up to ten dead letters.
func (r *Redriver) receive(ctx context.Context) ([]*letter, error) {
	out, err := r.cfg.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &r.cfg.DeadLetterURL,
		MaxNumberOfMessages:         sqslimits.ReceiveMax,
		VisibilityTimeout:           int32(r.cfg.Look / time.Second),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: r.features.attributes(ctx),
	})
	if err != nil {
		return nil, fmt.Errorf("receive dead letters: %w", err)
	}
	letters := make([]*letter, len(out.Messages))
	for i, m := range out.Messages {
		if letters[i], err = r.newLetter(ctx, m); err != nil {
			return nil, err
		}
		// A task moved it back from a parking lot. It still fails for the reason of its worker.
		_, letters[i].trail.Reason = cause(letters[i].trail.Reason)
		_, letters[i].Reason = cause(letters[i].Reason)
	}
	return letters, nil
}

// newLetter returns a dead letter with its trail, from the message or from the store. An error
// means that the store does not answer.
func (r *Redriver) newLetter(ctx context.Context, m types.Message) (*letter, error) {
	t, bad := trail.Of(m.MessageAttributes)
	if trail.MayBeAside(m.MessageAttributes) {
		var err error
		if t, err = trail.Aside(ctx, r.cfg.Store, r.asideID(m)); err != nil {
			return nil, err
		}
	}
	if bad == nil && t.Key == "" && t.Lineage == "" && queuename.IsFIFO(r.cfg.DeadLetterURL) {
		t.Key = firstKey(m)
	}
	l := &letter{raw: m, trail: t, bad: bad, Letter: Letter{
		ID:      aws.ToString(m.MessageId),
		Lineage: cmp.Or(t.Lineage, aws.ToString(m.MessageId)),
		Reason:  cmp.Or(t.Reason, m.Attributes[reasonAttribute]),
		Poison:  t.Poison || t.Reason == "" && m.Attributes[verdictAttribute] == poisonVerdict,
		Sends:   t.Redrives,
		Strikes: t.Strikes,
	}}
	if queuename.IsFIFO(r.cfg.DeadLetterURL) { // in a standard queue, groups have no order
		l.Group = l.group()
	}
	l.Key = claims.EffectKey(cmp.Or(t.Key, l.Lineage), t.Generation) // as package worker names it
	// If SQS moved it, this is the time of its first send: SQS does not tell the time of the move.
	if ms, bad := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); bad == nil {
		l.Died = time.UnixMilli(ms)
	}
	if !t.Died.IsZero() {
		l.Died = t.Died
	}
	return l, nil
}

// asideID returns the id under which the store has the trail of a message without room for it.
func (r *Redriver) asideID(m types.Message) string {
	if queuename.IsFIFO(r.cfg.DeadLetterURL) {
		return m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)]
	}
	return aws.ToString(m.MessageId)
}

// firstKey returns the key that package worker gave to a message which the FIFO queue moved by
// itself: its deduplication id, unless the queue made that from the body.
func firstKey(m types.Message) string {
	id := m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)]
	if sum := sha256.Sum256([]byte(aws.ToString(m.Body))); id == hex.EncodeToString(sum[:]) {
		return ""
	}
	return id
}

// targetOf returns the queue to which to redrive a dead letter. It asks once for letters of the
// same queue that follow each other.
func (w *walk) targetOf(ctx context.Context, l *letter) (target, error) {
	url, arn := w.cfg.TargetURL, ""
	if url == "" {
		arn = cmp.Or(l.trail.Source,
			l.raw.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)])
		if arn != "" && w.target.arn == arn {
			return w.target, nil
		}
		var err error
		url, err = sqsqueue.URLOf(ctx, w.cfg.Client, arn)
		switch {
		case errors.Is(err, sqsqueue.ErrNotARN):
			return target{}, errors.New("the message does not say which queue it came from: set a target queue with --target (Config.TargetURL)")
		case err != nil:
			return target{}, fmt.Errorf("the queue it came from, %s: %w", arn, err)
		}
	}
	if w.target.url == url {
		return w.target, nil
	}
	attributes, err := sqsqueue.Attributes(ctx, w.cfg.Client, url)
	if err != nil {
		return target{}, fmt.Errorf("the queue %s: %w", url, err)
	}
	w.target = target{url, arn, silenceOf(attributes, &w.cfg.Policy, w.cfg.Interval,
		queuename.IsFIFO(url))}
	if w.blind() {
		silence := w.target.silence
		w.report.Silence = &silence
	}
	return w.target, nil
}

// hide hides a dead letter for another time than a look.
func (r *Redriver) hide(ctx context.Context, l *letter, d time.Duration) error {
	const most = time.Hour // an operator may want to see it
	_, err := r.cfg.Client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &r.cfg.DeadLetterURL, ReceiptHandle: l.raw.ReceiptHandle,
		VisibilityTimeout: int32(min(d, most) / time.Second),
	})
	return err
}

// A giving gives a receive back to a tenaq server.
type giving struct {
	Handle  *string `json:"receiptHandle"`
	Verdict string  `json:"verdict"`
}

// giveBack makes received messages visible again. A tenaq server then does not count the receive.
// [NACK-6] The errors are those of the messages, nil for the ones that it does not hide any more.
func (r *Redriver) giveBack(ctx context.Context, letters []*letter) []error {
	errs := make([]error, len(letters))
	batches := slices.Collect(slices.Chunk(letters, sqslimits.BatchMax))
	parallel.Each(giveBackAtOnce, len(batches), func(i int) {
		if r.features.has(ctx).releases {
			in := struct {
				Entries []giving `json:"entries"`
			}{}
			for _, l := range batches[i] {
				in.Entries = append(in.Entries, giving{l.raw.ReceiptHandle, "release"})
			}
			var refused struct{} // of a message that is another receiver's now, or gone
			if r.features.server.Post(ctx, "/queues/"+r.name+"/nack", in, &refused) == nil {
				return
			}
		}
		for j, l := range batches[i] {
			errs[i*sqslimits.BatchMax+j] = r.hide(ctx, l, 0)
		}
	})
	return errs
}

// giveBackAtOnce is how many requests give messages back at once.
const giveBackAtOnce = 10

// move moves a dead letter to another queue, unchanged except for its trail.
func (r *Redriver) move(ctx context.Context, l *letter, url string, d Decision) error {
	if r.canMove(ctx, url) {
		taken, err := r.moveOnce(ctx, l, url, d)
		switch {
		case err != nil:
			return fmt.Errorf("move it to %s: %w", queuename.Of(url), err)
		case taken:
			return nil
		}
	}
	return r.sendAndDelete(ctx, l, url, d)
}

// sendAndDelete moves a dead letter in two requests. Its message id becomes the deduplication id,
// so a FIFO queue drops a repeated send within five minutes.
func (r *Redriver) sendAndDelete(ctx context.Context, l *letter, url string, d Decision) error {
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: l.raw.Body,
		MessageAttributes: l.raw.MessageAttributes}
	sqsqueue.KeepTrace(in,
		l.raw.Attributes[string(types.MessageSystemAttributeNameAWSTraceHeader)])
	if group := l.group(); group != "" {
		in.MessageGroupId = &group
	}
	if queuename.IsFIFO(url) {
		in.MessageDeduplicationId = &l.ID
	} else if d.Delay > 0 {
		in.DelaySeconds = int32(d.Delay / time.Second)
	}
	if err := r.send(ctx, in, l, d); err != nil {
		return fmt.Errorf("send it to %s: %w", queuename.Of(url), err)
	}
	if r.cfg.Mover != nil {
		return nil
	}
	_, err := r.cfg.Client.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: &r.cfg.DeadLetterURL, ReceiptHandle: l.raw.ReceiptHandle})
	if err != nil {
		return fmt.Errorf("delete it from %s, after it was sent to %s: %w", r.name,
			queuename.Of(url), err)
	}
	return nil
}

// send sends a message with its trail. If the message has no room for it, the trail goes to the
// store: for a FIFO queue before the send, for a standard queue before the delay of the message
// ends. An unreadable trail stays as it is.
func (r *Redriver) send(
	ctx context.Context, in *sqs.SendMessageInput, l *letter, d Decision,
) error {
	t := l.onward(d)
	with, room := t.Attach(in.MessageAttributes)
	aside := l.bad == nil && !room
	if l.bad == nil && room {
		in.MessageAttributes = with
	}
	if aside && in.MessageDeduplicationId != nil {
		if err := t.PutAside(ctx, r.cfg.Store, *in.MessageDeduplicationId); err != nil {
			return err
		}
	}
	if r.cfg.Mover != nil {
		return r.cfg.Mover.Move(ctx, in, aws.ToString(l.raw.ReceiptHandle))
	}
	var options []func(*sqs.Options)
	if r.follower != nil && d.Action == Redrive {
		options = append(options, r.follower.ask)
	}
	out, err := r.cfg.Client.SendMessage(ctx, in, options...)
	if err == nil {
		l.mark = markOf(out.ResultMetadata)
	}
	if err == nil && aside && in.MessageDeduplicationId == nil {
		err = t.PutAside(ctx, r.cfg.Store, aws.ToString(out.MessageId))
	}
	return err
}

// group returns the message group of a dead letter.
func (l *letter) group() string {
	return l.raw.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
}

// onward returns the trail of a dead letter that is sent on.
func (l *letter) onward(d Decision) trail.Trail {
	t := l.trail
	t.Lineage, t.Strikes = l.Lineage, d.Strikes
	if t.FirstSent.IsZero() {
		t.FirstSent = l.Died
	}
	t.Source = cmp.Or(t.Source,
		l.raw.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)])
	t.Died = time.Time{}
	switch d.Action {
	case Redrive:
		t.Redrives++
		t.Poison = false
	case Hold: // it stays a dead letter, behind another one
		t.Died = l.Died
	case Park:
		t.Reason = d.Why
	}
	return t
}
