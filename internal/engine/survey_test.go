package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/tally"
	"tenaq/internal/testing/proof"
)

// At any time, a survey reports for all queues what their attributes say, and the counts add up to
// it. [METRIC-3]
func TestSurvey(t *testing.T) {
	seed := proof.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	counts := new(tally.Queues)
	e := engine.Open(kv.NewMemory(), engine.Config{Region: "us-east-1", InFlightMax: 20, Window: 8, Tally: counts, Fault: func(s string) { t.Fatal(s) }})
	now := int64(1_700_000_000_000)
	apply := func(op engine.Op) error {
		for {
			var seed [16]byte
			for i := range seed {
				seed[i] = byte(r.Uint32())
			}
			err := e.Apply(engine.Command{Now: now, Seed: seed, Op: op})
			if err != engine.ErrAgain {
				return err
			}
			e.Commit()
		}
	}
	queue := func(name string) engine.QueueName { return engine.QueueName{Account: "000000000000", Name: name} }
	names := []string{"a", "b.fifo", "c", "dead", "dead.fifo"}
	dead := func(name string) string {
		return `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:` + name + `","maxReceiveCount":"2"}`
	}
	for _, c := range []struct {
		name       string
		attributes map[string]string
	}{
		{"dead", nil},
		{"dead.fifo", map[string]string{"FifoQueue": "true"}},
		{"a", map[string]string{"RedrivePolicy": dead("dead"), "MessageRetentionPeriod": "120", "VisibilityTimeout": "5"}},
		{"b.fifo", map[string]string{"FifoQueue": "true", "DelaySeconds": "3", "RedrivePolicy": dead("dead.fifo"), "VisibilityTimeout": "5"}},
		{"c", map[string]string{"DelaySeconds": "7", "MessageRetentionPeriod": "60", "VisibilityTimeout": "4"}},
	} {
		if err := apply(&engine.CreateQueue{Queue: queue(c.name), NameSet: true, Attributes: c.attributes}); err != nil {
			t.Fatal(err)
		}
	}
	told := make(map[engine.QueueName]engine.Gauge) // by News
	var handles []engine.Handle
	var of []string
	for step := range 3000 {
		now += int64(r.IntN(700))
		name := names[r.IntN(3)]
		switch r.IntN(5) {
		case 0, 1:
			d := engine.NewDraft(engine.Entry{Body: engine.Text{Value: "body", Set: true}})
			if name == "b.fifo" {
				d = engine.NewDraft(engine.Entry{
					Body:  engine.Text{Value: "body", Set: true},
					Group: engine.Text{Value: fmt.Sprint(r.IntN(4)), Set: true}, Dedup: engine.Text{Value: fmt.Sprint(r.IntN(500)), Set: true},
				})
			}
			if err := apply(&engine.SendMessage{Queue: queue(name), Draft: d}); err != nil {
				t.Fatal(err)
			}
		case 2, 3:
			op := &engine.ReceiveMessage{Queue: queue(name), Max: engine.Int{Value: 4, Set: true}}
			if err := apply(op); err != nil {
				continue // too many are in flight
			}
			for _, m := range op.Messages {
				handles = append(handles, engine.Handle{Text: "h", Valid: true, Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation})
				of = append(of, name)
			}
		default:
			if len(handles) > 0 {
				recent := len(handles) // half of the deletes are of what was received lately: the handles of a FIFO queue expire
				if r.IntN(2) == 0 {
					recent = min(recent, 8)
				}
				i := len(handles) - 1 - r.IntN(recent)
				_ = apply(&engine.DeleteMessage{Queue: queue(of[i]), Handle: handles[i]}) // which may have expired
			}
		}
		if r.IntN(4) == 0 {
			e.Commit()
		}
		if step%25 != 0 {
			continue
		}
		for news := (&engine.News{Max: 2, More: step > 0}); news.More; {
			if err := apply(news); err != nil {
				t.Fatal(err)
			}
			for _, g := range news.Gauges {
				told[g.Queue] = g
			}
		}
		var gauges []engine.Gauge
		for survey := (&engine.Survey{Max: 2, Watch: step == 0, More: true}); survey.More; survey.After = survey.Last {
			if err := apply(survey); err != nil {
				t.Fatal(err)
			}
			gauges = append(gauges, survey.Gauges...)
		}
		if len(gauges) != len(names) {
			t.Fatalf("step %d: a survey tells of %d queues, want %d", step, len(gauges), len(names))
		}
		for i, g := range gauges {
			if step == 0 {
				told[g.Queue] = g
			} else if told[g.Queue] != g {
				t.Fatalf("step %d: the news say %+v, a survey %+v", step, told[g.Queue], g)
			}
			op := &engine.GetQueueAttributes{Queue: queue(names[i]), Names: []string{"All"}}
			if err := apply(op); err != nil {
				t.Fatal(err)
			}
			number := func(attribute string) int64 {
				n, _ := strconv.ParseInt(op.Attributes[attribute], 10, 64)
				return n
			}
			want := engine.Gauge{
				Queue: queue(names[i]), Visible: number("ApproximateNumberOfMessages"),
				InFlight: number("ApproximateNumberOfMessagesNotVisible"), Delayed: number("ApproximateNumberOfMessagesDelayed"), Age: g.Age, AWSAge: g.AWSAge, Kept: g.Kept,
				FIFO: op.Attributes["FifoQueue"] == "true", VisibilityTimeout: number("VisibilityTimeout") * 1000, Retention: number("MessageRetentionPeriod") * 1000,
				DeadLetterTarget: map[string]string{"a": "dead", "b.fifo": "dead.fifo"}[names[i]],
			}
			if g != want {
				t.Fatalf("step %d: a survey says %+v, the attributes %+v", step, g, want)
			}
			live := g.Visible + g.InFlight + g.Delayed
			c := counts.Of("000000000000", names[i])
			if left := c.Sent.Value() + c.Arrived.Value() - c.Deleted.Value() - c.Expired.Value() - c.DeadLetters.Value() - c.Moved.Value(); left != live {
				t.Fatalf("step %d: by the counts %s has %d messages, it has %d", step, names[i], left, live)
			}
			if (g.Age > 0) && live == 0 || g.Age > number("MessageRetentionPeriod")*1000 {
				t.Fatalf("step %d: the oldest message of %s is %d ms old", step, names[i], g.Age)
			}
		}
	}
	for _, name := range []string{"a", "b.fifo", "c"} {
		c := counts.Of("000000000000", name)
		for what, n := range map[string]int64{
			"sent": c.Sent.Value(), "received": c.Received.Value(), "deleted": c.Deleted.Value(), "redelivered": c.Redelivered.Value(),
		} {
			if n == 0 {
				t.Errorf("%s: nothing was %s, so the test is worth little", name, what)
			}
		}
	}
}

