package redrive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/queuetest"
	"tenaq/redrive"
)

// A redriver that is given the queue of a consumer hides nothing from it, receives once, and says
// what to do.
func TestNotDeadLetters(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		inBubble(t, suffix, func(t *testing.T, r *rig) {
			live := r.server.Queue(t, "live"+suffix)
			in := &sqs.SendMessageInput{QueueUrl: &live, MessageBody: aws.String("order-17")}
			if suffix != "" {
				in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String("1")
			}
			if _, err := r.client.SendMessage(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			redriver := func(target string) *redrive.Redriver {
				made, err := redrive.New(redrive.Config{Client: r.client, Store: r.store, DeadLetterURL: live, ParkingURL: r.parked, TargetURL: target})
				if err != nil {
					t.Fatal(err)
				}
				return made
			}
			wrong := redriver("")
			for range 5 {
				if _, err := wrong.Step(t.Context()); !errors.Is(err, redrive.ErrNotDeadLetters) {
					t.Errorf("step: %v, want ErrNotDeadLetters", err)
				}
				got := r.server.Messages("live" + suffix)
				if len(got) != 1 || got[0].State != queuetest.Visible || got[0].Receives != 0 {
					t.Errorf("the queue has %+v, want one visible message without a receive", got)
				}
				if n := r.client.Calls("ReceiveMessage"); n != 1 {
					t.Errorf("it was received %d times, want once", n)
				}
				time.Sleep(5 * time.Minute)
			}
			if _, err := redriver("").Plan(t.Context()); !errors.Is(err, redrive.ErrNotDeadLetters) {
				t.Errorf("plan: %v, want ErrNotDeadLetters", err)
			}

			// With a target, or with a policy that names the queue, it is one.
			if report, err := redriver(r.work).Plan(t.Context()); err != nil || report.Count(redrive.Redrive) != 1 {
				t.Errorf("plan with a target: %+v, %v", report, err)
			}
			time.Sleep(time.Hour)
			r.server.Queue(t, "source"+suffix, "RedrivePolicy", queuetest.RedrivePolicy("live"+suffix, 3))
			if report, err := wrong.Step(t.Context()); err != nil || report.Count(redrive.Hold) != 1 {
				t.Errorf("step over a named queue: %+v, %v", report, err)
			}
		})
	}
}

// noListing is a client whose credentials do not allow it to list the sources of a queue.
type noListing struct{ *sqs.Client }

func (noListing) ListDeadLetterSourceQueues(
	context.Context, *sqs.ListDeadLetterSourceQueuesInput, ...func(*sqs.Options),
) (*sqs.ListDeadLetterSourceQueuesOutput, error) {
	return nil, errors.New("AccessDenied")
}

// If it is unknown whether a policy names the queue, its messages are held one by one: a real dead
// letter behind others is redriven.
func TestNotDeadLettersUnknown(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		in := &sqs.SendMessageInput{QueueUrl: &r.dead, MessageBody: aws.String("order-17")}
		if _, err := r.client.SendMessage(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		redriver := r.redriver(func(cfg *redrive.Config) { cfg.Client = noListing{r.client.Client} })
		for range 2 {
			if report, err := redriver.Step(t.Context()); err != nil || report.Count(redrive.Hold) != 1 || report.Decisions[0].Held != redrive.HeldOther {
				t.Errorf("step: %+v, %v; want one held message", report.Decisions, err)
			}
			time.Sleep(time.Minute)
		}
	})
}
