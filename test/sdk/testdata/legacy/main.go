// Legacy leads queues and messages through the AWS SDK for Go v1, which speaks the Query protocol. Its argument is
// the endpoint. It is a module of its own, so that nothing else depends on that SDK.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/sqs"
)

var client *sqs.SQS

// body has what XML is most easily wrong about. The SDK compares its checksum.
const body = "a\r\n\"b\" &quot; ]]> <c>\t\U0001F600 \u2028"

func main() {
	log.SetFlags(log.Lshortfile)
	sess := must(session.NewSession(&aws.Config{
		Endpoint:    aws.String(os.Args[1]),
		Region:      aws.String("us-east-1"),
		Credentials: credentials.NewStaticCredentials("AKIDEXAMPLE", "secret", ""),
		MaxRetries:  aws.Int(0),
	}))
	client = sqs.New(sess)
	queues()
	messages()
	fifo()
	deadLetters()
	refusals()
	fmt.Println("done")
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
	return v
}

func check(ok bool, format string, args ...any) {
	if !ok {
		log.Output(2, fmt.Sprintf(format, args...))
		os.Exit(1)
	}
}

func create(name string, attributes map[string]string) *string {
	in := &sqs.CreateQueueInput{QueueName: &name, Attributes: aws.StringMap(attributes)}
	return must(client.CreateQueue(in)).QueueUrl
}

func queues() {
	in := &sqs.CreateQueueInput{
		QueueName:  aws.String("orders"),
		Attributes: aws.StringMap(map[string]string{"VisibilityTimeout": "40", "DelaySeconds": "0"}),
		Tags:       aws.StringMap(map[string]string{"team": "a b", "empty": ""}),
	}
	url := must(client.CreateQueue(in)).QueueUrl
	again := must(client.GetQueueUrl(&sqs.GetQueueUrlInput{QueueName: aws.String("orders")}))
	check(*again.QueueUrl == *url, "URL %s, want %s", *again.QueueUrl, *url)

	must(client.SetQueueAttributes(&sqs.SetQueueAttributesInput{
		QueueUrl: url, Attributes: aws.StringMap(map[string]string{"VisibilityTimeout": "50"}),
	}))
	all := must(client.GetQueueAttributes(&sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: aws.StringSlice([]string{"All"})}))
	check(*all.Attributes["VisibilityTimeout"] == "50" && len(all.Attributes) >= 12, "attributes %v", all)
	none := must(client.GetQueueAttributes(&sqs.GetQueueAttributesInput{QueueUrl: url}))
	check(len(none.Attributes) == 0, "attributes %v, want none", none)

	must(client.TagQueue(&sqs.TagQueueInput{QueueUrl: url, Tags: aws.StringMap(map[string]string{"env": "x+y"})}))
	must(client.UntagQueue(&sqs.UntagQueueInput{QueueUrl: url, TagKeys: aws.StringSlice([]string{"team"})}))
	tags := aws.StringValueMap(must(client.ListQueueTags(&sqs.ListQueueTagsInput{QueueUrl: url})).Tags)
	check(len(tags) == 2 && tags["env"] == "x+y" && tags["empty"] == "", "tags %v", tags)

	for i := range 5 {
		create(fmt.Sprintf("page-%d", i), nil)
	}
	var found []string
	in2 := &sqs.ListQueuesInput{QueueNamePrefix: aws.String("page-"), MaxResults: aws.Int64(2)}
	pages := 0
	err := client.ListQueuesPages(in2, func(out *sqs.ListQueuesOutput, _ bool) bool {
		pages++
		found = append(found, aws.StringValueSlice(out.QueueUrls)...)
		return true
	})
	check(err == nil && pages == 3 && len(found) == 5, "pages: %d, %v, %v", pages, found, err)
	must(client.DeleteQueue(&sqs.DeleteQueueInput{QueueUrl: &found[0]}))
}

