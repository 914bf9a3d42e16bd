package sdk

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// move starts a move task and returns its handle.
func (n *node) move(source string, change ...func(*sqs.StartMessageMoveTaskInput)) string {
	n.t.Helper()
	in := &sqs.StartMessageMoveTaskInput{SourceArn: &source}
	for _, c := range change {
		c(in)
	}
	out, err := n.StartMessageMoveTask(n.t.Context(), in)
	if err != nil {
		n.t.Fatal(err)
	}
	return *out.TaskHandle
}

// tasks lists the move tasks of a queue.
func (n *node) tasks(source string) []types.ListMessageMoveTasksResultEntry {
	n.t.Helper()
	out, err := n.ListMessageMoveTasks(n.t.Context(), &sqs.ListMessageMoveTasksInput{SourceArn: &source, MaxResults: aws.Int32(10)})
	if err != nil {
		n.t.Fatal(err)
	}
	return out.Results
}

// task returns the latest task of a queue once it has a status.
func (n *node) task(source, status string) (task types.ListMessageMoveTasksResultEntry) {
	n.t.Helper()
	eventually(n.t, "the task is "+status, func() bool {
		tasks := n.tasks(source)
		if len(tasks) > 0 {
			task = tasks[0]
		}
		return aws.ToString(task.Status) == status
	})
	return task
}

// bury makes dead letters of what is sent to a queue.
func (n *node) bury(url, dlq string, bodies ...string) {
	n.t.Helper()
	before := n.counters(dlq)[0]
	for _, body := range bodies {
		n.send(url, body)
	}
	for _, m := range n.receive(url) {
		if err := n.hide(url, m.ReceiptHandle, 0); err != nil {
			n.t.Fatal(err)
		}
	}
	n.none(url, "the attempt that moves")
	if got := n.counters(dlq)[0]; got != before+len(bodies) {
		n.t.Fatalf("%d dead letters, want %d", got, before+len(bodies))
	}
}

// Without a destination every message goes back to the queue it came from, as a new message; what
// was asked for and done is listed, and remembered.
// [MOVE-1, MOVE-8, MOVE-9, MOVE-11, MOVE-14 to MOVE-17]
func TestMoveBack(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		dlq := n.queue("dlq")
		source := n.arn(dlq)
		orders := n.queue("orders", "RedrivePolicy", redrive(source, 1))
		refunds := n.queue("refunds", "RedrivePolicy", redrive(source, 1))
		if got := n.tasks(source); len(got) != 0 {
			t.Errorf("before the first task: got %v", describe(got))
		}
		n.bury(orders, dlq, "a", "b")
		n.bury(refunds, dlq, "c")
		dead := n.receive(dlq, timeout(1)) // for the ids; they come back within a second
		eventually(t, "the dead letters are there again", func() bool { return n.counters(dlq) == [3]int{3, 0, 0} })

		began := time.Now()
		handle := n.move(source)
		text, err := base64.StdEncoding.DecodeString(handle)
		if err != nil {
			t.Errorf("handle %q: %v", handle, err)
		}
		if want := `^\{"taskId":"[0-9a-f-]{36}","sourceArn":"` + regexp.QuoteMeta(source) + `"\}$`; !regexp.MustCompile(want).Match(text) {
			t.Errorf("handle of %s, want it to match %s", text, want)
		}
		check := func(task types.ListMessageMoveTasksResultEntry) {
			t.Helper()
			if task.ApproximateNumberOfMessagesMoved != 3 || aws.ToInt64(task.ApproximateNumberOfMessagesToMove) != 3 || aws.ToString(task.SourceArn) != source {
				t.Errorf("task: got %+v, want 3 of 3 moved from %s", task, source)
			}
			if task.DestinationArn != nil || task.MaxNumberOfMessagesPerSecond != nil || task.TaskHandle != nil || task.FailureReason != nil {
				t.Errorf("task: got %+v, want none of what was not given or is over", task)
			}
			if age := began.Sub(time.UnixMilli(task.StartedTimestamp)).Abs(); age > time.Minute {
				t.Errorf("task: started at %d, want about now in milliseconds", task.StartedTimestamp)
			}
		}
		check(n.task(source, "COMPLETED"))
		n = again(n, nil)
		check(n.task(source, "COMPLETED"))
		got := append(n.get("orders", "the queue of two", "a b"), n.get("refunds", "the queue of one", "c")...)
		for i, m := range got {
			if *m.MessageId == *dead[i].MessageId || count(m) != "1" || m.Attributes["DeadLetterQueueSourceArn"] != "" {
				t.Errorf("moved: got %s with %v, want a new message", *m.MessageId, m.Attributes)
			}
		}
		if got := n.counters("dlq"); got != [3]int{} {
			t.Errorf("counters: got %v, want nothing left", got)
		}
		second := n.move(source)
		n.task(source, "COMPLETED")
		if tasks := n.tasks(source); len(tasks) != 2 || second == handle || tasks[0].ApproximateNumberOfMessagesMoved != 0 {
			t.Errorf("got %v, want the second task and then the first", describe(tasks))
		}
		if latest, err := n.ListMessageMoveTasks(t.Context(), &sqs.ListMessageMoveTasksInput{SourceArn: &source}); err != nil || len(latest.Results) != 1 {
			t.Errorf("without MaxResults: got %v, %v, want the latest", latest, err)
		}
	})
}

