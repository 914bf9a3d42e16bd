package worker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/records"
	"tenaq/worker"
)

// A duplicate does not wait for the lease of a holder in the same process: it is deleted as soon as
// the holder has completed the work.
func TestDuplicateWaitsForHolder(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		inBubble(t, suffix, func(t *testing.T, r *rig) {
			for _, group := range []string{"1", "2", "3", "4"} {
				if suffix == "" {
					r.send("a")
				} else {
					r.send("a", "group="+group, "dedup="+group)
				}
			}
			r.run(byBody(r.config(func(ctx context.Context, m *worker.Message) error {
				return sleepOr(ctx, 5*time.Second)
			})))
			r.sleep(6 * time.Second)
			r.wantLines([]string{"started a", "done a 5s", "duplicate a ", "duplicate a ", "duplicate a "}, "started", "done", "duplicate", "error")
			if n := len(r.lines("busy")); n != 3 {
				t.Errorf("busy %d times, want once for each duplicate: no polling", n)
			}
			r.wantCount(r.url, 0)
		})
	}
}

// The work of a duplicate is not begun early when the holder in this process fails: that would skip
// the pause between two attempts.
func TestDuplicateOfFailureWaits(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a1")
		r.send("a2")
		cfg := r.config(func(context.Context, *worker.Message) error {
			time.Sleep(5 * time.Second)
			return errSick
		})
		cfg.Key = func(*worker.Message) (string, error) { return "a", nil }
		r.run(cfg)
		r.sleep(30 * time.Second)
		busy := r.lines("busy")
		if len(busy) == 0 {
			t.Fatal("neither was busy")
		}
		second := strings.TrimPrefix(busy[0], "busy ")
		if slices.Contains(r.lines("started"), "started "+second) {
			t.Errorf("%s was begun before its pause was over: %q", second, r.log)
		}
	})
}

// A slowConflict is a store that takes its time to say that a record has changed.
type slowConflict struct {
	records.Store
	takes time.Duration
}

func (s *slowConflict) Put(ctx context.Context, w records.Write) (records.Record, error) {
	r, err := s.Store.Put(ctx, w)
	if err != nil {
		time.Sleep(s.takes)
	}
	return r, err
}

// A holder that completes the work while a duplicate waits for the answer of the ledger is not
// missed: that answer says busy, and is out of date.
func TestDuplicateMeetsCompletion(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("a")
		ledger, err := claims.New(claims.Config{Store: &slowConflict{r.store, 7 * time.Second}, Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		cfg := byBody(r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, 5*time.Second) }))
		cfg.Claims = ledger
		r.run(cfg)
		r.sleep(20 * time.Second)
		r.wantLines([]string{"done a 5s", "busy a", "duplicate a "}, "done", "busy", "duplicate")
		r.wantCount(r.url, 0)
	})
}

// After its pause a duplicate may be in the hands of another worker. Its old handle is not used
// then: it would show the message to a third one.
func TestDuplicateElsewhereStaysHidden(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("a")
		r.run(byBody(r.config(func(ctx context.Context, m *worker.Message) error { return sleepOr(ctx, 70*time.Second) })))
		r.sleep(time.Second)
		r.wantLines([]string{"busy a"}, "busy")
		r.client.SetFault(func(operation string) sqstest.Fault { // this worker is not the next to receive it
			if operation == "ReceiveMessage" {
				return sqstest.Dropped
			}
			return sqstest.None
		})
		r.sleep(62 * time.Second)
		if got := r.receiveFor(r.url, 10*time.Minute); *got.Body != "a" {
			t.Fatalf("received %q", *got.Body)
		}
		r.sleep(30 * time.Second)
		r.wantLines([]string{"done a 1m10s"}, "done")
		out, err := r.server.Client().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &r.url})
		if err != nil || len(out.Messages) != 0 {
			t.Errorf("%d messages are to be had, error %v: one is in the hands of another worker", len(out.Messages), err)
		}
	})
}
