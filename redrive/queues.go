package redrive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/trail"
)

// All that happens to queues happens here: by receiving, sending and deleting, which every SQS has.
// A server that can move messages itself, in one step, is a Mover.

// A target is a queue that messages are redriven to.
type target struct {
	url     string
	silence Silence // of a message that was sent there
}

// depth is how many dead letters there are, as the queue counts them.
func (r *Redriver) depth(ctx context.Context) (int, error) {
	attributes, err := r.attributes(ctx, r.cfg.DeadLetterURL)
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

func (r *Redriver) attributes(ctx context.Context, url string) (map[string]string, error) {
	out, err := r.cfg.Client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// receive takes up to ten dead letters for a look.
func (r *Redriver) receive(ctx context.Context) ([]*letter, error) {
	out, err := r.cfg.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &r.cfg.DeadLetterURL,
		MaxNumberOfMessages:         10,
		VisibilityTimeout:           int32(r.cfg.Look / time.Second),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return nil, fmt.Errorf("receive dead letters: %w", err)
	}
	letters := make([]*letter, len(out.Messages))
	for i, m := range out.Messages {
		if letters[i], err = r.newLetter(ctx, m); err != nil {
			return nil, err
		}
	}
	return letters, nil
}

// newLetter reads what a dead letter says about itself, or what the store says about it. An error
// means that the store does not answer.
func (r *Redriver) newLetter(ctx context.Context, m types.Message) (*letter, error) {
	t, bad := trail.Of(m.MessageAttributes)
	if trail.MayBeAside(m.MessageAttributes) {
		id := aws.ToString(m.MessageId)
		if isFIFO(r.cfg.DeadLetterURL) {
			id = m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)]
		}
		var err error
		if t, err = trail.Aside(ctx, r.cfg.Store, id); err != nil {
			return nil, err
		}
	}
	if bad == nil && t.Key == "" && t.Lineage == "" && isFIFO(r.cfg.DeadLetterURL) {
		t.Key = firstKey(m)
	}
	l := &letter{raw: m, trail: t, bad: bad, Letter: Letter{
		ID:      aws.ToString(m.MessageId),
		Lineage: t.Lineage,
		Reason:  t.Reason,
		Poison:  t.Poison,
		Sends:   t.Redrives,
		Strikes: t.Strikes,
	}}
	if l.Lineage == "" {
		l.Lineage = l.ID
	}
	if isFIFO(r.cfg.DeadLetterURL) { // those of a standard queue keep nobody waiting
		l.Group = l.group()
	}
	l.Key = claims.EffectKey(cmp.Or(t.Key, l.Lineage), t.Generation) // as package worker names it
	// When it was sent here; when SQS itself moved it, when it was sent first. Then its last
	// receive there would be the better time, and nobody knows it.
	if ms, bad := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); bad == nil {
		l.Died = time.UnixMilli(ms)
	}
	if !t.Died.IsZero() {
		l.Died = t.Died
	}
	return l, nil
}

// firstKey is what package worker called the work of a message that the FIFO queue itself moved:
// its deduplication id, unless the queue made that from the body. The next send has another one.
func firstKey(m types.Message) string {
	id := m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)]
	if sum := sha256.Sum256([]byte(aws.ToString(m.Body))); id == hex.EncodeToString(sum[:]) {
		return ""
	}
	return id
}

// targetOf finds the queue that a dead letter is to be redriven to.
func (w *walk) targetOf(ctx context.Context, l *letter) (target, error) {
	url := w.cfg.TargetURL
	if url == "" {
		arn := l.trail.Source
		if arn == "" {
			arn = l.raw.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)]
		}
		parts := strings.Split(arn, ":")
		if len(parts) != 6 {
			return target{}, errors.New("the message does not say which queue it came from: set a target queue")
		}
		out, err := w.cfg.Client.GetQueueUrl(ctx,
			&sqs.GetQueueUrlInput{QueueName: &parts[5], QueueOwnerAWSAccountId: &parts[4]})
		if err != nil {
			return target{}, fmt.Errorf("the queue it came from, %s: %w", arn, err)
		}
		url = aws.ToString(out.QueueUrl)
	}
	if w.target.url == url {
		return w.target, nil
	}
	attributes, err := w.attributes(ctx, url)
	if err != nil {
		return target{}, fmt.Errorf("the queue %s: %w", url, err)
	}
	w.target = target{url, silenceOf(attributes, &w.cfg.Policy, w.cfg.Interval, isFIFO(url))}
	if w.blind() {
		silence := w.target.silence
		w.report.Silence = &silence
	}
	return w.target, nil
}

// hide keeps a dead letter out of sight for longer than a look.
func (r *Redriver) hide(ctx context.Context, l *letter, d time.Duration) error {
	const most = time.Hour // a person may want to see it
	_, err := r.cfg.Client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &r.cfg.DeadLetterURL, ReceiptHandle: l.raw.ReceiptHandle,
		VisibilityTimeout: int32(min(d, most) / time.Second),
	})
	return err
}

// move sends a dead letter on, as it is, and deletes it here. The deduplication id is its message
// id, so a second time within five minutes is the same one to a FIFO queue, and to no queue it is
// another work.
func (r *Redriver) move(ctx context.Context, l *letter, url string, d Decision) error {
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: l.raw.Body,
		MessageAttributes: l.raw.MessageAttributes}
	if trace, ok := l.raw.Attributes[string(types.MessageSystemAttributeNameAWSTraceHeader)]; ok {
		in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			string(types.MessageSystemAttributeNameAWSTraceHeader): {DataType: aws.String("String"),
				StringValue: &trace},
		}
	}
	if group := l.group(); group != "" {
		in.MessageGroupId = &group
	}
	if isFIFO(url) {
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

// send sends a message with its trail. Where the message has no room for it the trail is written
// down: for a FIFO queue before, for a standard queue before the delay of the message is over. What
// says which work it is, and cannot be read here, stays as it is.
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

// group is the message group that a dead letter was sent with.
func (l *letter) group() string {
	return l.raw.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
}

// onward is the trail of a dead letter that is sent on.
func (l *letter) onward(d Decision) trail.Trail {
	t := l.trail
	t.Lineage, t.Strikes = l.Lineage, d.Strikes
	if t.FirstSent.IsZero() {
		t.FirstSent = l.Died
	}
	if t.Source == "" {
		t.Source = l.raw.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)]
	}
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
