package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/worker"
)

// A rig is a server with a queue named work, its dead-letter queue dead, a store of records, and a
// log of what happened, in a bubble.
type rig struct {
	t      *testing.T
	server *sqstest.Server
	client *sqstest.Client
	store  records.Store
	url    string
	dead   string

	begun sync.Map // messages whose handler has begun

	mu  sync.Mutex
	log []string // of events and handlers, with the second since the start
	at  time.Time
}

// plain returns a client that does not tell the address of its server, so that the worker takes it
// for Amazon SQS.
func plain(client worker.SQS) worker.SQS { return struct{ worker.SQS }{client} }

// inBubble runs a test on a rig. Suffix is .fifo or nothing.
func inBubble(t *testing.T, suffix string, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, server: sqstest.New(t), store: recordstest.NewMemory(), at: time.Now()}
		r.client = r.server.Client()
		r.dead = r.server.Queue(t, "dead"+suffix)
		r.url = r.server.Queue(t, "work"+suffix,
			"RedrivePolicy", sqstest.RedrivePolicy("dead"+suffix, "10"), "VisibilityTimeout", "30")
		test(t, r)
	})
}

// send sends a message with options: group=…, dedup=…
func (r *rig) send(body string, options ...string) (id string) {
	r.t.Helper()
	in := &sqs.SendMessageInput{QueueUrl: &r.url, MessageBody: &body}
	if strings.HasSuffix(r.url, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String(body)
	}
	for _, o := range options {
		switch name, value, _ := strings.Cut(o, "="); name {
		case "group":
			in.MessageGroupId = &value
		case "dedup":
			in.MessageDeduplicationId = &value
		default:
			if in.MessageAttributes == nil {
				in.MessageAttributes = make(map[string]types.MessageAttributeValue)
			}
			in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
		}
	}
	out, err := r.server.Client().SendMessage(r.t.Context(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	return aws.ToString(out.MessageId)
}

// note logs a line with the second at which it happened.
func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf("%v ", time.Since(r.at).Truncate(time.Second))+fmt.Sprintf(format, args...))
}

// lines returns what was logged, without the time, of lines that begin with one of some words.
func (r *rig) lines(words ...string) (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.log {
		_, rest, _ := strings.Cut(l, " ")
		word, _, _ := strings.Cut(rest, " ")
		if slices.Contains(words, word) {
			lines = append(lines, rest)
		}
	}
	return lines
}

func (r *rig) wantLines(want []string, words ...string) {
	r.t.Helper()
	if got := r.lines(words...); !slices.Equal(got, want) {
		r.t.Errorf("got %q\nwant %q\nall:\n%s", got, want, strings.Join(r.log, "\n"))
	}
}

func (r *rig) ledger() *claims.Ledger {
	r.t.Helper()
	l, err := claims.New(claims.Config{Store: r.store, Owner: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

// outcome logs what became of a message.
func (r *rig) outcome(m *worker.Message, o worker.Outcome) {
	switch o.Kind {
	case worker.Done:
		r.note("done %s %v", m.Body, o.Took)
	case worker.Failed, worker.Lost, worker.Abandoned:
		r.note("%s %s %v", o.Kind, m.Body, o.Err)
	case worker.Deferred:
		r.note("deferred %s %v %s", m.Body, o.After, o.Reason)
	case worker.Busy:
		r.note("busy %s", m.Body)
	case worker.Duplicate:
		refused, _ := errors.AsType[*claims.Refused](o.Err)
		r.note("duplicate %s %s", m.Body, refused.Result)
	case worker.DeadLettered:
		r.note("dead %s %s", m.Body, o.Reason)
	}
}

// config is that of a worker whose events are logged.
func (r *rig) config(handle worker.HandlerFunc) worker.Config {
	return worker.Config{
		Client:   r.client,
		QueueURL: r.url,
		Claims:   r.ledger(),
		Handler:  handle,
		Logger:   slog.New(slog.DiscardHandler),
		Middleware: []worker.Middleware{
			func(ctx context.Context, messages []*worker.Message, next func(context.Context) error) error {
				for _, m := range messages {
					if _, again := r.begun.LoadOrStore(m, true); !again {
						r.note("started %s", m.Body)
					}
				}
				return next(ctx)
			},
		},
		Events: worker.Events{
			Outcome:    r.outcome,
			QueueError: func(op string, _ int, err error) { r.note("error %s", op) },
		},
	}
}

// start runs a worker. Stop ends it and waits.
func (r *rig) start(cfg worker.Config) (stop func() error) {
	r.t.Helper()
	w, err := worker.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	r.t.Cleanup(func() { _ = stop() })
	return stop
}

// run runs a worker to the end of the test. It must have nothing to complain of.
func (r *rig) run(cfg worker.Config) {
	r.t.Helper()
	stop := r.start(cfg)
	r.t.Cleanup(func() { r.mustStop(stop) })
}

// mustStop ends a worker that has nothing to complain of.
func (r *rig) mustStop(stop func() error) {
	r.t.Helper()
	if err := stop(); err != nil {
		r.t.Errorf("the worker ended with %v", err)
	}
}

// count is how many messages a queue has in all.
func (r *rig) count(url string) (n int) {
	r.t.Helper()
	out, err := r.server.Client().GetQueueAttributes(r.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	} {
		var one int
		fmt.Sscan(out.Attributes[string(name)], &one)
		n += one
	}
	return n
}

func (r *rig) wantCount(url string, want int) {
	r.t.Helper()
	if got := r.count(url); got != want {
		r.t.Errorf("%s holds %d messages, want %d", url, got, want)
	}
}

// receive takes a message out of a queue, or fails.
func (r *rig) receive(url string) types.Message { return r.receiveFor(url, 30*time.Second) }

func (r *rig) receiveFor(url string, hidden time.Duration) types.Message {
	r.t.Helper()
	out, err := r.server.Client().ReceiveMessage(r.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &url, MessageAttributeNames: []string{"All"}, VisibilityTimeout: int32(hidden / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil || len(out.Messages) != 1 {
		r.t.Fatalf("got %d messages and error %v, want one message", len(out.Messages), err)
	}
	return out.Messages[0]
}

// sleep waits, and then until nothing is going on any more, so that a test may look at what
// handlers wrote.
func (r *rig) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// sleepOr waits, unless ctx ends first; then it returns its cause.
func sleepOr(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

var errSick = errors.New("sick")
