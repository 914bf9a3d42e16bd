package engine

import (
	"math"

	"tenaq/internal/invariant"
)

// This file moves messages between the places a message can be in: fresh, in due, or nowhere. Counters
// follow here and nowhere else.
//
// The counters divide the live messages of a queue into visible, delayed and in flight. A message in
// due belongs to the class of its kind until its time comes and to the visible ones from then on, and
// nothing is written when it does. So the counters remember up to which place of the index they have
// followed (state.settled), and settle brings that place up to Now.

// count adds n to the class that the entry belongs to as the counters see it.
func (q *queue) count(p duePos, kind dueKind, n int64) {
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
	passed := e.dueBetween(q, q.st.settled.next(), goal, limit)
	for _, entry := range passed {
		q.count(entry.duePos, entry.kind, -1)
		q.st.settled = entry.duePos
		q.stDirty = true
	}
	if len(passed) == limit {
		return false
	}
	q.st.settled = goal
	return true
}

// dueBetween returns the first entries of the index from lo to hi, at most limit of them. Where the
// window does not reach, it reads the rows without moving the window: what is receivable now stays in
// memory.
func (e *Engine) dueBetween(q *queue, lo, hi duePos, limit int) (entries []dueEntry) {
	for q.due.covers(lo) && len(entries) < limit {
		i, _ := q.due.search(lo)
		if !e.loadDue(q, i) || hi.less(q.due.at(i).duePos) {
			return entries
		}
		entries = append(entries, *q.due.at(i))
		lo = q.due.at(i).next()
	}
	if len(entries) == limit {
		return entries
	}
	for k, v := range e.scan(dueSpan(q.row.space, lo)) {
		entry := e.decodeDue(k, v)
		if hi.less(entry.duePos) {
			break
		}
		if entries = append(entries, entry); len(entries) == limit {
			break
		}
	}
	return entries
}

// nextReady returns when time alone will make a message receivable, zero for never.
func (e *Engine) nextReady(q *queue) int64 {
	for _, entry := range e.dueBetween(q, lastAt(e.now).next(), duePos{at: math.MaxInt64}, 1) {
		return entry.at
	}
	return 0
}

// enter puts a new message into the queue: fresh when it is receivable at once, else into due.
func (e *Engine) enter(q *queue, m *message, content []byte) {
	var inline []byte
	if len(content) <= inlineMax {
		inline = content
		m.flags |= flagInline
	} else {
		e.rows.set(seqKey(q.row.space, kindContent, m.seq), content)
		m.apart = true
	}
	e.rows.set(seqKey(q.row.space, kindMessage, m.seq), m.meta.encode(e.rows.scratch(), inline))
	e.segmentOf(q, m.seq).enter(m.sent)
	q.st.live++
	q.stDirty = true
	if m.scheduled() {
		q.fresh.skip(m.seq)
		e.schedule(q, m)
		return
	}
	q.st.lastFresh = m.seq
	q.fresh.push(m, e.cfg.Window)
}

// schedule puts a message that has no place in due there, as its delivery says.
func (e *Engine) schedule(q *queue, m *message) {
	p := m.pos(m.seq)
	e.rows.set(dueKey(q.row.space, p), []byte{byte(m.kind)})
	e.rows.set(seqKey(q.row.space, kindDelivery, m.seq), m.delivery.encode(e.rows.scratch()))
	q.due.insert(dueEntry{p, m.kind})
	if p.less(q.st.dueLow) {
		q.st.dueLow = p
	}
	q.count(p, m.kind, 1)
	m.hasDelivery = true
	q.remember(m)
	q.stDirty = true
}

// unschedule takes a message out of due. Its delivery row is left for the caller to replace or remove.
func (e *Engine) unschedule(q *queue, m *message) {
	p := m.pos(m.seq)
	e.rows.delete(dueKey(q.row.space, p))
	q.due.remove(p)
	switch {
	case q.due.len() > 0:
		q.st.dueLow = q.due.at(0).duePos
	case q.due.whole:
		q.st.dueLow = p
	default:
		q.st.dueLow = q.due.end
	}
	q.count(p, m.kind, -1)
	q.stDirty = true
}

// remove ends the life of a message that has a place in due.
func (e *Engine) remove(q *queue, m *message) {
	if m.gone || !m.hasDelivery {
		invariant.Fail("queue %s: message %d removed twice", q.name.Name, m.seq)
	}
	e.unschedule(q, m)
	e.rows.delete(seqKey(q.row.space, kindDelivery, m.seq))
	e.erase(q, m.seq, m.apart)
	q.end(m)
}

// erase removes the rows that every message has; apart says that its content is a row of its own.
func (e *Engine) erase(q *queue, seq uint64, apart bool) {
	e.rows.deleteOnce(seqKey(q.row.space, kindMessage, seq))
	if apart {
		e.rows.deleteOnce(seqKey(q.row.space, kindContent, seq))
	}
	e.segmentOf(q, seq).leave()
	q.st.live--
	q.stDirty = true
}
