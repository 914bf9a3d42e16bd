package engine

// The delay of a FIFO queue belongs to the queue and not to its messages: a change of it acts on
// messages that are already there. [FIFO-11] So nothing about it is stored with them. A message that was
// never handed out can be received DelaySeconds after it was sent, by the value the queue has at that
// moment; one that was handed out has a time of its own.
//
// For the counters this means that delayed are those fresh messages that were sent less than the delay
// ago: a suffix of the queue whose beginning moves with time. state.counted is the range of numbers whose
// fresh messages are in state.delayed. Its end lags behind only after a change of the delay, which makes
// the range begin anew further back.

// A seqRange is the numbers lo <= seq < hi.
type seqRange struct{ lo, hi uint64 }

func (r seqRange) has(seq uint64) bool { return r.lo <= seq && seq < r.hi }

// countFresh counts a message that has just been sent to a FIFO queue.
func (q *queue) countFresh(m *meta) {
	c := &q.st.counted
	switch delay := q.row.attributes.delay(); {
	case c.hi != m.seq: // there are others to be counted first
	case delay == 0:
		*c = seqRange{m.seq + 1, m.seq + 1}
	default:
		if c.lo == c.hi {
			q.delayNext = m.sent + delay
		}
		c.hi++
		q.st.delayed++
	}
}

// uncountFresh forgets a fresh message that has been handed out or removed.
func (q *queue) uncountFresh(seq uint64) {
	if q.st.counted.has(seq) {
		q.st.delayed--
		q.stDirty = true
	}
}

// settleDelayed makes the counted range follow time, over at most limit messages, and reports whether it
// got there.
func (e *Engine) settleDelayed(q *queue, limit int) (done bool) {
	if !q.fifo() {
		return true
	}
	c, delay := &q.st.counted, q.row.attributes.delay()
	switch {
	case delay == 0:
		if end := q.st.nextSeq; c.lo != end {
			*c = seqRange{end, end}
			q.st.delayed, q.stDirty = 0, true
		}
		return true
	case c.hi == q.st.nextSeq && (c.lo == c.hi || e.now < q.delayNext):
		return true
	}
	fresh := func(seq uint64) bool { return e.find(q, seq) == nil }
	for k, v := range e.scan(seqSpan(q.row.space, kindMessage, c.hi, q.st.nextSeq)) {
		if limit--; limit < 0 {
			return false
		}
		m := e.decodeMeta(k, v)
		if fresh(m.seq) {
			q.st.delayed++
		}
		c.hi, q.stDirty = m.seq+1, true
	}
	c.hi, q.stDirty = q.st.nextSeq, true
	for k, v := range e.scan(seqSpan(q.row.space, kindMessage, c.lo, c.hi)) {
		q.stDirty = true // the scan has saved what was counted before it
		m := e.decodeMeta(k, v)
		if q.delayNext = m.sent + delay; e.now < q.delayNext {
			c.lo = m.seq
			return true
		}
		if limit--; limit < 0 {
			return false
		}
		if fresh(m.seq) {
			q.st.delayed--
		}
		c.lo = m.seq + 1
	}
	c.lo, q.stDirty = c.hi, true
	return true
}

// recountDelayed prepares a FIFO queue for another delay, in milliseconds. It is called before the
// first write of the command.
func (e *Engine) recountDelayed(q *queue, delay int64) {
	first := q.st.nextSeq
	for k, v := range e.scan(seqSpan(q.row.space, kindSegment, q.st.segment, q.st.nextSeq>>segmentBits+1)) {
		s, ok := decodeSegment(v)
		if !ok {
			e.rows.damaged("segment", k)
		}
		if s.live > 0 && e.now < s.sent+delay {
			first = min(first, max(s.first, seqOf(k)<<segmentBits))
			break
		}
	}
	q.st.counted = seqRange{first, first}
	q.st.delayed, q.stDirty = 0, true
	q.delayNext = 0
}
