package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tenaq/internal/engine"
	"tenaq/internal/testing/audit"
)

// A flowClient works on the queues of flows.
type flowClient struct {
	*flows
	rig  *rig
	rng  *rand.Rand
	ctx  context.Context
	held []*flowDelivery

	stopped bool // the server has said that it is stopping
}

// A flowDelivery is a message that a client has received.
type flowDelivery struct {
	queue, body string
	handle      engine.Handle
}

// work does random things until the power is off.
func (c *flowClient) work(off <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-off:
			cancel()
		case <-ctx.Done():
		}
	}()
	c.ctx = ctx
	for !c.sim.history.off() && !c.stopped {
		switch n := c.rng.IntN(100); {
		case n < 12:
			c.sendNew(entrances[c.rng.IntN(len(entrances))], 1)
		case n < 18:
			c.sendNew(entrances[c.rng.IntN(len(entrances))], 2+c.rng.IntN(9))
		case n < 26:
			c.sendAgain()
		case n < 56:
			name := flowingNames[c.rng.IntN(len(flowingNames))]
			if c.rng.IntN(2) == 0 {
				name = entrances[c.rng.IntN(len(entrances))]
			}
			c.held = append(c.held, c.receive(name, c.rng.Int64N(5), c.rng.Int64N(3))...)
		case n < 66:
			c.deleteOne()
		case n < 72:
			c.change()
		case n < 75 && !c.still:
			c.startMove()
		case n < 85: // forgotten, so that it dies
			c.pick(false)
		case n == 85 && c.rng.IntN(4) == 0:
			for range 20 { // more than a task moves in one step
				c.sendNew("left", 10)
			}
		default:
			time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(2*time.Second)))
		}
	}
}

// do carries out an operation and then calls record with the history locked. A refusal that is not
// expected is a problem.
func (c *flowClient) do(op engine.Op, refusals bool, record func(span audit.Span, o audit.Outcome)) {
	h := c.sim.history
	a := h.call()
	err := c.rig.Do(c.ctx, op)
	var refusal *engine.Error
	refused := errors.As(err, &refusal)
	c.stopped = c.stopped || errors.Is(err, ErrStopped)
	var answered func()
	if err == nil || refused {
		_, answered = h.answer(a)
	} else {
		h.mu.Lock()
		answered = h.mu.Unlock
	}
	defer answered()
	span, o := c.span(a)
	if o == audit.Done && refused {
		if !refusals {
			c.sim.complain("%T was refused: %v", op, err)
		}
		o = audit.Refused
	}
	record(span, o)
}

// sendNew sends some new messages to a queue.
func (c *flowClient) sendNew(queue string, n int) {
	var sends []audit.Send
	for range n {
		id := c.sim.bodies.Add(1)
		s := audit.Send{Queue: queue, Attempts: 1, Body: fmt.Sprint(id)}
		if flowing[queue].FIFO {
			s.Group, s.Dedup = fmt.Sprint("group-", c.rng.IntN(4)), "dedup-"+s.Body
		}
		sends = append(sends, s)
	}
	c.sim.history.locked(func() { c.sent = append(c.sent, sends...) })
	c.send(queue, sends)
}

// sendAgain sends a message, or several of one queue, that were sent lately: most often without an
// answer the first time, when it was before the last power cut.
func (c *flowClient) sendAgain() {
	var sends []audit.Send
	n := 1 + c.rng.IntN(3)
	c.sim.history.locked(func() {
		lately := c.sent[max(0, len(c.sent)-40):]
		for _, i := range c.rng.Perm(len(lately)) {
			if s := lately[i]; flowing[s.Queue].FIFO && len(sends) < n {
				sends = append(sends, s)
			}
		}
	})
	if len(sends) > 0 {
		c.send(sends[0].Queue, sends)
	}
}

