package sdk

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// tagged creates a queue with tags and sends it messages.
func (n *node) tagged(name string, tags map[string]string, bodies ...string) (url string) {
	n.t.Helper()
	out, err := n.CreateQueue(n.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Tags: tags,
		Attributes: map[string]string{"VisibilityTimeout": "0"}})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, body := range bodies {
		if _, err := n.SendMessage(n.t.Context(), &sqs.SendMessageInput{QueueUrl: out.QueueUrl, MessageBody: &body}); err != nil {
			n.t.Fatal(err)
		}
	}
	return *out.QueueUrl
}

// take receives up to ten messages and keeps them for a time in seconds; 0 is what the queue says,
// because the SDK leaves it out.
func (n *node) take(url string, wait, visibility int32) []types.Message {
	n.t.Helper()
	out, err := n.ReceiveMessage(n.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10,
		WaitTimeSeconds: wait, VisibilityTimeout: visibility})
	if err != nil {
		n.t.Fatal(err)
	}
	return out.Messages
}

// The SDK switches extensions on with tags and sees them work.
// [TAG-10, EXT-1, EXT-3, EXT-5, EXT-7, EXT-8, EXT-12, EXT-17, EXT-24, EXT-25, EXT-37, EXT-46, EXT-49]
func TestExtensions(t *testing.T) {
	n := start(t, nil)

	url := n.tagged("paused", map[string]string{"tenaq:paused": "true"}, "hello")
	if got := n.take(url, 0, 30); len(got) > 0 {
		t.Errorf("a paused queue delivers %d messages", len(got))
	}
	poll := n.poll(t.Context(), url, 20)
	begun()
	if _, err := n.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: &url, TagKeys: []string{"tenaq:paused"}}); err != nil {
		t.Fatal(err)
	}
	woken(t, "the end of a pause", <-poll, "hello")

	url = n.tagged("strict", map[string]string{"tenaq:strict-handles": "true"}, "hello")
	old := n.take(url, 20, 0)[0]
	newest := n.take(url, 20, 30)[0]
	_, err := n.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: old.ReceiptHandle})
	refused, ok := errors.AsType[smithy.APIError](err)
	if !ok || refused.ErrorCode() != "InvalidParameterValue" || !strings.HasSuffix(refused.ErrorMessage(), "The receipt handle has expired.") {
		t.Errorf("a delete with an older handle: got %v, want InvalidParameterValue", err)
	}
	if _, err := n.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: newest.ReceiptHandle}); err != nil {
		t.Errorf("a delete with the newest handle: %v", err)
	}

	url = n.tagged("few", map[string]string{"tenaq:max-in-flight": "1"}, "one", "two")
	first := n.take(url, 20, 600)
	if got := n.take(url, 0, 600); len(first) != 1 || len(got) > 0 {
		t.Fatalf("the limit is 1 message in flight: got %d and %d", len(first), len(got))
	}
	poll = n.poll(t.Context(), url, 20)
	begun()
	if _, err := n.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: first[0].ReceiptHandle}); err != nil {
		t.Fatal(err)
	}
	woken(t, "a delete at the limit", <-poll, "two")

	// One message comes at once and the others in their time, however many are asked for.
	began, got := time.Now(), 0
	url = n.tagged("slow", map[string]string{"tenaq:rate": "20/s"}, "again and again", "and again")
	for got < 21 {
		got += len(n.take(url, 20, 0))
	}
	// The server counts whole milliseconds.
	if took := time.Since(began); took < time.Duration(got-1)*time.Second/20-time.Millisecond {
		t.Errorf("%d deliveries at 20/s took %v", got, took)
	}

	// A failed attempt is repeated after a pause, and meanwhile the message is in flight.
	url = n.tagged("later", map[string]string{"tenaq:retry": "1s..1m"}, "hello")
	began = time.Now()
	if got := n.take(url, 20, 0); len(got) != 1 {
		t.Fatalf("a queue with a pause after failed attempts delivers %d messages, want 1", len(got))
	}
	if got := n.take(url, 0, 0); len(got) > 0 && time.Since(began) < second {
		t.Error("a message is delivered in its pause")
	}
	if got := n.take(url, 20, 0); len(got) != 1 || time.Since(began) < second {
		t.Errorf("got %d messages after %v, want 1 after 1 s", len(got), time.Since(began))
	}

	// A message waits for as long as its attribute says, and one that may not is refused alone.
	url = n.tagged("months", map[string]string{"tenaq:delay-max": "90d"})
	entry := func(id, delay string) types.SendMessageBatchRequestEntry {
		text := "String"
		return types.SendMessageBatchRequestEntry{Id: &id, MessageBody: &id,
			MessageAttributes: map[string]types.MessageAttributeValue{"tenaq.delay": {DataType: &text, StringValue: &delay}}}
	}
	began = time.Now()
	sent, err := n.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url,
		Entries: []types.SendMessageBatchRequestEntry{entry("second", "1s"), entry("quarter", "90d"), entry("year", "365d")}})
	if err != nil || len(sent.Successful) != 2 || len(sent.Failed) != 1 || *sent.Failed[0].Id != "year" ||
		*sent.Failed[0].Message != "Value 365d for parameter tenaq.delay is invalid. Reason: Must be at most 90d, the tenaq:delay-max of the queue." {
		t.Errorf("a batch of long delays: got %+v, %v", sent, err)
	}
	if got := n.take(url, 20, 30); len(got) != 1 || *got[0].Body != "second" || time.Since(began) < second {
		t.Errorf("got %d messages after %v, want the one with a delay of 1 s", len(got), time.Since(began))
	}
	depth, err := n.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessagesDelayed}})
	if err != nil || depth.Attributes["ApproximateNumberOfMessagesDelayed"] != "1" {
		t.Errorf("with a message that waits for 90 days: got %v, %v", depth, err)
	}

	url = n.tagged("shared", map[string]string{"tenaq:fair": "true"})
	for _, group := range []string{"noisy", "noisy", "noisy", "quiet"} {
		if _, err := n.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &group, MessageGroupId: &group}); err != nil {
			t.Fatal(err)
		}
	}
	var bodies []string
	for _, m := range n.take(url, 20, 30) {
		bodies = append(bodies, *m.Body)
	}
	if want := []string{"noisy", "quiet", "noisy", "noisy"}; !slices.Equal(bodies, want) {
		t.Errorf("a fair queue delivers %v, want %v", bodies, want)
	}

	url = n.tagged("urgent", map[string]string{"tenaq:priority": "1h"}, "none")
	send := func(body, level string) error {
		_, err := n.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{
			"tenaq.priority": {DataType: aws.String("Number"), StringValue: &level}}})
		return err
	}
	for _, level := range []string{"3", "9", "0"} {
		if err := send("level "+level, level); err != nil {
			t.Fatal(err)
		}
	}
	bodies = nil
	for _, m := range n.take(url, 20, 30) {
		bodies = append(bodies, *m.Body)
	}
	if want := []string{"level 9", "level 3", "none", "level 0"}; !slices.Equal(bodies, want) {
		t.Errorf("a queue with priorities delivers %v, want %v", bodies, want)
	}
	refused, ok = errors.AsType[smithy.APIError](send("too urgent", "10"))
	if !ok || refused.ErrorCode() != "InvalidParameterValue" || !strings.HasSuffix(refused.ErrorMessage(), "9 is the most urgent.") {
		t.Errorf("a send of level 10: got %v, want InvalidParameterValue", refused)
	}

	_, err = n.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: &url, Tags: map[string]string{"tenaq:nothing": "1"}})
	if err == nil || !strings.Contains(err.Error(), "This server has no extension named by the tag tenaq:nothing; it has dedup-window, ") {
		t.Errorf("an unknown tag: got %v", err)
	}
}

