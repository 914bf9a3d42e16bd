// Go runs the operations with the AWS SDK for Go v2, in the version that this module depends on.
// The SDK compares the checksums of bodies; those of attributes are compared here.
package main

import (
	"context"
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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

const sdk = "github.com/aws/aws-sdk-go-v2/service/sqs"

var (
	ctx      = context.Background()
	endpoint = os.Getenv("TENAQ_ENDPOINT")
	prefix   = os.Getenv("TENAQ_PREFIX")
	client   = connect()
)

// body has what encodings are most easily wrong about.
const body = "a\r\n\"b\" &quot; & <c/> ]]>\t\U0001F600 \u2028\\u0041"

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, m := range build.Deps {
		if m.Path == sdk {
			print(map[string]any{"version": strings.TrimPrefix(m.Version, "v")})
		}
	}
	report("create", create)
	report("attributes", attributes)
	report("fifo", fifo)
	report("batch", batch)
	report("receive", receive)
	report("visibility", visibility)
	report("delete", remove)
	report("error", failures)
	report("paging", paging)
	report("environment", environment)
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

// refused checks that an error has the type of E and its code.
func refused[E error](what string, err error, code string) {
	var refusal smithy.APIError
	holds(what, errors.As(err, &refusal), err)
	same("code of "+what, refusal.ErrorCode(), code)
	var typed E
	holds("type of "+what, errors.As(err, &typed), err)
}

func connect(options ...func(*config.LoadOptions) error) *sqs.Client {
	return sqs.NewFromConfig(must(config.LoadDefaultConfig(ctx, options...)), func(o *sqs.Options) {
		o.BaseEndpoint = &endpoint
	})
}

func queue(name string, attributes map[string]string) *string {
	return must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(prefix + name),
		Attributes: attributes})).QueueUrl
}

func send(url *string, body string) *sqs.SendMessageOutput {
	return must(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))
}

// poll receives up to ten messages with all that they have, and waits for them.
func poll(url *string, hidden, wait int32) []types.Message { return must(ask(url, hidden, wait)) }

// ask does the same for a goroutine of its own, where a panic would end the other operations too.
func ask(url *string, hidden, wait int32) ([]types.Message, error) {
	out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: hidden, WaitTimeSeconds: wait,
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func bodies(messages []types.Message) (all []string) {
	for _, m := range messages {
		all = append(all, *m.Body)
	}
	return all
}

func create() {
	url := queue("create", map[string]string{"VisibilityTimeout": "40"})
	holds("queue URL", strings.HasPrefix(*url, endpoint+"/") &&
		strings.HasSuffix(*url, "/"+prefix+"create"), *url)
	same("URL when created again", *queue("create", map[string]string{"VisibilityTimeout": "40"}),
		*url)
	same("GetQueueUrl", *must(client.GetQueueUrl(ctx,
		&sqs.GetQueueUrlInput{QueueName: aws.String(prefix + "create")})).QueueUrl, *url)
}

func attributes() {
	url := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String(prefix + "attributes"),
		Tags:      map[string]string{"team": "a b", "empty": ""},
	})).QueueUrl
	must(client.SetQueueAttributes(ctx,
		&sqs.SetQueueAttributesInput{QueueUrl: url,
			Attributes: map[string]string{"VisibilityTimeout": "50"}}))
	get := func(names ...types.QueueAttributeName) map[string]string {
		return must(client.GetQueueAttributes(ctx,
			&sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: names})).Attributes
	}
	all := get(types.QueueAttributeNameAll)
	same("VisibilityTimeout", all["VisibilityTimeout"], "50")
	same("MessageRetentionPeriod", all["MessageRetentionPeriod"], "345600")
	holds("QueueArn", strings.HasPrefix(all["QueueArn"], "arn:aws:sqs:us-east-1:") &&
		strings.HasSuffix(all["QueueArn"], ":"+prefix+"attributes"), all)
	same("one attribute", get(types.QueueAttributeNameVisibilityTimeout),
		map[string]string{"VisibilityTimeout": "50"})
	must(client.TagQueue(ctx,
		&sqs.TagQueueInput{QueueUrl: url, Tags: map[string]string{"env": "x+y"}}))
	must(client.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: url, TagKeys: []string{"team"}}))
	same("tags", must(client.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: url})).Tags,
		map[string]string{"empty": "", "env": "x+y"})
}