func (c *flowClient) send(queue string, sends []audit.Send) {
	var drafts []engine.Draft
	for _, s := range sends {
		e := engine.Entry{ID: text(s.Body), Body: text(s.Body)}
		if len(s.Body)%2 == 0 { // too large for the message row
			e.Body.Value += strings.Repeat(" ", 1500)
		}
		if s.Group != "" {
			e.Group, e.Dedup = text(s.Group), text(s.Dedup)
		}
		drafts = append(drafts, engine.NewDraft(e))
	}
	one := &engine.SendMessage{Queue: named(queue), Draft: drafts[0]}
	several := &engine.SendMessageBatch{Queue: named(queue), Given: true, Drafts: drafts}
	op, sentAs := engine.Op(several), func(i int) engine.Sent { return several.Sent[i] }
	if len(drafts) == 1 {
		op, sentAs = one, func(int) engine.Sent { return one.Sent }
	}
	c.do(op, false, func(span audit.Span, o audit.Outcome) {
		c.answers++
		for i, s := range sends {
			s.Span, s.Outcome, s.Batch = span, o, c.answers
			if o == audit.Done {
				sent := sentAs(i)
				s.MessageID = fmt.Sprint(sent.ID)
				if s.Group != "" {
					s.Sequence = sent.Sequence.String()
				}
				c.lineage[sent.ID] = s.Body
			}
			c.audit.Sends = append(c.audit.Sends, s)
			if s.Dedup != "" {
				c.keyed = append(c.keyed, keyedSend{body: s.Body, called: s.Call, id: s.MessageID, trusted: c.sim.history.trusted()})
			}
		}
	})
}

// receive returns what it got. An answer that contains a message that cannot be identified counts
// as no answer.
func (c *flowClient) receive(queue string, visibility, wait int64) (got []*flowDelivery) {
	op := &engine.ReceiveMessage{
		Queue: named(queue), Max: number(1 + c.rng.Int64N(10)), Visibility: number(visibility), Wait: number(wait),
	}
	c.do(op, false, func(span audit.Span, o audit.Outcome) {
		if o != audit.Done {
			return
		}
		c.answers++
		var deliveries []audit.Delivery
		for i, d := range op.Messages {
			body, ok := c.body(d)
			if !ok {
				got = nil
				return
			}
			if above := sourcesOf(queue); d.Lineage == d.ID && len(above) > 0 && queue[0] != 'l' && queue[0] != 'r' && !slices.Contains(above, d.Source) {
				c.sim.complain("message %s was received from %s, and says that it came from %q", body, queue, d.Source)
			}
			handle := handleOf(op.Received, i)
			deliveries = append(deliveries, audit.Delivery{
				Span: span, Queue: queue, Receive: c.answers, Body: body, MessageID: fmt.Sprint(d.ID), Handle: handle.Text,
				Count: int(d.Receives), Sent: d.Sent, FirstReceive: d.FirstReceive,
				Visibility: time.Duration(visibility) * time.Second,
				Group:      d.Group, Dedup: d.Dedup,
			})
			if flowing[queue].FIFO {
				deliveries[i].Sequence = d.Sequence.String()
			}
			got = append(got, &flowDelivery{queue, body, handle})
		}
		c.audit.Deliveries = append(c.audit.Deliveries, deliveries...)
	})
	return got
}

// sourcesOf returns the ARNs of the queues for which a queue is the dead-letter queue.
func sourcesOf(queue string) (arns []string) {
	for _, name := range slices.Sorted(maps.Keys(flowing)) {
		if flowing[name].DeadLetter == queue {
			arns = append(arns, arn(name))
		}
	}
	return arns
}

// body returns the body of a delivered message, which may have gone since.
func (c *flowClient) body(d engine.Delivery) (string, bool) {
	known, ok := c.lineage[d.Lineage]
	content, there := c.rig.ReadContent(d)
	if !there {
		return known, ok
	}
	body := strings.TrimSpace(content.Body)
	if ok && known != body {
		c.sim.complain("message %s has the lineage of %s", body, known)
	}
	c.lineage[d.Lineage] = body
	return body, true
}

