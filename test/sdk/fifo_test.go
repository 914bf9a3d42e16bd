package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/server"
)

// A restart stops a server and starts it again.
type restart func(*node, func(*server.Config)) *node

// eachRestart runs a test with a server that stops cleanly, and with one that loses power.
func eachRestart(t *testing.T, test func(t *testing.T, n *node, again restart)) {
	for name, again := range map[string]restart{"clean": (*node).restart, "crash": (*node).crash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, nil), again)
		})
	}
}

// fifo creates a FIFO queue.
func (n *node) fifo(name string, attributes ...string) string {
	n.t.Helper()
	return n.queue(name, append([]string{"FifoQueue", "true"}, attributes...)...)
}

// put sends a message to a FIFO queue; an empty id is left out.
func (n *node) put(url, group, dedup, body string) *sqs.SendMessageOutput {
	n.t.Helper()
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body, MessageGroupId: &group}
	if dedup != "" {
		in.MessageDeduplicationId = &dedup
	}
	out, err := n.SendMessage(n.t.Context(), in)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

// entry is one of a batch of sends to a FIFO queue.
func entry(id, group, dedup, body string) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{Id: &id, MessageBody: &body}
	if group != "" {
		e.MessageGroupId = &group
	}
	if dedup != "" {
		e.MessageDeduplicationId = &dedup
	}
	return e
}

func sequence(m types.Message) string {
	return m.Attributes[string(types.MessageSystemAttributeNameSequenceNumber)]
}

// bodies returns the bodies of messages, in order, as one text.
func bodies(messages []types.Message) string {
	var b []string
	for _, m := range messages {
		b = append(b, *m.Body)
	}
	return strings.Join(b, " ")
}

// get receives up to ten messages and checks which they are, in order.
func (n *node) get(url, when, want string, change ...func(*sqs.ReceiveMessageInput)) []types.Message {
	n.t.Helper()
	messages := n.receive(url, change...)
	if got := bodies(messages); got != want {
		n.t.Errorf("%s: received %q, want %q", when, got, want)
	}
	if len(messages) != len(strings.Fields(want)) {
		n.t.FailNow()
	}
	return messages
}

func atMost(number int32) func(*sqs.ReceiveMessageInput) {
	return func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = number }
}

// Groups are delivered in their order and locked while one of them is in flight; a restart unlocks
// nothing and forgets no order.
// [FIFO-12, FIFO-13, FIFO-15 to FIFO-18, FIFO-20 to FIFO-23, FIFO-25, FIFO-28]
func TestGroups(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		url := n.fifo("orders.fifo", "VisibilityTimeout", "600")
		ctx := t.Context()
		var sequences []string
		first := n.put(url, "a", "1", "a1")
		sequences = append(sequences, aws.ToString(first.SequenceNumber))
		batch, err := n.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{
			entry("x", "b", "2", "b1"), entry("y", "a", "3", "a2"), entry("z", "b", "4", "b2"),
		}})
		if err != nil || len(batch.Successful) != 3 || batch.Failed != nil {
			t.Fatalf("batch: got %v, %v", describe(batch), err)
		}
		for _, e := range batch.Successful {
			sequences = append(sequences, aws.ToString(e.SequenceNumber))
		}
		sequences = append(sequences, aws.ToString(n.put(url, "a", "5", "a3").SequenceNumber))

		got := n.get(url, "the first group", "a1 a2", atMost(2))
		if sequence(got[0]) != sequences[0] || sequence(got[1]) != sequences[2] || *got[0].MessageId != *first.MessageId {
			t.Errorf("sequence numbers %s, %s and id %s, want those of the sends", sequence(got[0]), sequence(got[1]), *got[0].MessageId)
		}
		system := got[0].Attributes
		if system["MessageGroupId"] != "a" || system["MessageDeduplicationId"] != "1" || len(system) != 7 {
			t.Errorf("system attributes: got %v", system)
		}

		n = again(n, nil)
		url = "orders.fifo"
		n.get(url, "another group", "b1 b2")
		sequences = append(sequences, aws.ToString(n.put(url, "a", "6", "a4").SequenceNumber))
		if got := n.counters(url); got != [3]int{2, 4, 0} {
			t.Errorf("counters: got %v, want a3 and a4 waiting and four in flight", got)
		}
		n.none(url, "while both groups are locked")
		n.delete(url, got[0].ReceiptHandle)
		n.none(url, "while the second of two is in flight")
		n.delete(url, got[1].ReceiptHandle)
		got = n.get(url, "the rest of the group", "a3 a4")
		if err := n.hide(url, got[0].ReceiptHandle, 0); err != nil {
			t.Fatal(err)
		}
		n = again(n, nil)
		n.get(url, "the first of two in flight came back", "a3")

		if !slices.IsSorted(sequences) || len(slices.Compact(slices.Clone(sequences))) != len(sequences) {
			t.Errorf("sequence numbers do not grow: %q", sequences)
		}
		for _, s := range sequences {
			if len(s) != 20 {
				t.Errorf("sequence number %q, want 20 digits", s)
			}
		}
	})
}

