package enginetest

import (
	"slices"

	"tenaq/internal/engine"
)

// modelEndings says how each verdict is recorded.
var modelEndings = map[engine.Verdict]engine.Ending{engine.Retry: 1, engine.Poison: 2,
	engine.Release: 3}

const endReturned engine.Ending = 4

// nack ends the newest receive of a message. [NACK-1 to NACK-9]
func (m *Model) nack(q *modelQueue, n *engine.NackEntry) *engine.Error {
	m.settle(q)
	h := n.Handle
	if !h.Valid || h.Incarnation != q.incarnation {
		_, no := m.find(q, h)
		return modelEntry(no, h, false)
	}
	i := slices.IndexFunc(q.messages, func(msg *modelMessage) bool {
		return h.Space == q.space && msg.seq == h.Seq
	})
	if i < 0 {
		return modelBadValue(h.Text, "receiptHandle", "The message no longer exists in the queue.")
	}
	msg := q.messages[i]
	target := m.redrive(q.attributes["RedrivePolicy"]).target
	switch until := m.now + n.Delay; {
	case msg.generation != uint64(h.Generation):
		return modelBadValue(h.Text, "receiptHandle",
			"The message was received again, and only the newest receipt handle can end its receive.")
	case msg.ended == n.Verdict:
		return nil
	case msg.ended != "":
		return modelBadValue(string(n.Verdict), "verdict",
			"The receive was already ended with another verdict.")
	case q.checkHandle(msg, h, m.now) != nil:
		return q.checkHandle(msg, h, m.now)
	case n.Verdict == engine.Poison && (m.queues[target] == nil || target == q.name):
		return modelRefusal(engine.CodeInvalidParameter, "The queue %s has no dead-letter queue for a poison message. "+
			"Set a RedrivePolicy that names another queue, or use the verdict retry.", q.name.Name)
	case until > msg.last+43200*1000:
		return modelRefusal(engine.CodeInvalidParameter, "Value %d for parameter delayMs is invalid. "+
			"Reason: The message would be hidden for more than 43200000 milliseconds after its receive.",
			n.Delay)
	}
	msg.ended = n.Verdict
	m.tell(msg, modelEndings[n.Verdict], n.Class, n.Text)
	if n.Verdict == engine.Poison {
		msg.kind = available // it has not timed out
		m.deadLetter(q, msg)
		return nil
	}
	if n.Verdict == engine.Release {
		msg.receives--
	}
	msg.changed = true
	m.hideFor(msg, n.Delay)
	return nil
}

// tell records how the newest receive ended, once for each receive.
func (m *Model) tell(msg *modelMessage, how engine.Ending, class, text string) {
	attempts := slices.Clone(msg.attempts)
	if msg.told {
		attempts = attempts[:len(attempts)-1]
	}
	attempts = append(attempts, engine.Attempt{How: how, Receive: msg.receives, Received: msg.last,
		Ended: m.now, Class: class, Text: text})
	msg.attempts, msg.told = attempts[max(0, len(attempts)-5):], true
}
