//go:build unix

package pipe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/records/recordstest"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

// The usual ways to have a program started for each message have known flaws. Each test here is
// named after one, says what the usual solution does, and shows that this one does otherwise.

// A rig is a server with a queue and its dead-letter queue, a ledger, and what a worker says of
// itself.
type rig struct {
	t         *testing.T
	client    *sqstest.Client
	url, dead string
	ledger    *claims.Ledger
	events    chan string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := sqstest.New(t)
	ledger, err := claims.New(claims.Config{Store: recordstest.NewMemory()})
	must(t, err)
	return &rig{
		t: t, client: server.Client(), ledger: ledger, events: make(chan string, 100),
		dead: server.Queue(t, "dead"),
		url:  server.Queue(t, "work", "RedrivePolicy", sqstest.RedrivePolicy("dead", "20")),
	}
}

func (r *rig) send(bodies ...string) {
	r.t.Helper()
	for _, body := range bodies {
		_, err := r.client.SendMessage(r.t.Context(), &sqs.SendMessageInput{QueueUrl: &r.url, MessageBody: &body})
		must(r.t, err)
	}
}

// work runs a worker until the test is over. The key of a message is its body.
func (r *rig) work(h worker.Handler) {
	r.t.Helper()
	w, err := worker.New(worker.Config{
		Client: r.client, QueueURL: r.url, Claims: r.ledger, Handler: h,
		Key:       func(m *worker.Message) (string, error) { return m.Body, nil },
		Lease:     60 * time.Second,
		RetryBase: time.Millisecond, RetryMax: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
		Middleware: []worker.Middleware{
			func(ctx context.Context, messages []*worker.Message, next func(context.Context) error) error {
				r.events <- "started " + messages[0].Body
				return next(ctx)
			},
		},
		Events: worker.Events{Outcome: func(m *worker.Message, o worker.Outcome) {
			switch o.Kind {
			case worker.Done, worker.Duplicate:
				r.events <- string(o.Kind) + " " + m.Body
			case worker.Failed:
				r.events <- "failed " + m.Body + ": " + o.Err.Error()
			case worker.DeadLettered:
				r.events <- "dead " + m.Body + ": " + o.Reason
			case worker.Deferred:
				r.events <- "deferred " + m.Body + ": " + o.Reason
			}
		}},
	})
	must(r.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

// want waits for as many events, in any order.
func (r *rig) want(events ...string) {
	r.t.Helper()
	var got []string
	for range events {
		got = append(got, <-r.events)
	}
	slices.Sort(got)
	slices.Sort(events)
	if !slices.Equal(got, events) {
		r.t.Fatalf("got %q\nwant %q", got, events)
	}
}

// wantQueue waits until the queue holds the wanted number of messages.
func (r *rig) wantQueue(want string) {
	r.t.Helper()
	for {
		out, err := r.client.GetQueueAttributes(r.t.Context(), &sqs.GetQueueAttributesInput{
			QueueUrl: &r.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
		})
		must(r.t, err)
		got := out.Attributes["ApproximateNumberOfMessages"] + " and " + out.Attributes["ApproximateNumberOfMessagesNotVisible"] + " in flight"
		if got == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *rig) wantEntry(key string, state claims.State, about string) {
	r.t.Helper()
	e, err := r.ledger.Entry(r.t.Context(), key)
	if err != nil || e.State != state || !strings.Contains(e.Reason+string(e.Result), about) {
		r.t.Errorf("the entry of %s is %s, reason %q, result %q (error %v), want %s with %q", key, e.State, e.Reason, e.Result, err, state, about)
	}
}

// Usual: the message is acknowledged when the start of the container is accepted, so a crash in the
// middle of the download loses it, and the dead-letter queue stays empty. Ours: the message is
// there until the end of the task has been recorded.
func TestLaunchIsNotDone_FA2(t *testing.T) {
	r := newRig(t)
	r.send("a.pdf")
	dir := t.TempDir()
	r.work(shell(`touch ` + dir + `/began-$TENAQ_ATTEMPT
		until [ -e ` + dir + `/go-$TENAQ_ATTEMPT ]; do sleep 0.01; done
		test "$TENAQ_ATTEMPT" = 2 || kill -KILL $$
		echo "s3://files/$(cat)?fence=$TENAQ_FENCE" > "$TENAQ_RESULT_FILE"`))
	proceed := func(attempt string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, "go-"+attempt), nil, 0o600))
	}

	// It is started, and that is all.
	r.want("started a.pdf")
	for began := false; !began; time.Sleep(time.Millisecond) {
		_, err := os.Stat(filepath.Join(dir, "began-1"))
		began = err == nil
	}
	r.wantQueue("0 and 1 in flight")
	r.wantEntry("a.pdf", claims.Held, "")

	// It crashes in the middle: the message comes back, and says why.
	proceed("1")
	r.want("failed a.pdf: killed by SIGKILL, no output")
	r.want("started a.pdf")
	r.wantQueue("0 and 1 in flight")
	r.wantEntry("a.pdf", claims.Held, "")

	// It ends well, and the delete is lost: the work is recorded by then, and is not done again.
	var once sync.Once
	r.client.SetFault(func(operation string) (f sqstest.Fault) {
		if operation == "DeleteMessageBatch" {
			once.Do(func() { r.wantEntry("a.pdf", claims.Completed, "s3://files/a.pdf?fence=") })
		}
		return sqstest.None
	})
	proceed("2")
	r.want("done a.pdf")
	r.wantQueue("0 and 0 in flight")
	r.wantEntry("a.pdf", claims.Completed, "s3://files/a.pdf?fence=")
	r.send("a.pdf")
	r.want("duplicate a.pdf")
	r.wantQueue("0 and 0 in flight")
}

