package engine

import "tenaq/internal/engine/row"

// Receive request attempts. A client that loses the answer to a receive from a FIFO queue would
// have to wait until the messages, and their groups, become visible again. If it repeats the
// request under the same id, it gets the same messages with the same handles.

// isAttempt reports whether the receive has an attempt id that counts. A standard queue ignores
// them. [RCV-22]
func (op *ReceiveMessage) isAttempt(q *queue) bool { return op.AttemptID.Set && q.fifo() }

func (op *ReceiveMessage) attempt() row.DedupHash {
	return row.HashOf(row.HashAttempt, "", op.AttemptID.Value)
}

// repeat returns the messages of an earlier receive under the same id. It returns nil if there was
// none, if one of the messages has changed since, or if too many of them have become visible to fit
// into the in-flight limit again. [DEDUP-19, DEDUP-21, DEDUP-25]
func (e *Engine) repeat(q *queue, attempt row.DedupHash, room int64) (again []*message) {
	earlier, ok := e.recall(q, attempt, dedupWindow)
	if !ok {
		return nil
	}
	for _, a := range earlier.Deliveries {
		m := e.find(q, a.Seq)
		if m == nil || m.Delivery.Generation != a.Generation || m.Changed {
			return nil
		}
		if e.needMeta(q, m); m.Expired(e.now, q.row.Attributes.Retention()) {
			return nil
		}
		if m.At <= e.now {
			if e.group(q, m.Group).row.IsHeld() { // [HOLD-1]
				return nil
			}
			room--
		}
		again = append(again, m)
	}
	if room < 0 {
		return nil
	}
	return again
}

// noteAttempt remembers the messages that a receive has handed out under an id.
func (e *Engine) noteAttempt(q *queue, attempt row.DedupHash, picked []*message) {
	answer := row.Dedup{At: e.now}
	for _, m := range picked {
		answer.Deliveries = append(answer.Deliveries,
			row.Attempted{Seq: m.Seq, Generation: m.Delivery.Generation})
	}
	e.memorise(q, attempt, answer)
}
