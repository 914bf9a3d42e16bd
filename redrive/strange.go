package redrive

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// ErrNotDeadLetters is the error of a step over a queue that is not a dead-letter queue. The
// received messages are visible again. Later steps of the same Redriver receive nothing until a
// redrive policy names the queue.
var ErrNotDeadLetters = errors.New("this is not a dead-letter queue: no redrive policy names it, and its messages do not say which queue they came from; " +
	"they were put back. Name the dead-letter queue, or say where its messages belong with --target (Config.TargetURL)")

// strange reports whether the first messages of a redriver that has moved none yet are not dead
// letters. Otherwise, a redriver with the wrong queue would hide the messages of the consumers of
// that queue. If a queue has dead letters and other messages, the others are held one by one.
func (w *walk) strange(letters []*letter) bool {
	if w.seen > 0 || w.cfg.TargetURL != "" ||
		w.state.Redriven+w.state.Parked+len(w.state.Flights) > 0 {
		return false
	}
	for _, l := range letters {
		source := l.raw.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)]
		if l.bad != nil || l.trail.Source != "" || l.trail.Reason != "" || source != "" {
			return false
		}
	}
	return w.isUnnamed()
}

// isUnnamed reports whether no redrive policy names the queue. It returns false if that is unknown,
// for example because the credentials do not allow sqs:ListDeadLetterSourceQueues.
func (w *walk) isUnnamed() bool {
	client, can := w.cfg.Client.(interface {
		ListDeadLetterSourceQueues(context.Context, *sqs.ListDeadLetterSourceQueuesInput,
			...func(*sqs.Options)) (*sqs.ListDeadLetterSourceQueuesOutput, error)
	})
	if !can {
		return false
	}
	out, err := client.ListDeadLetterSourceQueues(w.ctx,
		&sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &w.cfg.DeadLetterURL})
	return err == nil && len(out.QueueUrls) == 0
}
