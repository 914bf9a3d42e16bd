package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tenaq/internal/broker"
	"tenaq/internal/engine"
	"tenaq/internal/testing/audit"
)

// A client works on the queues of a story, through any node that says it leads, and records the
// answers.
type client struct {
	*story
	rng  *rand.Rand
	held []holding
}

// A holding is a message that a client has received.
type holding struct {
	queue  string
	handle engine.Handle
}

const (
	patience     = 5 * time.Second  // of a client with one request
	visibilities = 20 * time.Second // the longest timeout
)

func (c *client) work() {
	for !c.stopped.Load() {
		switch n := c.rng.IntN(100); {
		case n < 18:
			c.send("line.fifo", c.newBody(), 0)
		case n < 24:
			c.sendAgain()
		case n < 38:
			c.send("work", c.newBody(), 0)
		case n < 68:
			c.receive(names[c.rng.IntN(len(names))], c.visibility(), c.rng.Int64N(3))
		case n < 86:
			c.deleteOne()
		case n < 92:
			c.change()
		case n < 97: // forgotten, so that it dies
			c.pick(false)
		default:
			time.Sleep(time.Second)
		}
		time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(100*time.Millisecond)))
	}
}

func (c *client) visibility() int64 {
	if c.rng.IntN(10) == 0 {
		return int64(visibilities / time.Second)
	}
	return 1 + c.rng.Int64N(6)
}

// An answer is what a client knows of an operation.
type answer struct {
	audit.Span
	audit.Outcome
	op       engine.Op
	unknowns int // attempts whose outcome is unknown
}

// do carries out an operation. It asks another node when the operation was not carried out, and
// with again also when the outcome is unknown. Then is called with the answer before the broker can
// end.
func (c *client) do(op func() engine.Op, again bool, then func(b *broker.Broker, a *answer)) *answer {
	a := &answer{Outcome: audit.Refused}
	a.Call = c.now()
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(50 * time.Millisecond) {
		for _, i := range c.rng.Perm(c.voters) {
			if !c.try(c.nodes[i], op, a, then) {
				continue
			}
			if a.Outcome != audit.Unknown || !again {
				return a
			}
			a.unknowns++
		}
	}
	a.Return = c.now()
	if a.unknowns > 0 {
		a.Outcome = audit.Unknown
	}
	return a
}

// try asks one node, and reports whether the operation may have been carried out.
func (c *client) try(n *node, op func() engine.Op, a *answer, then func(*broker.Broker, *answer)) bool {
	b := n.enter()
	if b == nil {
		return false
	}
	defer n.exit()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := n.port.Load()
	if !p.awakeBy(ctx) || p.isClosed() {
		return false
	}
	o := op()
	err := b.Do(ctx, o)
	heard := p.awakeBy(ctx) && !p.isClosed()
	a.Return = c.now()
	_, refused := errors.AsType[*engine.Error](err)
	switch {
	case errors.Is(err, broker.ErrNotLeader), errors.Is(err, broker.ErrStopped), errors.Is(err, broker.ErrThrottled):
		return false
	case !heard || err != nil && !refused:
		a.Outcome = audit.Unknown
	case refused:
		a.Outcome, a.op = audit.Refused, o
	default:
		a.Outcome, a.op = audit.Done, o
		if then != nil {
			then(b, a)
		}
	}
	return true
}