func messages() {
	url := create("messages", nil)
	binary := []byte{0, 1, 254, 255, '\r', '\n'}
	sent := must(client.SendMessage(&sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String(body),
		MessageAttributes: map[string]*sqs.MessageAttributeValue{
			"text":   {DataType: aws.String("String"), StringValue: aws.String(body)},
			"number": {DataType: aws.String("Number.int"), StringValue: aws.String("-12")},
			"bytes":  {DataType: aws.String("Binary"), BinaryValue: binary},
		},
		MessageSystemAttributes: map[string]*sqs.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-5759e988-bd862e3fe1be46a994272793")},
		},
	}))
	check(sent.MD5OfMessageAttributes != nil && sent.MD5OfMessageSystemAttributes != nil && sent.SequenceNumber == nil, "sent %v", sent)

	receive := func(max int64) []*sqs.Message {
		return must(client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: &max, WaitTimeSeconds: aws.Int64(5),
			AttributeNames: aws.StringSlice([]string{"All"}), MessageAttributeNames: aws.StringSlice([]string{"All"})})).Messages
	}
	got := receive(1)
	check(len(got) == 1 && *got[0].Body == body && *got[0].MessageId == *sent.MessageId, "received %v", got)
	m := got[0]
	check(*m.MessageAttributes["text"].StringValue == body && bytes.Equal(m.MessageAttributes["bytes"].BinaryValue, binary) &&
		*m.MessageAttributes["number"].DataType == "Number.int" && *m.MD5OfMessageAttributes == *sent.MD5OfMessageAttributes, "attributes %v", m)
	check(*m.Attributes["ApproximateReceiveCount"] == "1" && strings.HasPrefix(*m.Attributes["AWSTraceHeader"], "Root=1"), "system attributes %v", m)
	change := func(handle *string, seconds int64) {
		must(client.ChangeMessageVisibility(&sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: handle, VisibilityTimeout: &seconds}))
	}
	change(m.ReceiptHandle, 0)
	got = receive(1)
	check(len(got) == 1 && *got[0].Attributes["ApproximateReceiveCount"] == "2", "received again %v", got)
	must(client.DeleteMessage(&sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: got[0].ReceiptHandle}))

	batch := must(client.SendMessageBatch(&sqs.SendMessageBatchInput{QueueUrl: url, Entries: []*sqs.SendMessageBatchRequestEntry{
		{Id: aws.String("a"), MessageBody: aws.String("1")},
		{Id: aws.String("bad"), MessageBody: aws.String("2"), DelaySeconds: aws.Int64(901)},
		{Id: aws.String("c"), MessageBody: aws.String("3"), MessageAttributes: map[string]*sqs.MessageAttributeValue{
			"k": {DataType: aws.String("String"), StringValue: aws.String("x")},
		}},
	}}))
	check(len(batch.Successful) == 2 && len(batch.Failed) == 1 && *batch.Failed[0].Id == "bad" && *batch.Failed[0].SenderFault &&
		*batch.Failed[0].Code == "InvalidParameterValue", "batch %v", batch)
	got = receive(10)
	check(len(got) == 2, "received %v, want two", got)
	changed := must(client.ChangeMessageVisibilityBatch(&sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url,
		Entries: []*sqs.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("a"), ReceiptHandle: got[0].ReceiptHandle, VisibilityTimeout: aws.Int64(60)},
			{Id: aws.String("b"), ReceiptHandle: aws.String("nonsense"), VisibilityTimeout: aws.Int64(60)},
		}}))
	check(len(changed.Successful) == 1 && len(changed.Failed) == 1, "changed %v", changed)
	deleted := must(client.DeleteMessageBatch(&sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []*sqs.DeleteMessageBatchRequestEntry{
		{Id: aws.String("a"), ReceiptHandle: got[0].ReceiptHandle},
		{Id: aws.String("c"), ReceiptHandle: got[1].ReceiptHandle},
	}}))
	check(len(deleted.Successful) == 2 && deleted.Failed == nil, "deleted %v", deleted)
	empty := must(client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: url}))
	check(empty.Messages == nil, "received %v, want nothing", empty)
	must(client.PurgeQueue(&sqs.PurgeQueueInput{QueueUrl: url}))
}