func (c *flowClient) pick(keep bool) *flowDelivery {
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

// deleteOne deletes a message, unless it is one that is never deleted.
func (c *flowClient) deleteOne() {
	d := c.pick(c.rng.IntN(4) == 0)
	if d == nil {
		return
	}
	if n, _ := strconv.Atoi(d.body); n%7 == 0 {
		return
	}
	c.delete(d)
}

func (c *flowClient) delete(d *flowDelivery) {
	c.do(deleteOp(d.queue, d.handle), true, func(span audit.Span, o audit.Outcome) {
		c.audit.Deletes = append(c.audit.Deletes, audit.Delete{Span: span, Outcome: o, Handle: d.handle.Text})
	})
}

func (c *flowClient) change() {
	d := c.pick(true)
	if d == nil {
		return
	}
	seconds := c.rng.Int64N(6)
	if c.rng.IntN(2) == 0 {
		seconds = 0
	}
	c.do(changeOp(d.queue, d.handle, seconds), true, func(span audit.Span, o audit.Outcome) {
		c.audit.Changes = append(c.audit.Changes, audit.Change{
			Span: span, Outcome: o, Handle: d.handle.Text, Visibility: time.Duration(seconds) * time.Second,
		})
	})
}

// startMove starts a move task, and sometimes cancels it soon.
func (c *flowClient) startMove() {
	m := audit.Move{Source: []string{"dead", "dead.fifo", "buried", "left", "right"}[c.rng.IntN(5)]}
	switch m.Source { // no message there has a source to go back to
	case "left":
		m.Destination = "right"
	case "right":
		m.Destination = "left"
	}
	if c.rng.IntN(2) == 0 {
		c.startTask(m)
		return
	}
	op := &engine.StartMessageMoveTask{Account: named("").Account, Source: text(arn(m.Source))}
	if m.Destination != "" {
		op.Destination = text(arn(m.Destination))
	}
	if c.rng.IntN(2) == 0 {
		op.Rate = number(1 + c.rng.Int64N(100))
	}
	var handle string
	c.do(op, true, func(span audit.Span, o audit.Outcome) {
		m.Span, m.Outcome = span, o
		c.audit.Moves = append(c.audit.Moves, m)
		if o == audit.Done {
			handle = op.Task.Handle
		}
	})
	if handle != "" && c.rng.IntN(6) == 0 {
		cancel := &engine.CancelMessageMoveTask{Account: named("").Account, Handle: text(handle)}
		c.do(cancel, true, func(audit.Span, audit.Outcome) {})
	}
}

// startTask starts a task that selects every message, and steers it.
func (c *flowClient) startTask(m audit.Move) {
	op := &engine.StartTask{Queue: named(m.Source), To: m.Destination, By: "ops"}
	if c.rng.IntN(2) == 0 {
		op.Rate = 1 + c.rng.Int64N(100)
	}
	id := ""
	c.do(op, true, func(span audit.Span, o audit.Outcome) {
		m.Span, m.Outcome = span, o
		c.audit.Moves = append(c.audit.Moves, m)
		if o == audit.Done {
			id = op.Task.ID
		}
	})
	steps := [][]engine.TaskChange{{engine.CancelTask}, {engine.PauseTask, engine.ResumeTask}, {engine.SetTaskRate}}
	if id == "" || c.rng.IntN(2) == 0 {
		return
	}
	for _, change := range steps[c.rng.IntN(len(steps))] {
		c.do(&engine.ChangeTask{Account: named("").Account, ID: id, Change: change, Rate: 50, By: "ops"}, true,
			func(audit.Span, audit.Outcome) {})
	}
}

// clients starts the clients of a machine.
func (f *flows) clients(r *rig, off <-chan struct{}, wait *sync.WaitGroup) {
	for range 6 {
		c := &flowClient{flows: f, rig: r, rng: rand.New(rand.NewPCG(f.sim.rng.Uint64(), 2))}
		wait.Go(func() { c.work(off) })
	}
}
