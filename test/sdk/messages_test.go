package sdk

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// checksum is written down a second time here, from the rule and not from the server's code.
// [MD5-2, MD5-3, MD5-4]
func checksum(attributes map[string]types.MessageAttributeValue) string {
	var b []byte
	add := func(part []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		add([]byte(name))
		add([]byte(*a.DataType))
		if strings.HasPrefix(*a.DataType, "Binary") {
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

func text(kind, value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: &kind, StringValue: &value}
}

// A message comes back as it was sent; the SDK checks the checksum of the body in both answers.
// [SEND-3, SEND-6, SEND-7, MA-7, MA-14, MA-15, MD5-1, MD5-5, MD5-6, WIRE-16]
func TestSendAndReceive(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	// The timeout of zero is the queue's, because the SDK leaves a zero out of a receive.
	url, ctx := n.queue("orders", "VisibilityTimeout", "0"), t.Context()
	sent := map[string]types.MessageAttributeValue{
		"text":    text("String", "a \"quoted\" <text>\r\n\t &quot; \U0001F600"),
		"Text":    text("String.label", "ü"),
		"number":  text("Number", "0012.3400"),
		"integer": text("Number.bigint", "1234567890123456789012"),
		"bytes":   {DataType: aws.String("Binary"), BinaryValue: []byte{0, 0xff, 0x80, '\r', '\n'}},
		"picture": {DataType: aws.String("Binary.png"), BinaryValue: []byte("\x89PNG")},
		"größe":   text("String", "x"),
	}
	body := " {\"a\":\"b\\u0000\"}\r\n &quot; \u2028 \U0001F600 "
	out, err := n.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: &body, MessageAttributes: sent, MessageGroupId: aws.String("g"),
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := aws.ToString(out.MD5OfMessageAttributes), checksum(sent); got != want {
		t.Errorf("checksum of the attributes sent: got %s, want %s", got, want)
	}
	if got := aws.ToString(out.MD5OfMessageSystemAttributes); got != "5ae4d5d7636402d80f4eb6d213245a88" {
		t.Errorf("checksum of the system attributes: got %s", got)
	}
	if out.SequenceNumber != nil {
		t.Errorf("sequence number %s on a standard queue", *out.SequenceNumber)
	}
	before := time.Now()
	got := n.one(url)
	if *got.Body != body || *got.MessageId != *out.MessageId || *got.MD5OfBody != *out.MD5OfMessageBody {
		t.Errorf("received %q, %s, %s, want what was sent", *got.Body, *got.MessageId, *got.MD5OfBody)
	}
	if !reflect.DeepEqual(got.MessageAttributes, sent) {
		t.Errorf("attributes received: %v, want %v", got.MessageAttributes, sent)
	}
	if *got.MD5OfMessageAttributes != checksum(sent) {
		t.Errorf("checksum of the attributes received: got %s", *got.MD5OfMessageAttributes)
	}
	system := got.Attributes
	if system["SenderId"] != "000000000000" || system["MessageGroupId"] != "g" || system["ApproximateReceiveCount"] != "1" ||
		!strings.HasPrefix(system["AWSTraceHeader"], "Root=1-5759e988") || len(system) != 6 {
		t.Errorf("system attributes: got %v", system)
	}
	for _, name := range []string{"SentTimestamp", "ApproximateFirstReceiveTimestamp"} {
		var ms int64
		if fmt.Sscan(system[name], &ms); time.UnixMilli(ms).Sub(before).Abs() > time.Minute {
			t.Errorf("%s is %s, want about now in milliseconds", name, system[name])
		}
	}
	// The checksum is that of the attributes asked for. [MD5-6, RCV-17]
	got = n.one(url, func(in *sqs.ReceiveMessageInput) { in.MessageAttributeNames = []string{"t.*", "bytes", "none"} })
	want := map[string]types.MessageAttributeValue{"text": sent["text"], "bytes": sent["bytes"]}
	if !reflect.DeepEqual(got.MessageAttributes, want) || *got.MD5OfMessageAttributes != checksum(want) {
		t.Errorf("attributes asked for: got %v, %s", got.MessageAttributes, *got.MD5OfMessageAttributes)
	}
	// Nothing asked for, nothing there. [RCV-5, RCV-14, MD5-7]
	got = n.one(url, func(in *sqs.ReceiveMessageInput) { in.MessageAttributeNames, in.MessageSystemAttributeNames = nil, nil })
	if got.Attributes != nil || got.MessageAttributes != nil || got.MD5OfMessageAttributes != nil {
		t.Errorf("without a wish: got %v, %v, %v, want nothing", got.Attributes, got.MessageAttributes, got.MD5OfMessageAttributes)
	}
	n.delete(url, got.ReceiptHandle)
	if out, err := n.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &url}); err != nil || out.Messages != nil {
		t.Errorf("after the delete: got %v, %v, want no messages", out, err)
	}
}