func fifo() {
	url := create("jobs.fifo", map[string]string{"FifoQueue": "true"})
	send := func(text, id string) *sqs.SendMessageOutput {
		return must(client.SendMessage(&sqs.SendMessageInput{QueueUrl: url, MessageBody: &text, MessageGroupId: aws.String("g"), MessageDeduplicationId: &id}))
	}
	first, second, again := send("1", "a"), send("2", "b"), send("1", "a")
	check(*first.SequenceNumber < *second.SequenceNumber && *again.MessageId == *first.MessageId, "sent %v, %v, %v", first, second, again)
	out := must(client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: aws.Int64(10),
		ReceiveRequestAttemptId: aws.String("attempt"), AttributeNames: aws.StringSlice([]string{"MessageGroupId", "SequenceNumber"})}))
	check(len(out.Messages) == 2 && *out.Messages[0].Body == "1" && *out.Messages[1].Attributes["SequenceNumber"] == *second.SequenceNumber, "received %v", out)
}

func deadLetters() {
	dead := create("dead", nil)
	url := create("work", map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":"1"}`, "VisibilityTimeout": "0",
	})
	sources := must(client.ListDeadLetterSourceQueues(&sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead}))
	check(len(sources.QueueUrls) == 1 && *sources.QueueUrls[0] == *url, "sources %v", sources)
	must(client.SendMessage(&sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("poison")}))
	must(client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: url}))
	must(client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: url}))
	out := must(client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: dead, WaitTimeSeconds: aws.Int64(5), VisibilityTimeout: aws.Int64(0)}))
	check(len(out.Messages) == 1 && *out.Messages[0].Body == "poison", "dead letters %v", out)
	source := aws.String("arn:aws:sqs:us-east-1:000000000000:dead")
	must(client.StartMessageMoveTask(&sqs.StartMessageMoveTaskInput{SourceArn: source}))
	tasks := must(client.ListMessageMoveTasks(&sqs.ListMessageMoveTasksInput{SourceArn: source}))
	check(len(tasks.Results) == 1 && *tasks.Results[0].SourceArn == *source && *tasks.Results[0].StartedTimestamp > 0, "tasks %v", tasks)
}

// refusals checks codes and texts, by which programs tell errors apart.
func refusals() {
	refused := func(err error, code string, status int, text string) {
		var failure awserr.RequestFailure
		check(errors.As(err, &failure) && failure.Code() == code && failure.StatusCode() == status &&
			strings.Contains(failure.Message(), text) && len(failure.RequestID()) == 36, "got %v, want %s, %d, %s", err, code, status, text)
	}
	_, err := client.GetQueueUrl(&sqs.GetQueueUrlInput{QueueName: aws.String("nowhere")})
	refused(err, sqs.ErrCodeQueueDoesNotExist, 400, "The specified queue does not exist for this wsdl version.")
	_, err = client.DeleteMessage(&sqs.DeleteMessageInput{QueueUrl: aws.String("messages"), ReceiptHandle: aws.String("\"<nonsense>\"")})
	refused(err, sqs.ErrCodeReceiptHandleIsInvalid, 404, `The input receipt handle ""<nonsense>"" is not a valid receipt handle.`)
	_, err = client.SendMessageBatch(&sqs.SendMessageBatchInput{QueueUrl: aws.String("messages"), Entries: []*sqs.SendMessageBatchRequestEntry{}})
	refused(err, sqs.ErrCodeEmptyBatchRequest, 400, "There should be at least one SendMessageBatchRequestEntry in the request.")
	_, err = client.CreateQueue(&sqs.CreateQueueInput{QueueName: aws.String("orders"), Attributes: aws.StringMap(map[string]string{"DelaySeconds": "7"})})
	refused(err, sqs.ErrCodeQueueNameExists, 400, "DelaySeconds")
	_, err = client.SendMessage(&sqs.SendMessageInput{QueueUrl: aws.String("messages"), MessageBody: aws.String("a\x00b")})
	refused(err, sqs.ErrCodeInvalidMessageContents, 400, "Invalid characters found.")
	codes := []string{}
	for range 2 {
		_, err = client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: aws.String("messages"), MaxNumberOfMessages: aws.Int64(11)})
		var failure awserr.Error
		if errors.As(err, &failure) {
			codes = append(codes, failure.Code())
		}
	}
	check(slices.Equal(codes, []string{"InvalidParameterValue", "InvalidParameterValue"}), "codes %v", codes)
}