// Usual: exit code 1 protects nothing. Ours: it is an attempt, and after the last one the dead
// letter has the output of the task.
func TestExitCodeReachesDeadLetters_FA3(t *testing.T) {
	r := newRig(t)
	r.send("a.pdf")
	r.work(shell(`echo "no room on the disk, attempt $TENAQ_ATTEMPT"; exit 1`))
	for i := range 3 {
		r.want("started a.pdf", fmt.Sprintf("failed a.pdf: exit code 1: no room on the disk, attempt %d", i+1))
	}
	r.want("dead a.pdf: exit code 1: no room on the disk, attempt 3")
	r.wantQueue("0 and 0 in flight")
	out, err := r.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &r.dead, MessageAttributeNames: []string{"All"}})
	must(t, err)
	if len(out.Messages) != 1 {
		t.Fatalf("got %d dead letters, want 1", len(out.Messages))
	}
	if trail := aws.ToString(out.Messages[0].MessageAttributes["tenaq"].StringValue); !strings.Contains(trail, "reason=exit+code+1%3A+no+room+on+the+disk") {
		t.Errorf("the dead letter says %q, want the reason in it", trail)
	}
}

// Usual: the documentation asks for partial batch failures, but the code does not report them, so
// one bad message repeats the whole batch; and throttling uses up attempts. Ours: messages that are
// not named are done, and "later" is not an attempt.
func TestPartialBatch_FB16(t *testing.T) {
	r := newRig(t)
	r.send("a", "b", "c")
	var mu sync.Mutex
	seen := make(map[string][]int) // attempts, by body
	throttled := false
	l := &pipe.Lambda{URL: serve(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !throttled {
			throttled = true
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		var event struct {
			Records []struct {
				MessageID, Body string
				Tenaq           struct{ Attempt int }
			}
		}
		if err := json.NewDecoder(req.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		failures := []map[string]string{}
		for _, record := range event.Records {
			seen[record.Body] = append(seen[record.Body], record.Tenaq.Attempt)
			if record.Body == "b" && record.Tenaq.Attempt < 3 {
				failures = append(failures, map[string]string{"itemIdentifier": record.MessageID})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"batchItemFailures": failures})
	})}
	r.work(l)
	var got []string
	for done := 0; done < 3; {
		event := <-r.events
		got = append(got, event)
		if strings.HasPrefix(event, "done ") {
			done++
		}
	}
	r.wantQueue("0 and 0 in flight")
	mu.Lock()
	defer mu.Unlock()
	for body, want := range map[string][]int{"a": {1}, "b": {1, 2, 3}, "c": {1}} {
		if !slices.Equal(seen[body], want) {
			t.Errorf("%s was handled in attempts %d, want %d\nall: %q", body, seen[body], want, got)
		}
		r.wantEntry(body, claims.Completed, "")
	}
}

// The response of an endpoint is the result of the work.
func TestResponseIsResult(t *testing.T) {
	r := newRig(t)
	r.send("a")
	r.work(&pipe.HTTP{URL: serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Tenaq-Attempt") != "1" || req.Header.Get("Tenaq-Fence") == "0" {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		fmt.Fprintf(w, "charge for %s", req.Header.Get("Idempotency-Key"))
	})})
	r.want("started a", "done a")
	r.wantEntry("a", claims.Completed, "charge for a")
}
