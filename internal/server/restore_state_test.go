package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A queued is a message as the SQS API shows it.
type queued struct {
	MessageId, Body, ReceiptHandle, SequenceNumber string
	Attributes                                     map[string]string
}

// A restorable is a server that is backed up and restored, as a client sees it.
type restorable struct {
	*testing.T
	*Server
}

func (r *restorable) url(queue string) string {
	return "http://" + r.Addr() + "/000000000000/" + queue
}

func (r *restorable) must(action string, in map[string]any, out any) {
	r.Helper()
	if err := ask(r.Server, action, in, out); err != nil {
		r.Fatal(err)
	}
}

func (r *restorable) create(queue string, attributes map[string]string) {
	r.Helper()
	r.must("CreateQueue", map[string]any{"QueueName": queue, "Attributes": attributes}, nil)
}

// send sends a message, with further parameters.
func (r *restorable) send(queue, body string, more map[string]any) (sent queued) {
	r.Helper()
	in := map[string]any{"QueueUrl": r.url(queue), "MessageBody": body}
	for k, v := range more {
		in[k] = v
	}
	r.must("SendMessage", in, &sent)
	return sent
}

// receive waits until a message comes, for a minute at most.
func (r *restorable) receive(queue string, visibility int) queued {
	r.Helper()
	for range 4 {
		if got := r.poll(queue, visibility, 15); len(got) > 0 {
			return got[0]
		}
	}
	r.Fatalf("%s: no message comes", queue)
	return queued{}
}

func (r *restorable) poll(queue string, visibility, wait int) []queued {
	r.Helper()
	var got struct{ Messages []queued }
	r.must("ReceiveMessage", map[string]any{
		"QueueUrl": r.url(queue), "VisibilityTimeout": visibility, "WaitTimeSeconds": wait, "MessageSystemAttributeNames": []string{"All"},
	}, &got)
	return got.Messages
}

func (r *restorable) delete(queue, handle string) {
	r.Helper()
	r.must("DeleteMessage", map[string]any{"QueueUrl": r.url(queue), "ReceiptHandle": handle}, nil)
}

// counts returns how many messages are available, in flight and delayed.
func (r *restorable) counts(queue string) [3]int {
	r.Helper()
	names := []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"}
	var got struct{ Attributes map[string]string }
	r.must("GetQueueAttributes", map[string]any{"QueueUrl": r.url(queue), "AttributeNames": names}, &got)
	var n [3]int
	for i, name := range names {
		n[i], _ = strconv.Atoi(got.Attributes[name])
	}
	return n
}

func (r *restorable) wantCounts(when, queue string, want [3]int) {
	r.Helper()
	if got := r.counts(queue); got != want {
		r.Errorf("%s: %s has %v messages available, in flight and delayed, want %v", when, queue, got, want)
	}
}

func (r *restorable) wantReceives(m queued, want string) {
	r.Helper()
	if got := m.Attributes["ApproximateReceiveCount"]; got != want {
		r.Errorf("message %q has receive count %s, want %s", m.Body, got, want)
	}
}

// task returns the status of the latest move task of a queue, and how many it has moved.
func (r *restorable) task(queue string) (status string, moved int) {
	r.Helper()
	var got struct {
		Results []struct {
			Status                           string
			ApproximateNumberOfMessagesMoved int
		}
	}
	r.must("ListMessageMoveTasks", map[string]any{"SourceArn": r.arn(queue)}, &got)
	if len(got.Results) != 1 {
		r.Fatalf("there are %d tasks, want 1", len(got.Results))
	}
	return got.Results[0].Status, got.Results[0].ApproximateNumberOfMessagesMoved
}

func (r *restorable) arn(queue string) string {
	r.Helper()
	var got struct{ Attributes map[string]string }
	r.must("GetQueueAttributes", map[string]any{"QueueUrl": r.url(queue), "AttributeNames": []string{"QueueArn"}}, &got)
	return got.Attributes["QueueArn"]
}

