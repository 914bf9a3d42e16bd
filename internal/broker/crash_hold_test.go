package broker

import (
	"fmt"
	"strings"
	"time"

	"tenaq/internal/engine"
)

const (
	packing  = "packing.fifo"  // a queue whose dead letters hold their groups
	unpacked = "unpacked.fifo" // its dead-letter queue
)

// heldGroups is what clients know of the messages of these queues. A message is delivered only
// after every message before it in its group was deleted, as a dead letter or not. It is guarded by
// the lock of the history.
type heldGroups struct {
	groups  map[string][]*heldMessage // in the order of their sends
	sending bool                      // one at a time, so that there is an order
	heldTotals
}

type heldMessage struct {
	group        string
	n            int
	stored, dead bool // surely, and seen as a dead letter
	ended        bool // a client has tried to delete it
	drained      bool
}

func (m *heldMessage) String() string { return fmt.Sprintf("%s/%d", m.group, m.n) }

// heldTotals counts what came about in some simulations.
type heldTotals struct{ sends, deliveries, deadLetters, holding, returns int }

func (t *heldTotals) add(h *heldGroups) {
	t.sends += h.sends
	t.deliveries += h.deliveries
	t.deadLetters += h.deadLetters
	t.holding += h.holding
	t.returns += h.returns
}

func (t *heldTotals) missing() bool {
	return t.deliveries == 0 || t.deadLetters == 0 || t.holding == 0 || t.returns == 0
}

func (t *heldTotals) String() string {
	return fmt.Sprintf("%d sends and %d deliveries in groups, %d dead letters, of which %d held others and %d came back",
		t.sends, t.deliveries, t.deadLetters, t.holding, t.returns)
}

func newHeldGroups() *heldGroups { return &heldGroups{groups: make(map[string][]*heldMessage)} }

// set creates the queues, where they are missing.
func (g *heldGroups) set(r *rig) {
	g.sending = false // who was sending has lost the power
	retention := fmt.Sprint(int(retentionOfFlows / time.Second))
	r.do(&engine.CreateQueue{Queue: named(unpacked), NameSet: true,
		Attributes: map[string]string{"FifoQueue": "true", "MessageRetentionPeriod": retention}})
	r.do(&engine.CreateQueue{Queue: named(packing), NameSet: true,
		Tags: []engine.Tag{{Key: "tenaq:fifo-on-dead-letter", Value: "hold-group"}},
		Attributes: map[string]string{"FifoQueue": "true", "MessageRetentionPeriod": retention,
			"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, arn(unpacked))}})
}

// work does one random thing.
func (g *heldGroups) work(c *client) {
	switch n := c.rng.IntN(10); {
	case n < 3:
		g.send(c)
	case n < 7:
		g.receive(c, packing)
	case n < 9:
		g.receive(c, unpacked)
	default:
		c.do(c.sim.history.call(), &engine.StartMessageMoveTask{Account: named("").Account,
			Source: text(arn(unpacked))}, nil)
	}
}

func (g *heldGroups) send(c *client) {
	h := c.sim.history
	var m *heldMessage
	h.locked(func() {
		if g.sending {
			return
		}
		g.sending = true
		group := string("abc"[c.rng.IntN(3)])
		m = &heldMessage{group: group, n: len(g.groups[group])}
		g.groups[group] = append(g.groups[group], m)
	})
	if m == nil {
		return
	}
	entry := engine.Entry{Body: text(m.String()), Group: text(m.group), Dedup: text(m.String())}
	op := &engine.SendMessage{Queue: named(packing), Draft: engine.NewDraft(entry)}
	c.do(h.call(), op, func() { g.sends++; m.stored, g.sending = true, false })
}

// receive takes a message, and deletes it, gives it back, or forgets it.
func (g *heldGroups) receive(c *client, queue string) {
	h := c.sim.history
	op := &engine.ReceiveMessage{Queue: named(queue), Max: number(1), Visibility: number(1 + c.rng.Int64N(4))}
	var m *heldMessage
	c.do(h.call(), op, func() {
		if len(op.Messages) == 1 {
			m = g.delivered(c.sim, c.rig, queue, op.Messages[0])
		}
	})
	switch n := c.rng.IntN(8); {
	case m == nil:
	case n < 3 && queue == packing, n == 0:
		h.locked(func() { m.ended = true })
		c.do(h.call(), deleteOp(queue, handleOf(op.Received, 0)), nil)
	case n < 7:
		c.do(h.call(), changeOp(queue, handleOf(op.Received, 0), 0), nil)
	}
}

// delivered finds the message of a delivery and complains if it should not have been delivered.
func (g *heldGroups) delivered(s *simulation, r *rig, queue string, d engine.Delivery) *heldMessage {
	content, ok := r.ReadContent(d)
	if !ok {
		return nil // deleted meanwhile
	}
	var n int
	group, number, _ := strings.Cut(content.Body, "/")
	if _, err := fmt.Sscan(number, &n); err != nil || n >= len(g.groups[group]) {
		s.complain("%s delivers %q, which was never sent", queue, content.Body)
		return nil
	}
	m := g.groups[group][n]
	m.stored = true
	if queue == unpacked {
		if !m.dead {
			g.deadLetters++
			if n+1 < len(g.groups[group]) && g.groups[group][n+1].stored {
				g.holding++
			}
		}
		m.dead = true
		return m
	}
	g.deliveries++
	if m.dead {
		m.dead = false
		g.returns++
	}
	for _, earlier := range g.groups[group][:n] {
		if earlier.stored && !earlier.ended {
			s.complain("message %v was delivered before %v", m, earlier)
		}
	}
	return m
}

// drain receives and deletes everything that is left.
func (g *heldGroups) drain(s *simulation, r *rig) {
	for empty := 0; empty < 2; empty++ { // what was received too often moves first
		for _, queue := range []string{unpacked, packing} {
			op := &engine.ReceiveMessage{Queue: named(queue), Max: number(10), Visibility: number(visibilityOfDrain)}
			r.do(op)
			for i, d := range op.Messages {
				empty = -1
				m := g.delivered(s, r, queue, d)
				if m == nil || m.drained {
					s.complain("%s holds the message %v twice, or without its content", queue, m)
					return
				}
				m.drained, m.ended = true, true
				r.do(deleteOp(queue, handleOf(op.Received, i)))
			}
		}
	}
	for _, messages := range g.groups {
		for _, m := range messages {
			if m.stored && !m.ended {
				s.complain("message %v of %s is lost", m, packing)
			}
		}
	}
}
