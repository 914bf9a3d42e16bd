package sdk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/server"
)

// Creating a queue is safe to repeat. [QUEUE-6 to QUEUE-10, QUEUE-14, QUEUE-27]
func TestCreateQueue(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders", "DelaySeconds", "0", "VisibilityTimeout", "40")
	if want := "http://" + n.server.Addr() + "/000000000000/orders"; url != want {
		t.Errorf("queue URL %q, want %q", url, want)
	}
	for _, attributes := range [][]string{nil, {"VisibilityTimeout", "40"}, {"VisibilityTimeout", "040", "DelaySeconds", "0"}} {
		if got := n.queue("orders", attributes...); got != url {
			t.Errorf("created again with %q: got %q, want %q", attributes, got, url)
		}
	}
	_, err := n.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders"), Attributes: map[string]string{"VisibilityTimeout": "41"}})
	var exists *types.QueueNameExists
	if err := refused(err, "QueueAlreadyExists", 400, &exists); err != nil {
		t.Error(err)
	} else if got := exists.ErrorMessage(); got != "A queue already exists with the same name and a different value for attribute VisibilityTimeout" {
		t.Errorf("message %q", got)
	}
	if _, err := n.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"VisibilityTimeout": "41"}}); err != nil {
		t.Fatal(err)
	}
	if got := n.queue("orders", "VisibilityTimeout", "41"); got != url {
		t.Errorf("created again with the new value: got %q, want %q", got, url)
	}
	got, err := n.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("orders")})
	if err != nil || *got.QueueUrl != url {
		t.Errorf("GetQueueUrl: got %v, %v, want %q", got, err, url)
	}
}

// Every error has the type, the code and the status that the SDK's users look for.
// [ERR-2, ERR-3, ERR-5, ERR-6]
func TestTypedErrors(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.InFlightMax = 1 })
	url, ctx := n.queue("orders", "MaximumMessageSize", "1024"), t.Context()
	n.send(url, "a")
	n.send(url, "b")
	handle := n.one(url).ReceiptHandle
	entries := func(ids ...string) (list []types.SendMessageBatchRequestEntry) {
		for _, id := range ids {
			list = append(list, types.SendMessageBatchRequestEntry{Id: aws.String(id), MessageBody: aws.String("x")})
		}
		return list
	}
	batch := func(list []types.SendMessageBatchRequestEntry) error {
		_, err := n.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: list})
		return err
	}
	create := func(name string, attributes map[string]string) error {
		_, err := n.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		return err
	}
	send := func(url, body string) error {
		_, err := n.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
		return err
	}
	var long []types.SendMessageBatchRequestEntry
	for _, e := range entries("a", "b") {
		e.MessageBody = aws.String(strings.Repeat("x", 600_000))
		long = append(long, e)
	}
	const aws0 = "AWS.SimpleQueueService."
	for _, test := range []struct {
		name   string
		call   func() error
		code   string
		status int
		target any
	}{
		{"unknown queue", func() error { return send("http://localhost/000000000000/nowhere", "x") },
			aws0 + "NonExistentQueue", 400, new(*types.QueueDoesNotExist)},
		{"queue of another account", func() error { return send("http://localhost/111122223333/orders", "x") },
			aws0 + "NonExistentQueue", 400, new(*types.QueueDoesNotExist)},
		{"illegal characters", func() error { return send(url, "\x00") }, "InvalidMessageContents", 400, new(*types.InvalidMessageContents)},
		{"too large", func() error { return send(url, strings.Repeat("x", 1025)) }, "InvalidParameterValue", 400, nil},
		{"no body", func() error { return send(url, "") }, "MissingParameter", 400, nil},
		{"garbage handle", func() error { return n.hide(url, aws.String("garbage"), 0) }, "ReceiptHandleIsInvalid", 404, new(*types.ReceiptHandleIsInvalid)},
		{"visibility out of range", func() error { return n.hide(url, handle, 43201) }, "InvalidParameterValue", 400, nil},
		{"in-flight limit", func() error { // [LIM-2]
			_, err := n.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &url})
			return err
		}, "OverLimit", 403, new(*types.OverLimit)},
		{"empty batch", func() error { return batch([]types.SendMessageBatchRequestEntry{}) }, aws0 + "EmptyBatchRequest", 400, new(*types.EmptyBatchRequest)},
		{"long batch", func() error { return batch(entries(strings.Split("abcdefghijk", "")...)) },
			aws0 + "TooManyEntriesInBatchRequest", 400, new(*types.TooManyEntriesInBatchRequest)},
		{"large batch", func() error { return batch(long) }, aws0 + "BatchRequestTooLong", 400, new(*types.BatchRequestTooLong)},
		{"bad entry id", func() error { return batch(entries("a b")) }, aws0 + "InvalidBatchEntryId", 400, new(*types.InvalidBatchEntryId)},
		{"same entry id", func() error { return batch(entries("a", "a")) }, aws0 + "BatchEntryIdsNotDistinct", 400, new(*types.BatchEntryIdsNotDistinct)},
		{"unknown attribute", func() error { return create("q", map[string]string{"Foobar": "1"}) }, "InvalidAttributeName", 400, new(*types.InvalidAttributeName)},
		{"bad attribute", func() error { return create("q", map[string]string{"DelaySeconds": "901"}) }, "InvalidAttributeValue", 400, new(*types.InvalidAttributeValue)},
		{"bad name", func() error { return create("a b", nil) }, "InvalidParameterValue", 400, nil},
		{"queue name is missing", func() error {
			_, err := n.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("")})
			return err
		}, "InvalidParameterValue", 400, nil},
	} {
		if err := refused(test.call(), test.code, test.status, test.target); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// The rules of 60 seconds hold unless they are switched off, and end when the time is over.
// [QUEUE-18, QUEUE-19, PURGE-3, PURGE-4]
func TestSixtySeconds(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.queue("orders"), t.Context()
	purge := func(n *node, url string) error {
		_, err := n.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &url})
		return err
	}
	drop := func(n *node, url string) {
		t.Helper()
		if _, err := n.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(n *node) error {
		_, err := n.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders")})
		return err
	}
	if err := purge(n, url); err != nil {
		t.Fatal(err)
	}
	if err := refused(purge(n, url), "AWS.SimpleQueueService.PurgeQueueInProgress", 403, new(*types.PurgeQueueInProgress)); err != nil {
		t.Error(err)
	}
	drop(n, url)
	if err := refused(create(n), "AWS.SimpleQueueService.QueueDeletedRecently", 400, new(*types.QueueDeletedRecently)); err != nil {
		t.Error(err)
	}
	// A restart does not shorten the wait.
	n = n.restart(nil)
	if err := refused(create(n), "AWS.SimpleQueueService.QueueDeletedRecently", 400, new(*types.QueueDeletedRecently)); err != nil {
		t.Error(err)
	}

	off := start(t, func(c *server.Config) { c.PurgeInterval, c.RecreateDelay = -1, -1 })
	url = off.queue("orders")
	for range 2 {
		if err := purge(off, url); err != nil {
			t.Error(err)
		}
		drop(off, url)
		off.queue("orders")
	}

	fast := start(t, func(c *server.Config) { c.TimeScale = 1000 })
	url = fast.queue("orders")
	if err := purge(fast, url); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second purge after 60 seconds", func() bool { return purge(fast, url) == nil })
	drop(fast, url)
	eventually(t, "a new queue after 60 seconds", func() bool { return create(fast) == nil })
}