// restoredIn backs the server up at this moment, lets it continue for a little with after, and
// continues with what was restored.
func (r *restorable) restoredIn(after func()) {
	r.Helper()
	b := takeBackup(r.T, r.Server)
	if after != nil {
		after()
	}
	r.Server, _ = restored(r.T, b)
}

func newRestorable(t *testing.T) *restorable {
	s, _ := run(t, config(t))
	return &restorable{t, s}
}

// A message in flight comes back once its timeout and the grace have passed, not earlier, with its
// receive count. Receipt handles of the earlier server are refused. [DUR-8, DUR-9, DUR-32]
func TestRestoredInFlight(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	r.create("orders", nil)
	r.create("long", nil)
	r.send("orders", "a", nil)
	r.send("long", "b", nil)
	var old queued
	var began time.Time
	for n := 1; n <= 3; n++ { // given back twice
		began = time.Now()
		visibility := 600
		if n == 3 {
			visibility = 2
		}
		old = r.receive("orders", visibility)
		r.wantReceives(old, strconv.Itoa(n))
		if n < 3 {
			r.must("ChangeMessageVisibility", map[string]any{"QueueUrl": r.url("orders"), "ReceiptHandle": old.ReceiptHandle, "VisibilityTimeout": 0}, nil)
		}
	}
	r.wantReceives(r.receive("long", 600), "1")
	r.restoredIn(func() { r.delete("orders", old.ReceiptHandle) }) // of which the backup knows nothing

	for action, more := range map[string]map[string]any{"DeleteMessage": nil, "ChangeMessageVisibility": {"VisibilityTimeout": 0}} {
		in := map[string]any{"QueueUrl": r.url("orders"), "ReceiptHandle": old.ReceiptHandle}
		for k, v := range more {
			in[k] = v
		}
		if err := ask(r.Server, action, in, nil); err == nil || !strings.Contains(err.Error(), "ReceiptHandleIsInvalid") {
			t.Errorf("%s with a handle of before: got %v, want that it is not valid", action, err)
		}
	}
	m := r.receive("orders", 600)
	if after := time.Since(began); after < 2*time.Second {
		t.Errorf("it comes again after %v, want its timeout of 2s at least", after)
	}
	if m.MessageId != old.MessageId || m.Attributes["ApproximateFirstReceiveTimestamp"] != old.Attributes["ApproximateFirstReceiveTimestamp"] {
		t.Errorf("got message %s, first received at %s, want %s and %s", m.MessageId,
			m.Attributes["ApproximateFirstReceiveTimestamp"], old.MessageId, old.Attributes["ApproximateFirstReceiveTimestamp"])
	}
	r.wantReceives(m, "4")
	if m.ReceiptHandle == old.ReceiptHandle {
		t.Error("the receipt handle is one of before")
	}
	r.delete("orders", m.ReceiptHandle)
	r.wantCounts("after its delete", "orders", [3]int{})
	r.wantCounts("within its timeout", "long", [3]int{0, 1, 0})
}

// Delayed messages are delayed still, and then delivered. [DELAY-1, DUR-32]
func TestRestoredDelays(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	r.create("soon", nil)
	r.create("later", map[string]string{"DelaySeconds": "900"})
	began := time.Now()
	r.send("soon", "a", map[string]any{"DelaySeconds": 4})
	r.send("later", "b", nil)
	r.restoredIn(nil)
	r.wantCounts("after the restore", "later", [3]int{0, 0, 1})
	m := r.receive("soon", 600)
	if after := time.Since(began); m.Body != "a" || after < 4*time.Second {
		t.Errorf("got %q after %v, want a after 4s at least", m.Body, after)
	}
	r.wantReceives(m, "1")
	r.wantCounts("while it is in flight", "soon", [3]int{0, 1, 0})
}

