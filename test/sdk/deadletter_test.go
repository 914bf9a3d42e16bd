package sdk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// arn returns the ARN of a queue.
func (n *node) arn(url string) string {
	n.t.Helper()
	return attributes(n.t, n, url, types.QueueAttributeNameQueueArn)["QueueArn"]
}

// redrive is a redrive policy with the count as SQS gives it back.
func redrive(target string, receives int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":%d}`, target, receives)
}

// exhaust receives the one message of a queue so often that the next receive moves it.
func (n *node) exhaust(url string, receives int) (handle *string) {
	n.t.Helper()
	for range receives {
		m := n.one(url)
		handle = m.ReceiptHandle
		if err := n.hide(url, handle, 0); err != nil {
			n.t.Fatal(err)
		}
	}
	return handle
}

func source(m types.Message) string {
	return m.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)]
}

// A pipeline of downloads: a file that is registered twice is one message, whatever the second body
// says, and one that cannot be worked on is out of the way after three attempts, with all that is
// known about it. Restarts make no difference.
// [DEDUP-3, DEDUP-13, DEDUP-14, DLQ-1, DLQ-2, DLQ-3, DLQ-22, DLQ-23, DLQ-24, DLQ-27 to DLQ-29, FIFO-36]
func TestDownloadPipeline(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		dlq := n.fifo("data-download-dlq.fifo", "MessageRetentionPeriod", "1209600")
		target := n.arn(dlq)
		url := n.fifo("data-download-queue.fifo",
			"ContentBasedDeduplication", "true",
			"VisibilityTimeout", "3600",
			"MessageRetentionPeriod", "1209600",
			"KmsMasterKeyId", "alias/aws/sqs",
			"RedrivePolicy", `{"maxReceiveCount": "3", "deadLetterTargetArn": "`+target+`"}`)
		origin := n.arn(url)
		if got := attributes(t, n, url, "RedrivePolicy")["RedrivePolicy"]; got != redrive(target, 3) {
			t.Errorf("redrive policy: got %s, want %s", got, redrive(target, 3))
		}

		const group, file = "data-download-group", "accounts-2026-02-28"
		body := `{"FileID":"` + file + `","Entity":"accounts","BatchID":"1"}`
		first := n.put(url, group, file, body)
		same(t, "the same file in another batch", n.put(url, group, file, strings.Replace(body, `"1"`, `"2"`, 1)), first)
		next := n.put(url, group, "payments-2026-02-28", "next")

		for attempt := range 3 {
			m := n.one(url, atMost(1))
			if *m.Body != body || count(m) != fmt.Sprint(attempt+1) || source(m) != "" {
				t.Errorf("attempt %d: got %s, received %s times, from %q", attempt+1, *m.Body, count(m), source(m))
			}
			if attempt == 1 {
				n = again(n, nil)
				url, dlq = "data-download-queue.fifo", "data-download-dlq.fifo"
			}
			if err := n.hide(url, m.ReceiptHandle, 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := n.counters(dlq); got != [3]int{} {
			t.Errorf("dead letters before the next attempt: got %v, want none", got)
		}
		// The next attempt gets the next file.
		if m := n.one(url); *m.Body != "next" || *m.MessageId != *next.MessageId || count(m) != "1" {
			t.Errorf("the attempt after the third: got %s the %sth time, want the next file", *m.Body, count(m))
		}
		if source, dead := n.counters(url), n.counters(dlq); source != [3]int{0, 1, 0} || dead != [3]int{1, 0, 0} {
			t.Errorf("counters: got %v and %v, want one in flight and one dead letter", source, dead)
		}
		same(t, "a file that is a dead letter", n.put(url, group, file, body), first)

		n = again(n, nil)
		for attempt := range 2 {
			m := n.one(dlq)
			system := m.Attributes
			if *m.Body != body || *m.MessageId != *first.MessageId || count(m) != fmt.Sprint(attempt+4) || source(m) != origin ||
				system["MessageGroupId"] != group || system["MessageDeduplicationId"] != *first.MessageId || sequence(m) == "" {
				t.Errorf("dead letter: got %s, %s with %v, want what was sent, from %s", *m.Body, *m.MessageId, system, origin)
			}
			if err := n.hide(dlq, m.ReceiptHandle, 0); err != nil {
				t.Fatal(err)
			}
			n = again(n, nil)
		}
	})
}

// A handle of the source is of no use once its message has moved. [FIFO-36, DLQ-34]
func TestHandleAfterTheMove(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	for _, suffix := range []string{"", ".fifo"} {
		create := n.queue
		if suffix != "" {
			create = n.fifo
		}
		dlq := create("dlq" + suffix)
		url := create("orders"+suffix, "RedrivePolicy", redrive(n.arn(dlq), 1))
		if suffix == "" {
			n.send(url, "x")
		} else {
			n.put(url, "g", "1", "x")
		}
		handle := n.exhaust(url, 1)
		n.none(url, "the attempt that moves")
		n.delete(url, handle)
		if err := refused(n.hide(url, handle, 0), "InvalidParameterValue", 400, nil); err != nil {
			t.Error(err)
		}
		if m := n.one(dlq); count(m) != "2" {
			t.Errorf("%s: dead letter received for the %sth time, want the second", dlq, count(m))
		}
	}
}

