package engine

import "tenaq/internal/engine/row"

// The delay of a FIFO queue belongs to the queue and not to its messages: a change of it applies to
// messages that are already there. [FIFO-11] So nothing about it is stored with them. A message
// that was never handed out is available DelaySeconds after its send, by the present value of the
// queue. A message that was handed out has a time of its own.
//
// So the fresh messages that were sent less than the delay ago count as delayed: a suffix of the
// queue whose beginning moves with time. State.Counted is the range of numbers whose fresh messages
// are in State.Delayed. Its end lags behind only after a change of the delay, because the range
// then begins again further back.

// countFresh counts a message that has just been sent to a FIFO queue.
func (q *queue) countFresh(m *row.Meta) {
	c := &q.st.Counted
	switch delay := q.row.Attributes.Delay(); {
	case c.Hi != m.Seq: // there are others to be counted first
	case delay == 0:
		*c = row.SeqRange{Lo: m.Seq + 1, Hi: m.Seq + 1}
	default:
		if c.Lo == c.Hi {
			q.delayNext = m.Sent + delay
		}
		c.Hi++
		q.st.Delayed++
	}
}

// uncountFresh ends the counting of a fresh message that is handed out or removed.
func (q *queue) uncountFresh(seq uint64) {
	if q.st.Counted.Has(seq) {
		q.st.Delayed--
		q.stDirty = true
	}
}

// settleDelayed makes the counted range follow time by at most limit messages, and reports whether
// it is done.
func (e *Engine) settleDelayed(q *queue, limit int) (done bool) {
	if !q.fifo() {
		return true
	}
	c, delay := &q.st.Counted, q.row.Attributes.Delay()
	switch {
	case delay == 0:
		if end := q.st.NextSeq; c.Lo != end {
			*c = row.SeqRange{Lo: end, Hi: end}
			q.st.Delayed, q.stDirty = 0, true
		}
		return true
	case c.Hi == q.st.NextSeq && (c.Lo == c.Hi || e.now < q.delayNext):
		return true
	}
	fresh := func(seq uint64) bool { return e.find(q, seq) == nil }
	for m := range e.metas(q, c.Hi, q.st.NextSeq) {
		if limit--; limit < 0 {
			return false
		}
		if fresh(m.Seq) {
			q.st.Delayed++
		}
		c.Hi, q.stDirty = m.Seq+1, true
	}
	c.Hi, q.stDirty = q.st.NextSeq, true
	for m := range e.metas(q, c.Lo, c.Hi) {
		q.stDirty = true // the scan has saved what was counted before it
		if q.delayNext = m.Sent + delay; e.now < q.delayNext {
			c.Lo = m.Seq
			return true
		}
		if limit--; limit < 0 {
			return false
		}
		if fresh(m.Seq) {
			q.st.Delayed--
		}
		c.Lo = m.Seq + 1
	}
	c.Lo, q.stDirty = c.Hi, true
	return true
}

// recountDelayed prepares a FIFO queue for a new delay in milliseconds, before the first write of
// the command.
func (e *Engine) recountDelayed(q *queue, delay int64) {
	first := q.st.NextSeq
	for id, s := range e.segments(q, q.st.Segment) {
		if e.now < s.Sent+delay {
			lo, _ := q.bounds(id, &s)
			first = min(first, lo)
			break
		}
	}
	q.st.Counted = row.SeqRange{Lo: first, Hi: first}
	q.st.Delayed, q.stDirty = 0, true
	q.delayNext = 0
}