// Mistakes with a FIFO queue, a send to it or its handles get the errors of SQS.
// [FIFO-1, FIFO-2, FIFO-6, FIFO-8, FIFO-10, FIFO-14, FIFO-31, FIFO-33, FIFO-34, FIFO-35, DEDUP-1]
// [DEDUP-4]
func TestFIFORefusals(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.fifo("orders.fifo"), t.Context()
	send := func(change func(*sqs.SendMessageInput)) error {
		in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("d")}
		change(in)
		_, err := n.SendMessage(ctx, in)
		return err
	}
	batch := func(entries ...types.SendMessageBatchRequestEntry) error {
		_, err := n.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: entries})
		return err
	}
	create := func(name string, attributes map[string]string) error {
		_, err := n.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		return err
	}
	const invalid = "InvalidParameterValue"
	for _, test := range []struct {
		name   string
		err    error
		code   string
		target any
	}{
		{"no .fifo", create("orders", map[string]string{"FifoQueue": "true"}), invalid, nil},
		{"no FifoQueue", create("others.fifo", nil), invalid, nil},
		{"not FIFO", func() error {
			_, err := n.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"FifoQueue": "false"}})
			return err
		}(), "InvalidAttributeValue", new(*types.InvalidAttributeValue)},
		{"limit without scope", create("others.fifo", map[string]string{"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}),
			"InvalidAttributeValue", new(*types.InvalidAttributeValue)},
		{"no group", send(func(in *sqs.SendMessageInput) { in.MessageGroupId = nil }), "MissingParameter", nil},
		{"no id", send(func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = nil }), invalid, nil},
		{"bad id", send(func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = aws.String("d 1") }), invalid, nil},
		{"a delay", send(func(in *sqs.SendMessageInput) { in.DelaySeconds = 2 }), invalid, nil},
		{"batch without group", batch(entry("a", "g", "1", "x"), entry("b", "", "2", "x")), invalid, nil},
		{"batch without id", batch(entry("a", "g", "1", "x"), entry("b", "g", "", "x")), invalid, nil},
	} {
		if err := refused(test.err, test.code, 400, test.target); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if got := n.counters(url); got != [3]int{} {
		t.Fatalf("counters: got %v, want nothing stored", got)
	}

	n.put(url, "g", "1", "x")
	first := n.one(url, timeout(1))
	eventually(t, "the timeout ends", func() bool { return n.counters(url)[1] == 0 })
	remove := func(handle *string) error {
		_, err := n.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: handle})
		return err
	}
	expired := func(what string, err error) {
		t.Helper()
		if err := refused(err, invalid, 400, nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	expired("delete after the timeout", remove(first.ReceiptHandle))
	expired("change after the timeout", n.hide(url, first.ReceiptHandle, 10))
	second := n.one(url)
	expired("delete with an older handle", remove(first.ReceiptHandle))
	expired("change with an older handle", n.hide(url, first.ReceiptHandle, 10))
	for _, handle := range []*string{second.ReceiptHandle, second.ReceiptHandle, first.ReceiptHandle} {
		if err := remove(handle); err != nil {
			t.Errorf("delete, and of a deleted message: %v", err)
		}
	}
}

// All that opens a group wakes a receive that waits. [FIFO-22, FIFO-11, POLL-3, POLL-5 to POLL-8]
func TestFIFOPollIsWoken(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.fifo("orders.fifo", "VisibilityTimeout", "600"), t.Context()

	p := n.poll(ctx, url, 20)
	begun()
	n.put(url, "g", "1", "one")
	m := woken(t, "a send", <-p, "one")
	n.put(url, "g", "2", "two")

	p = n.poll(ctx, url, 20)
	begun()
	n.delete(url, m.ReceiptHandle)
	m = woken(t, "a delete", <-p, "two")

	p = n.poll(ctx, url, 20)
	begun()
	n.put(url, "g", "3", "three") // does not open the group
	begun()
	if err := n.hide(url, m.ReceiptHandle, 1); err != nil {
		t.Fatal(err)
	}
	got := <-p
	if got.err != nil || bodies(got.messages) != "two three" || got.took > 15*time.Second {
		t.Fatalf("the end of a visibility timeout: got %q, %v after %v, want two and three", bodies(got.messages), got.err, got.took)
	}
	n.delete(url, got.messages[0].ReceiptHandle)

	p = n.poll(ctx, url, 20)
	begun()
	if err := n.hide(url, got.messages[1].ReceiptHandle, 0); err != nil {
		t.Fatal(err)
	}
	m = woken(t, "a change to zero", <-p, "three")
	if count(m) != "2" {
		t.Errorf("received for the %sth time, want the second", count(m))
	}
	n.delete(url, m.ReceiptHandle)

	slow := n.fifo("slow.fifo", "DelaySeconds", "1")
	n.put(slow, "g", "1", "late")
	if got := n.counters(slow); got != [3]int{0, 0, 1} {
		t.Errorf("counters: got %v, want one delayed", got)
	}
	p = n.poll(ctx, slow, 20)
	woken(t, "the end of a delay", <-p, "late")

	// A shorter delay acts on what was sent before.
	slower := n.fifo("slower.fifo", "DelaySeconds", "900")
	n.put(slower, "g", "1", "late")
	p = n.poll(ctx, slower, 20)
	begun()
	if _, err := n.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &slower, Attributes: map[string]string{"DelaySeconds": "0"}}); err != nil {
		t.Fatal(err)
	}
	woken(t, "a shorter delay", <-p, "late")
}

