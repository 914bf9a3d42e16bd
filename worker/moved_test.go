package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/worker"
)

// tight makes the queue of a rig move messages after that many receives, which is fewer than the
// attempts.
func (r *rig) tight(receives string) {
	r.t.Helper()
	if _, err := r.server.Client().SetQueueAttributes(r.t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: &r.url, Attributes: map[string]string{"RedrivePolicy": sqstest.RedrivePolicy("dead", receives)},
	}); err != nil {
		r.t.Fatal(err)
	}
}

// states counts the entries of the ledger by their states.
func (r *rig) states() map[claims.State]int {
	r.t.Helper()
	entries, err := r.ledger().List(r.t.Context(), "", "", 100)
	if err != nil {
		r.t.Fatal(err)
	}
	n := make(map[claims.State]int)
	for _, e := range entries {
		n[e.State]++
	}
	return n
}

// Messages that the queue moves to its dead-letter queue by itself are settled in the ledger, so
// that expected = completed + exhausted. The letters can be received as before, and are done when
// they are brought back.
func TestMovedByQueue(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.tight("2")
		id := r.send("dead") // of a worker that died in the last receive
		if _, err := r.ledger().AcquireWith(t.Context(), "dead", claims.Note{Message: id}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r.receiveFor(r.url, time.Second)
			r.sleep(time.Second)
		}
		for _, body := range []string{"released", "failed", "fine"} {
			r.send(body)
		}
		sick := true
		var said bytes.Buffer
		cfg := byBody(r.config(func(_ context.Context, m *worker.Message) error {
			switch {
			case !sick || m.Body == "fine":
				return nil
			case m.Body == "failed":
				return errSick
			}
			return worker.Later(time.Second, "not yet")
		}))
		cfg.Logger, cfg.Client = slog.New(slog.NewTextHandler(&said, nil)), plain(r.client)
		r.run(cfg)
		r.sleep(20 * time.Second) // before the first look
		if got := r.states(); got[claims.Released] != 1 || got[claims.Failed] != 1 || got[claims.Completed] != 1 || got[claims.Held] != 1 {
			t.Fatalf("the ledger has %v, want work that no worker brings to an end", got)
		}
		r.sleep(15 * time.Minute)
		if got := r.states(); got[claims.Exhausted] != 3 || got[claims.Completed] != 1 {
			t.Errorf("the ledger has %v, want all of it ended", got)
		}
		r.wantLines(nil, "dead", "error")
		for _, want := range []string{"each look counts as a receive there", "its claim is settled as exhausted"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("the log does not say %q: %s", want, said.String())
			}
		}
		out, err := r.server.Client().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &r.dead, MaxNumberOfMessages: 10, VisibilityTimeout: 1})
		if err != nil || len(out.Messages) != 3 {
			t.Errorf("%d letters can be received, error %v", len(out.Messages), err)
		}
		r.sleep(time.Minute)
		sick = false
		if _, err := r.client.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: new(sqstest.ARN("dead"))}); err != nil {
			t.Fatal(err)
		}
		r.sleep(time.Minute)
		if got := r.states(); got[claims.Completed] != 4 {
			t.Errorf("the ledger has %v after the letters were brought back, want all done", got)
		}
	})
}

// A worker that runs for a moment only looks when it ends.
func TestMovedByQueueAtTheEnd(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.tight("1")
		r.send("a")
		cfg := r.config(func(context.Context, *worker.Message) error { return worker.Later(time.Second, "not yet") })
		cfg.Client = plain(r.client)
		stop := r.start(cfg)
		r.sleep(10 * time.Second)
		if got := r.states(); got[claims.Released] != 1 {
			t.Fatalf("the ledger has %v", got)
		}
		r.mustStop(stop)
		if got := r.states(); got[claims.Exhausted] != 1 {
			t.Errorf("the ledger has %v", got)
		}
	})
}

// Looks that settle nothing become rare, since each counts a receive and hides the letters.
func TestLooksBecomeRare(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.tight("2")
		if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &r.dead, MessageBody: new("letter")}); err != nil {
			t.Fatal(err)
		}
		stop := r.start(r.config(func(context.Context, *worker.Message) error { return nil }))
		r.sleep(12 * time.Hour)
		r.mustStop(stop)
		receives, err := strconv.Atoi(r.receive(r.dead).Attributes["ApproximateReceiveCount"])
		if err != nil || receives < 5 || receives > 48 {
			t.Errorf("the letter was received %d times in 12 hours (%v), want 5 to 48", receives, err)
		}
	})
}

// With room above the attempts nothing is received from the dead-letter queue, where it would
// count.
func TestNotMovedByQueue(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &r.dead, MessageBody: new("letter")}); err != nil {
			t.Fatal(err)
		}
		stop := r.start(r.config(func(context.Context, *worker.Message) error { return nil }))
		r.sleep(time.Hour)
		r.mustStop(stop)
		if got := r.receive(r.dead).Attributes["ApproximateReceiveCount"]; got != "1" {
			t.Errorf("the letter was received %s times", got)
		}
	})
}

// A dead-letter queue with a redrive policy of its own would move letters on when they are looked
// at.
func TestMovedLettersRefuse(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "middle", "RedrivePolicy", sqstest.RedrivePolicy("dead", "3"))
		err := worker.MovedLetters(t.Context(), r.client, url, nil)
		if err == nil || !strings.Contains(err.Error(), "a redrive policy of its own") || r.client.Calls("ReceiveMessage") != 0 {
			t.Errorf("error %v after %d receives", err, r.client.Calls("ReceiveMessage"))
		}
	})
}
