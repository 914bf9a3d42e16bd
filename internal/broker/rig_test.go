package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// A rig is a broker that runs, most often inside a bubble, and short ways to ask it for things.
type rig struct {
	*Broker
	t    testing.TB
	stop func() // stops Run and waits for it
}

// newConfig returns a broker's configuration over store, with faults that fail the test.
func newConfig(t testing.TB, store kv.Store) Config {
	return Config{
		Store: store,
		Engine: engine.Config{
			Region:      "elsewhere",
			InFlightMax: 120_000,
			Fault:       func(sentence string) { panic(sentence) },
		},
	}
}

// start runs a broker until the test ends or stop is called.
func start(t testing.TB, cfg Config) *rig { return run(t, mustNew(t, cfg)) }

// mustNew opens a broker over a store that is not lost.
func mustNew(t testing.TB, cfg Config) *Broker {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return b
}

// run runs a broker that has been opened.
func run(t testing.TB, b *Broker) *rig {
	r := &rig{Broker: b, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	return r
}

// bubble runs f on a broker over an empty store in memory, with a queue named orders, inside a
// bubble.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newConfig(t, kv.NewMemory()))
		r.create("orders")
		f(t, r)
	})
}

func named(name string) engine.QueueName {
	return engine.QueueName{Account: "000000000000", Name: name}
}

func number(n int64) engine.Int { return engine.Int{Value: n, Set: true} }

func text(s string) engine.Text { return engine.Text{Value: s, Set: true} }

func draft(body string) engine.Draft { return engine.NewDraft(engine.Entry{Body: text(body)}) }

func sendOp(queue, body string) *engine.SendMessage {
	return &engine.SendMessage{Queue: named(queue), Draft: draft(body)}
}

func delayedOp(queue, body string, seconds int64) *engine.SendMessage {
	return &engine.SendMessage{
		Queue: named(queue),
		Draft: engine.NewDraft(engine.Entry{Body: text(body), Delay: number(seconds)}),
	}
}

// receiveOp receives one message and waits for it up to some seconds.
func receiveOp(queue string, wait int64) *engine.ReceiveMessage {
	return &engine.ReceiveMessage{Queue: named(queue), Wait: number(wait)}
}

// do is Do for an operation that must succeed.
func (r *rig) do(op engine.Op) {
	r.t.Helper()
	if err := r.Do(context.Background(), op); err != nil {
		r.t.Fatalf("%T: %v", op, err)
	}
}

// do is rig.do and returns the operation with its answer.
func do[O engine.Op](r *rig, op O) O {
	r.t.Helper()
	r.do(op)
	return op
}

// create creates a queue; attributes are given as name, value, name, value.
func (r *rig) create(queue string, attributes ...string) {
	r.t.Helper()
	op := &engine.CreateQueue{Queue: named(queue), NameSet: true, Attributes: make(map[string]string)}
	for pair := range slices.Chunk(attributes, 2) {
		op.Attributes[pair[0]] = pair[1]
	}
	r.do(op)
}

func (r *rig) send(queue, body string) { r.t.Helper(); r.do(sendOp(queue, body)) }

// attribute returns one attribute of a queue.
func (r *rig) attribute(queue, name string) string {
	r.t.Helper()
	return do(r, &engine.GetQueueAttributes{Queue: named(queue), Names: []string{name}}).Attributes[name]
}

// bodies returns the bodies of what a receive delivered, joined by blanks.
func (r *rig) bodies(res engine.Received) string {
	var bodies []string
	for _, m := range res.Messages {
		c, ok := r.ReadContent(m)
		if !ok {
			c.Body = "(removed)"
		}
		bodies = append(bodies, c.Body)
	}
	return strings.Join(bodies, " ")
}

// take receives one message, which must be there, without waiting, and hides it for some seconds.
func (r *rig) take(queue string, visibility int64) engine.Handle {
	r.t.Helper()
	res := do(r, &engine.ReceiveMessage{Queue: named(queue), Wait: number(0), Visibility: number(visibility)}).Received
	if len(res.Messages) != 1 {
		r.t.Fatalf("receive from %s returned %d messages, want 1", queue, len(res.Messages))
	}
	return handleOf(res, 0)
}