func fifo() {
	url := queue("fifo.fifo", map[string]string{"FifoQueue": "true"})
	send := func(body, id string) *sqs.SendMessageOutput {
		return must(client.SendMessage(ctx,
			&sqs.SendMessageInput{QueueUrl: url, MessageBody: &body,
				MessageGroupId: aws.String("g"), MessageDeduplicationId: &id}))
	}
	first, second, again := send("1", "a"), send("2", "b"), send("other", "a")
	same("MessageId of a duplicate", *again.MessageId, *first.MessageId)
	same("SequenceNumber of a duplicate", aws.ToString(again.SequenceNumber), *first.SequenceNumber)
	holds("SequenceNumber of the second", *second.SequenceNumber > *first.SequenceNumber,
		*second.SequenceNumber)
	messages := poll(url, 30, 10)
	same("order", bodies(messages), []string{"1", "2"})
	system := messages[1].Attributes
	same("system attributes", []string{system["MessageGroupId"], system["MessageDeduplicationId"],
		system["SequenceNumber"]},
		[]string{"g", "b", *second.SequenceNumber})
}

func batch() {
	url := queue("batch", nil)
	sent := must(client.SendMessageBatch(ctx,
		&sqs.SendMessageBatchInput{QueueUrl: url, Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("a"), MessageBody: aws.String("1")},
			{Id: aws.String("bad"), MessageBody: aws.String("a\x00b")},
			{Id: aws.String("c"), MessageBody: aws.String("3")},
		}}))
	same("sent", []int{len(sent.Successful), len(sent.Failed)}, []int{2, 1})
	same("sent", []string{*sent.Successful[0].Id, *sent.Successful[1].Id}, []string{"a", "c"})
	refusedEntry(sent.Failed[0], "InvalidMessageContents")
	var messages []types.Message
	for i := 0; i < 2 && len(messages) < 2; i++ {
		messages = append(messages, poll(url, 30, 10)...)
	}
	same("received", slices.Sorted(slices.Values(bodies(messages))), []string{"1", "3"})
	deleted := must(client.DeleteMessageBatch(ctx,
		&sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("a"), ReceiptHandle: messages[0].ReceiptHandle},
			{Id: aws.String("bad"), ReceiptHandle: aws.String("nonsense")},
			{Id: aws.String("c"), ReceiptHandle: messages[1].ReceiptHandle},
		}}))
	same("deleted", []int{len(deleted.Successful), len(deleted.Failed)}, []int{2, 1})
	same("deleted", []string{*deleted.Successful[0].Id, *deleted.Successful[1].Id},
		[]string{"a", "c"})
	refusedEntry(deleted.Failed[0], "ReceiptHandleIsInvalid")
}

func refusedEntry(e types.BatchResultErrorEntry, code string) {
	same("refused entry", fmt.Sprint(*e.Id, *e.Code, e.SenderFault), fmt.Sprint("bad", code, true))
}

func receive() {
	url := queue("receive", nil)
	begin := time.Now()
	same("empty queue", len(poll(url, 30, 1)), 0)
	holds("wait of a second", time.Since(begin) >= 950*time.Millisecond, time.Since(begin))
	text := func(dataType, value string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: &dataType, StringValue: &value}
	}
	attributes := map[string]types.MessageAttributeValue{
		"text": text("String", body), "number": text("Number.int", "-12"),
		"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 254, 255, '\r', '\n'}},
	}
	const trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
	polled := make(chan func() []types.Message, 1)
	go func() {
		messages, err := ask(url, 30, 10)
		polled <- func() []types.Message { return must(messages, err) }
	}()
	sent := must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: url, MessageBody: aws.String(body), MessageAttributes: attributes,
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(trace)},
		},
	}))
	messages := (<-polled)()
	same("bodies", bodies(messages), []string{body})
	m := messages[0]
	same("MessageId", *m.MessageId, *sent.MessageId)
	same("attributes", m.MessageAttributes, attributes)
	same("MD5 of the attributes",
		[]string{aws.ToString(sent.MD5OfMessageAttributes),
			aws.ToString(m.MD5OfMessageAttributes)},
		[]string{checksum(attributes), checksum(attributes)})
	same("ApproximateReceiveCount", m.Attributes["ApproximateReceiveCount"], "1")
	same("AWSTraceHeader", m.Attributes["AWSTraceHeader"], trace)
	holds("SenderId and SentTimestamp", m.Attributes["SenderId"] != "" &&
		len(m.Attributes["SentTimestamp"]) == 13, m.Attributes)
}