// A FIFO queue knows its earlier deduplication ids, and continues its sequence numbers and groups.
// [DEDUP-12, FIFO-17, FIFO-38, DUR-32]
func TestRestoredGroups(t *testing.T) {
	t.Parallel()
	r := newRestorable(t)
	r.create("line.fifo", map[string]string{"FifoQueue": "true"})
	fifo := func(dedup string) map[string]any {
		return map[string]any{"MessageGroupId": "g", "MessageDeduplicationId": dedup}
	}
	gone := r.send("line.fifo", "a", fifo("1"))
	r.delete("line.fifo", r.receive("line.fifo", 600).ReceiptHandle)
	first, second := r.send("line.fifo", "b", fifo("2")), r.send("line.fifo", "c", fifo("3"))
	r.receive("line.fifo", 2)
	var lost queued
	r.restoredIn(func() { lost = r.send("line.fifo", "d", fifo("4")) })

	for body, before := range map[string]queued{"a": gone, "b": first, "c": second} {
		dedup := fmt.Sprint(body[0] - 'a' + 1)
		if again := r.send("line.fifo", body, fifo(dedup)); again.MessageId != before.MessageId || again.SequenceNumber != before.SequenceNumber {
			t.Errorf("%s sent again is message %s with number %s, want %s and %s", body, again.MessageId, again.SequenceNumber, before.MessageId, before.SequenceNumber)
		}
	}
	again := r.send("line.fifo", "d", fifo("4")) // the backup is from before the first time
	if again.MessageId == lost.MessageId || again.SequenceNumber <= second.SequenceNumber {
		t.Errorf("d is message %s with number %s, want another one than %s with a number above %s", again.MessageId, again.SequenceNumber, lost.MessageId, second.SequenceNumber)
	}
	for _, want := range []queued{{Body: "b", MessageId: first.MessageId}, {Body: "c", MessageId: second.MessageId}, {Body: "d", MessageId: again.MessageId}} {
		m := r.receive("line.fifo", 600)
		if m.Body != want.Body || m.MessageId != want.MessageId {
			t.Errorf("got %s, message %s, want %s, %s", m.Body, m.MessageId, want.Body, want.MessageId)
		}
		r.wantReceives(m, map[bool]string{true: "2", false: "1"}[want.Body == "b"])
		r.delete("line.fifo", m.ReceiptHandle)
	}
	r.wantCounts("in the end", "line.fifo", [3]int{})
}

// A move task continues where it was, and every message arrives once. [MOVE-14, DUR-32]
func TestRestoredMove(t *testing.T) {
	t.Parallel()
	const messages = 40
	r := newRestorable(t)
	r.create("dead", nil)
	r.create("orders", map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":5}`, r.arn("dead"))})
	for n := range messages {
		r.send("dead", fmt.Sprint("m", n), nil)
	}
	r.must("StartMessageMoveTask", map[string]any{
		"SourceArn": r.arn("dead"), "DestinationArn": r.arn("orders"), "MaxNumberOfMessagesPerSecond": 10,
	}, nil)
	for {
		if _, moved := r.task("dead"); moved >= 3 {
			break
		}
		time.Sleep(20 * time.Millisecond) // a real server is at work
	}
	r.restoredIn(nil)
	status, moved := r.task("dead")
	t.Logf("after the restore the task is %s and has moved %d of %d", status, moved, messages)
	for deadline := time.Now().Add(time.Minute); status == "RUNNING" && time.Now().Before(deadline); status, moved = r.task("dead") {
		time.Sleep(50 * time.Millisecond)
	}
	if status != "COMPLETED" || moved != messages {
		t.Errorf("the task is %s and has moved %d, want COMPLETED and %d", status, moved, messages)
	}
	r.wantCounts("in the end", "dead", [3]int{})
	r.wantCounts("in the end", "orders", [3]int{messages, 0, 0})
	there := bodies(t, r.Server, "orders")
	for n := range messages {
		if body := fmt.Sprint("m", n); there[body] != 1 {
			t.Errorf("%s is there %d times, want once", body, there[body])
		}
	}
}