// takeNothing checks that a queue has no message to receive.
func (r *rig) takeNothing(queue string) {
	r.t.Helper()
	if res := do(r, receiveOp(queue, 0)).Received; len(res.Messages) != 0 {
		r.t.Errorf("receive from %s returned %q, want nothing", queue, r.bodies(res))
	}
}

// takeNothingBefore is takeNothing, unless the time has come.
func (r *rig) takeNothingBefore(queue string, end time.Time) {
	r.t.Helper()
	if time.Until(end) > slack {
		r.takeNothing(queue)
	}
}

// handleOf returns the receipt handle of a delivery.
func handleOf(res engine.Received, i int) engine.Handle {
	m := res.Messages[i]
	return engine.Handle{
		Text:        fmt.Sprintf("%d/%d/%d", m.Space, m.Seq, m.Generation),
		Valid:       true,
		Incarnation: res.Incarnation,
		Space:       m.Space,
		Seq:         m.Seq,
		Generation:  m.Generation,
	}
}

func deleteOp(queue string, h engine.Handle) *engine.DeleteMessage {
	return &engine.DeleteMessage{Queue: named(queue), Handle: h}
}

func changeOp(queue string, h engine.Handle, seconds int64) *engine.ChangeMessageVisibility {
	return &engine.ChangeMessageVisibility{Queue: named(queue), Handle: h, Timeout: number(seconds)}
}

// A call is an operation that a caller waits for.
type call struct {
	r      *rig
	cancel context.CancelFunc
	begun  time.Time
	done   chan struct{}

	// Set when done is closed.
	res   engine.Received // of a receive
	err   error
	after time.Duration // how long it took
}

// begin submits an operation and lets another goroutine wait for its answer. Inside a bubble, the
// operation has reached the broker and all that could be done at once has been done when begin
// returns.
func (r *rig) begin(op engine.Op) *call {
	c := r.beginOutside(op)
	synctest.Wait()
	return c
}

// beginOutside is begin without waiting for anything.
func (r *rig) beginOutside(op engine.Op) *call {
	return r.beginWith(op, func(ctx context.Context) error { return r.Do(ctx, op) })
}

func (r *rig) beginWith(op engine.Op, do func(context.Context) error) *call {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{r: r, cancel: cancel, begun: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = do(ctx)
		if receive, ok := op.(*engine.ReceiveMessage); ok && c.err == nil {
			c.res = receive.Received
		}
		c.after = time.Since(c.begun)
	}()
	r.t.Cleanup(cancel)
	return c
}

func (c *call) answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// slack is what the writer may sleep longer than it has to.
const slack = time.Millisecond

// wantAt checks that the call ends after a time with one message of that body, or with none when
// body is empty.
func (c *call) wantAt(after time.Duration, body string) {
	c.r.t.Helper()
	<-c.done
	if c.err != nil {
		c.r.t.Errorf("refused: %v", c.err)
	}
	if got := c.r.bodies(c.res); got != body {
		c.r.t.Errorf("received %q, want %q", got, body)
	}
	// Broker time counts in whole milliseconds, so an answer may come up to one early.
	if c.after < after-slack || c.after > after+slack {
		c.r.t.Errorf("answered after %v, want %v", c.after, after)
	}
}

// wantWaiting checks that the call has not been answered.
func (c *call) wantWaiting() {
	c.r.t.Helper()
	if synctest.Wait(); c.answered() {
		c.r.t.Errorf("answered with %q, %v; want it to wait", c.r.bodies(c.res), c.err)
	}
}

// wantRefused checks that the engine refused the call.
func (c *call) wantRefused(code engine.Code) {
	c.r.t.Helper()
	<-c.done
	var refusal *engine.Error
	if !errors.As(c.err, &refusal) || refusal.Code != code {
		c.r.t.Errorf("answered with error %v, want %s", c.err, code)
	}
}
