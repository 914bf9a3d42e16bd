package outbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/sqstest"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
	"tenaq/records/recordstest"
)

const day = 24 * time.Hour

// receipts are the message ids under which queues took rows, by body.
type receipts struct {
	mu  sync.Mutex
	ids map[string]string
}

// note has them noted by a relay, which need not look often for rows that no program writes.
func (s *receipts) note(c *outbox.Config) {
	c.Poll = time.Hour
	c.Events.Sent = func(row outbox.Row, messageID string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ids == nil {
			s.ids = make(map[string]string)
		}
		s.ids[row.Body] = messageID
	}
}

// wantPast looks whether the outbox knows of all rows with these bodies, and of no other, under
// which message id which queue took them.
func (r *rig) wantPast(s *receipts, when string, queues map[string]string) {
	r.t.Helper()
	_, past, err := r.box.Look(r.t.Context(), allOfIt, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	got, want := make(map[string]string), make(map[string]string)
	for _, p := range past {
		got[p.Body] = p.SentTo + " " + p.MessageID
	}
	for body, queue := range queues {
		want[body] = queue + " " + s.ids[body]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) { // which sorts
		r.t.Errorf("%s the outbox has %v, want %v", when, got, want)
	}
}

// fail receives what a queue has, gives it back, and returns the message ids.
func (r *rig) fail(url string) (ids []string) {
	r.t.Helper()
	out, err := r.server.Client().ReceiveMessage(r.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, VisibilityTimeout: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range out.Messages {
		ids = append(ids, aws.ToString(m.MessageId))
	}
	r.sleep(2 * time.Second)
	return ids
}

// depth is how many messages a queue says that it has.
func (r *rig) depth(url string) string {
	r.t.Helper()
	out, err := r.server.Client().GetQueueAttributes(r.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessages)]
}

// Usual: a message whose retention ends is gone, without a notice; a dead letter of a standard
// queue keeps the clock of its first send, and is gone as soon. Ours: the queue does the same, and
// the outbox still has the row, with the queue and the message id, and can have it sent again.
func TestExpiredIsInTheOutbox_FD11(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const retention = "345600" // 4 days
		quiet := r.server.Queue(t, "quiet", "MessageRetentionPeriod", retention)
		dead := r.server.Queue(t, "dead", "MessageRetentionPeriod", retention)
		jobs := r.server.Queue(t, "jobs", "MessageRetentionPeriod", retention, "RedrivePolicy", sqstest.RedrivePolicy("dead", "1"))
		var sent receipts
		r.start(sent.note)
		r.enqueue(outbox.Message{Queue: "quiet", Body: "unread"}, outbox.Message{Queue: "jobs", Body: "poison"})
		r.sleep(3 * day)
		got := r.fail(jobs)
		if again := r.fail(jobs); len(got) != 1 || got[0] != sent.ids["poison"] || len(again) != 0 || r.depth(dead) != "1" || r.depth(quiet) != "1" {
			t.Fatalf("received %q and then %q, want %q once; %s are dead, %s unread", got, again, sent.ids["poison"], r.depth(dead), r.depth(quiet))
		}
		r.sleep(day)
		for _, url := range []string{quiet, jobs, dead} {
			if got := bodies(r.received(url)); len(got) != 0 {
				t.Errorf("after 4 days there is %q in %s", got, url)
			}
		}
		r.wantStats(0, 0) // nothing says that they are missing
		r.wantPast(&sent, "after 4 days", map[string]string{"unread": "quiet", "poison": "jobs"})

		if done := r.replay(nil); done.Written != 2 {
			t.Errorf("the replay is %+v", done)
		}
		r.sleep(2 * time.Hour)
		if got := append(bodies(r.received(quiet)), bodies(r.received(jobs))...); !slices.Equal(got, []string{"unread", "poison"}) {
			t.Errorf("the replay brought back %q", got)
		}
	})
}

// An expired message was sent and never completed. Outbox and ledger together identify these, and
// send only them again.
func TestExpiredIsNotCompleted_FD11(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "quiet", "MessageRetentionPeriod", "3600")
		jobs := r.server.Queue(t, "jobs", "MessageRetentionPeriod", "3600")
		ledger := r.ledger(recordstest.NewMemory())
		var sent receipts
		r.start(sent.note)
		r.work(jobs, ledger)
		r.enqueue(outbox.Message{Queue: "jobs", Body: "done"}, outbox.Message{Queue: "quiet", Body: "unread"})
		r.sleep(2 * time.Hour)
		r.wantNoted("worked", "done #0")

		missing := func(c *outbox.ReplayConfig) { c.MissingOnly, c.Ledger, c.Lane = true, ledger, "jobs" }
		plan, err := r.replayer(missing).Plan(t.Context(), 10)
		if err != nil || plan.Count != 2 || plan.Completed != 1 {
			t.Errorf("the plan is %+v, %v; want one of two completed", plan, err)
		}
		if done := r.replay(missing); done.Written != 1 {
			t.Errorf("the replay is %+v", done)
		}
		r.sleep(2 * time.Hour)
		r.wantNoted("worked", "unread #0")
	})
}

// Usual: after 14 days SQS has nothing to send again. Ours: the retention of rows is a setting, and
// rows that are there can be replayed, however long ago the queue lost them.
func TestKeptLongerThanQueues_FD16(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		type kept struct {
			*rig
			queue, url string
			keep       time.Duration
			until      time.Duration // the oldest at which it is still there
			sent       receipts
		}
		const later, muchLater = 20 * day, 31 * day
		outboxes := []*kept{
			{queue: "as-it-comes", keep: 0, until: later},
			{queue: "shorter", keep: 19 * day, until: 0},
			{queue: "for-ever", keep: -1, until: muchLater},
		}
		for _, o := range outboxes {
			o.rig = &rig{t: t, server: r.server, box: outboxtest.NewMemory()}
			o.url = r.server.Queue(t, o.queue, "MessageRetentionPeriod", "1209600") // 14 days, the most
			o.enqueue(outbox.Message{Queue: o.queue, Body: "a"})
		}
		relay := func(o *kept) { // for a while; without new rows it would do nothing but look
			stop := o.start(func(c *outbox.Config) { o.sent.note(c); c.Keep = o.keep })
			o.sleep(time.Minute)
			stop()
		}
		for _, o := range outboxes {
			relay(o)
		}
		began := time.Now()
		for _, age := range []time.Duration{later, muchLater} {
			r.sleep(time.Until(began.Add(age)))
			for _, o := range outboxes {
				if n := r.depth(o.url); n != "0" {
					t.Errorf("after %v the queue %s has %s messages", age, o.queue, n)
				}
				relay(o)
				want := make(map[string]string)
				if age <= o.until {
					want["a"] = o.queue
				}
				o.wantPast(&o.sent, fmt.Sprintf("%s: after %v", o.queue, age), want)
			}
		}
		last := outboxes[2]
		last.replay(nil)
		relay(last)
		if got := bodies(last.received(last.url)); !slices.Equal(got, []string{"a"}) {
			t.Errorf("after %v a replay brings back %q", muchLater, got)
		}
	})
}
