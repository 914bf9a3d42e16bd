package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/server"
)

// A polled is what a long poll came to.
type polled struct {
	messages []types.Message
	err      error
	took     time.Duration
}

// poll begins a long poll.
func (n *node) poll(ctx context.Context, url string, seconds int32) <-chan polled {
	done := make(chan polled, 1)
	go func() {
		began := time.Now()
		out, err := n.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &url, WaitTimeSeconds: seconds, MaxNumberOfMessages: 10,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		p := polled{err: err, took: time.Since(began)}
		if err == nil {
			p.messages = out.Messages
		}
		done <- p
	}()
	return done
}

// begun waits until what was begun before has most probably reached the server. When it has not, a
// test below still passes; it then proves less.
func begun() { time.Sleep(50 * time.Millisecond) }

// woken checks that a poll of 20 seconds ended early, with one message.
func woken(t *testing.T, what string, p polled, body string) types.Message {
	t.Helper()
	if p.err != nil || len(p.messages) != 1 || *p.messages[0].Body != body {
		t.Fatalf("%s: got %v, %v, want %q", what, p.messages, p.err, body)
	}
	if p.took > 15*time.Second {
		t.Errorf("%s: the poll took %v", what, p.took)
	}
	return p.messages[0]
}

// [POLL-3, POLL-5, POLL-6, POLL-7, POLL-8]
func TestPollIsWoken(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url, ctx := n.queue("orders", "VisibilityTimeout", "600"), t.Context()

	p := n.poll(ctx, url, 20)
	begun()
	n.send(url, "x")
	m := woken(t, "a send", <-p, "x")

	if err := n.hide(url, m.ReceiptHandle, 1); err != nil {
		t.Fatal(err)
	}
	p = n.poll(ctx, url, 20)
	m = woken(t, "the end of a visibility timeout", <-p, "x")

	p = n.poll(ctx, url, 20)
	begun()
	if err := n.hide(url, m.ReceiptHandle, 0); err != nil {
		t.Fatal(err)
	}
	m = woken(t, "a change to zero", <-p, "x")
	if count(m) != "3" {
		t.Errorf("received %s times, want 3", count(m))
	}
	n.delete(url, m.ReceiptHandle)

	if _, err := n.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("late"), DelaySeconds: 1}); err != nil {
		t.Fatal(err)
	}
	p = n.poll(ctx, url, 20)
	woken(t, "the end of a delay", <-p, "late")
}

// [POLL-1, POLL-2, POLL-4]
func TestPollEndsEmpty(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders", "ReceiveMessageWaitTimeSeconds", "1")
	p := <-n.poll(t.Context(), url, 1)
	if p.err != nil || p.messages != nil || p.took < second || p.took > 10*time.Second {
		t.Errorf("a poll of one second: got %v, %v after %v", p.messages, p.err, p.took)
	}
	// The SDK leaves a zero out, so this is the wait of the queue.
	p = <-n.poll(t.Context(), url, 0)
	if p.err != nil || p.messages != nil || p.took < second || p.took > 10*time.Second {
		t.Errorf("a poll of the queue's second: got %v, %v after %v", p.messages, p.err, p.took)
	}
}

// A client that gives up gets nothing, and its messages go to others uncounted. [POLL-10]
func TestPollIsGivenUp(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders")
	ctx, cancel := context.WithCancel(t.Context())
	p := n.poll(ctx, url, 20)
	begun()
	cancel()
	if got := <-p; !errors.Is(got.err, context.Canceled) {
		t.Errorf("given up: got %v", got.err)
	}
	begun() // the server notices that the connection is closed
	n.send(url, "x")
	if m := n.one(url); count(m) != "1" {
		t.Errorf("received for the %sth time, want the first", count(m))
	}
}

// [QUEUE-17]
func TestPollOfDeletedQueue(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders")
	p := n.poll(t.Context(), url, 20)
	begun()
	if _, err := n.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	got := <-p
	var gone *types.QueueDoesNotExist // when the poll came after the delete all the same
	if got.err != nil && !errors.As(got.err, &gone) || got.messages != nil || got.took > 15*time.Second {
		t.Errorf("got %v, %v after %v, want an early end with nothing", got.messages, got.err, got.took)
	}
}

// second is the least that a wait of a second takes. The server counts in whole milliseconds, so it
// may be a little early.
const second = 990 * time.Millisecond

// [LIM-2 to LIM-5, LIM-7, DEL-2]
func TestInFlightLimit(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *server.Config) { c.InFlightMax = 3 })
	url := n.queue("orders")
	for range 5 {
		n.send(url, "x")
	}
	got := n.receive(url)
	if len(got) != 3 {
		t.Fatalf("received %d messages, want the 3 that fit", len(got))
	}
	_, err := n.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
	if err := refused(err, "OverLimit", 403, new(*types.OverLimit)); err != nil {
		t.Error(err)
	}
	if p := <-n.poll(t.Context(), url, 1); p.err != nil || p.messages != nil || p.took < second {
		t.Errorf("a long poll at the limit: got %v, %v after %v, want nothing after a second", p.messages, p.err, p.took)
	}
	for _, room := range []func(){
		func() { n.delete(url, got[0].ReceiptHandle) },
		func() { n.delete(url, got[1].ReceiptHandle) },
	} {
		p := n.poll(t.Context(), url, 20)
		begun()
		room()
		woken(t, "room at the limit", <-p, "x")
	}
}

// Several producers and consumers together: everything arrives, and once.
// [VIS-14, DEL-1, SEND-5, ATTR-42]
func TestManyClients(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	url := n.queue("orders", "VisibilityTimeout", "600")
	const producers, each = 4, 50
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	seen := map[string]int{}
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for {
				p := <-n.poll(ctx, url, 20)
				if p.err != nil {
					return // everything is there, or time is over
				}
				for _, m := range p.messages {
					n.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
				}
				mu.Lock()
				for _, m := range p.messages {
					seen[*m.Body+" "+count(m)]++
				}
				if len(seen) >= producers*each {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for i := range producers {
		clients.Go(func() {
			for j := range each {
				_, err := n.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(fmt.Sprint(i, j))})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	for i := range producers {
		for j := range each {
			if got := seen[fmt.Sprint(i, j)+" 1"]; got != 1 {
				t.Errorf("message %d of producer %d was received %d times, want once", j, i, got)
			}
		}
	}
	if len(seen) != producers*each {
		t.Errorf("received %d different messages, want %d", len(seen), producers*each)
	}
	if got := n.counters(url); got != [3]int{} {
		t.Errorf("counters: got %v, want zeros", got)
	}
}