// Messages of the largest size go in and come out, ten of them in one answer.
// [SIZE-1, SIZE-3, SIZE-4, SIZE-5, BATCH-8]
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.queue("orders"), t.Context()
	largest := 1 << 20
	if testing.Short() {
		largest = 1 << 17
		url = n.queue("smaller", "MaximumMessageSize", fmt.Sprint(largest))
	}
	// Each byte of this body is six on the wire.
	quotes := strings.Repeat("\u0009\n\"\\ü", largest/6)
	bodies := []string{quotes + strings.Repeat("x", largest-len(quotes))}
	for i := range 9 {
		bodies = append(bodies, strings.Repeat(string(rune('a'+i)), largest))
	}
	for _, body := range bodies {
		n.send(url, body)
	}
	_, err := n.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(bodies[1] + "x")})
	if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
		t.Error(err)
	}
	got := n.receive(url)
	if len(got) != len(bodies) {
		t.Fatalf("received %d messages, want %d", len(got), len(bodies))
	}
	for i, m := range got {
		if *m.Body != bodies[i] {
			t.Errorf("message %d came back different", i)
		}
		n.delete(url, m.ReceiptHandle)
	}
	// Attributes count, with their decoded bytes.
	value := bytes.Repeat([]byte{0xff}, largest-len("x")-len("b")-len("Binary"))
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"),
		MessageAttributes: map[string]types.MessageAttributeValue{"b": {DataType: aws.String("Binary"), BinaryValue: value}}}
	if _, err := n.SendMessage(ctx, in); err != nil {
		t.Error(err)
	}
	if m := n.one(url); !bytes.Equal(m.MessageAttributes["b"].BinaryValue, value) {
		t.Error("the attribute came back different")
	}
	in.MessageBody = aws.String("xx")
	_, err = n.SendMessage(ctx, in)
	if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
		t.Error(err)
	}
}