// A dead-letter queue that has one of its own passes on unconsumed messages, and the receive count
// continues all the way. A move wakes consumers that wait for dead letters.
// [DLQ-2, DLQ-20, DLQ-21, DLQ-22, DLQ-23, DLQ-24, DLQ-31, DLQ-32]
func TestDeadLetterChain(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		parking := n.queue("parking", "DelaySeconds", "900")
		dlq := n.queue("dlq", "RedrivePolicy", redrive(n.arn(parking), 3))
		url := n.queue("orders", "RedrivePolicy", redrive(n.arn(dlq), 1))
		id := n.send(url, "x")
		m := n.one(url)
		sent := m.Attributes["SentTimestamp"]
		if got := n.counters(dlq); got != [3]int{} {
			t.Errorf("dead letters after the first receive: got %v, want none", got)
		}
		n = again(n, nil)
		url, dlq, parking = "orders", "dlq", "parking"
		if err := n.hide(url, m.ReceiptHandle, 0); err != nil {
			t.Fatal(err)
		}

		waiting := n.poll(t.Context(), dlq, 20)
		begun()
		n.none(url, "the attempt that moves")
		m = woken(t, "a dead letter", <-waiting, "x")
		if *m.MessageId != id || count(m) != "2" || source(m) != n.arn(url) || m.Attributes["SentTimestamp"] != sent {
			t.Errorf("dead letter: got %s with %v, want %s for the second time, sent at %s", *m.MessageId, m.Attributes, id, sent)
		}
		if err := n.hide(dlq, m.ReceiptHandle, 0); err != nil {
			t.Fatal(err)
		}
		n = again(n, nil)
		n.exhaust(dlq, 1)
		n.none(dlq, "the attempt that moves on")
		n = again(n, nil)
		m = n.one(parking)
		if *m.MessageId != id || count(m) != "4" || source(m) != n.arn(dlq) {
			t.Errorf("parked: got %s with %v, want %s for the fourth time, from %s", *m.MessageId, m.Attributes, id, n.arn(dlq))
		}
		if got := []([3]int){n.counters(url), n.counters(dlq), n.counters(parking)}; !slices.Equal(got, [][3]int{{}, {}, {0, 1, 0}}) {
			t.Errorf("counters: got %v, want one in flight at the end of the chain", got)
		}
	})
}

// The API reports where messages go and come from, page by page, and refuses impossible policies.
// [DLQ-4, DLQ-5, DLQ-7 to DLQ-11, DLQ-14, DLQ-35]
func TestDeadLetterPolicies(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	ctx := t.Context()
	dlq := n.queue("dlq")
	list := func() (urls []string) {
		t.Helper()
		pages := sqs.NewListDeadLetterSourceQueuesPaginator(n.Client, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &dlq, MaxResults: aws.Int32(2)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if page.QueueUrls == nil || len(page.QueueUrls) > 2 {
				t.Errorf("a page: got %q, want a list of at most two", page.QueueUrls)
			}
			urls = append(urls, page.QueueUrls...)
		}
		return urls
	}
	set := func(url, policy string) error {
		_, err := n.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"RedrivePolicy": policy}})
		return err
	}
	if got := list(); len(got) != 0 {
		t.Errorf("no sources: got %q", got)
	}
	target := n.arn(dlq)
	var want []string
	for i := range 5 {
		want = append(want, n.queue(fmt.Sprint("q", i), "RedrivePolicy", redrive(target, 5)))
	}
	if err := set(dlq, redrive(target, 5)); err != nil { // itself
		t.Fatal(err)
	}
	if got := list(); !slices.Equal(got, append([]string{dlq}, want...)) {
		t.Errorf("sources: got %q, want %q and itself", got, want)
	}
	if err := set(dlq, ""); err != nil {
		t.Fatal(err)
	}
	if got := attributes(t, n, dlq, types.QueueAttributeNameAll)["RedrivePolicy"]; got != "" {
		t.Errorf("redrive policy that was taken away: got %s", got)
	}
	if _, err := n.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &want[0]}); err != nil {
		t.Fatal(err)
	}
	if got := list(); !slices.Equal(got, want[1:]) {
		t.Errorf("sources: got %q, want %q", got, want[1:])
	}

	closed := n.queue("closed", "RedriveAllowPolicy", `{"redrivePermission":"denyAll"}`)
	fifo := n.fifo("dlq.fifo")
	url := n.queue("orders")
	const invalid = "InvalidParameterValue"
	for _, test := range []struct {
		name, policy, code string
		target             any
	}{
		{"no JSON", "x", "InvalidAttributeValue", new(*types.InvalidAttributeValue)},
		{"no count", `{"deadLetterTargetArn":"` + target + `"}`, invalid, nil},
		{"count", redrive(target, 1001), invalid, nil},
		{"no ARN", redrive("dlq", 5), invalid, nil},
		{"unknown target", redrive(target+"x", 5), invalid, nil},
		{"FIFO target", redrive(n.arn(fifo), 5), invalid, nil},
		{"closed target", redrive(n.arn(closed), 5), invalid, nil},
	} {
		if err := refused(set(url, test.policy), test.code, 400, test.target); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	_, err := n.ListDeadLetterSourceQueues(ctx, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: aws.String("nowhere")})
	if err := refused(err, "AWS.SimpleQueueService.NonExistentQueue", 400, new(*types.QueueDoesNotExist)); err != nil {
		t.Error(err)
	}
}
