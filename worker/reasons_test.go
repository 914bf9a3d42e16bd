package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/internal/work/v1client"
	"tenaq/worker"
)

// A told is what a tenaq server shows of a message.
type told struct {
	Reason   string
	Receives int `json:"receiveCount"`
	Story    []struct{ How, Class, Text string }
}

// look shows the messages of a queue.
func (r *rig) look(queue string) (messages []told) {
	r.t.Helper()
	var answer struct{ Messages []told }
	if err := v1client.New(r.server.Client()).Get(r.t.Context(), "/queues/"+queue+"/messages", nil, &answer); err != nil {
		r.t.Fatal(err)
	}
	return answer.Messages
}

// A tenaq server keeps why a message was given back, and counts only attempts. [NACK-17]
func TestReasonsAreKept(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		calls := 0
		cfg := r.config(func(context.Context, *worker.Message) error {
			if calls++; calls < 4 {
				return worker.Later(time.Second, "the bank is closed")
			}
			return errors.New("no customer 7")
		})
		cfg.RetryBase, cfg.RetryMax = time.Hour, time.Hour
		stop := r.start(cfg)
		r.sleep(10 * time.Second)
		if got := fmt.Sprint(r.look("work")); got != "[{no customer 7 1 [{release  the bank is closed} {release  the bank is closed} {release  the bank is closed} {retry  no customer 7}]}]" {
			t.Errorf("the server shows %s", got)
		}
		r.mustStop(stop)
	})
}

// A message without room for its trail moves to the dead-letter queue at once, with its reason, and
// is poison only if its handler says so. [NACK-5, NACK-17]
func TestNoRoomForTrail(t *testing.T) {
	for verdict, err := range map[string]error{"poison": worker.Poison(errors.New("no customer 7")), "retry": errors.New("no customer 7")} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			var full []string
			for i := range 10 {
				full = append(full, fmt.Sprintf("a%d=x", i))
			}
			id := r.send("a", full...)
			cfg := r.config(func(context.Context, *worker.Message) error { return err })
			cfg.Attempts = 1
			stop := r.start(cfg)
			r.sleep(time.Second)
			r.wantLines([]string{"dead a no customer 7"}, "dead", "deferred")
			if got := r.look("dead"); len(got) != 1 || got[0].Reason != "no customer 7" || len(got[0].Story) != 1 || got[0].Story[0].How != verdict {
				t.Errorf("the dead-letter queue has %+v", got)
			}
			if m := r.receive(r.dead); *m.MessageId != id {
				t.Errorf("the dead letter has the id %s, want %s", *m.MessageId, id)
			}
			r.wantCount(r.url, 0)
			r.mustStop(stop)
		})
	}
}

// A message that is given up is one dead letter, whatever happens to the request that moves it. If
// it stays unknown for a while whether the server has moved it, no copy is sent. [NACK-8, NACK-18]
func TestMovedOnce(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		for _, fault := range []sqstest.Fault{sqstest.None, sqstest.Dropped, sqstest.Unanswered, sqstest.Broken, sqstest.Doubled} {
			for _, times := range []int{1, 7} {
				inBubble(t, suffix, func(t *testing.T, r *rig) {
					id, left := r.send("a"), times
					r.client.SetFault(func(operation string) sqstest.Fault {
						if operation != "POST /v1/queues/work"+suffix+"/nack" || len(r.lines("failed")) == 0 || left == 0 {
							return sqstest.None
						}
						left--
						return fault
					})
					cfg := r.config(func(context.Context, *worker.Message) error { return worker.Poison(errSick) })
					cfg.RetryMax = time.Minute
					stop := r.start(cfg)
					r.sleep(time.Hour)
					r.wantCount(r.url, 0)
					r.wantCount(r.dead, 1)
					if m := r.receive(r.dead); *m.MessageId != id {
						t.Errorf("fault %d: the dead letter has the id %s, want %s", fault, *m.MessageId, id)
					}
					if n := r.client.Calls("SendMessage"); n != 0 {
						t.Errorf("fault %d: %d copies were sent", fault, n)
					}
					if e, err := r.ledger().List(t.Context(), "", "", 0); err != nil || len(e) != 1 || e[0].State != claims.Exhausted || e[0].Attempts != 1 {
						t.Errorf("fault %d: the ledger has %+v, error %v", fault, e, err)
					}
					r.mustStop(stop)
				})
			}
		}
	}
}

// If the server refuses to move a message, the worker sends and deletes it. [NACK-17]
func TestMoveIsRefused(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		id := r.send("a")
		stop := r.start(r.config(func(context.Context, *worker.Message) error {
			_, err := r.server.Client().SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
				QueueUrl: &r.url, Attributes: map[string]string{"RedrivePolicy": ""}})
			return worker.Poison(errors.Join(errSick, err))
		}))
		r.sleep(time.Minute)
		r.wantLines([]string{"dead a sick"}, "dead", "deferred")
		r.wantCount(r.url, 0)
		r.wantCount(r.dead, 1)
		if m := r.receive(r.dead); *m.MessageId == id || r.client.Calls("SendMessage") != 1 {
			t.Errorf("the dead letter has the id %s, after %d sends", *m.MessageId, r.client.Calls("SendMessage"))
		}
		r.mustStop(stop)
	})
}