// A task with a rate takes its time, can be cancelled, and continues after a restart where it was.
// [MOVE-5, MOVE-13, MOVE-14, MOVE-16, MOVE-17, MOVE-19, MOVE-21]
func TestMoveSlowly(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		dlq := n.queue("dlq")
		source := n.arn(dlq)
		url := n.queue("orders", "RedrivePolicy", redrive(source, 1))
		other := n.queue("retry")
		destination := n.arn(other)
		n.bury(url, dlq, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		slowly := func(in *sqs.StartMessageMoveTaskInput) {
			in.DestinationArn, in.MaxNumberOfMessagesPerSecond = &destination, aws.Int32(2)
		}
		handle := n.move(source, slowly)
		task := n.task(source, "RUNNING")
		if aws.ToString(task.TaskHandle) != handle || aws.ToString(task.DestinationArn) != destination || aws.ToInt32(task.MaxNumberOfMessagesPerSecond) != 2 ||
			aws.ToInt64(task.ApproximateNumberOfMessagesToMove) != 10 {
			t.Errorf("task: got %+v, want handle, destination, rate, and 10 to move", task)
		}
		_, err := n.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &source})
		if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
			t.Errorf("a second task: %v", err)
		}
		eventually(t, "the first moves", func() bool { return n.counters(other)[0] >= 1 })
		n = again(n, nil)
		before := n.counters("retry")[0]
		eventually(t, "it goes on", func() bool { return n.counters("retry")[0] > before })
		out, err := n.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
		if err != nil {
			t.Fatal(err)
		}
		task = n.task(source, "CANCELLED")
		moved, left := n.counters("retry")[0], n.counters("dlq")[0]
		if moved+left != 10 || left == 0 || int64(moved) < out.ApproximateNumberOfMessagesMoved || task.ApproximateNumberOfMessagesMoved != int64(moved) || task.TaskHandle != nil {
			t.Errorf("cancelled: %d moved and %d left, answer %d, task %+v", moved, left, out.ApproximateNumberOfMessagesMoved, task)
		}
		_, err = n.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
		if err := refused(err, "ResourceNotFoundException", 404, new(*types.ResourceNotFoundException)); err != nil {
			t.Errorf("cancel once more: %v", err)
		}
		// Oldest first, and the rest with another task. [MOVE-12]
		var want string
		for i := range moved {
			want += fmt.Sprint(i) + " "
		}
		n.get("retry", "what was moved", want[:len(want)-1])
		n = again(n, nil)
		n.task(source, "CANCELLED")
		n.move(source)
		n.task(source, "COMPLETED")
		if got := n.counters("orders")[0]; got != left {
			t.Errorf("%d came back, want the %d that were left", got, left)
		}
	})
}

// Wherever a restart interrupts a move, every message is in one queue once. [MOVE-14, DLQ-34]
func TestMoveAndCrash(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	dlq := n.queue("dlq")
	source := n.arn(dlq)
	n.queue("orders", "RedrivePolicy", redrive(source, 1))
	other := n.queue("retry")
	const messages = 200
	for i := range messages {
		n.send(dlq, fmt.Sprint(i)) // with a destination it does not matter where they are from
	}
	destination := n.arn(other)
	n.move(source, func(in *sqs.StartMessageMoveTaskInput) {
		in.DestinationArn, in.MaxNumberOfMessagesPerSecond = &destination, aws.Int32(100)
	})
	for n.counters("retry")[0] < messages/4 {
		time.Sleep(10 * time.Millisecond)
	}
	n = n.crash(nil)
	n.task(source, "COMPLETED")
	seen := map[string]int{}
	for {
		got := n.receive("retry", timeout(600))
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			seen[*m.Body]++
		}
	}
	for i := range messages {
		if seen[fmt.Sprint(i)] != 1 {
			t.Errorf("message %d is there %d times, want once", i, seen[fmt.Sprint(i)])
		}
	}
	if got := n.counters("dlq"); got != [3]int{} {
		t.Errorf("counters: got %v, want nothing left", got)
	}
}

