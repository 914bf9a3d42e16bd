package pipe

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/cli"
)

// A pipeEnd is a client that ends a worker when the queue has nothing more for it: a poll returned
// nothing and no message is in hand. If whole is set, the queue must also hold no delayed or hidden
// messages.
//
// It tracks each message from its receive on: only this process knows until when a message that it
// gave back is hidden.
type pipeEnd struct {
	*sqs.Client
	url   string
	whole bool
	log   *slog.Logger
	stop  func()

	mu      sync.Mutex
	ended   bool // because the queue has nothing more
	polls   int  // in progress
	held    map[string]*heldMessage
	handles map[string]string // ids by receipt handle
	waiting left              // what was logged last
}

type heldMessage struct {
	handle string
	inHand bool
	until  time.Time // end of its visibility timeout, as far as this process knows
}

func newPipeEnd(c *sqs.Client, url string, whole bool, log *slog.Logger, stop func()) *pipeEnd {
	return &pipeEnd{
		Client: c, url: url, whole: whole, log: log, stop: stop,
		held: make(map[string]*heldMessage), handles: make(map[string]string),
	}
}

// pollWait is how long a poll waits, in seconds. Any wait makes SQS query all its servers; a short
// one lets the command exit quickly.
const pollWait = 1

// ReceiveMessage receives, and ends the worker if there was nothing.
func (e *pipeEnd) ReceiveMessage(
	ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	short := *in
	short.WaitTimeSeconds = min(in.WaitTimeSeconds, pollWait)
	began := time.Now()
	e.mu.Lock()
	e.polls++
	e.mu.Unlock()
	out, err := e.Client.ReceiveMessage(ctx, &short, options...)
	e.mu.Lock()
	e.polls--
	if err == nil {
		for _, m := range out.Messages {
			e.take(aws.ToString(m.MessageId), aws.ToString(m.ReceiptHandle),
				began.Add(time.Duration(in.VisibilityTimeout)*time.Second))
		}
	}
	nothing := err == nil && e.idle()
	e.mu.Unlock()
	if nothing && (!e.whole || e.holdsNothing(ctx)) {
		e.mu.Lock()
		e.ended = true
		e.mu.Unlock()
		e.stop()
	}
	return out, err
}

// take records that a message is in hand. The mutex is locked.
func (e *pipeEnd) take(id, handle string, until time.Time) {
	if before := e.held[id]; before != nil {
		delete(e.handles, before.handle)
	}
	e.held[id] = &heldMessage{handle: handle, inHand: true, until: until}
	e.handles[handle] = id
}

// idle reports whether no message is in hand and no other poll is running. It forgets messages that
// are no longer hidden: they are in the queue, or another worker has them. The mutex is locked.
func (e *pipeEnd) idle() bool {
	now, inHand := time.Now(), 0
	for id, m := range e.held {
		switch {
		case !now.Before(m.until):
			e.forget(id)
		case m.inHand:
			inHand++
		}
	}
	return e.polls == 0 && inHand == 0
}

func (e *pipeEnd) forget(id string) {
	if m := e.held[id]; m != nil {
		delete(e.handles, m.handle)
		delete(e.held, id)
	}
}

// givenBack records that the worker is done with a message. It may be called more than once for a
// message.
func (e *pipeEnd) givenBack(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.held[id]; m != nil {
		m.inHand = false
	}
}

// ChangeMessageVisibilityBatch records until when messages are hidden.
func (e *pipeEnd) ChangeMessageVisibilityBatch(
	ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options),
) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	out, err := e.Client.ChangeMessageVisibilityBatch(ctx, in, options...)
	if err != nil {
		return out, err
	}
	failed := failedEntries(out.Failed)
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, entry := range in.Entries {
		m := e.held[e.handles[aws.ToString(entry.ReceiptHandle)]]
		if m != nil && !failed[aws.ToString(entry.Id)] {
			m.until = now.Add(time.Duration(entry.VisibilityTimeout) * time.Second)
		}
	}
	return out, err
}