// A message that another consumer has received meanwhile is not moved away from it. [NACK-7]
func TestMovedByNewestReceiveOnly(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.send("a")
		cfg := r.config(func(context.Context, *worker.Message) error {
			if err := v1client.New(r.server.Client()).Post(t.Context(), "/queues/work.fifo/groups/release", map[string]string{"group": "g"}, new(struct{})); err != nil {
				t.Error(err)
			}
			r.receiveFor(r.url, time.Hour)
			return worker.Poison(errSick)
		})
		stop := r.start(cfg)
		r.sleep(time.Minute)
		r.wantLines([]string{"lost a the lease of the message was lost"}, "lost", "dead", "deferred")
		r.wantCount(r.url, 1)
		r.wantCount(r.dead, 0)
		r.mustStop(stop)
	})
}

// A refusing server answers questions or reasons with a status. Reasons counts the requests with
// some.
type refusing struct {
	sqs.HTTPClient
	question, status int // 0 for the answer of the server
	reasons          int
}

func (c *refusing) Do(req *http.Request) (*http.Response, error) {
	status := c.question
	switch {
	case !strings.HasSuffix(req.URL.Path, "/nack"):
		status = 0
	case req.ContentLength != int64(len(`{"entries":[]}`)):
		c.reasons++
		status = c.status
	}
	if status == 0 {
		return c.HTTPClient.Do(req)
	}
	w := httptest.NewRecorder()
	w.Header().Set(v1client.Header, "1")
	w.WriteHeader(status)
	fmt.Fprint(w, `{"code":"AccessDenied","message":"no"}`)
	return w.Result(), nil
}

// A message whose reason fails goes back as on Amazon SQS, at once. After a refusal, such as of a
// right that was taken away, the worker sends no reasons for some minutes, and logs that once. If
// the server only cannot answer now, the worker sends the next reason. A server that does not offer
// reasons at the start gets none. [NACK-17]
func TestReasonsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name             string
		question, status int
		asked, warnings  int // in the first ten minutes, with a message each two minutes
	}{
		{"a right is taken away", 0, http.StatusForbidden, 2, 1},
		{"the queue is made again", 0, http.StatusNotFound, 2, 1},
		{"the credentials expire", 0, http.StatusBadRequest, 2, 1},
		{"the server starts again", 0, http.StatusServiceUnavailable, 5, 0},
		{"no right", http.StatusForbidden, 0, 0, 0},
		{"an earlier version", http.StatusNotFound, 0, 0, 0},
		{"away at the start", http.StatusServiceUnavailable, 0, 2, 0},
		{"refused at the start", http.StatusBadRequest, 0, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, "", func(t *testing.T, r *rig) {
				r.send("a")
				calls := 0
				cfg := r.config(func(context.Context, *worker.Message) error {
					if calls++; calls <= 5 {
						return worker.Later(2*time.Minute, "not yet")
					}
					return nil
				})
				refuses := &refusing{HTTPClient: r.server.HTTP, question: tt.question, status: tt.status}
				options := r.server.Client().Options()
				options.HTTPClient = refuses
				cfg.Client = sqs.New(options)
				var log bytes.Buffer
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				stop := r.start(cfg)
				r.sleep(11 * time.Minute)
				r.mustStop(stop)
				r.wantLines([]string{"done a 0s"}, "done", "error")
				if refuses.reasons != tt.asked {
					t.Errorf("the server was asked %d times, want %d", refuses.reasons, tt.asked)
				}
				if n := strings.Count(log.String(), "the server refuses reasons"); n != tt.warnings {
					t.Errorf("%d warnings, want %d:\n%s", n, tt.warnings, &log)
				}
			})
		})
	}
}

// A worker that may not write a trail into the dead-letter queue moves its message without one, and
// its reason goes with the message. [NACK-22]
func TestTrailDenied(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		cfg := r.config(func(context.Context, *worker.Message) error { return errors.New("no customer 7") })
		cfg.Attempts = 1
		cfg.Client = sqs.New(r.client.Options(), func(o *sqs.Options) { o.HTTPClient = denying{r.client} })
		stop := r.start(cfg)
		r.sleep(time.Second)
		r.wantLines([]string{"dead a no customer 7"}, "dead", "deferred", "lost")
		if got := r.look("dead"); len(got) != 1 || got[0].Reason != "no customer 7" {
			t.Errorf("the dead-letter queue has %+v", got)
		}
		if m := r.receive(r.dead); len(m.MessageAttributes) != 0 {
			t.Errorf("the dead letter has the attributes %v", m.MessageAttributes)
		}
		if n := r.client.Calls("SendMessage"); n != 0 {
			t.Errorf("the worker has sent %d copies", n)
		}
		r.mustStop(stop)
	})
}

// denying answers for a server that denies trails.
type denying struct{ *sqstest.Client }

func (d denying) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && strings.HasSuffix(r.URL.Path, "/nack") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if r.Body = io.NopCloser(bytes.NewReader(body)); bytes.Contains(body, []byte(`"trail"`)) {
			w := httptest.NewRecorder()
			w.Header().Set(v1client.Header, "1")
			fmt.Fprint(w, `{"outcomes":[{"done":false,"code":"AccessDenied","message":"not allowed to send"}]}`)
			return w.Result(), nil
		}
	}
	return d.Client.Do(r)
}