// At the limit receives of a FIFO queue are empty, short ones too. [FIFO-29]
func TestFIFOInFlightLimit(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.InFlightMax = 3 })
	url := n.fifo("orders.fifo")
	for i := range 5 {
		n.put(url, fmt.Sprint(i), fmt.Sprint(i), fmt.Sprint(i))
	}
	got := n.get(url, "what fits", "0 1 2")
	n.none(url, "at the limit")
	if p := <-n.poll(t.Context(), url, 1); p.err != nil || p.messages != nil || p.took < second {
		t.Errorf("a long poll at the limit: got %v, %v after %v, want nothing after a second", p.messages, p.err, p.took)
	}
	p := n.poll(t.Context(), url, 20)
	begun()
	n.delete(url, got[0].ReceiptHandle)
	woken(t, "room at the limit", <-p, "3")
}

// A receive that is repeated under its attempt id gives the same messages with the same handles,
// also by a server that was started in between. [DEDUP-19, DEDUP-21, DEDUP-22]
func TestReceiveAttempt(t *testing.T) {
	eachRestart(t, func(t *testing.T, n *node, again restart) {
		url := n.fifo("orders.fifo", "VisibilityTimeout", "600")
		for i := range 3 {
			n.put(url, "g", fmt.Sprint(i), fmt.Sprint(i))
		}
		attempt := func(id string) func(*sqs.ReceiveMessageInput) {
			return func(in *sqs.ReceiveMessageInput) { in.ReceiveRequestAttemptId, in.MaxNumberOfMessages = &id, 2 }
		}
		lossy := connect("http://"+n.server.Addr(), lossyClient())
		_, err := lossy.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 2, ReceiveRequestAttemptId: aws.String("a")})
		if err == nil {
			t.Fatal("the answer was not lost")
		}
		n.none(url, "while the group is locked")
		first := n.get(url, "the repeated attempt", "0 1", attempt("a"))
		n = again(n, nil)
		url = "orders.fifo"
		second := n.get(url, "the repeated attempt after a restart", "0 1", attempt("a"))
		for i, m := range second {
			if *m.ReceiptHandle != *first[i].ReceiptHandle || count(m) != "1" {
				t.Errorf("message %d: received the %sth time with handle %s, want the first and %s", i, count(m), *m.ReceiptHandle, *first[i].ReceiptHandle)
			}
		}
		n.get(url, "another attempt", "", attempt("b"))
		n.delete(url, second[0].ReceiptHandle)
		n.get(url, "an attempt of which a message is deleted", "", attempt("a"))
		n.delete(url, first[1].ReceiptHandle)
		n.get(url, "an ordinary receive", "2", attempt("a"))

		_, err = n.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, ReceiveRequestAttemptId: aws.String("a b")})
		if err := refused(err, "InvalidParameterValue", 400, nil); err != nil {
			t.Error(err)
		}
	})
}

// Several producers and consumers together: within a group everything arrives once and in order,
// and never two at a time while one is worked on. [FIFO-16, FIFO-18, FIFO-22, FIFO-25]
func TestManyFIFOClients(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.fifo("orders.fifo", "VisibilityTimeout", "600")
	const groups, each = 5, 30
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var mu sync.Mutex
	seen := map[string][]string{}
	working := map[string]bool{}
	total := 0
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				out, err := n.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
					QueueUrl: &url, WaitTimeSeconds: 20, MaxNumberOfMessages: int32(1 + i),
					MessageSystemAttributeNames: []types.MessageSystemAttributeName{"MessageGroupId"},
				})
				if err != nil {
					return // everything is there, or time is over
				}
				mine := map[string]bool{}
				mu.Lock()
				for _, m := range out.Messages {
					group := m.Attributes["MessageGroupId"]
					if working[group] && !mine[group] {
						t.Errorf("%s was received while others of group %s were in flight", *m.Body, group)
					}
					working[group], mine[group] = true, true
					seen[group] = append(seen[group], *m.Body)
				}
				total += len(out.Messages)
				mu.Unlock()
				for j, m := range out.Messages {
					group := m.Attributes["MessageGroupId"]
					if j+1 == len(out.Messages) || out.Messages[j+1].Attributes["MessageGroupId"] != group {
						mu.Lock()
						working[group] = false
						mu.Unlock()
					}
					n.DeleteMessage(context.WithoutCancel(ctx), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
				}
				mu.Lock()
				if total >= groups*each {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for g := range groups {
		clients.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%02d", g, i)
				_, err := n.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &id, MessageGroupId: aws.String(fmt.Sprint(g)), MessageDeduplicationId: &id})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	for g := range groups {
		got := seen[fmt.Sprint(g)]
		if len(got) != each || !slices.IsSorted(got) {
			t.Errorf("group %d: received %q, want %d in order", g, got, each)
		}
	}
}
