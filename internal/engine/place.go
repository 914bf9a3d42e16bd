package engine

// This file moves messages between the places a message can be in: fresh, in due, or nowhere. Counters
// follow here and nowhere else.
//
// The counters divide the live messages of a queue into visible, delayed and in flight. A message in
// due belongs to the class of its kind until its time comes and to the visible ones from then on, and
// nothing is written when it does. So the counters remember up to which place of the index they have
// followed (state.settled), and settle brings that place up to Now.

// count adds n to the class that the entry belongs to as the counters see it.
func (q *queue) count(p pos, kind dueKind, n int64) {
	switch {
	case !q.st.settled.less(p):
		return // visible: what is neither delayed nor in flight
	case kind == dueDelayed:
		q.st.delayed += n
	default:
		q.st.inFlight += n
	}
}

// settle follows the due index up to Now for at most limit entries and reports whether it got there.
func (e *Engine) settle(q *queue, limit int) (done bool) {
	goal := lastAt(e.now)
	if !q.st.settled.less(goal) {
		return true
	}
	passed := dueIndex.between(e, q, &q.due, q.st.settled.next(), goal, limit)
	for _, entry := range passed {
		q.count(entry.pos, entry.value, -1)
		q.st.settled = entry.pos
		q.stDirty = true
	}
	if len(passed) == limit {
		return false
	}
	q.st.settled = goal
	return true
}

// enter puts a new message into the queue: fresh when it is receivable at once or as soon as its FIFO
// queue's delay is over, else into due.
func (e *Engine) enter(q *queue, m *message, content []byte) {
	e.checkNew(q, m)
	var inline []byte
	if len(content) <= inlineMax {
		inline = content
		m.flags |= flagInline
	} else {
		e.rows.set(seqKey(q.row.space, kindContent, m.seq), content)
		m.apart = true
	}
	e.rows.set(seqKey(q.row.space, kindMessage, m.seq), m.meta.encode(e.rows.scratch(), inline))
	e.segmentOf(q, m.seq).enter(m.base)
	q.st.live++
	q.stDirty = true
	if m.isElder() {
		e.addElder(q, m)
	}
	if m.scheduled() {
		q.fresh.skip(m.seq)
		e.schedule(q, m)
	}
	switch {
	case q.fifo():
		if !m.scheduled() {
			q.countFresh(&m.meta)
			q.remember(m)
		} else if q.st.counted.hi == m.seq {
			q.st.counted.hi++ // not fresh, so not counted
		}
		e.join(q, m)
	case !m.scheduled():
		q.st.lastFresh = m.seq
		q.fresh.push(m, e.cfg.Window)
	}
}

// schedule puts a message that has no place in due there, as its delivery says.
func (e *Engine) schedule(q *queue, m *message) {
	p := m.pos(m.seq)
	e.rows.set(dueIndex.key(q.row.space, p), []byte{byte(m.kind)})
	e.rows.set(seqKey(q.row.space, kindDelivery, m.seq), m.delivery.encode(e.rows.scratch()))
	q.due.insert(entry[dueKind]{p, m.kind})
	if p.less(q.st.dueLow) {
		q.st.dueLow = p
	}
	q.count(p, m.kind, 1)
	m.hasDelivery = true
	q.remember(m)
	q.stDirty = true
	if q.fifo() {
		e.needMeta(q, m)
		e.placed(q, m)
	}
}

// unschedule takes a message out of due. Its delivery row is left for the caller to replace or remove.
func (e *Engine) unschedule(q *queue, m *message) {
	p := m.pos(m.seq)
	e.rows.delete(dueIndex.key(q.row.space, p))
	q.due.remove(p)
	q.st.dueLow = q.due.low(p)
	q.count(p, m.kind, -1)
	q.stDirty = true
}

// unfresh takes a message that was never handed out from the fresh ones.
func (e *Engine) unfresh(q *queue, m *meta) {
	switch {
	case q.fifo():
		q.uncountFresh(m.seq)
	case e.hold:
		// The messages before it that have expired stay fresh: a longer retention period, set before
		// expiry goes on, makes them receivable again. [CLOCK-7]
		q.st.mixed = max(q.st.mixed, m.seq+1)
	default:
		q.st.cursor = max(q.st.cursor, m.seq+1)
	}
	q.stDirty = true
}

// remove ends the life of a message, whether it was ever handed out or not. The caller has taken a fresh
// one from the window of a standard queue, and for a FIFO queue has called prepareLeave.
func (e *Engine) remove(q *queue, m *message) {
	if m.gone {
		broken("queue %s: message %d removed twice", q.name.Name, m.seq)
	}
	if m.hasDelivery {
		e.unschedule(q, m)
		e.rows.delete(seqKey(q.row.space, kindDelivery, m.seq))
		if m.origin {
			e.removeOrigin(q, m)
		}
	} else {
		e.unfresh(q, &m.meta)
		m.apart, m.elder = m.flags&flagInline == 0, m.isElder()
	}
	if m.elder {
		e.removeElder(q, m)
	}
	if q.fifo() {
		e.needMeta(q, m)
		e.leave(q, &m.meta)
	}
	e.rows.deleteOnce(seqKey(q.row.space, kindMessage, m.seq))
	if m.apart {
		e.rows.deleteOnce(seqKey(q.row.space, kindContent, m.seq))
	}
	e.segmentOf(q, m.seq).leave()
	q.st.live--
	q.stDirty = true
	q.end(m)
}