// eventually tries until something is so, for at most a minute.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if so() {
			return
		}
	}
	t.Errorf("not so in time: %s", what)
}

// A deleted queue takes everything with it, and a new one of its name inherits nothing.
// [QUEUE-15, QUEUE-16, QUEUE-20, QUEUE-32, HND-19]
func TestRecreateQueue(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.RecreateDelay = -1 })
	url, ctx := n.queue("orders", "VisibilityTimeout", "7"), t.Context()
	if _, err := n.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: &url, Tags: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	n.send(url, "in flight")
	handle := n.one(url).ReceiptHandle
	n.send(url, "waiting")
	remove := func() error {
		_, err := n.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url})
		return err
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if err := refused(remove(), "AWS.SimpleQueueService.NonExistentQueue", 400, new(*types.QueueDoesNotExist)); err != nil {
		t.Error(err)
	}
	n.queue("orders")
	n.none(url, "in the new queue")
	if got := n.counters(url); got != [3]int{} {
		t.Errorf("counters of the new queue: got %v, want zeros", got)
	}
	if got := attributes(t, n, url, "VisibilityTimeout")["VisibilityTimeout"]; got != "30" {
		t.Errorf("visibility timeout of the new queue: got %s, want 30", got)
	}
	tags, err := n.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: &url})
	if err != nil || len(tags.Tags) != 0 {
		t.Errorf("tags of the new queue: got %v, %v", tags, err)
	}
	_, err = n.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: handle})
	if err := refused(err, "ReceiptHandleIsInvalid", 404, new(*types.ReceiptHandleIsInvalid)); err != nil {
		t.Error(err)
	}
}

func attributes(t *testing.T, n *node, url string, names ...types.QueueAttributeName) map[string]string {
	t.Helper()
	out, err := n.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
	if err != nil {
		t.Fatal(err)
	}
	return out.Attributes
}

// Pages follow one another until there are no more, and the list begins where the request says.
// [QUEUE-21 to QUEUE-26]
func TestListQueues(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	out, err := n.ListQueues(t.Context(), &sqs.ListQueuesInput{})
	if err != nil || out.QueueUrls != nil || out.NextToken != nil {
		t.Errorf("no queues: got %v, %v, want none", out, err)
	}
	var want []string
	for i := range 7 {
		want = append(want, n.queue(fmt.Sprintf("q-%d", i)))
	}
	n.queue("other")
	for _, size := range []int32{1, 3, 7, 1000} {
		var got []string
		pages := sqs.NewListQueuesPaginator(n.Client, &sqs.ListQueuesInput{QueueNamePrefix: aws.String("q-"), MaxResults: &size})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(page.QueueUrls) == 0 || len(page.QueueUrls) > int(size) {
				t.Errorf("a page of %d URLs, want 1 to %d", len(page.QueueUrls), size)
			}
			got = append(got, page.QueueUrls...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %q, want %q", size, got, want)
		}
	}
	_, err = n.ListQueues(t.Context(), &sqs.ListQueuesInput{MaxResults: aws.Int32(1001)})
	if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
		t.Error(err)
	}
}

