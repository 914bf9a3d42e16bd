package worker_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/sqstest"
	"tenaq/records"
	"tenaq/records/serverrecords"
	"tenaq/worker"
)

// useServer keeps the claims in the server of the queue.
func (r *rig) useServer() {
	r.t.Helper()
	store, err := serverrecords.New(serverrecords.Config{Client: r.client})
	if err != nil {
		r.t.Fatal(err)
	}
	r.store = store
}

// A worker whose claims are in the server of the queue completes and deletes in one request. An
// answer that is lost is asked for again, and the message is gone and its work recorded once.
// [REC-15]
func TestCompletesAndDeletesInOneStep(t *testing.T) {
	for name, fault := range map[string]sqstest.Fault{"answered": sqstest.None, "dropped": sqstest.Dropped,
		"unanswered": sqstest.Unanswered, "doubled": sqstest.Doubled, "broken": sqstest.Broken} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "", func(t *testing.T, r *rig) {
				r.useServer()
				cfg := r.config(func(context.Context, *worker.Message) error {
					faulty := true
					r.client.SetFault(func(operation string) sqstest.Fault {
						if operation == "POST /v1/records" && faulty {
							faulty = false
							return fault
						}
						return sqstest.None
					})
					return nil
				})
				cfg.Client = r.client.Client
				r.send("a")
				stop := r.start(cfg)
				r.sleep(10 * time.Second)
				r.wantLines([]string{"done a 0s"}, "done", "duplicate", "failed", "dead", "lost")
				r.wantCount(r.url, 0)
				// When the answer that is lost says that the message is gone, it is deleted again.
				if n := r.client.Calls("DeleteMessageBatch"); n > 1 || n == 1 && (fault == sqstest.None || fault == sqstest.Dropped) {
					t.Errorf("%d requests of DeleteMessageBatch", n)
				}
				r.mustStop(stop)
			})
		})
	}
}

// A client that tracks deletes gets each as a call of DeleteMessage or of Deleted. [REC-15]
func TestDeletesAreSeen(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.useServer()
		r.send("a")
		stop := r.start(r.config(func(context.Context, *worker.Message) error { return nil }))
		r.sleep(time.Second)
		r.wantLines([]string{"done a 0s"}, "done", "lost")
		r.wantCount(r.url, 0)
		if n := r.client.Calls("DeleteMessageBatch"); n != 1 {
			t.Errorf("%d requests of DeleteMessageBatch, want 1", n)
		}
		r.mustStop(stop)
	})
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.useServer()
		seen := &seeing{Client: r.client.Client}
		cfg := r.config(func(context.Context, *worker.Message) error { return nil })
		cfg.Client = seen
		r.send("a")
		stop := r.start(cfg)
		r.sleep(time.Second)
		r.mustStop(stop)
		if r.wantCount(r.url, 0); seen.deleted != 1 || r.client.Calls("DeleteMessageBatch") != 0 {
			t.Errorf("Deleted was called %d times, want 1", seen.deleted)
		}
	})
}

// seeing counts the calls of Deleted.
type seeing struct {
	*sqs.Client
	deleted int
}

func (s *seeing) Deleted(string) { s.deleted++ }

// keeping writes the record and deletes no message.
type keeping struct{ *serverrecords.Store }

func (k keeping) PutAndDelete(
	ctx context.Context, w records.Write, _, _ string,
) (records.Record, bool, error) {
	r, err := k.Put(ctx, w)
	return r, false, err
}

// A message that the step did not delete is deleted like any other. [REC-15]
func TestMessageKeptByTheStep(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.useServer()
		r.store = keeping{r.store.(*serverrecords.Store)}
		r.send("a")
		cfg := r.config(func(context.Context, *worker.Message) error { return nil })
		cfg.Client = r.client.Client
		stop := r.start(cfg)
		r.sleep(time.Second)
		r.wantLines([]string{"done a 0s"}, "done", "duplicate")
		r.wantCount(r.url, 0)
		if n := r.client.Calls("DeleteMessageBatch"); n != 1 {
			t.Errorf("%d requests of DeleteMessageBatch, want 1", n)
		}
		r.mustStop(stop)
	})
}

// While the end of a claim is written, the lease of its message is not renewed: a renewal that
// comes after the delete would fail. [REC-15]
func TestNoRenewalDuringTheStep(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.useServer()
		slow := sqs.New(r.client.Options(), func(o *sqs.Options) { o.HTTPClient = lingering{r.client} })
		store, err := serverrecords.New(serverrecords.Config{Client: slow})
		if err != nil {
			t.Fatal(err)
		}
		r.store = store
		r.send("a")
		cfg := r.config(func(ctx context.Context, _ *worker.Message) error { return sleepOr(ctx, 5*time.Second) })
		cfg.Client, cfg.Lease = slow, 30*time.Second
		stop := r.start(cfg)
		r.sleep(time.Minute)
		r.wantLines([]string{"done a 5s"}, "done", "duplicate", "lost")
		r.wantCount(r.url, 0)
		if n := r.client.Calls("ChangeMessageVisibilityBatch"); n != 0 {
			t.Errorf("%d renewals", n)
		}
		r.mustStop(stop)
	})
}

// lingering takes long for the requests that end claims.
type lingering struct{ *sqstest.Client }

func (l lingering) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && r.URL.Path == "/v1/records" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if r.Body = io.NopCloser(bytes.NewReader(body)); bytes.Contains(body, []byte(`"value"`)) && bytes.Contains(body, []byte(`"message"`)) {
			time.Sleep(13 * time.Second)
		}
	}
	return l.Client.Do(r)
}
