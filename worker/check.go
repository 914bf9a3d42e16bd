package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/queuename"
)

// deadLetters are where messages go that have used their attempts up. The url is empty when there
// is no such queue.
type deadLetters struct {
	url    string
	source string // ARN of the queue they come from
}

func (d *deadLetters) fifo() bool { return strings.HasSuffix(d.url, ".fifo") }

// headroom is how much larger than Config.Attempts a queue's maxReceiveCount should be: for
// receives that are no attempts, such as those of a busy key.
const headroom = 3

// check compares the configuration with the queue before anything is received, so that what cannot
// work is said at the start.
func (w *Worker) check(ctx context.Context) error {
	for _, queue := range []*string{&w.cfg.QueueURL, &w.cfg.DeadLetterURL} {
		if err := w.resolve(ctx, queue); err != nil {
			return err
		}
	}
	attributes, err := w.attributes(ctx, w.cfg.QueueURL)
	if err != nil {
		return fmt.Errorf("the queue %s cannot be used: %w", w.cfg.QueueURL, err)
	}
	retention := retentionOf(attributes)
	w.dead = deadLetters{url: w.cfg.DeadLetterURL,
		source: attributes[string(types.QueueAttributeNameQueueArn)]}
	policy, err := parsePolicy(attributes[string(types.QueueAttributeNameRedrivePolicy)])
	if err != nil {
		return fmt.Errorf("the RedrivePolicy of %s: %w", w.cfg.QueueURL, err)
	}
	if w.dead.url == "" && policy.target != "" {
		if w.dead.url, err = w.urlOf(ctx, policy.target); err != nil {
			return fmt.Errorf("the dead-letter queue %s: %w: allow sqs:GetQueueUrl there, or set DeadLetterURL", policy.target, err)
		}
	}
	if w.cfg.Claims != nil && policy.receives > 0 && policy.receives < w.cfg.Attempts+headroom &&
		queuename.Of(w.dead.url) == queuename.Of(policy.target) {
		w.moved = w.dead.url
	}
	switch {
	case w.dead.url == "":
		w.cfg.Logger.Warn("the queue has no dead-letter queue: what has used its attempts up stays in it until it expires",
			"attempts", w.cfg.Attempts)
	case policy.receives > 0 && policy.receives < w.cfg.Attempts+headroom:
		w.cfg.Logger.Warn("the queue's maxReceiveCount leaves no room above the attempts: a message may be dead-lettered without them, "+
			"after receives that were none; raise it", "maxReceiveCount", policy.receives,
			"attempts", w.cfg.Attempts, "enough", w.cfg.Attempts+headroom)
		if w.moved != "" {
			w.cfg.Logger.Warn("messages that the queue moves by itself leave their claims open; this worker looks for them in the dead-letter queue "+
				"and settles their claims, and each look counts as a receive there", "dead_letter",
				queuename.Of(w.moved), "every", settlePause)
		}
	}
	if w.dead.url != "" {
		if w.dead.fifo() != w.fifo() {
			return fmt.Errorf("the dead-letter queue %s is not of the same kind as %s: make both FIFO queues, or none", w.dead.url, w.cfg.QueueURL)
		}
		attributes, err := w.attributes(ctx, w.dead.url)
		if err != nil {
			return fmt.Errorf("the dead-letter queue %s cannot be used: %w", w.dead.url, err)
		}
		retention = max(retention, retentionOf(attributes))
	}
	return w.checkRetention(retention)
}

// checkRetention refuses a ledger that forgets work while its message may still come back. Every
// stay in a queue begins with something that is written to the ledger.
func (w *Worker) checkRetention(retention time.Duration) error {
	if w.cfg.Claims == nil {
		return nil
	}
	if need := retention + visibilityMax; w.cfg.Claims.Retention() < need {
		return fmt.Errorf("the ledger forgets work after %v, but a message can come back after %v: set Retention of the claims to at least that",
			w.cfg.Claims.Retention(), need)
	}
	return nil
}

func (w *Worker) attributes(ctx context.Context, url string) (map[string]string, error) {
	out, err := w.cfg.Client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl:       &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// retentionOf is how long a queue keeps messages.
func retentionOf(attributes map[string]string) time.Duration {
	seconds, err := strconv.Atoi(attributes[string(types.QueueAttributeNameMessageRetentionPeriod)])
	if err != nil {
		return 14 * 24 * time.Hour // the longest there is
	}
	return time.Duration(seconds) * time.Second
}

// A policy is the RedrivePolicy of a queue.
type policy struct {
	target   string // ARN
	receives int
}

func parsePolicy(s string) (p policy, err error) {
	if s == "" {
		return p, nil
	}
	var fields struct {
		Target   string      `json:"deadLetterTargetArn"`
		Receives json.Number `json:"maxReceiveCount"` // a number, which some quote
	}
	if err := json.Unmarshal([]byte(s), &fields); err != nil {
		return p, err
	}
	p.target = fields.Target
	p.receives, err = strconv.Atoi(fields.Receives.String())
	return p, err
}

// resolve replaces a queue that is given by its name or its ARN with its URL.
func (w *Worker) resolve(ctx context.Context, queue *string) (err error) {
	given := *queue
	switch {
	case given == "" || strings.Contains(given, "://"):
		return nil
	case strings.HasPrefix(given, "arn:"):
		*queue, err = w.urlOf(ctx, given)
	default:
		var out *sqs.GetQueueUrlOutput
		if out, err = w.cfg.Client.GetQueueUrl(ctx,
			&sqs.GetQueueUrlInput{QueueName: &given}); err == nil {
			*queue = aws.ToString(out.QueueUrl)
		}
	}
	if err != nil {
		return fmt.Errorf("find the URL of the queue %s: %w: correct the name, allow sqs:GetQueueUrl, or configure the URL", given, err)
	}
	return nil
}

// urlOf finds the URL of a queue by its ARN.
func (w *Worker) urlOf(ctx context.Context, arn string) (string, error) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 {
		return "", errors.New("that is no ARN of a queue")
	}
	out, err := w.cfg.Client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{
		QueueName: aws.String(parts[5]), QueueOwnerAWSAccountId: aws.String(parts[4]),
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.QueueUrl), nil
}