// The age is that of the oldest message, wherever it is and whatever was removed before it.
func TestSurveyAge(t *testing.T) {
	counts := new(tally.Queues)
	e := engine.Open(kv.NewMemory(), engine.Config{Region: "us-east-1", InFlightMax: 100, Tally: counts, Fault: func(s string) { t.Fatal(s) }})
	now := int64(1_700_000_000_000)
	apply := func(op engine.Op) {
		t.Helper()
		for {
			err := e.Apply(engine.Command{Now: now, Op: op})
			if err == nil {
				return
			}
			if err != engine.ErrAgain {
				t.Fatal(err)
			}
			e.Commit()
		}
	}
	q, d := engine.QueueName{Account: "1", Name: "q"}, engine.QueueName{Account: "1", Name: "dead"}
	want := func(age, deadAge int64) {
		t.Helper()
		op := &engine.Survey{Max: 10}
		apply(op)
		if got := op.Gauges[1].Age; got != age {
			t.Errorf("the oldest message is %d ms old, want %d", got, age)
		}
		if got := op.Gauges[0].Age; got != deadAge {
			t.Errorf("the oldest dead letter is %d ms old, want %d", got, deadAge)
		}
	}
	send := func(to engine.QueueName) {
		apply(&engine.SendMessage{Queue: to, Draft: engine.NewDraft(engine.Entry{Body: engine.Text{Value: "b", Set: true}})})
	}
	receive := func() (handles []engine.Handle) {
		op := &engine.ReceiveMessage{Queue: q, Max: engine.Int{Value: 10, Set: true}, Visibility: engine.Int{Value: 1, Set: true}}
		apply(op)
		for _, m := range op.Messages {
			handles = append(handles, engine.Handle{Text: "h", Valid: true, Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation})
		}
		return handles
	}
	apply(&engine.CreateQueue{Queue: d, NameSet: true})
	apply(&engine.CreateQueue{Queue: q, NameSet: true, Attributes: map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:1:dead","maxReceiveCount":"1"}`,
	}})
	want(0, 0)
	send(q)
	now += 1000
	send(q)
	now += 1000
	want(2000, 0)
	first := receive()
	now += 500
	want(2500, 0) // in flight counts as well
	apply(&engine.DeleteMessage{Queue: q, Handle: first[0]})
	want(1500, 0)
	now += 2000
	send(d)
	receive() // one time too many: the second message is dead
	now += 100
	want(0, 3600) // as old as it was
	if c := counts.Of("1", "q"); c.DeadLetters.Value() != 1 || c.Received.Value() != 2 {
		t.Errorf("%d messages left for the dead letters, and %d were received", c.DeadLetters.Value(), c.Received.Value())
	}
}