// Batches succeed and fail entry by entry. [BATCH-10 to BATCH-14, BATCH-19 to BATCH-21]
func TestBatches(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.queue("orders", "MaximumMessageSize", "1024"), t.Context()
	entry := func(id, body string) types.SendMessageBatchRequestEntry {
		return types.SendMessageBatchRequestEntry{Id: &id, MessageBody: &body}
	}
	good := entry("good", "one")
	good.MessageAttributes = map[string]types.MessageAttributeValue{"k": text("String", "x")}
	late := entry("late", "two")
	late.DelaySeconds = 901
	sent, err := n.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{
		entry("large", strings.Repeat("x", 1025)), good, late, entry("letters", "\x00"), entry("last", "three"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(sent.Successful) != 2 || *sent.Successful[0].Id != "good" || *sent.Successful[1].Id != "last" ||
		aws.ToString(sent.Successful[0].MD5OfMessageAttributes) != "a45daa70926828a2f0a1db3418e6feb4" {
		t.Errorf("successful: got %v", describe(sent.Successful))
	}
	checkFailed(t, "send", sent.Failed,
		"large InvalidParameterValue One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.",
		"late InvalidParameterValue Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
		"letters InvalidMessageContents Invalid binary character '#x0' was found in the message body, the set of allowed characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].")

	got := n.receive(url)
	if len(got) != 2 || *got[0].Body != "one" || *got[1].Body != "three" || *got[0].MessageId != *sent.Successful[0].MessageId {
		t.Fatalf("received %v", describe(got))
	}
	const invalid = " ReceiptHandleIsInvalid The input receipt handle \"garbage\" is not a valid receipt handle."
	change := func(id string, handle *string, seconds int32) types.ChangeMessageVisibilityBatchRequestEntry {
		return types.ChangeMessageVisibilityBatchRequestEntry{Id: &id, ReceiptHandle: handle, VisibilityTimeout: seconds}
	}
	changed, err := n.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
		change("range", got[0].ReceiptHandle, -85), change("b", got[1].ReceiptHandle, 0), change("none", aws.String("garbage"), 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(changed.Successful) != 1 || *changed.Successful[0].Id != "b" {
		t.Errorf("changed: got %v", describe(changed.Successful))
	}
	checkFailed(t, "change", changed.Failed,
		"range InvalidParameterValue Value -85 for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be an integer between 0 and 43200.",
		"none"+invalid)
	again := n.one(url)
	if *again.Body != "three" || count(again) != "2" {
		t.Errorf("received %q the %sth time, want three the second time", *again.Body, count(again))
	}

	remove := func(entries ...types.DeleteMessageBatchRequestEntry) *sqs.DeleteMessageBatchOutput {
		t.Helper()
		out, err := n.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: entries})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one := types.DeleteMessageBatchRequestEntry{Id: aws.String("one"), ReceiptHandle: got[0].ReceiptHandle}
	three := types.DeleteMessageBatchRequestEntry{Id: aws.String("three"), ReceiptHandle: again.ReceiptHandle}
	garbage := types.DeleteMessageBatchRequestEntry{Id: aws.String("garbage"), ReceiptHandle: aws.String("garbage")}
	removed := remove(three, garbage, one)
	if len(removed.Successful) != 2 || *removed.Successful[0].Id != "three" || *removed.Successful[1].Id != "one" {
		t.Errorf("removed: got %v", describe(removed.Successful))
	}
	checkFailed(t, "delete", removed.Failed, "garbage"+invalid)
	if got := remove(garbage); got.Successful != nil || len(got.Failed) != 1 {
		t.Errorf("all failed: got %v, %v", describe(got.Successful), describe(got.Failed))
	}
	if got := remove(one); got.Failed != nil || len(got.Successful) != 1 {
		t.Errorf("none failed: got %v, %v", describe(got.Successful), describe(got.Failed))
	}
	if got := n.counters(url); got != [3]int{} {
		t.Errorf("counters: got %v, want zeros", got)
	}
}

func describe(v any) string { return fmt.Sprintf("%+v", v) }

// checkFailed compares entries with texts of the form "id code message". All of them are the
// client's fault.
func checkFailed(t *testing.T, what string, got []types.BatchResultErrorEntry, want ...string) {
	t.Helper()
	var texts []string
	for _, e := range got {
		if !e.SenderFault {
			t.Errorf("%s: %s is not the sender's fault", what, *e.Id)
		}
		texts = append(texts, *e.Id+" "+*e.Code+" "+aws.ToString(e.Message))
	}
	if !slices.Equal(texts, want) {
		t.Errorf("%s: got failures %q, want %q", what, texts, want)
	}
}

// The life of receipt handles.
// [HND-1, HND-5, HND-8, HND-9, HND-11 to HND-15, VIS-3, VIS-6, RCV-11, RCV-12]
func TestHandles(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, other := n.queue("orders"), n.queue("others")
	n.send(url, "x")
	first := n.one(url)
	if err := n.hide(url, first.ReceiptHandle, 0); err != nil {
		t.Errorf("change with the current handle: %v", err)
	}
	second := n.one(url)
	if *first.ReceiptHandle == *second.ReceiptHandle || len(*first.ReceiptHandle) > 1024 {
		t.Errorf("handles %s and %s, want two", *first.ReceiptHandle, *second.ReceiptHandle)
	}
	if count(first) != "1" || count(second) != "2" || first.Attributes["ApproximateFirstReceiveTimestamp"] != second.Attributes["ApproximateFirstReceiveTimestamp"] {
		t.Errorf("attributes of two receives: %v, %v", first.Attributes, second.Attributes)
	}
	n.delete(url, first.ReceiptHandle)
	if got := n.counters(url); got != [3]int{0, 1, 0} {
		t.Errorf("after a delete with the older handle: counters %v, want one in flight", got)
	}
	if err := n.hide(url, first.ReceiptHandle, 0); err != nil {
		t.Errorf("change with the older handle: %v", err)
	}
	third := n.one(url)
	n.delete(url, third.ReceiptHandle)
	n.delete(url, third.ReceiptHandle)
	gone := n.hide(url, third.ReceiptHandle, 1)
	if err := refused(gone, "InvalidParameterValue", 400, nil); err != nil {
		t.Error(err)
	} else if want := "Value " + *third.ReceiptHandle + " for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change."; !strings.Contains(gone.Error(), want) {
		t.Errorf("got %v, want %s", gone, want)
	}
	forged := []byte(*third.ReceiptHandle)
	forged[20] ^= 1
	for _, handle := range []string{"garbage", string(forged), *third.ReceiptHandle + "A"} {
		if err := refused(n.hide(url, &handle, 1), "ReceiptHandleIsInvalid", 404, new(*types.ReceiptHandleIsInvalid)); err != nil {
			t.Error(err)
		}
	}
	_, err := n.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &other, ReceiptHandle: third.ReceiptHandle})
	if err := refused(err, "ReceiptHandleIsInvalid", 404, new(*types.ReceiptHandleIsInvalid)); err != nil {
		t.Error(err)
	}
}
