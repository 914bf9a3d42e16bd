package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

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

// A message without room for its trail moves to the dead-letter queue at once, with its reason.
// [NACK-5, NACK-17]
func TestPoisonWithoutRoom(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		var full []string
		for i := range 10 {
			full = append(full, fmt.Sprintf("a%d=x", i))
		}
		id := r.send("a", full...)
		stop := r.start(r.config(func(context.Context, *worker.Message) error { return worker.Poison(errors.New("no customer 7")) }))
		r.sleep(time.Second)
		r.wantLines([]string{"dead a no customer 7"}, "dead", "deferred")
		if got := r.look("dead"); len(got) != 1 || got[0].Reason != "no customer 7" || len(got[0].Story) != 1 || got[0].Story[0].How != "poison" {
			t.Errorf("the dead-letter queue has %+v", got)
		}
		if m := r.receive(r.dead); *m.MessageId != id {
			t.Errorf("the dead letter has the id %s, want %s", *m.MessageId, id)
		}
		r.wantCount(r.url, 0)
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
