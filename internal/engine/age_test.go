package engine_test

import (
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// An ager plays with queues and asks how old their messages are.
type ager struct {
	t   *testing.T
	e   *engine.Engine
	now int64
	id  byte // of the next command
}

func newAger(t *testing.T, store kv.Store) *ager {
	return &ager{t: t, now: 1_700_000_000_000, e: engine.Open(store, engine.Config{Region: "us-east-1", InFlightMax: 100_000, Window: 16, Fault: func(s string) { t.Fatal(s) }})}
}

func (a *ager) apply(op engine.Op) {
	a.t.Helper()
	for {
		a.id++
		err := a.e.Apply(engine.Command{Now: a.now, Seed: [16]byte{a.id, byte(a.now), byte(a.now >> 8)}, Op: op})
		if err == nil {
			return
		}
		if err != engine.ErrAgain {
			a.t.Fatal(err)
		}
		a.e.Commit()
	}
}

func ofAger(name string) engine.QueueName { return engine.QueueName{Account: "1", Name: name} }

// create creates a queue; one with a name for dead letters sends there what was received count
// times.
func (a *ager) create(name, dead, count string, attributes ...string) {
	a.t.Helper()
	set := make(map[string]string)
	if dead != "" {
		set["RedrivePolicy"] = `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:1:` + dead + `","maxReceiveCount":"` + count + `"}`
	}
	for i := 0; i < len(attributes); i += 2 {
		set[attributes[i]] = attributes[i+1]
	}
	a.apply(&engine.CreateQueue{Queue: ofAger(name), NameSet: true, Attributes: set})
}

func (a *ager) send(name string) { a.sendTo(name, "") }

func (a *ager) sendTo(name, group string) {
	a.t.Helper()
	entry := engine.Entry{Body: engine.Text{Value: "b", Set: true}}
	if group != "" {
		entry.Group, entry.Dedup = engine.Text{Value: group, Set: true}, engine.Text{Value: string(rune('a'+a.id%26)) + group, Set: true}
	}
	a.apply(&engine.SendMessage{Queue: ofAger(name), Draft: engine.NewDraft(entry)})
}

// receive receives up to n messages, hides them for a number of seconds, and returns their handles.
func (a *ager) receive(name string, n, seconds int64) (handles []engine.Handle) {
	a.t.Helper()
	op := &engine.ReceiveMessage{Queue: ofAger(name), Max: engine.Int{Value: n, Set: true}, Visibility: engine.Int{Value: seconds, Set: true}}
	a.apply(op)
	for _, m := range op.Messages {
		handles = append(handles, engine.Handle{Text: "h", Valid: true, Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation})
	}
	return handles
}

func (a *ager) delete(name string, h engine.Handle) {
	a.t.Helper()
	a.apply(&engine.DeleteMessage{Queue: ofAger(name), Handle: h})
}

func (a *ager) gauge(name string) engine.Gauge {
	a.t.Helper()
	for op := (&engine.Survey{Max: 10}); ; op.After = op.Last {
		a.apply(op)
		for _, g := range op.Gauges {
			if g.Queue.Name == name {
				return g
			}
		}
		if !op.More {
			a.t.Fatalf("no survey tells of %s", name)
		}
	}
}

// awsAge checks the age that SQS shows.
func (a *ager) awsAge(name string, want int64) {
	a.t.Helper()
	if got := a.gauge(name).AWSAge; got != want {
		a.t.Errorf("by the rules of SQS the oldest message of %s is %d ms old, want %d", name, got, want)
	}
}

// A message of a standard queue that was received three times is left out, whether it is in flight
// or visible again. [METRIC-5]
func TestAWSAgeOfWornMessages(t *testing.T) {
	a := newAger(t, kv.NewMemory())
	a.create("q", "", "")
	a.awsAge("q", 0)
	a.send("q")
	a.now += 1000
	a.send("q")
	a.now += 1000
	for range 2 {
		a.receive("q", 1, 0)
		a.now++
		a.receive("q", 1, 0)
		a.now++
	}
	a.awsAge("q", 2004) // received twice
	h := a.receive("q", 1, 0)[0]
	a.awsAge("q", 1004) // three times: the second message counts
	a.receive("q", 1, 30)
	a.awsAge("q", 0) // so was the second
	a.now += 500
	a.send("q")
	a.now += 7
	a.awsAge("q", 7)
	a.delete("q", h)
	a.awsAge("q", 7)
}

// Nothing changes its place in a FIFO queue, so the oldest message counts however often it was
// received. [METRIC-6]
func TestAWSAgeFIFO(t *testing.T) {
	a := newAger(t, kv.NewMemory())
	a.create("q.fifo", "", "", "FifoQueue", "true")
	a.sendTo("q.fifo", "g")
	a.now += 1000
	a.sendTo("q.fifo", "h")
	for range 5 {
		a.receive("q.fifo", 1, 0)
		a.now += 10
	}
	a.awsAge("q.fifo", 1050)
}

// In a dead-letter queue the age counts from the move, whatever else happens to the message there,
// and so do the receives after which it is left out. [METRIC-7]
func TestAWSAgeOfDeadLetters(t *testing.T) {
	for _, kind := range []string{"", ".fifo"} {
		a := newAger(t, kv.NewMemory())
		var attributes []string
		group := ""
		if kind != "" {
			attributes, group = []string{"FifoQueue", "true"}, "g"
		}
		q, dead := "q"+kind, "dead"+kind
		a.create(dead, "", "", attributes...)
		a.create(q, dead, "5", attributes...)
		a.sendTo(q, group)
		a.now += 1000
		for range 6 {
			a.receive(q, 1, 0)
			a.now += 100
		}
		a.awsAge(q, 0)
		a.awsAge(dead, 100)
		a.now += 400
		a.receive(dead, 1, 1)
		a.now += 2000
		a.awsAge(dead, 2500) // it was received six times in all, and once here
		for range 2 {
			a.receive(dead, 1, 0)
			a.now += 100
		}
		if kind == "" {
			a.awsAge(dead, 0)
		} else {
			a.awsAge(dead, 2700)
		}
	}
}

// A bounded number of messages is read. The last of them stands for those behind it, which can only
// be younger. [METRIC-8]
func TestAWSAgeBound(t *testing.T) {
	a := newAger(t, kv.NewMemory())
	a.create("q", "", "")
	const looked = 256
	for range looked {
		a.send("q")
		a.now++
	}
	for range 3 {
		for range (looked + 9) / 10 {
			a.receive("q", 10, 30)
		}
		a.now += 30_000
	}
	a.awsAge("q", 0)
	a.send("q")
	a.now += 3
	a.awsAge("q", 90_004)
	if g := a.gauge("q"); g.Age != 90_000+looked+3 {
		t.Errorf("the oldest message is %d ms old", g.Age)
	}
	a.delete("q", a.receive("q", 1, 30)[0]) // one of the first: the new one comes last
	a.awsAge("q", 3)
}

// The messages that count are found after segments of deleted ones.
func TestAWSAgeBehindSegments(t *testing.T) {
	a := newAger(t, kv.NewMemory())
	a.create("q", "", "")
	a.send("q")
	for range 3 {
		a.receive("q", 1, 0)
	}
	a.receive("q", 1, 3600)
	for range 3 * 4096 {
		a.send("q")
		a.delete("q", a.receive("q", 1, 1)[0])
	}
	a.now += 1000
	a.send("q")
	a.now += 5
	a.awsAge("q", 5)
}
