package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
	"tenaq/internal/work/sqsqueue"
)

// deadLetters is the queue for messages that have used up their attempts. The url is empty if there
// is none.
type deadLetters struct {
	url    string
	source string // ARN of the worker's queue
	policy bool   // it is that of the redrive policy of the queue
}

func (d *deadLetters) fifo() bool { return queuename.IsFIFO(d.url) }

// headroom is how much larger than Config.Attempts the maxReceiveCount of a queue should be,
// because some receives are not attempts, such as those of a busy key.
const headroom = 3

// check compares the configuration with the queue before the first receive, to report errors at the
// start.
func (w *Worker) check(ctx context.Context) error {
	for _, queue := range []*string{&w.cfg.QueueURL, &w.cfg.DeadLetterURL} {
		if err := w.resolve(ctx, queue); err != nil {
			return err
		}
	}
	attributes, err := sqsqueue.Attributes(ctx, w.cfg.Client, w.cfg.QueueURL)
	if err != nil {
		return fmt.Errorf("the queue %s cannot be used: %w", w.cfg.QueueURL, err)
	}
	r := newReasons(w.cfg.Client, w.cfg.QueueURL, w.cfg.Logger)
	if r != nil && r.offered(ctx) {
		w.reasons = r
	}
	w.ends = newEnds(ctx, w.cfg.Client, w.cfg.Claims, w.cfg.QueueURL)
	retention := retentionOf(attributes)
	w.dead = deadLetters{url: w.cfg.DeadLetterURL,
		source: attributes[string(types.QueueAttributeNameQueueArn)]}
	policy, err := sqsqueue.PolicyOf(attributes)
	if err != nil {
		return fmt.Errorf("the RedrivePolicy of %s: %w", w.cfg.QueueURL, err)
	}
	if w.dead.url == "" && policy.Target != "" {
		w.dead.url = policy.Target
		if err := w.resolve(ctx, &w.dead.url); err != nil {
			return err
		}
	}
	w.dead.policy = policy.Target != "" && queuename.Of(w.dead.url) == queuename.Of(policy.Target)
	if w.cfg.Claims != nil && policy.Receives > 0 && policy.Receives < w.cfg.Attempts+headroom &&
		w.dead.policy {
		w.moved = w.dead.url
	}
	switch {
	case w.dead.url == "":
		w.cfg.Logger.Warn("the queue has no dead-letter queue: messages that have used up their attempts stay in it until they expire",
			"attempts", w.cfg.Attempts)
	case policy.Receives > 0 && policy.Receives < w.cfg.Attempts+headroom:
		w.cfg.Logger.Warn("the queue's maxReceiveCount leaves too little room above the attempts: "+
			"receives that are not attempts may dead-letter a message early; raise it", "max_receive_count", policy.Receives,
			"attempts", w.cfg.Attempts, "enough", w.cfg.Attempts+headroom)
		if w.moved != "" {
			w.cfg.Logger.Warn("messages that the queue moves by itself leave their claims open; this worker finds them in the dead-letter queue "+
				"and settles their claims, and each look counts as a receive there", "dead_letter",
				queuename.Of(w.moved), "every", settlePause)
		}
	}
	if w.dead.url != "" {
		if w.dead.fifo() != w.fifo() {
			return fmt.Errorf("the dead-letter queue %s is not of the same kind as %s: make both FIFO queues, or neither", w.dead.url, w.cfg.QueueURL)
		}
		attributes, err := sqsqueue.Attributes(ctx, w.cfg.Client, w.dead.url)
		if err != nil {
			return fmt.Errorf("the dead-letter queue %s cannot be used: %w", w.dead.url, err)
		}
		retention = max(retention, retentionOf(attributes))
	}
	return w.checkRetention(retention)
}

// checkRetention refuses a ledger that forgets work while its message may still come back. Every
// stay in a queue begins with a write to the ledger.
func (w *Worker) checkRetention(retention time.Duration) error {
	if w.cfg.Claims == nil {
		return nil
	}
	if need := retention + sqslimits.VisibilityMax; w.cfg.Claims.Retention() < need {
		return fmt.Errorf("the ledger forgets work after %v, but a message can come back after %v: set Retention of the claims to at least that",
			w.cfg.Claims.Retention(), need)
	}
	return nil
}

// retentionOf returns how long a queue keeps messages.
func retentionOf(attributes map[string]string) time.Duration {
	seconds, err := strconv.Atoi(attributes[string(types.QueueAttributeNameMessageRetentionPeriod)])
	if err != nil {
		return sqslimits.RetentionMax
	}
	return time.Duration(seconds) * time.Second
}

// resolve replaces the name or the ARN of a queue with its URL.
func (w *Worker) resolve(ctx context.Context, queue *string) (err error) {
	given := *queue
	switch {
	case given == "" || strings.Contains(given, "://"):
		return nil
	case strings.HasPrefix(given, "arn:"):
		*queue, err = sqsqueue.URLOf(ctx, w.cfg.Client, given)
	default:
		var out *sqs.GetQueueUrlOutput
		if out, err = w.cfg.Client.GetQueueUrl(ctx,
			&sqs.GetQueueUrlInput{QueueName: &given}); err == nil {
			*queue = aws.ToString(out.QueueUrl)
		}
	}
	if _, answered := errors.AsType[smithy.APIError](err); answered {
		return fmt.Errorf("cannot find the URL of the queue %s: %w: correct the name, allow sqs:GetQueueUrl, or configure the URL", given, err)
	}
	if err != nil {
		return fmt.Errorf("cannot find the URL of the queue %s: %w: check the endpoint and that its server runs", given, err)
	}
	return nil
}