// awakeBy is awake for a client that does not wait longer than ctx.
func (p *port) awakeBy(ctx context.Context) bool {
	for {
		paused := p.node.paused.Load()
		if paused == nil {
			return true
		}
		select {
		case <-*paused:
		case <-p.ended:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func queueName(name string) engine.QueueName {
	return engine.QueueName{Account: "000000000000", Name: name}
}

func (c *client) newBody() string {
	return fmt.Sprint(c.bodies.Add(1))
}

// send sends a message. One of a FIFO queue is sent until it is acknowledged.
func (c *client) send(queue, body string, group int) {
	s := audit.Send{Queue: queue, Body: body}
	e := engine.Entry{Body: text(body)}
	if isFIFO := shop[queue].FIFO; isFIFO {
		if group == 0 {
			group = 1 + c.rng.IntN(3)
		}
		s.Group, s.Dedup = fmt.Sprint("group-", group), "dedup-"+body
		e.Group, e.Dedup = text(s.Group), text(s.Dedup)
		began := time.Now()
		defer func() { c.keep(sentBefore{queue, body, group, began}) }()
	}
	a := c.do(func() engine.Op {
		return &engine.SendMessage{Queue: queueName(queue), Draft: engine.NewDraft(e)}
	}, s.Dedup != "", nil)
	s.Span, s.Outcome, s.Attempts = a.Span, a.Outcome, a.unknowns
	if a.Outcome == audit.Done || a.unknowns == 0 {
		s.Attempts++
	}
	c.sees.Lock()
	defer c.sees.Unlock()
	if a.Outcome == audit.Done {
		sent := a.op.(*engine.SendMessage).Sent
		s.MessageID = fmt.Sprint(sent.ID)
		if s.Group != "" {
			s.Sequence = sent.Sequence.String()
		}
		c.lineage[sent.ID] = body
		c.acknowledged.Add(1)
	}
	c.history.Sends = append(c.history.Sends, s)
}

// A sentBefore is a message of a FIFO queue that may be sent again.
type sentBefore struct {
	queue, body string
	group       int
	at          time.Time
}

func (c *client) keep(s sentBefore) {
	c.sees.Lock()
	defer c.sees.Unlock()
	c.lately = append(c.lately[max(0, len(c.lately)-20):], s)
}

// sendAgain sends a message that was sent lately once more, well before the end of its window.
func (c *client) sendAgain() {
	c.sees.Lock()
	var s sentBefore
	if len(c.lately) > 0 {
		s = c.lately[c.rng.IntN(len(c.lately))]
	}
	c.sees.Unlock()
	if s.body != "" && time.Since(s.at) < time.Minute {
		c.send(s.queue, s.body, s.group)
	}
}

// receive keeps what it gets, and returns how many messages that are. An answer that contains an
// unknown message counts as no answer.
func (c *client) receive(queue string, visibility, wait int64) int {
	var holdings []holding
	var deliveries []audit.Delivery
	a := c.do(func() engine.Op {
		return &engine.ReceiveMessage{Queue: queueName(queue), Max: number(1 + c.rng.Int64N(10)),
			Visibility: number(visibility), Wait: number(wait)}
	}, false, func(b *broker.Broker, a *answer) {
		op := a.op.(*engine.ReceiveMessage)
		holdings, deliveries = nil, nil
		for _, m := range op.Messages {
			content, ok := b.ReadContent(m)
			body := content.Body
			c.sees.Lock()
			if known := c.lineage[m.Lineage]; !ok {
				body = known
			} else if c.lineage[m.Lineage] = body; known != "" && known != body {
				c.t.Errorf("message %v has the bodies %q and %q", m.ID, known, body)
			}
			c.sees.Unlock()
			if body == "" {
				holdings, deliveries = nil, nil
				return
			}
			h := engine.Handle{Text: fmt.Sprintf("%d/%d/%d", m.Space, m.Seq, m.Generation), Valid: true,
				Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation}
			d := audit.Delivery{Queue: queue, Body: body, MessageID: fmt.Sprint(m.ID), Handle: h.Text,
				Count: int(m.Receives), Sent: m.Sent, FirstReceive: m.FirstReceive,
				Visibility: time.Duration(visibility) * time.Second, Group: m.Group, Dedup: m.Dedup}
			if shop[queue].FIFO {
				d.Sequence = m.Sequence.String()
			}
			holdings, deliveries = append(holdings, holding{queue, h}), append(deliveries, d)
		}
	})
	c.sees.Lock()
	defer c.sees.Unlock()
	c.receives++
	for i := range deliveries {
		deliveries[i].Span, deliveries[i].Receive = a.Span, c.receives
	}
	c.history.Deliveries = append(c.history.Deliveries, deliveries...)
	c.held = append(c.held, holdings...)
	return len(holdings)
}

// pick takes a random message out of those that the client holds, or leaves it there.
func (c *client) pick(keep bool) (h holding, ok bool) {
	if len(c.held) == 0 {
		return h, false
	}
	i := c.rng.IntN(len(c.held))
	h = c.held[i]
	if !keep {
		c.held = slices.Delete(c.held, i, i+1)
	}
	return h, true
}

func (c *client) deleteOne() {
	if h, ok := c.pick(c.rng.IntN(4) == 0); ok {
		c.delete(h)
	}
}

func (c *client) delete(h holding) {
	a := c.do(func() engine.Op {
		return &engine.DeleteMessage{Queue: queueName(h.queue), Handle: h.handle}
	}, false, nil)
	c.sees.Lock()
	defer c.sees.Unlock()
	c.history.Deletes = append(c.history.Deletes, audit.Delete{Span: a.Span, Outcome: a.Outcome, Handle: h.handle.Text})
}

func (c *client) change() {
	h, ok := c.pick(true)
	if !ok {
		return
	}
	seconds := c.rng.Int64N(6)
	a := c.do(func() engine.Op {
		return &engine.ChangeMessageVisibility{Queue: queueName(h.queue), Handle: h.handle, Timeout: number(seconds)}
	}, false, nil)
	c.sees.Lock()
	defer c.sees.Unlock()
	c.history.Changes = append(c.history.Changes, audit.Change{Span: a.Span, Outcome: a.Outcome,
		Handle: h.handle.Text, Visibility: time.Duration(seconds) * time.Second})
}