// [ATTR-27 to ATTR-29, ATTR-34, ATTR-37, ATTR-38]
func TestQueueAttributes(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.Account, c.Region = "123456789012", "eu-west-1" })
	url := n.queue("orders")
	if got := attributes(t, n, url); got != nil {
		t.Errorf("no names: got %v, want nothing", got)
	}
	all := attributes(t, n, url, types.QueueAttributeNameAll)
	created := all["CreatedTimestamp"]
	if created == "" || all["LastModifiedTimestamp"] != created {
		t.Errorf("timestamps: got %q and %q, want the same", created, all["LastModifiedTimestamp"])
	}
	want := map[string]string{
		"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesDelayed": "0", "ApproximateNumberOfMessagesNotVisible": "0",
		"CreatedTimestamp": created, "LastModifiedTimestamp": created, "DelaySeconds": "0", "MaximumMessageSize": "1048576",
		"MessageRetentionPeriod": "345600", "QueueArn": "arn:aws:sqs:eu-west-1:123456789012:orders",
		"ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true", "VisibilityTimeout": "30",
	}
	if !maps.Equal(all, want) {
		t.Errorf("All: got %v, want %v", all, want)
	}
	_, err := n.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"DelaySeconds": "1", "VisibilityTimeout": "-1"}})
	if err := refused(err, "InvalidAttributeValue", 400, new(*types.InvalidAttributeValue)); err != nil {
		t.Error(err)
	}
	if got := attributes(t, n, url, "DelaySeconds")["DelaySeconds"]; got != "0" {
		t.Errorf("after a refusal: got %s, want 0", got)
	}
}

// [TAG-1, TAG-2, TAG-4, TAG-5, TAG-11, QUEUE-12]
func TestTags(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	ctx := t.Context()
	out, err := n.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders"), Tags: map[string]string{"team": "a", "empty": ""}})
	if err != nil {
		t.Fatal(err)
	}
	url := out.QueueUrl
	check := func(want map[string]string) {
		t.Helper()
		got, err := n.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: url})
		if err != nil || !maps.Equal(got.Tags, want) {
			t.Errorf("tags: got %v, %v, want %v", got, err, want)
		}
	}
	check(map[string]string{"team": "a", "empty": ""})
	_, err = n.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders"), Tags: map[string]string{"team": "a"}})
	if err := refused(err, "QueueAlreadyExists", 400, new(*types.QueueNameExists)); err != nil {
		t.Error("other tags:", err)
	}
	check(map[string]string{"team": "a", "empty": ""})
	if _, err := n.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: url, Tags: map[string]string{"team": "b", "Größe": "ü"}}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"team": "b", "empty": "", "Größe": "ü"})
	if _, err := n.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: url, TagKeys: []string{"team", "Größe", "absent"}}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"empty": ""})
	many := map[string]string{}
	for i := range 50 {
		many[fmt.Sprint(i)] = "x"
	}
	_, err = n.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: url, Tags: many})
	if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
		t.Error(err)
	}
	check(map[string]string{"empty": ""})
	_, err = n.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("many"), Tags: map[string]string{"aws:x": "y"}})
	if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
		t.Error(err)
	}
	many["50"] = "x"
	_, err = n.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("many"), Tags: many})
	if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
		t.Errorf("51 tags: %v", err)
	}
}

// A purge takes every message and nothing else. [PURGE-1, PURGE-2, PURGE-5, PURGE-6]
func TestPurge(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.queue("orders", "VisibilityTimeout", "31"), t.Context()
	n.send(url, "in flight")
	handle := n.one(url).ReceiptHandle
	n.send(url, "waiting")
	if _, err := n.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("delayed"), DelaySeconds: 900}); err != nil {
		t.Fatal(err)
	}
	if got := n.counters(url); got != [3]int{1, 1, 1} {
		t.Errorf("before: got %v, want one of each", got)
	}
	if _, err := n.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	if got := n.counters(url); got != [3]int{} {
		t.Errorf("after: got %v, want none", got)
	}
	n.none(url, "after the purge")
	n.delete(url, handle)
	if err := refused(n.hide(url, handle, 0), "InvalidParameterValue", 400, nil); err != nil {
		t.Error(err)
	}
	n.send(url, "new")
	if got := n.one(url); *got.Body != "new" {
		t.Errorf("got %q, want new", *got.Body)
	}
	if got := attributes(t, n, url, "VisibilityTimeout")["VisibilityTimeout"]; got != "31" {
		t.Errorf("visibility timeout: got %s, want 31", got)
	}
}
