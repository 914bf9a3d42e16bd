package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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

// A refusing server takes no reasons any more. Reasons counts the requests with some.
type refusing struct {
	sqs.HTTPClient
	status  int
	reasons int
}

func (c *refusing) Do(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/nack") {
		return c.HTTPClient.Do(req)
	}
	if req.ContentLength == int64(len(`{"entries":[]}`)) {
		return c.HTTPClient.Do(req)
	}
	c.reasons++
	w := httptest.NewRecorder()
	w.Header().Set(v1client.Header, "1")
	w.WriteHeader(c.status)
	fmt.Fprint(w, `{"code":"AccessDenied","message":"no"}`)
	return w.Result(), nil
}

// A worker whose right was taken away, or whose server was replaced, gives messages back as on
// Amazon SQS. If the server only cannot answer now, the worker asks again. [NACK-17]
func TestReasonsAreRefused(t *testing.T) {
	for status, want := range map[int][]string{http.StatusForbidden: {"done a 0s"}, http.StatusNotFound: {"done a 0s"}, http.StatusServiceUnavailable: nil} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.send("a")
			cfg := r.config(func(_ context.Context, m *worker.Message) error {
				if m.Receives == 1 {
					return worker.Later(time.Second, "not yet")
				}
				return nil
			})
			refuses := &refusing{HTTPClient: r.server.HTTP, status: status}
			options := r.server.Client().Options()
			options.HTTPClient = refuses
			cfg.Client = sqs.New(options)
			stop := r.start(cfg)
			r.sleep(20 * time.Second)
			if got := r.lines("done"); !slices.Equal(got, want) {
				t.Errorf("%d: got %q, want %q", status, got, want)
			}
			if asked := refuses.reasons; (asked == 1) != (want != nil) || asked == 0 {
				t.Errorf("%d: the server was asked %d times", status, asked)
			}
			r.mustStop(stop)
		})
	}
}
