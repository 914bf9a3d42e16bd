// Legacy runs the operations with the AWS SDK for Go v1. It is a module of its own, so that nothing
// else depends on that SDK, in two versions: go.mod has one that speaks Query, and json.mod the
// last one, which speaks JSON.
package main

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/sqs"
)

var (
	prefix = os.Getenv("TENAQ_PREFIX")
	client = connect(nil)
)

// body has what XML is most easily wrong about. The SDK compares its checksum.
const body = "a\r\n\"b\" &quot; & <c/> ]]>\t\U0001F600 \u2028\\u0041"

func main() {
	print(map[string]any{"version": aws.SDKVersion})
	report("create", create)
	report("attributes", attributes)
	report("fifo", fifo)
	report("batch", batch)
	report("receive", receive)
	report("visibility", visibility)
	report("delete", remove)
	report("error", failures)
	report("paging", paging)
	report("extra", deadLetters)
}

// report runs an operation, which panics when something does not hold.
func report(operation string, run func()) {
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s\n", operation, failure, debug.Stack())
			print(map[string]any{"operation": operation, "ok": false,
				"detail": fmt.Sprint(failure)})
		}
	}()
	run()
	print(map[string]any{"operation": operation, "ok": true})
}

func print(line map[string]any) { json.NewEncoder(os.Stdout).Encode(line) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func same[T any](what string, got, want T) {
	if !reflect.DeepEqual(got, want) {
		panic(fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
}

func holds(what string, ok bool, got any) {
	if !ok {
		panic(fmt.Sprintf("%s: got %v", what, got))
	}
}

// refused checks code, status and text of an error, by which programs tell errors apart.
func refused(err error, code string, status int, text string) {
	var failure awserr.RequestFailure
	holds("want "+code, errors.As(err, &failure), err)
	same("code", failure.Code(), code)
	same("status of "+code, failure.StatusCode(), status)
	holds("text of "+code, strings.Contains(failure.Message(), text), failure.Message())
	holds("request ID of "+code, len(failure.RequestID()) == 36, failure.RequestID())
}

func connect(pair *credentials.Credentials) *sqs.SQS {
	return sqs.New(must(session.NewSession(&aws.Config{
		Endpoint: aws.String(os.Getenv("TENAQ_ENDPOINT")), MaxRetries: aws.Int(0),
		Credentials: pair,
	})))
}

func queue(name string, attributes map[string]string) *string {
	in := &sqs.CreateQueueInput{QueueName: aws.String(prefix + name),
		Attributes: aws.StringMap(attributes)}
	return must(client.CreateQueue(in)).QueueUrl
}

func arn(url *string) string {
	in := &sqs.GetQueueAttributesInput{QueueUrl: url,
		AttributeNames: aws.StringSlice([]string{"QueueArn"})}
	return *must(client.GetQueueAttributes(in)).Attributes["QueueArn"]
}

func send(url *string, body string) *sqs.SendMessageOutput {
	return must(client.SendMessage(&sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))
}

// poll receives up to ten messages with all that they have, and waits for them.
func poll(url *string, hidden, wait int64) []*sqs.Message { return must(ask(url, hidden, wait)) }

// ask does the same for a goroutine of its own, where a panic would end the other operations too.
func ask(url *string, hidden, wait int64) ([]*sqs.Message, error) {
	out, err := client.ReceiveMessage(&sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: aws.Int64(10), VisibilityTimeout: &hidden,
		WaitTimeSeconds:       &wait,
		AttributeNames:        aws.StringSlice([]string{"All"}),
		MessageAttributeNames: aws.StringSlice([]string{"All"}),
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func bodies(messages []*sqs.Message) (all []string) {
	for _, m := range messages {
		all = append(all, *m.Body)
	}
	return all
}

func create() {
	url := queue("create", map[string]string{"VisibilityTimeout": "40"})
	holds("queue URL", strings.HasPrefix(*url, os.Getenv("TENAQ_ENDPOINT")+"/") &&
		strings.HasSuffix(*url, "/"+prefix+"create"), *url)
	same("URL when created again", *queue("create", map[string]string{"VisibilityTimeout": "40"}),
		*url)
	same("GetQueueUrl", *must(client.GetQueueUrl(&sqs.GetQueueUrlInput{QueueName: aws.String(prefix + "create")})).QueueUrl, *url)
}

func attributes() {
	url := must(client.CreateQueue(&sqs.CreateQueueInput{
		QueueName: aws.String(prefix + "attributes"),
		Attributes: aws.StringMap(map[string]string{"VisibilityTimeout": "40",
			"DelaySeconds": "0"}),
		Tags: aws.StringMap(map[string]string{"team": "a b", "empty": ""}),
	})).QueueUrl
	must(client.SetQueueAttributes(&sqs.SetQueueAttributesInput{
		QueueUrl: url, Attributes: aws.StringMap(map[string]string{"VisibilityTimeout": "50"}),
	}))
	get := func(names ...string) map[string]string {
		in := &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: aws.StringSlice(names)}
		return aws.StringValueMap(must(client.GetQueueAttributes(in)).Attributes)
	}
	all := get("All")
	holds("attributes", all["VisibilityTimeout"] == "50" &&
		all["MessageRetentionPeriod"] == "345600" && len(all) >= 12, all)
	same("one attribute", get("VisibilityTimeout"), map[string]string{"VisibilityTimeout": "50"})
	same("no attributes", len(get()), 0)
	must(client.TagQueue(&sqs.TagQueueInput{QueueUrl: url,
		Tags: aws.StringMap(map[string]string{"env": "x+y"})}))
	must(client.UntagQueue(&sqs.UntagQueueInput{QueueUrl: url,
		TagKeys: aws.StringSlice([]string{"team"})}))
	tags := aws.StringValueMap(must(client.ListQueueTags(&sqs.ListQueueTagsInput{QueueUrl: url})).Tags)
	same("tags", tags, map[string]string{"empty": "", "env": "x+y"})
}

func fifo() {
	url := queue("fifo.fifo", map[string]string{"FifoQueue": "true"})
	send := func(text, id string) *sqs.SendMessageOutput {
		return must(client.SendMessage(&sqs.SendMessageInput{QueueUrl: url, MessageBody: &text,
			MessageGroupId: aws.String("g"), MessageDeduplicationId: &id}))
	}
	first, second, again := send("1", "a"), send("2", "b"), send("other", "a")
	same("MessageId of a duplicate", *again.MessageId, *first.MessageId)
	same("SequenceNumber of a duplicate", aws.StringValue(again.SequenceNumber),
		*first.SequenceNumber)
	holds("SequenceNumber of the second", *second.SequenceNumber > *first.SequenceNumber,
		*second.SequenceNumber)
	messages := must(client.ReceiveMessage(&sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: aws.Int64(10),
		ReceiveRequestAttemptId: aws.String("attempt"),
		AttributeNames:          aws.StringSlice([]string{"MessageGroupId", "SequenceNumber"}),
	})).Messages
	same("order", bodies(messages), []string{"1", "2"})
	same("system attributes", aws.StringValueMap(messages[1].Attributes),
		map[string]string{"MessageGroupId": "g", "SequenceNumber": *second.SequenceNumber})
}

func batch() {
	url := queue("batch", nil)
	sent := must(client.SendMessageBatch(&sqs.SendMessageBatchInput{QueueUrl: url, Entries: []*sqs.SendMessageBatchRequestEntry{
		{Id: aws.String("a"), MessageBody: aws.String("1")},
		{Id: aws.String("bad"), MessageBody: aws.String("2\x00")},
		{Id: aws.String("late"), MessageBody: aws.String("2"), DelaySeconds: aws.Int64(901)},
		{Id: aws.String("c"), MessageBody: aws.String("3"),
			MessageAttributes: map[string]*sqs.MessageAttributeValue{
				"k": {DataType: aws.String("String"), StringValue: aws.String("x")},
			}},
	}}))
	same("sent", []string{*sent.Successful[0].Id, *sent.Successful[1].Id}, []string{"a", "c"})
	same("not sent", refusals(sent.Failed),
		[]string{"bad InvalidMessageContents true", "late InvalidParameterValue true"})
	var messages []*sqs.Message
	for i := 0; i < 2 && len(messages) < 2; i++ {
		messages = append(messages, poll(url, 30, 10)...)
	}
	same("received", slices.Sorted(slices.Values(bodies(messages))), []string{"1", "3"})
	changed := must(client.ChangeMessageVisibilityBatch(&sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url,
		Entries: []*sqs.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("a"), ReceiptHandle: messages[0].ReceiptHandle,
				VisibilityTimeout: aws.Int64(60)},
			{Id: aws.String("bad"), ReceiptHandle: aws.String("nonsense"),
				VisibilityTimeout: aws.Int64(60)},
		}}))
	same("not changed", refusals(changed.Failed), []string{"bad ReceiptHandleIsInvalid true"})
	deleted := must(client.DeleteMessageBatch(&sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []*sqs.DeleteMessageBatchRequestEntry{
		{Id: aws.String("a"), ReceiptHandle: messages[0].ReceiptHandle},
		{Id: aws.String("bad"), ReceiptHandle: aws.String("nonsense")},
		{Id: aws.String("c"), ReceiptHandle: messages[1].ReceiptHandle},
	}}))
	same("deleted", []string{*deleted.Successful[0].Id, *deleted.Successful[1].Id},
		[]string{"a", "c"})
	same("not deleted", refusals(deleted.Failed), []string{"bad ReceiptHandleIsInvalid true"})
}

