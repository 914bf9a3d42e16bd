package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tenaq/internal/engine"
)

// queues of a simulation. In orders and returns nothing ends a message but a delete or its
// retention.
var simulated = []string{"orders", "returns", "brief", "purged"}

// visibilityMax bounds the timeouts of clients.
const visibilityMax = 20 * time.Second

// clients starts the clients of a machine.
func (s *simulation) clients(r *rig, off <-chan struct{}, wait *sync.WaitGroup) {
	for i := range 6 {
		c := &client{sim: s, rig: r, rng: rand.New(rand.NewPCG(s.rng.Uint64(), 2)), raises: i == 0}
		wait.Go(func() { c.work(off) })
	}
}

// A client works on the queues and records the answers.
type client struct {
	sim  *simulation
	rig  *rig
	rng  *rand.Rand
	held []*delivered
	ctx  context.Context

	raises  bool // the register
	stopped bool // the server has said that it is stopping
}

// work does random things until the power is off.
func (c *client) work(off <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // who waits for an answer then waits for nothing
		select {
		case <-off:
			cancel()
		case <-ctx.Done():
		}
	}()
	c.ctx = ctx
	for !c.sim.history.off() && !c.stopped {
		if c.sim.tagged != nil && c.rng.IntN(20) == 0 {
			c.sim.tagged.held.work(c)
			continue
		}
		switch n := c.rng.IntN(100); {
		case n < 20:
			c.sendOne()
		case n < 27:
			c.sendBatch()
		case n < 60:
			got := c.receive(&engine.ReceiveMessage{
				Queue:      named(c.queue()),
				Max:        number(1 + c.rng.Int64N(10)),
				Visibility: number(c.rng.Int64N(int64(visibilityMax / time.Second))),
				Wait:       number(c.rng.Int64N(3)),
			})
			c.held = append(c.held, got...)
		case n < 72:
			c.deleteOne()
		case n < 77:
			c.deleteBatch()
		case n < 84:
			c.change()
		case n < 86 && c.raises:
			c.setTag()
		case n == 86:
			c.createQueue()
		case n == 87:
			c.purge()
		case n == 88:
			c.count(c.queue())
		case n < 91 && c.sim.tagged != nil:
			c.sim.tagged.repeat(c)
		case n < 93 && c.sim.tagged != nil:
			c.sim.tagged.attempt(c)
		default:
			time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(c.sim.patience)))
		}
	}
}

func (c *client) queue() string { return simulated[c.rng.IntN(len(simulated))] }

// do carries out an operation. When it was answered in time, then is called with the history
// locked.
func (c *client) do(a *attempt, op engine.Op, then func()) {
	ctx := c.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	err := c.rig.Do(ctx, op)
	var refusal *engine.Error
	if err != nil && !errors.As(err, &refusal) {
		c.stopped = errors.Is(err, ErrStopped)
		return
	}
	ok, done := c.sim.history.answer(a)
	defer done()
	if !ok {
		return
	}
	if err != nil {
		if !mayBeRefused(op, refusal) {
			c.sim.complain("%T was refused: %v", op, err)
		}
		a.answered = false // nothing happened, and nothing is known
		return
	}
	if then != nil {
		then()
	}
}

// mayBeRefused says whether the operation may come too late: for a message that is gone, in a FIFO
// queue also when its timeout is over, and for a move while another one runs.
func mayBeRefused(op engine.Op, refusal *engine.Error) bool {
	switch op := op.(type) {
	case *engine.ChangeMessageVisibility:
		return refusal.Code == engine.CodeInvalidParameter
	case *engine.DeleteMessage:
		return op.Queue.Name == packing || op.Queue.Name == unpacked
	case *engine.StartMessageMoveTask:
		return true
	}
	return false
}

// message makes a new message and notes that it is going to be sent.
func (c *client) message(queue string, a *attempt) (*sentMessage, engine.Draft) {
	n := c.sim.bodies.Add(1)
	m := &sentMessage{body: fmt.Sprint(n), queue: queue, send: a}
	entry := engine.Entry{ID: text(m.body), Body: text(m.body)}
	if c.rng.IntN(4) == 0 {
		delay := c.rng.Int64N(4)
		m.delay, entry.Delay = time.Duration(delay)*time.Second, number(delay)
	}
	if c.rng.IntN(8) == 0 { // too large for the message row
		entry.Body.Value += strings.Repeat(" ", 1500)
	}
	if c.sim.tagged != nil {
		c.sim.tagged.dress(c, m, &entry)
	}
	c.sim.history.locked(func() { c.sim.history.messages[m.body] = m })
	return m, engine.NewDraft(entry)
}

func (c *client) sent(m *sentMessage, id engine.MessageID) {
	m.id, m.hasID = id, true
	c.sim.history.byID[id] = m
}

func (c *client) sendOne() {
	a := c.sim.history.call()
	queue := c.queue()
	m, draft := c.message(queue, a)
	op := &engine.SendMessage{Queue: named(queue), Draft: draft}
	if c.sim.tagged != nil {
		c.sim.tagged.call(c, m, op)
	}
	c.do(a, op, func() { c.sent(m, op.Sent.ID) })
}

