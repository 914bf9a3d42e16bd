package pipeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/trail"
)

// queues are the queue of the batch and that of its dead letters.
type queues struct {
	url  string
	dead string // URL

	encrypted bool // the server took the name of a key
}

// maxReceives is the maxReceiveCount of the queue. Receives are no attempts: a worker that dies before its claim has
// used one up and begun nothing. Attempts are counted in the ledger, and this is for what nobody counts.
const maxReceives = 100

// create creates both, as the declaration of such a pipeline would.
func (q *queues) create(
	ctx context.Context, client *sqs.Client,
	create func(ctx context.Context, name string, attributes map[string]string) (url string, err error),
) (err error) {
	attributes := map[string]string{
		"FifoQueue":                 "true",
		"ContentBasedDeduplication": "true",
		"MessageRetentionPeriod":    "1209600",
		"KmsMasterKeyId":            "alias/aws/sqs",
	}
	q.encrypted = true
	q.dead, err = create(ctx, "data-download-dlq.fifo", attributes)
	if err != nil && ctx.Err() == nil {
		q.encrypted = false
		delete(attributes, "KmsMasterKeyId")
		q.dead, err = create(ctx, "data-download-dlq.fifo", attributes)
	}
	if err != nil {
		return err
	}
	arn, err := attributeOf(ctx, client, q.dead, types.QueueAttributeNameQueueArn)
	if err != nil {
		return err
	}
	attributes["VisibilityTimeout"] = "3600" // for consumers that hold on to messages without saying so; a worker renews
	attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn, maxReceives)
	q.url, err = create(ctx, "data-download-queue.fifo", attributes)
	return err
}

func attributeOf(ctx context.Context, client *sqs.Client, url string, name types.QueueAttributeName) (string, error) {
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{name},
	})
	if err != nil {
		return "", err
	}
	return out.Attributes[string(name)], nil
}

// move says that the queue is now to be found at another endpoint.
func (q *queues) move(ctx context.Context, client *sqs.Client) error {
	name := q.url[strings.LastIndexByte(q.url, '/')+1:]
	out, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return fmt.Errorf("find the queue again: %w", err)
	}
	q.url = aws.ToString(out.QueueUrl)
	return nil
}

// left is how many messages are in the queue, by its own counters.
func (q *queues) left(ctx context.Context, client *sqs.Client) (n int, err error) {
	for _, name := range []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	} {
		text, err := attributeOf(ctx, client, q.url, name)
		if err != nil {
			return 0, err
		}
		some, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", name, q.url, err)
		}
		n += some
	}
	return n, nil
}

// letters reads the dead letters, by key, and leaves them where they are. It goes on until it has so many, or
// for a few seconds.
func (q *queues) letters(ctx context.Context, client *sqs.Client, want int) (map[string]trail.Trail, error) {
	letters := make(map[string]trail.Trail)
	for range 5 {
		out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &q.dead, MaxNumberOfMessages: 10, VisibilityTimeout: 30, WaitTimeSeconds: 1,
			MessageAttributeNames: []string{"All"},
		})
		if err != nil {
			return nil, fmt.Errorf("read the dead letters: %w", err)
		}
		for _, m := range out.Messages {
			t, err := trail.Of(m.MessageAttributes)
			if err != nil {
				return nil, fmt.Errorf("read a dead letter: %w", err)
			}
			letters[t.Key] = t
		}
		if len(letters) >= want && len(out.Messages) == 0 {
			break
		}
	}
	return letters, nil
}
