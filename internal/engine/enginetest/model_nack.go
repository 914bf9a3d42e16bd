package enginetest

import (
	"slices"

	"tenaq/internal/engine"
)

// modelEndings says how each verdict is recorded.
var modelEndings = map[engine.Verdict]engine.Ending{engine.Retry: 1, engine.Poison: 2,
	engine.Release: 3, engine.Exhausted: 1}

const endReturned engine.Ending = 4

// newest returns the message of the newest receive that a handle names. [NACK-7]
func (m *Model) newest(q *modelQueue, h engine.Handle) (*modelMessage, *engine.Error) {
	if !h.Valid || h.Incarnation != q.incarnation {
		_, no := m.find(q, h)
		return nil, modelEntry(no, h, false)
	}
	i := slices.IndexFunc(q.messages, func(msg *modelMessage) bool {
		return h.Space == q.space && msg.seq == h.Seq
	})
	switch {
	case i < 0:
		return nil, modelGone()
	case q.messages[i].generation != uint64(h.Generation):
		return nil, modelRefusal(engine.CodeConflict,
			"The message was received again, and only the newest receipt handle can end its receive.")
	}
	return q.messages[i], nil
}

func modelGone() *engine.Error {
	return modelRefusal(engine.CodeNoResource,
		"The message is gone: it was deleted, moved or has expired.")
}

// nack ends the newest receive of a message. [NACK-1 to NACK-9]
func (m *Model) nack(q *modelQueue, n *engine.NackEntry) *engine.Error {
	m.settle(q)
	msg, no := m.newest(q, n.Handle)
	if no != nil {
		return no
	}
	target := m.queues[m.redrive(q.attributes["RedrivePolicy"]).target]
	moves := n.Verdict == engine.Poison || n.Verdict == engine.Exhausted
	trailed := msg.entry
	if n.Trail.Set {
		trailed = withTrail(msg.entry, n.Trail.Value)
	}
	switch until := m.now + n.Delay; {
	case msg.ended == n.Verdict:
		return nil
	case msg.ended != "":
		return modelBadValue(string(n.Verdict), "verdict",
			"The receive was already ended with another verdict.")
	case q.checkHandle(msg, n.Handle, m.now) != nil:
		return q.checkHandle(msg, n.Handle, m.now)
	case moves && (target == nil || target == q):
		return modelRefusal(engine.CodeInvalidParameter, "The queue %s has no dead-letter queue for the message. "+
			"Set a RedrivePolicy that names another queue, or use the verdict retry.", q.name.Name)
	case until > msg.last+43200*1000:
		return modelRefusal(engine.CodeInvalidParameter, "Value %d for parameter delayMs is invalid. "+
			"Reason: The message would be hidden for more than 43200000 milliseconds after its receive.",
			n.Delay)
	case n.Trail.Set && sizeOf(&trailed) > target.number("MaximumMessageSize"):
		return modelRefusal(engine.CodeInvalidParameter,
			"With the trail, the message has %d bytes, and the queue %s takes at most %d.",
			sizeOf(&trailed), target.name.Name, target.number("MaximumMessageSize"))
	}
	msg.ended = n.Verdict
	m.tell(msg, modelEndings[n.Verdict], n.Class, n.Text)
	if moves {
		msg.kind = available // it has not timed out
		moved := m.deadLetter(q, msg)
		if n.Trail.Set {
			moved.entry, moved.base = trailed, m.now
		}
		return nil
	}
	msg.changed = true
	m.hideFor(msg, n.Delay)
	switch {
	case n.Verdict == engine.Release:
		msg.receives--
	case n.Delay == 0:
		m.hideReceived(q, msg, 0)
	}
	return nil
}

// tell records how the newest receive ended, once for each receive.
func (m *Model) tell(msg *modelMessage, how engine.Ending, class, text string) {
	attempts := slices.Clone(msg.attempts)
	if msg.told {
		attempts = attempts[:len(attempts)-1]
	}
	if len(attempts) == 5 {
		leaves := 0
		for i := len(attempts) - 1; i >= 0; i-- {
			if attempts[i].Class == "" && attempts[i].Text == "" {
				leaves = i
			}
		}
		attempts = append(attempts[:leaves], attempts[leaves+1:]...)
	}
	msg.attempts, msg.told = append(attempts, engine.Attempt{How: how, Receive: msg.receives,
		Received: msg.last, Ended: m.now, Class: class, Text: text}), true
}