// A task that cannot continue says why, and leaves the rest where it is. [MOVE-10, MOVE-16,
// MOVE-18]
func TestMoveFails(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		dlq := n.queue("dlq")
		source := n.arn(dlq)
		url := n.queue("orders", "RedrivePolicy", redrive(source, 1))
		other := n.queue("retry")
		destination := n.arn(other)
		n.bury(url, dlq, "a", "b", "c")
		n.move(source, func(in *sqs.StartMessageMoveTaskInput) {
			in.DestinationArn, in.MaxNumberOfMessagesPerSecond = &destination, aws.Int32(1)
		})
		eventually(t, "the first moves", func() bool { return n.counters(other)[0] >= 1 })
		if _, err := n.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &other}); err != nil {
			t.Fatal(err)
		}
		n = again(n, nil)
		task := n.task(source, "FAILED")
		if aws.ToString(task.FailureReason) != "AWS.SimpleQueueService.NonExistentQueue" || task.TaskHandle != nil {
			t.Errorf("destination deleted: got %+v", task)
		}
		left := n.counters("dlq")[0]
		if int64(left)+task.ApproximateNumberOfMessagesMoved != 3 {
			t.Errorf("%d left and %d moved, want 3 together", left, task.ApproximateNumberOfMessagesMoved)
		}

		n.send("dlq", "nowhere")
		n.move(source)
		task = n.task(source, "FAILED")
		if aws.ToString(task.FailureReason) != "CouldNotDetermineMessageSource" || task.ApproximateNumberOfMessagesMoved != int64(left) {
			t.Errorf("no source: got %+v, want %d moved", task, left)
		}
		n = again(n, nil)
		n.task(source, "FAILED")
		n.get("dlq", "what cannot be moved", "nowhere")
	})
}

// On FIFO queues a move keeps the group and the order in it. [MOVE-7, MOVE-9, MOVE-11]
func TestMoveGroups(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	dlq := n.fifo("dlq.fifo")
	source := n.arn(dlq)
	url := n.fifo("orders.fifo", "RedrivePolicy", redrive(source, 1))
	for i := range 3 {
		n.put(url, "a", fmt.Sprint("a", i), fmt.Sprint("a", i))
		n.put(url, "b", fmt.Sprint("b", i), fmt.Sprint("b", i))
	}
	for _, m := range n.get(url, "all", "a0 a1 a2 b0 b1 b2") {
		if err := n.hide(url, m.ReceiptHandle, 0); err != nil {
			t.Fatal(err)
		}
	}
	n.none(url, "the attempt that moves")
	n.move(source)
	n.task(source, "COMPLETED")
	for i, m := range n.get(url, "all again", "a0 a1 a2 b0 b1 b2") {
		if group := m.Attributes["MessageGroupId"]; group != string("ab"[i/3]) || count(m) != "1" {
			t.Errorf("%s: got group %s, received for the %sth time", *m.Body, group, count(m))
		}
	}

	standard := n.arn(n.queue("standard"))
	_, err := n.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &source, DestinationArn: &standard})
	if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
		t.Errorf("another type: %v", err)
	}
}

// [MOVE-1 to MOVE-4, MOVE-6, MOVE-7, MOVE-20, MOVE-21]
func TestMoveRefusals(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	ctx := t.Context()
	dlq := n.queue("dlq")
	source := n.arn(dlq)
	orders := n.arn(n.queue("orders", "RedrivePolicy", redrive(source, 1)))
	begin := func(source, destination string, rate int32) error {
		in := &sqs.StartMessageMoveTaskInput{SourceArn: &source}
		if destination != "" {
			in.DestinationArn = &destination
		}
		if rate != 0 {
			in.MaxNumberOfMessagesPerSecond = &rate
		}
		_, err := n.StartMessageMoveTask(ctx, in)
		return err
	}
	cancel := func(task map[string]string) error {
		text, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.CancelMessageMoveTask(ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: aws.String(base64.StdEncoding.EncodeToString(text))})
		return err
	}
	list := func(source string, limit int32) error {
		_, err := n.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: &source, MaxResults: &limit})
		return err
	}
	_, garbage := n.CancelMessageMoveTask(ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: aws.String("garbage")})
	const unknownID = "01234567-89ab-4cde-8f01-23456789abcd"
	const invalid, absent = "InvalidParameterValue", "ResourceNotFoundException"
	for _, test := range []struct {
		name string
		err  error
		code string
	}{
		{"no dead-letter queue", begin(orders, "", 0), invalid},
		{"unknown source", begin(source+"x", "", 0), absent},
		{"source of another account", begin("arn:aws:sqs:us-east-1:999999999999:dlq", "", 0), absent},
		{"unknown destination", begin(source, source+"x", 0), absent},
		{"no ARN", begin("dlq", "", 0), invalid},
		{"no destination ARN", begin(source, "orders", 0), invalid},
		{"rate", begin(source, "", 501), invalid},
		{"to itself", begin(source, source, 0), invalid},
		{"list of unknown", list(source+"x", 1), absent},
		{"too long a list", list(source, 11), invalid},
		{"garbage", garbage, invalid},
		{"cancel of unknown source", cancel(map[string]string{"taskId": unknownID, "sourceArn": source + "x"}), absent},
		{"cancel of unknown task", cancel(map[string]string{"taskId": unknownID, "sourceArn": source}), absent},
	} {
		status, target := 400, any(nil)
		if test.code == absent {
			status, target = 404, new(*types.ResourceNotFoundException)
		}
		if err := refused(test.err, test.code, status, target); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
