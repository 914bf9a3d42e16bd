package engine

// Receive request attempts. A client that gets no answer to a receive from a FIFO queue would have to wait
// until the messages it was given become visible again, and their groups with them. When it repeats the
// request under the same id, it is given the same messages instead, with the same handles.

// isAttempt reports whether the receive has an attempt id that counts. A standard queue ignores them. [RCV-22]
func (op *ReceiveMessage) isAttempt(q *queue) bool { return op.AttemptID.Set && q.fifo() }

func (op *ReceiveMessage) attempt() dedupHash { return hashOf(hashAttempt, "", op.AttemptID.Value) }

// repeat returns the messages of an earlier receive under the same id; nil when there was none, when one of
// them is not as that receive left it, or when so many have become visible since that there is no room in
// flight for them. [DEDUP-19, DEDUP-21, DEDUP-25]
func (e *Engine) repeat(q *queue, attempt dedupHash, room int64) (again []*message) {
	earlier, ok := e.recall(q, attempt)
	if !ok {
		return nil
	}
	for _, a := range earlier.deliveries {
		m := e.find(q, a.seq)
		if m == nil || m.delivery.generation != a.generation || m.changed {
			return nil
		}
		if e.needMeta(q, m); m.expired(e.now, q.row.attributes.retention()) {
			return nil
		}
		if m.at <= e.now {
			room--
		}
		again = append(again, m)
	}
	if room < 0 {
		return nil
	}
	return again
}

// hideAgain hides a message that is handed out once more for the same receive. [DEDUP-20]
func (e *Engine) hideAgain(q *queue, m *message, until int64) {
	e.unschedule(q, m)
	m.lastReceive = e.now
	e.hide(q, m, until)
}

// noteAttempt remembers what a receive has handed out under an id.
func (e *Engine) noteAttempt(q *queue, attempt dedupHash, picked []*message) {
	answer := dedupEntry{at: e.now}
	for _, m := range picked {
		answer.deliveries = append(answer.deliveries, attempted{m.seq, m.delivery.generation})
	}
	e.memorise(q, attempt, answer)
}
