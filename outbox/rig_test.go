package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/sqstest"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// A rig is a server, a box in memory and relays, in a bubble.
type rig struct {
	t      *testing.T
	server *sqstest.Server
	box    *outboxtest.Memory

	mu  sync.Mutex
	log []string // of events
}

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &rig{t: t, server: sqstest.New(t), box: outboxtest.NewMemory()})
	})
}

func (r *rig) enqueue(messages ...outbox.Message) {
	r.t.Helper()
	if err := r.box.Enqueue(messages...); err != nil {
		r.t.Fatal(err)
	}
}

// start runs a relay; stop ends it and waits.
func (r *rig) start(change func(*outbox.Config)) (stop func()) {
	r.t.Helper()
	cfg := outbox.Config{
		Box: r.box, Client: r.server.Client(), Logger: slog.New(slog.DiscardHandler),
		Events: outbox.Events{
			Sent:   func(row outbox.Row, _ string) { r.note("sent %s", row.Body) },
			Failed: func(row outbox.Row, reason string, _ time.Duration) { r.note("failed %s: %s", row.Body, reason) },
			Parked: func(row outbox.Row, reason string) { r.note("parked %s: %s", row.Body, reason) },
			Lost:   func(row outbox.Row) { r.note("lost %s", row.Body) },
		},
	}
	if change != nil {
		change(&cfg)
	}
	relay, err := outbox.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// count is how many events began with a word.
func (r *rig) count(word string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.log {
		if strings.HasPrefix(l, word) {
			n++
		}
	}
	return n
}

func (r *rig) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// received takes everything out of a queue, in the order in which it comes.
func (r *rig) received(url string) (messages []types.Message) {
	r.t.Helper()
	client := r.server.Client()
	for {
		out, err := client.ReceiveMessage(r.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return messages
		}
		messages = append(messages, out.Messages...)
		for _, m := range out.Messages {
			if _, err := client.DeleteMessage(r.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func bodies(messages []types.Message) (b []string) {
	for _, m := range messages {
		b = append(b, aws.ToString(m.Body))
	}
	return b
}

func (r *rig) wantStats(pending, parked int) {
	r.t.Helper()
	s, err := r.box.Stats(r.t.Context())
	if err != nil || s.Pending != pending || s.Parked != parked {
		r.t.Errorf("%d rows are pending and %d parked, error %v; want %d and %d", s.Pending, s.Parked, err, pending, parked)
	}
}
