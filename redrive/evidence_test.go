package redrive_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/redrive"
)

// blind is a redriver of workers that keep no ledger, on a server that does not say what becomes of
// messages.
func blind(c *redrive.Config) {
	c.Claims = nil
	c.Client = amazon{c.Client}
}

// amazon is a client of a server that offers nothing but SQS.
type amazon struct{ redrive.SQS }

// finish deletes what can be received of the work.
func (r *rig) finish() (done int) {
	r.t.Helper()
	for {
		out, err := r.server.Client().ReceiveMessage(r.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &r.work, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return done
		}
		for _, m := range out.Messages {
			r.remove(m)
			done++
		}
	}
}

// remove deletes a message that was received from the work.
func (r *rig) remove(m types.Message) {
	r.t.Helper()
	if _, err := r.server.Client().DeleteMessage(r.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &r.work, ReceiptHandle: m.ReceiptHandle}); err != nil {
		r.t.Fatal(err)
	}
}

// A queue with a long visibility timeout, or a redriver with a long interval, takes longer to say
// what became of a message than silence is waited for. It is waited for until it can be known.
func TestSlowToSettle(t *testing.T) {
	for _, test := range []struct {
		visibility string
		interval   time.Duration
	}{
		{"900", 5 * time.Minute}, // 10 receives, so 151 minutes
		{"30", 2 * time.Hour},
	} {
		inBubble(t, "", func(t *testing.T, r *rig) {
			if _, err := r.server.Client().SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
				QueueUrl: &r.work, Attributes: map[string]string{"VisibilityTimeout": test.visibility},
			}); err != nil {
				t.Fatal(err)
			}
			r.letters(4, "timeout")
			d := r.redriver(func(c *redrive.Config) {
				blind(c)
				c.Interval, c.Look = test.interval, time.Minute
			})
			if report := r.step(d); report.Count(redrive.Redrive) != 4 {
				t.Fatalf("decided %+v", report.Decisions)
			}
			r.sleep(3 * time.Minute)
			if n := r.finish(); n != 4 {
				t.Fatalf("%d done", n)
			}
			for range 5*time.Hour/test.interval + 1 {
				r.sleep(test.interval)
				r.step(d)
			}
			if s, err := d.State(t.Context()); err != nil || s.WeakSuccesses != 4 || len(s.Flights) != 0 {
				t.Errorf("visibility %s s, interval %v: %d have not come back, %d are on their way (error %v), want 4 and none",
					test.visibility, test.interval, s.WeakSuccesses, len(s.Flights), err)
			}
		})
	}
}

// If a ledger reports outcomes, the redriver does not wait for silence, however late a message
// could come back.
func TestGivenUp(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		if _, err := r.server.Client().SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
			QueueUrl: &r.work, Attributes: map[string]string{"VisibilityTimeout": "43200"},
		}); err != nil {
			t.Fatal(err)
		}
		r.letters(1, "timeout")
		d := r.redriver(nil)
		r.step(d)
		r.sleep(50 * time.Minute)
		if s := r.step(d).State; len(s.Flights) != 1 {
			t.Errorf("after 50 minutes %d are waited for", len(s.Flights))
		}
		r.sleep(15 * time.Minute)
		if s := r.step(d).State; len(s.Flights) != 0 || s.Successes+s.Failures != 0 {
			t.Errorf("after an hour %+v", s)
		}
	})
}

// Without a ledger a step that may learn of successes goes through all dead letters, also through
// more than it looks at otherwise.
func TestLongBacklogUnheard(t *testing.T) {
	proof.Unraced(t)
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.letters(1100, "timeout")
		d := r.redriver(blind)
		for range 15 {
			r.step(d)
			r.sleep(time.Minute)
			r.finish()
		}
		if s, err := d.State(t.Context()); err != nil || s.WeakSuccesses == 0 || s.Rate <= 5 {
			t.Errorf("after a quarter of an hour in which all succeeded: %d successes, rate %d, error %v", s.WeakSuccesses, s.Rate, err)
		}
	})
}

