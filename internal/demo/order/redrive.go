package order

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// left returns how many messages there are in the queue and how many dead letters, whatever state they are in.
func (d *demo) left(ctx context.Context) (waiting, dead int, err error) {
	if waiting, err = d.messagesIn(ctx, d.QueueURL); err != nil {
		return 0, 0, err
	}
	dead, err = d.messagesIn(ctx, d.DeadURL)
	return waiting, dead, err
}

func (d *demo) messagesIn(ctx context.Context, url string) (n int, err error) {
	attributes, err := d.attributes(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("count messages: %w", err)
	}
	for _, name := range []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	} {
		of, err := strconv.Atoi(attributes[string(name)])
		if err != nil {
			return 0, fmt.Errorf("count messages: %s is %q", name, attributes[string(name)])
		}
		n += of
	}
	return n, nil
}

func (d *demo) attributes(ctx context.Context, url string) (map[string]string, error) {
	out, err := d.API.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// redrive brings the dead letters back into the queue.
func (d *demo) redrive(ctx context.Context) error {
	if d.Moves {
		return d.moveAll(ctx)
	}
	return d.sendAllAgain(ctx)
}

// moveAll lets the server do it.
func (d *demo) moveAll(ctx context.Context) error {
	from, err := d.attributes(ctx, d.DeadURL)
	if err != nil {
		return err
	}
	to, err := d.attributes(ctx, d.QueueURL)
	if err != nil {
		return err
	}
	source, destination := from[string(types.QueueAttributeNameQueueArn)], to[string(types.QueueAttributeNameQueueArn)]
	if _, err := d.API.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &source, DestinationArn: &destination}); err != nil {
		return err
	}
	for {
		out, err := d.API.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: &source})
		if err != nil {
			return err
		}
		if len(out.Results) == 0 {
			return fmt.Errorf("the move task for %s is gone", source)
		}
		switch status := *out.Results[0].Status; status {
		case "RUNNING":
			sleep(ctx, 50*time.Millisecond)
		case "COMPLETED":
			return nil
		default:
			return fmt.Errorf("the move task is %s", status)
		}
	}
}

// sendAllAgain receives each dead letter, sends it to the queue with its attributes, and deletes it. Dying in
// between leaves two messages, which does no harm: they have one key.
func (d *demo) sendAllAgain(ctx context.Context) error {
	for {
		got, err := d.API.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &d.DeadURL, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		})
		if err != nil || len(got.Messages) == 0 {
			return err
		}
		for _, m := range got.Messages {
			if _, err := d.API.SendMessage(ctx, &sqs.SendMessageInput{
				QueueUrl: &d.QueueURL, MessageBody: m.Body, MessageAttributes: m.MessageAttributes,
			}); err != nil {
				return err
			}
			if _, err := d.API.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &d.DeadURL, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return err
			}
		}
	}
}