func refusals(failed []*sqs.BatchResultErrorEntry) (all []string) {
	for _, e := range failed {
		all = append(all, fmt.Sprintf("%s %s %t", *e.Id, *e.Code, *e.SenderFault))
	}
	return all
}

func receive() {
	url := queue("receive", nil)
	begin := time.Now()
	same("empty queue", poll(url, 30, 1), nil)
	holds("wait of a second", time.Since(begin) >= 950*time.Millisecond, time.Since(begin))
	text := func(dataType, value string) *sqs.MessageAttributeValue {
		return &sqs.MessageAttributeValue{DataType: &dataType, StringValue: &value}
	}
	attributes := map[string]*sqs.MessageAttributeValue{
		"text": text("String", body), "number": text("Number.int", "-12"),
		"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 254, 255, '\r', '\n'}},
	}
	const trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
	polled := make(chan func() []*sqs.Message, 1)
	go func() {
		messages, err := ask(url, 30, 10)
		polled <- func() []*sqs.Message { return must(messages, err) }
	}()
	sent := must(client.SendMessage(&sqs.SendMessageInput{
		QueueUrl: url, MessageBody: aws.String(body), MessageAttributes: attributes,
		MessageSystemAttributes: map[string]*sqs.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(trace)},
		},
	}))
	holds("sent", sent.MD5OfMessageSystemAttributes != nil && sent.SequenceNumber == nil, sent)
	messages := (<-polled)()
	same("bodies", bodies(messages), []string{body})
	m := messages[0]
	same("MessageId", *m.MessageId, *sent.MessageId)
	same("attributes", m.MessageAttributes, attributes)
	same("MD5 of the attributes",
		[]string{aws.StringValue(sent.MD5OfMessageAttributes),
			aws.StringValue(m.MD5OfMessageAttributes)},
		[]string{checksum(attributes), checksum(attributes)})
	same("ApproximateReceiveCount", *m.Attributes["ApproximateReceiveCount"], "1")
	same("AWSTraceHeader", *m.Attributes["AWSTraceHeader"], trace)
	holds("SenderId and SentTimestamp", *m.Attributes["SenderId"] != "" &&
		len(*m.Attributes["SentTimestamp"]) == 13, m.Attributes)
}

