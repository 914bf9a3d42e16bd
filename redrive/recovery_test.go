package redrive_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/redrive"
	"tenaq/redrive/breaker"
)

// consume runs a consumer that keeps no ledger, as a function that a queue triggers: it deletes
// what succeeds and leaves the rest to the queue.
func (r *rig) consume(fails func(body string) bool) {
	client := r.server.Client()
	r.run(func(ctx context.Context) error {
		for ctx.Err() == nil {
			out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &r.work, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
			if err != nil {
				continue
			}
			for _, m := range out.Messages {
				r.mu.Lock()
				r.seen[*m.Body]++
				failed := r.sick || fails(*m.Body)
				if !failed {
					r.done[*m.Body]++
				}
				r.mu.Unlock()
				if failed {
					continue
				}
				_, _ = client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &r.work, ReceiptHandle: m.ReceiptHandle})
			}
		}
		return nil
	})
}

// setReceives sets how often the queue delivers a message before it is a dead letter.
func (r *rig) setReceives(n string) {
	r.t.Helper()
	if _, err := r.server.Client().SetQueueAttributes(r.t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: &r.work, Attributes: map[string]string{string(types.QueueAttributeNameRedrivePolicy): sqstest.RedrivePolicy("dead", n)},
	}); err != nil {
		r.t.Fatal(err)
	}
}

// unclaimed is a redriver without a ledger, on a server that says what becomes of messages.
func unclaimed(c *redrive.Config) { c.Claims = nil }

// Without a ledger, sixty dead letters are back within minutes: on a tenaq server, which reports
// deletes, and on any other, where silence is the only evidence. Poison among them delays the
// others by little. The steps are those of a continuous redriver with much to do, ten seconds
// apart.
func TestRecoveryWithoutLedger(t *testing.T) {
	proof.Unraced(t)
	const letters = 60
	for _, test := range []struct {
		name     string
		ledger   func(*redrive.Config)
		receives string
		poison   bool
		most     int // steps
	}{
		{"tenaq", unclaimed, "3", false, 50},
		{"tenaq", unclaimed, "10", false, 50},
		{"tenaq", unclaimed, "3", true, 85},
		{"SQS", blind, "3", false, 98},
		{"SQS", blind, "10", false, 140},
		{"SQS", blind, "10", true, 250},
	} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.setReceives(test.receives)
			r.consume(func(body string) bool { return test.poison && body == "g0-dead" })
			r.letters(letters, "")
			want := letters
			if test.poison {
				want--
			}
			d := r.redriver(func(c *redrive.Config) {
				test.ledger(c)
				c.Interval, c.Look = 30*time.Second, 15*time.Second
			})
			began, steps, lowest := time.Now(), 0, 1000
			for ; len(r.didTimes()) < want && steps <= test.most; steps++ {
				lowest = min(lowest, r.step(d).State.Rate)
				r.sleep(10 * time.Second)
			}
			t.Logf("%s, %s receives, poison %v: %d steps in %v, lowest rate %d", test.name, test.receives, test.poison, steps, time.Since(began), lowest)
			if steps > test.most {
				t.Errorf("%s, %s receives, poison %v: %d of %d done after %d steps", test.name, test.receives, test.poison, len(r.didTimes()), want, steps)
			}
		})
	}
}

// Early judgement of silence does not wear out a failing consumer, however long its queue retries:
// messages that come back late open the breaker again, for longer each time.
func TestOutageWithoutLedger(t *testing.T) {
	proof.Unraced(t)
	const letters = 40
	for _, test := range []struct {
		name     string
		ledger   func(*redrive.Config)
		receives string
		most     int // redriven in eight hours
	}{
		{"tenaq", unclaimed, "10", 20},
		{"SQS", blind, "3", 20},
		{"SQS", blind, "10", 45},
		{"SQS", blind, "100", 90},
	} {
		if testing.Short() && test.receives != "10" {
			continue
		}
		inBubble(t, "", func(t *testing.T, r *rig) {
			r.setReceives(test.receives)
			r.setSick(true)
			r.consume(func(string) bool { return false })
			r.letters(letters, "")
			d := r.redriver(test.ledger)
			var s redrive.State
			for range 8 * 60 {
				s = r.step(d).State
				r.sleep(time.Minute)
			}
			t.Logf("%s, %s receives: %d redriven in eight hours of outage", test.name, test.receives, s.Redriven)
			if s.Redriven > test.most {
				t.Errorf("%s, %s receives: %d redriven, want at most %d", test.name, test.receives, s.Redriven, test.most)
			}
			r.setSick(false)
			for range 6 * 60 {
				if len(r.didTimes()) == letters {
					break
				}
				s = r.step(d).State
				r.sleep(time.Minute)
			}
			if len(r.didTimes()) != letters || s.Breaker.State != breaker.Closed || r.count(r.parked) != 0 {
				t.Errorf("%s, %s receives: %d of %d done six hours after it, %d parked, the breaker is %s",
					test.name, test.receives, len(r.didTimes()), letters, r.count(r.parked), s.Breaker.State)
			}
		})
	}
}

// The redriver believes a server that reports outcomes: a message that waits in its queue is not a
// success, however long it is silent, and a deleted one is, unless the consumer made a dead letter
// of it itself.
func TestFollowed(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(3, "timeout")
		d := r.redriver(unclaimed)
		r.step(d)
		for range 50 {
			r.sleep(time.Minute)
			if s := r.step(d).State; s.Successes+s.WeakSuccesses != 0 || len(s.Flights) != 3 {
				t.Fatalf("no consumer received them, and the redriver knows of %d successes, %d on their way", s.Successes+s.WeakSuccesses, len(s.Flights))
			}
		}
		for _, m := range r.look(r.work) {
			if *m.Body == "g0-dead" { // it is sent to the dead-letter queue by the consumer, and then deleted
				if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &r.dead, MessageBody: m.Body, MessageAttributes: m.MessageAttributes}); err != nil {
					t.Fatal(err)
				}
			}
			r.remove(m)
		}
		s := r.step(d).State
		if s.Successes != 2 || s.Failures != 1 {
			t.Errorf("%d successes, %d failures, want 2 and 1", s.Successes, s.Failures)
		}
	})
}

// A server that does not answer for a moment is asked again, and one that refuses to say leaves
// silence.
func TestFollowedServerFails(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(1, "timeout")
		d := r.redriver(unclaimed)
		r.step(d)
		r.sleep(3 * time.Minute)
		r.finish()
		r.client.SetFault(func(operation string) sqstest.Fault {
			if strings.Contains(operation, "/v1/") {
				return sqstest.Broken
			}
			return sqstest.None
		})
		if s := r.step(d).State; s.Successes+s.WeakSuccesses != 0 || len(s.Flights) != 1 {
			t.Errorf("nothing was answered, and the state is %+v", s)
		}
		r.client.SetFault(nil)
		if s := r.step(d).State; s.Successes != 1 || len(s.Flights) != 0 {
			t.Errorf("the state is %+v, want one success", s)
		}
	})
}