func (c *client) sendBatch() {
	a := c.sim.history.call()
	queue := c.queue()
	op := &engine.SendMessageBatch{Queue: named(queue), Given: true}
	b := &sentBatch{attempt: a}
	for range 1 + c.rng.IntN(10) {
		m, draft := c.message(queue, a)
		b.messages, op.Drafts = append(b.messages, m), append(op.Drafts, draft)
	}
	c.sim.history.locked(func() { c.sim.history.batches = append(c.sim.history.batches, b) })
	c.do(a, op, func() {
		for i, sent := range op.Sent {
			c.sent(b.messages[i], sent.ID)
		}
	})
}

// receive returns what it got, as far as it is known.
func (c *client) receive(op *engine.ReceiveMessage) (got []*delivered) {
	h := c.sim.history
	a := h.call()
	c.do(a, op, func() {
		for i, d := range op.Messages {
			m := h.byID[d.ID]
			if content, ok := c.rig.ReadContent(d); ok {
				m = h.messages[strings.TrimSpace(content.Body)]
			}
			switch {
			case m == nil:
				// Sent without an answer, and removed before its content could be read.
				continue
			case m.queue != op.Queue.Name:
				c.sim.complain("message %s was sent to %s and received from %s", m.body, m.queue, op.Queue.Name)
			case m.hasID && m.id != d.ID:
				c.sim.complain("message %s has the ids %v and %v", m.body, m.id, d.ID)
			}
			c.sent(m, d.ID)
			delivery := &delivered{
				attempt:    a,
				message:    m,
				handle:     handleOf(op.Received, i),
				visibility: time.Duration(op.Visibility.Value) * time.Second,
				receives:   int(d.Receives),
				first:      d.FirstReceive,
				sent:       d.Sent,
			}
			m.deliveries = append(m.deliveries, delivery)
			got = append(got, delivery)
		}
	})
	return got
}

// canary says that a message is never deleted, so that deletes cannot hide every loss.
func (m *sentMessage) canary() bool {
	n, _ := strconv.Atoi(m.body)
	return n%17 == 0
}

// pick takes a random delivery out of those the client holds, or leaves it there.
func (c *client) pick(keep bool) *delivered {
	if len(c.held) == 0 {
		return nil
	}
	i := c.rng.IntN(len(c.held))
	d := c.held[i]
	if !keep {
		c.held = slices.Delete(c.held, i, i+1)
	}
	return d
}

// remove notes that a delete is going to be tried.
func (c *client) remove(a *attempt, d *delivered) *changed {
	ch := &changed{attempt: a, receives: d.receives}
	c.sim.history.locked(func() { d.message.deletes = append(d.message.deletes, ch) })
	return ch
}

func (c *client) deleteOne() {
	d := c.pick(c.rng.IntN(4) == 0)
	if d == nil || d.message.canary() {
		return
	}
	a := c.sim.history.call()
	c.remove(a, d)
	c.do(a, deleteOp(d.message.queue, d.handle), nil)
}

func (c *client) deleteBatch() {
	a := c.sim.history.call()
	b := &deleteBatch{attempt: a}
	op := &engine.DeleteMessageBatch{Given: true}
	for range 10 {
		d := c.pick(false)
		if d == nil || d.message.canary() || len(b.of) > 0 && d.message.queue != b.of[0].queue || slices.Contains(b.of, d.message) {
			continue
		}
		op.Queue = named(d.message.queue)
		op.Entries = append(op.Entries, engine.DeleteEntry{ID: text(d.message.body), Handle: d.handle})
		b.of, b.entries = append(b.of, d.message), append(b.entries, c.remove(a, d))
	}
	if len(b.of) == 0 {
		return
	}
	c.sim.history.locked(func() { c.sim.history.deletes = append(c.sim.history.deletes, b) })
	c.do(a, op, nil)
}

func (c *client) change() {
	d := c.pick(true)
	if d == nil {
		return
	}
	seconds := c.rng.Int64N(15)
	a := c.sim.history.call()
	ch := &changed{attempt: a, receives: d.receives, timeout: time.Duration(seconds) * time.Second}
	c.sim.history.locked(func() { d.message.changes = append(d.message.changes, ch) })
	c.do(a, changeOp(d.message.queue, d.handle, seconds), nil)
}

// setTag raises the register.
func (c *client) setTag() {
	h := c.sim.history
	var value int
	h.locked(func() { h.tag.attempted++; value = h.tag.attempted })
	op := &engine.TagQueue{Queue: named("orders"), Tags: []engine.Tag{{Key: "value", Value: strconv.Itoa(value)}}}
	c.do(h.call(), op, func() { h.tag.answered = max(h.tag.answered, value) })
}

func (c *client) createQueue() {
	h := c.sim.history
	a := h.call()
	name := fmt.Sprintf("queue-%d", c.sim.bodies.Add(1))
	h.locked(func() { h.created[name] = a })
	c.do(a, &engine.CreateQueue{Queue: named(name), NameSet: true}, nil)
}

func (c *client) purge() {
	h := c.sim.history
	a := h.call()
	h.locked(func() { h.purges = append(h.purges, a) })
	c.do(a, &engine.PurgeQueue{Queue: named("purged")}, nil)
}

// count notes how many messages a queue says it has.
func (c *client) count(queue string) {
	a := c.sim.history.call()
	op := &engine.GetQueueAttributes{Queue: named(queue), Names: counters}
	c.do(a, op, func() {
		n := 0
		for _, name := range counters {
			number, _ := strconv.Atoi(op.Attributes[name])
			n += number
		}
		c.sim.history.counts = append(c.sim.history.counts, &counted{attempt: a, queue: queue, messages: n})
	})
}

// counters are what a queue says of its messages. Together they count each once.
var counters = []string{
	"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
}
