package worker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
	"tenaq/internal/work/sqsqueue"
)

// A queue with a RedrivePolicy moves a message that was received too often to its dead-letter queue
// by itself. No worker sees that, so the claim stays released, failed, or held by a dead worker,
// and nothing records that the work has ended. This file finds these messages and gives up their
// claims.

// The time between two looks at the dead-letter queue is settlePause after one that settled a
// claim. It doubles after each one that did not, up to settlePauseMax, because looks hide the
// letters from other consumers.
const (
	settlePause    = 5 * time.Minute
	settlePauseMax = time.Hour
)

// Limits of one look. The messages stay hidden until its end, so that none is received twice.
const (
	lookHidden = 60 * time.Second
	lookTime   = 30 * time.Second
	lookMax    = 1000 // messages
)

// MovedLetters calls visit for the messages of a dead-letter queue that their queue has moved there
// by itself. It looks at up to 1,000 messages, for up to half a minute.
//
// To look, it must receive. So the receive count of each message grows by one, and the message is
// hidden from other consumers for up to a minute; at the end, MovedLetters makes all of them
// visible again. In a FIFO queue, it sees the first ten messages of each group. It refuses a
// dead-letter queue with a redrive policy of its own, because its receives could move the messages.
func MovedLetters(
	ctx context.Context, client SQS, deadLetterURL string, visit func(types.Message) error,
) (err error) {
	attributes, err := sqsqueue.Attributes(ctx, client, deadLetterURL)
	if err != nil {
		return err
	}
	if attributes[string(types.QueueAttributeNameRedrivePolicy)] != "" {
		return fmt.Errorf("the dead-letter queue %s has a redrive policy of its own, and a look at its messages counts as a receive: "+
			"remove the policy, or use \"tenaq claims sweep --settle\" with a tenaq server, which looks without receiving", queuename.Of(deadLetterURL))
	}
	if attributes[string(types.QueueAttributeNameApproximateNumberOfMessages)] == "0" {
		return nil
	}
	began := time.Now()
	handles := make(map[string]string) // by message id, of what is hidden
	defer func() {
		// Later, another consumer may have received them, and the old handles would show them.
		until := earlier(time.Now().Add(requestMax), began.Add(lookHidden-lookHidden/10))
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		showAll(ctx, client, deadLetterURL, handles)
	}()
	for len(handles) < lookMax && time.Since(began) < lookTime {
		out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &deadLetterURL, MaxNumberOfMessages: sqslimits.ReceiveMax,
			VisibilityTimeout:           int32(lookHidden / time.Second),
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			return err
		}
		news := false
		for _, m := range out.Messages {
			id := aws.ToString(m.MessageId)
			_, again := handles[id]
			handles[id] = aws.ToString(m.ReceiptHandle)
			if news = news || !again; again || m.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)] == "" {
				continue
			}
			if err := visit(m); err != nil {
				return err
			}
		}
		if !news {
			return nil
		}
	}
	return nil
}

// showAll makes messages visible. After an error, they come back by themselves.
func showAll(ctx context.Context, client SQS, url string, handles map[string]string) {
	var entries []types.ChangeMessageVisibilityBatchRequestEntry
	send := func() {
		if len(entries) > 0 {
			_, _ = client.ChangeMessageVisibilityBatch(ctx,
				&sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: entries})
		}
		entries = nil
	}
	for _, handle := range handles {
		entries = append(entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id: aws.String(strconv.Itoa(len(entries))), ReceiptHandle: aws.String(handle),
			VisibilityTimeout: 0,
		})
		if len(entries) == sqslimits.ReceiveMax {
			send()
		}
	}
	send()
}

// MovedReason returns the recorded reason of a claim whose message was moved by its queue.
func MovedReason(deadLetterQueue string) string {
	return "the queue moved its message to " + deadLetterQueue +
		" by itself, after more receives than its maxReceiveCount"
}

// lastLookMax is the time limit of the look when the worker ends.
const lastLookMax = 5 * time.Second

// settleMoved gives up the claims of messages that the queue has moved to its dead-letter queue. It
// looks now and then until ctx ends, and then once more, for workers that run only briefly.
func (w *Worker) settleMoved(ctx context.Context) {
	wait := w.cfg.Lease
	for pause := settlePause; backoff.Sleep(ctx, backoff.Jitter(wait)) == nil; wait = pause {
		if pause = min(2*pause, settlePauseMax); w.lookForMoved(ctx) {
			pause = settlePause
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLookMax)
	defer cancel()
	w.lookForMoved(last)
}

// lookForMoved looks once, and reports whether a claim was settled.
func (w *Worker) lookForMoved(ctx context.Context) (settled bool) {
	err := MovedLetters(ctx, w.cfg.Client, w.moved, func(m types.Message) error {
		one, err := w.settleLetter(ctx, m)
		settled = settled || one
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.cfg.Logger.Warn("cannot settle the claims of messages that the queue moved by itself",
			"dead_letter", queuename.Of(w.moved), "error", err)
	}
	return settled
}

// settleLetter gives up the claim of a message that the queue has moved, if that message claimed
// its key last. If the key of a message is unknown, "tenaq claims sweep --settle" can find its
// claim by the message id.
func (w *Worker) settleLetter(ctx context.Context, raw types.Message) (settled bool, err error) {
	m, err := w.newMessage(raw)
	if err != nil || m.Key == "" || raw.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)] != w.dead.source {
		return false, nil
	}
	if m.aside {
		d := &delivery{Message: m}
		if err := w.lookAside(ctx, d); err != nil || d.unnamed != nil {
			return false, err
		}
	}
	settled, err = w.cfg.Claims.GiveUp(ctx, m.EffectKey(), m.ID, MovedReason(queuename.Of(w.moved)))
	if settled {
		w.cfg.Logger.Warn("the queue moved a message to the dead-letter queue by itself; its claim is settled as exhausted", "key", m.Key, "message", m.ID)
	}
	return settled, err
}