// A message that came back behind ten others of its group cannot be seen, and is not taken for
// processed.
func TestGroupHidesWhatCameBack(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		r.letters(15, "timeout")
		r.sleep(2 * time.Minute)
		d := r.redriver(blind)
		if report := r.step(d); report.Count(redrive.Redrive) != 1 {
			t.Fatalf("decided %+v", report.Decisions)
		}
		out, err := r.server.Client().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &r.work, MessageAttributeNames: []string{"All"},
		})
		if err != nil || len(out.Messages) != 1 {
			t.Fatalf("received %d messages, error %v", len(out.Messages), err)
		}
		m := out.Messages[0]
		if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &r.dead, MessageBody: m.Body, MessageAttributes: m.MessageAttributes, MessageGroupId: aws.String("g"), MessageDeduplicationId: m.MessageId,
		}); err != nil {
			t.Fatal(err)
		}
		r.remove(m)
		for range 10 {
			r.sleep(time.Minute)
			r.step(d)
		}
		if s, err := d.State(t.Context()); err != nil || s.WeakSuccesses != 0 {
			t.Errorf("%d successes, error %v", s.WeakSuccesses, err)
		}
	})
}

// If a message of a group has to wait, the messages behind it wait too.
func TestGroupWaitsForItsHead(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		for i, redrives := range []int{4, 0} {
			if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl: &r.dead, MessageBody: aws.String(fmt.Sprint("g-", i)), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String(fmt.Sprint(i)),
				MessageAttributes: map[string]types.MessageAttributeValue{"tenaq": {DataType: aws.String("String"), StringValue: aws.String(
					fmt.Sprintf("v=1&key=k%d&lineage=first%d&reason=timeout&redrives=%d&source=%s", i, i, redrives, sqstest.ARN("work.fifo")))}},
			}); err != nil {
				t.Fatal(err)
			}
		}
		d := r.redriver(nil)
		r.sleep(8 * time.Minute)
		if report := r.step(d); report.Count(redrive.Hold) != 2 || report.Decisions[1].Held != redrive.HeldGroup {
			t.Errorf("decided %+v, want both held, the second because of its group", report.Decisions)
		}
		r.sleep(9 * time.Minute)
		if report := r.step(d); report.Count(redrive.Redrive) != 1 || report.Decisions[0].Key != "k0" || report.Decisions[0].Action != redrive.Redrive {
			t.Errorf("decided %+v, want the first redriven", report.Decisions)
		}
	})
}

// Message groups of a standard queue share a queue fairly and have no order: they stay, and nothing
// waits for them.
func TestGroupsOfStandardQueue(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for i := range 5 {
			if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl: &r.dead, MessageBody: aws.String(fmt.Sprint(i)), MessageGroupId: aws.String("tenant"),
			}); err != nil {
				t.Fatal(err)
			}
		}
		d := r.redriver(func(c *redrive.Config) { c.TargetURL = r.work })
		report := r.step(d)
		if report.Count(redrive.Redrive) != 5 || report.Decisions[0].Delay < time.Minute {
			t.Fatalf("decided %+v, want five redriven with a delay", report.Decisions)
		}
		r.sleep(2 * time.Minute)
		for _, m := range r.look(r.work) {
			if got := m.Attributes["MessageGroupId"]; got != "tenant" {
				t.Errorf("%s is of the group %q", aws.ToString(m.Body), got)
			}
		}
	})
}

// Work whose message a FIFO queue moved by itself is still the same work, by its deduplication id.
func TestMovedByFIFOQueue(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		claim, err := r.ledger().Acquire(t.Context(), "order-7")
		if err == nil {
			err = claim.Complete(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &r.dead, MessageBody: aws.String("x"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("order-7"),
		}); err != nil {
			t.Fatal(err)
		}
		r.poisonIs(func(string) error { return errors.New("it was done before") })
		r.startWorker()
		r.run(r.redriver(func(c *redrive.Config) { c.TargetURL = r.work }).Run)
		r.sleep(10 * time.Minute)
		r.wantCounts(0, 0, 0)
		if n := r.sawTimes()["x"]; n != 0 {
			t.Errorf("it was handled %d times, and its work is recorded as completed", n)
		}
	})
}