// Nacked records until when a message is hidden that the worker gave back with a reason, or that it
// is in the dead-letter queue.
func (e *pipeEnd) Nacked(handle string, hidden time.Duration, moved bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := e.handles[handle]
	if m := e.held[id]; moved {
		e.forget(id)
	} else if m != nil {
		m.until = time.Now().Add(hidden)
	}
}

// Deleted records that the worker has deleted a message together with the end of its claim.
func (e *pipeEnd) Deleted(handle string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget(e.handles[handle])
}

// DeleteMessageBatch records that messages are deleted.
func (e *pipeEnd) DeleteMessageBatch(
	ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options),
) (*sqs.DeleteMessageBatchOutput, error) {
	out, err := e.Client.DeleteMessageBatch(ctx, in, options...)
	if err != nil {
		return out, err
	}
	failed := failedEntries(out.Failed)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, entry := range in.Entries {
		if !failed[aws.ToString(entry.Id)] {
			e.forget(e.handles[aws.ToString(entry.ReceiptHandle)])
		}
	}
	return out, err
}

func failedEntries(failed []types.BatchResultErrorEntry) map[string]bool {
	ids := make(map[string]bool, len(failed))
	for _, f := range failed {
		ids[aws.ToString(f.Id)] = true
	}
	return ids
}

// A left is what a queue holds if nothing can be received.
type left struct {
	visible, hidden, delayed int64 // by the attributes of the queue
	paused                   int64 // of the hidden ones, those that this worker gave back
	next, last               time.Time
}

func (l *left) none() bool { return *l == left{} }

func (l *left) attrs() []any {
	attrs := []any{"visible", l.visible, "hidden", l.hidden, "delayed", l.delayed}
	if l.paused > 0 {
		attrs = append(attrs, "paused_here", l.paused, "next", l.next, "last", l.last)
	}
	return attrs
}

// look reads the counts of the queue and adds what this process knows.
func (e *pipeEnd) look(ctx context.Context) (l left, err error) {
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := e.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &e.url,
		AttributeNames: names})
	if err == nil {
		l.visible, l.hidden, l.delayed = cli.CountsOf(out.Attributes)
		if len(out.Attributes) < len(names) { // do not take a missing count for zero
			err = fmt.Errorf("the server reports only %d of %d counts", len(out.Attributes),
				len(names))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for _, m := range e.held {
		if !now.Before(m.until) {
			continue
		}
		until := m.until.Round(time.Second)
		if l.paused++; l.next.IsZero() || until.Before(l.next) {
			l.next = until
		}
		if until.After(l.last) {
			l.last = until
		}
	}
	l.hidden = max(l.hidden, l.paused) // the counts of a queue are approximate
	return l, err
}

// holdsNothing reports whether the queue is empty, and logs what the worker waits for.
func (e *pipeEnd) holdsNothing(ctx context.Context) bool {
	l, err := e.look(ctx)
	if err != nil {
		return false // try again after the next poll
	}
	if l.none() {
		return true
	}
	e.mu.Lock()
	news := l != e.waiting
	e.waiting = l
	e.mu.Unlock()
	if news && l.visible == 0 {
		e.log.Info("waiting for messages that cannot be received yet", l.attrs()...)
	}
	return false
}

const lookMax = 10 * time.Second

// verdict returns an error if messages are left that could not be received yet. It is nil after a
// signal.
func (e *pipeEnd) verdict() error {
	if !e.ended {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookMax)
	defer cancel()
	l, err := e.look(ctx)
	if err != nil {
		e.log.Warn("cannot read the counts of the queue", "error", err)
	}
	if l.none() {
		e.log.Info("nothing is left")
		return nil
	}
	e.log.Info("messages are left that cannot be received yet", l.attrs()...)
	return cli.Codedf(cli.ExitLeft, "%s", l.text())
}

func (l *left) text() string {
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{{l.hidden, "hidden"}, {l.delayed, "delayed"}, {l.visible, "visible again"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	s := "messages are left: " + strings.Join(parts, ", ")
	if l.paused == 0 {
		return s + "; run the command again later"
	}
	return fmt.Sprintf("%s; this worker gave back %d, the first until %s and the last until %s; run the command again after that",
		s, l.paused, l.next.Format(time.RFC3339), l.last.Format(time.RFC3339))
}