// checksum is that of message attributes, as SQS documents it.
func checksum(attributes map[string]types.MessageAttributeValue) string {
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
	same("hidden", len(poll(url, 600, 0)), 0)
	must(client.ChangeMessageVisibility(ctx,
		&sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: first[0].ReceiptHandle,
			VisibilityTimeout: 0}))
	second := poll(url, 600, 10)
	same("messages", []int{len(first), len(second)}, []int{1, 1})
	same("MessageId", *second[0].MessageId, *first[0].MessageId)
	same("ApproximateReceiveCount", second[0].Attributes["ApproximateReceiveCount"], "2")
	holds("a handle of its own", *second[0].ReceiptHandle != *first[0].ReceiptHandle,
		*second[0].ReceiptHandle)
}

func remove() {
	url := queue("delete", nil)
	send(url, "gone")
	must(client.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: poll(url, 1, 10)[0].ReceiptHandle}))
	same("deleted message", len(poll(url, 1, 2)), 0)
	must(client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: url}))
	_, err := client.GetQueueUrl(ctx,
		&sqs.GetQueueUrlInput{QueueName: aws.String(prefix + "delete")})
	refused[*types.QueueDoesNotExist]("a deleted queue", err, missing)
}

// missing is the code of a queue that does not exist. The SDK takes it from the header that Query
// clients need.
const missing = "AWS.SimpleQueueService.NonExistentQueue"

func failures() {
	url := queue("error", nil)
	_, err := client.GetQueueUrl(ctx,
		&sqs.GetQueueUrlInput{QueueName: aws.String(prefix + "nowhere")})
	refused[*types.QueueDoesNotExist]("a missing queue", err, missing)
	_, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String(*url + "-nowhere"),
		MessageBody: aws.String("x")})
	refused[*types.QueueDoesNotExist]("a send to it", err, missing)
	_, err = client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(prefix + "error"),
		Attributes: map[string]string{"DelaySeconds": "7"}})
	refused[*types.QueueNameExists]("a queue with other attributes", err, "QueueAlreadyExists")
	_, err = client.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String("nonsense")})
	refused[*types.ReceiptHandleIsInvalid]("a receipt handle", err, "ReceiptHandleIsInvalid")
	_, err = client.SendMessage(ctx,
		&sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("\x00")})
	refused[*types.InvalidMessageContents]("a body", err, "InvalidMessageContents")
	signedBy(os.Getenv("TENAQ_WRONG_KEY_ID"), os.Getenv("TENAQ_WRONG_SECRET"),
		"SignatureDoesNotMatch")
	signedBy("TQNOBODY", os.Getenv("AWS_SECRET_ACCESS_KEY"), "InvalidClientTokenId")
}

func signedBy(id, secret, code string) {
	pair := config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(id, secret, ""))
	_, err := connect(pair).ListQueues(ctx, &sqs.ListQueuesInput{})
	refused[smithy.APIError](code, err, code)
}

func paging() {
	var urls, found []string
	for i := range 25 {
		urls = append(urls, *queue(fmt.Sprintf("paging-%02d", i), nil))
	}
	var sizes []int
	pages := sqs.NewListQueuesPaginator(client,
		&sqs.ListQueuesInput{QueueNamePrefix: aws.String(prefix + "paging-"),
			MaxResults: aws.Int32(10)})
	for pages.HasMorePages() {
		page := must(pages.NextPage(ctx))
		sizes = append(sizes, len(page.QueueUrls))
		found = append(found, page.QueueUrls...)
	}
	same("pages", sizes, []int{10, 10, 5})
	same("queues", slices.Sorted(slices.Values(found)), urls)
}

func environment() {
	url := queue("environment", nil)
	found := must(sqs.NewFromConfig(must(config.LoadDefaultConfig(ctx))).ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: aws.String(prefix + "environment")}))
	same("queues", found.QueueUrls, []string{*url})
}