// checksum is that of message attributes, as SQS documents it.
func checksum(attributes map[string]*sqs.MessageAttributeValue) string {
	var b []byte
	add := func(part []byte) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		add([]byte(name))
		add([]byte(*a.DataType))
		if a.BinaryValue != nil {
			b = append(b, 2)
			add(a.BinaryValue)
		} else {
			b = append(b, 1)
			add([]byte(*a.StringValue))
		}
	}
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

func visibility() {
	url := queue("visibility", nil)
	send(url, "again")
	first := poll(url, 600, 10)
	same("hidden", poll(url, 600, 0), nil)
	must(client.ChangeMessageVisibility(&sqs.ChangeMessageVisibilityInput{
		QueueUrl: url, ReceiptHandle: first[0].ReceiptHandle, VisibilityTimeout: aws.Int64(0),
	}))
	second := poll(url, 600, 10)
	same("messages", []int{len(first), len(second)}, []int{1, 1})
	same("MessageId", *second[0].MessageId, *first[0].MessageId)
	same("ApproximateReceiveCount", *second[0].Attributes["ApproximateReceiveCount"], "2")
}

func remove() {
	url := queue("delete", nil)
	send(url, "gone")
	must(client.DeleteMessage(&sqs.DeleteMessageInput{QueueUrl: url,
		ReceiptHandle: poll(url, 1, 10)[0].ReceiptHandle}))
	same("deleted message", poll(url, 1, 2), nil)
	send(url, "purged")
	must(client.PurgeQueue(&sqs.PurgeQueueInput{QueueUrl: url}))
	same("purged message", poll(url, 1, 0), nil)
	must(client.DeleteQueue(&sqs.DeleteQueueInput{QueueUrl: url}))
	_, err := client.GetQueueUrl(&sqs.GetQueueUrlInput{QueueName: aws.String(prefix + "delete")})
	refused(err, sqs.ErrCodeQueueDoesNotExist, 400, "The specified queue does not exist")
}

