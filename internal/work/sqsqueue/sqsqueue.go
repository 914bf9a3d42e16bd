// Package sqsqueue asks SQS about queues: for their URLs, attributes and redrive policies. The
// worker and the redriver share it; it caches nothing.
package sqsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A Client is what this package needs of a client of SQS.
type Client interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput,
		...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput,
		...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// ErrNotARN is the error of URLOf for a text that is not the ARN of a queue.
var ErrNotARN = errors.New("that is not the ARN of a queue")

// URLOf returns the URL of the queue with an ARN.
func URLOf(ctx context.Context, client Client, arn string) (string, error) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 {
		return "", ErrNotARN
	}
	out, err := client.GetQueueUrl(ctx,
		&sqs.GetQueueUrlInput{QueueName: &parts[5], QueueOwnerAWSAccountId: &parts[4]})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.QueueUrl), nil
}

// Attributes returns all attributes of a queue.
func Attributes(ctx context.Context, client Client, url string) (map[string]string, error) {
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// A RedrivePolicy says when a queue moves messages to its dead-letter queue. The zero value is that
// of a queue without a policy.
type RedrivePolicy struct {
	Target   string // ARN of the dead-letter queue
	Receives int    // maxReceiveCount
}

// PolicyOf returns the RedrivePolicy among the attributes of a queue.
func PolicyOf(attributes map[string]string) (p RedrivePolicy, err error) {
	text := attributes[string(types.QueueAttributeNameRedrivePolicy)]
	if text == "" {
		return p, nil
	}
	var fields struct {
		Target   string      `json:"deadLetterTargetArn"`
		Receives json.Number `json:"maxReceiveCount"` // a number, which some programs quote
	}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return p, err
	}
	p.Target = fields.Target
	p.Receives, err = strconv.Atoi(fields.Receives.String())
	return p, err
}

// KeepTrace makes a message carry the AWSTraceHeader of the one that it continues, if that has one.
func KeepTrace(in *sqs.SendMessageInput, header string) {
	if header == "" {
		return
	}
	in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
		string(types.MessageSystemAttributeNameAWSTraceHeader): {
			DataType: aws.String("String"), StringValue: &header,
		},
	}
}