// With a deduplication window, the SDK gets the answer to the first send again, on standard and on
// FIFO queues, and can see that it is a duplicate. [EXT-29, EXT-30, EXT-32]
func TestDedupWindow(t *testing.T) {
	n := start(t, nil)
	send := func(in *sqs.SendMessageInput) (answer, duplicate string) {
		t.Helper()
		out, err := n.SendMessage(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		resp, ok := middleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response)
		if !ok {
			t.Fatal("the SDK does not show the response")
		}
		return aws.ToString(out.MessageId) + " " + aws.ToString(out.SequenceNumber),
			resp.Header.Get("Tenaq-Duplicate")
	}
	twice := func(in *sqs.SendMessageInput) {
		t.Helper()
		first, no := send(in)
		again, yes := send(in)
		if first != again || no != "" || yes != "true" {
			t.Errorf("sends answer %q (%q) and %q (%q), want the same and true", first, no, again, yes)
		}
	}
	tags := map[string]string{"tenaq:dedup-window": "30d"}
	url := n.tagged("jobs", tags)
	twice(&sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
		"tenaq.dedup-id": {DataType: aws.String("String"), StringValue: aws.String("order-17")}}})
	if got := n.take(url, 0, 30); len(got) != 1 {
		t.Errorf("%d messages were stored, want 1", len(got))
	}
	out, err := n.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("jobs.fifo"), Tags: tags,
		Attributes: map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	twice(&sqs.SendMessageInput{QueueUrl: out.QueueUrl, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")})
}

// So does the AWS command line. [TAG-10, EXT-1, EXT-10, EXT-17, EXT-30, EXT-37, EXT-46]
func TestExtensionsWithAWSCommandLine(t *testing.T) {
	needAWS(t)
	n := start(t, nil)
	run := n.aws
	url := run("create-queue", "--queue-name", "line.fifo", "--attributes", "FifoQueue=true,ContentBasedDeduplication=true",
		"--tags", "tenaq:max-in-flight-per-group=1", "--query", "QueueUrl")
	run("tag-queue", "--queue-url", url, "--tags", "tenaq:paused=true,tenaq:retry=10s..15m/x3")
	for _, body := range []string{"one", "two"} {
		run("send-message", "--queue-url", url, "--message-body", body, "--message-group-id", "g")
	}
	receive := []string{"receive-message", "--queue-url", url, "--max-number-of-messages", "10", "--query", "Messages[].Body"}
	if got := run(receive...); got != "None" {
		t.Errorf("a paused queue delivers %q", got)
	}
	run("untag-queue", "--queue-url", url, "--tag-keys", "tenaq:paused")
	if got := run(receive...); got != "one" {
		t.Errorf("a queue with one message of a group in flight at most delivers %q", got)
	}

	url = run("create-queue", "--queue-name", "jobs", "--tags", "tenaq:dedup-window=7d", "--query", "QueueUrl")
	send := []string{"send-message", "--queue-url", url, "--message-body", "x", "--query", "MessageId", "--message-attributes",
		`{"tenaq.dedup-id":{"DataType":"String","StringValue":"order-17"}}`}
	if first, again := run(send...), run(send...); first != again {
		t.Errorf("a repeated send answers %s, and the first one %s", again, first)
	}

	url = run("create-queue", "--queue-name", "shared", "--tags", "tenaq:fair=true", "--query", "QueueUrl")
	for _, body := range []string{"a1", "a2", "b1"} {
		run("send-message", "--queue-url", url, "--message-body", body, "--message-group-id", body[:1])
	}
	receive[2] = url
	if got := run(receive...); got != "a1\tb1\ta2" {
		t.Errorf("a fair queue delivers %q", got)
	}

	url = run("create-queue", "--queue-name", "urgent", "--tags", "tenaq:priority=1h", "--query", "QueueUrl")
	run("send-message", "--queue-url", url, "--message-body", "later")
	run("send-message", "--queue-url", url, "--message-body", "first", "--message-attributes",
		"tenaq.priority={DataType=Number,StringValue=9}")
	receive[2] = url
	if got := run(receive...); got != "first\tlater" {
		t.Errorf("a queue with priorities delivers %q", got)
	}
}