func failures() {
	url := queue("error", nil)
	text := "The specified queue does not exist."
	if client.ClientInfo.JSONVersion == "" { // Query
		text = "The specified queue does not exist for this wsdl version."
	}
	_, err := client.GetQueueUrl(&sqs.GetQueueUrlInput{QueueName: aws.String(prefix + "nowhere")})
	refused(err, sqs.ErrCodeQueueDoesNotExist, 400, text)
	_, err = client.DeleteMessage(&sqs.DeleteMessageInput{QueueUrl: url,
		ReceiptHandle: aws.String("\"<nonsense>\"")})
	refused(err, sqs.ErrCodeReceiptHandleIsInvalid, 404, `The input receipt handle ""<nonsense>"" is not a valid receipt handle.`)
	_, err = client.SendMessageBatch(&sqs.SendMessageBatchInput{QueueUrl: url,
		Entries: []*sqs.SendMessageBatchRequestEntry{}})
	refused(err, sqs.ErrCodeEmptyBatchRequest, 400,
		"There should be at least one SendMessageBatchRequestEntry in the request.")
	_, err = client.CreateQueue(&sqs.CreateQueueInput{QueueName: aws.String(prefix + "error"),
		Attributes: aws.StringMap(map[string]string{"DelaySeconds": "7"})})
	refused(err, sqs.ErrCodeQueueNameExists, 400, "DelaySeconds")
	_, err = client.SendMessage(&sqs.SendMessageInput{QueueUrl: url,
		MessageBody: aws.String("a\x00b")})
	refused(err, sqs.ErrCodeInvalidMessageContents, 400,
		"Invalid binary character '#x0' was found in the message body")
	_, err = client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: url,
		MaxNumberOfMessages: aws.Int64(11)})
	refused(err, "InvalidParameterValue", 400, "MaxNumberOfMessages")
	signedBy(os.Getenv("TENAQ_WRONG_KEY_ID"), os.Getenv("TENAQ_WRONG_SECRET"),
		"SignatureDoesNotMatch")
	signedBy("TQNOBODY", os.Getenv("AWS_SECRET_ACCESS_KEY"), "InvalidClientTokenId")
}

func signedBy(id, secret, code string) {
	_, err := connect(credentials.NewStaticCredentials(id, secret,
		"")).ListQueues(&sqs.ListQueuesInput{})
	refused(err, code, 403, "")
}

func paging() {
	var urls, found []string
	for i := range 25 {
		urls = append(urls, *queue(fmt.Sprintf("paging-%02d", i), nil))
	}
	var sizes []int
	in := &sqs.ListQueuesInput{QueueNamePrefix: aws.String(prefix + "paging-"),
		MaxResults: aws.Int64(10)}
	err := client.ListQueuesPages(in, func(out *sqs.ListQueuesOutput, _ bool) bool {
		sizes = append(sizes, len(out.QueueUrls))
		found = append(found, aws.StringValueSlice(out.QueueUrls)...)
		return true
	})
	same("error", err, nil)
	same("pages", sizes, []int{10, 10, 5})
	same("queues", slices.Sorted(slices.Values(found)), urls)
}

func deadLetters() {
	dead := queue("dead", nil)
	source := arn(dead)
	url := queue("work", map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"1"}`, source), "VisibilityTimeout": "0",
	})
	sources := must(client.ListDeadLetterSourceQueues(&sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead}))
	same("sources", aws.StringValueSlice(sources.QueueUrls), []string{*url})
	send(url, "poison")
	for range 2 {
		must(client.ReceiveMessage(&sqs.ReceiveMessageInput{QueueUrl: url}))
	}
	same("dead letters", bodies(poll(dead, 0, 10)), []string{"poison"})
	must(client.StartMessageMoveTask(&sqs.StartMessageMoveTaskInput{SourceArn: &source}))
	tasks := must(client.ListMessageMoveTasks(&sqs.ListMessageMoveTasksInput{SourceArn: &source})).Results
	holds("tasks", len(tasks) == 1 && *tasks[0].SourceArn == source &&
		*tasks[0].StartedTimestamp > 0, tasks)
	same("brought back", bodies(poll(url, 600, 10)), []string{"poison"})
}
