package engine

import "tenaq/internal/engine/row"

// This file moves messages between the places a message can be in: fresh, in due, or nowhere.
// Counters follow here and nowhere else.
//
// The counters divide the live messages of a queue into visible, delayed and in flight. A message
// in due belongs to the class of its kind until its time comes, and is visible from then on.
// Nothing is written at that moment. So the counters remember how far they have followed the index
// (State.Settled), and settle brings that place up to Now.

// count adds n to the class that the entry belongs to as the counters see it.
func (q *queue) count(p row.Pos, kind row.DueKind, n int64) {
	switch {
	case !q.st.Settled.Less(p):
		return // visible: what is neither delayed nor in flight
	case kind == row.DueDelayed:
		q.st.Delayed += n
	default:
		q.st.InFlight += n
	}
}

// settle follows the due index up to Now, by at most limit entries, and reports whether it is done.
func (e *Engine) settle(q *queue, limit int) (done bool) {
	goal := row.LastAt(e.now)
	if !q.st.Settled.Less(goal) {
		return true
	}
	passed := e.comingBy(q, goal, limit)
	for _, entry := range passed {
		q.count(entry.Pos, entry.value, -1)
		if q.fair != nil {
			e.arrived(q, entry)
		}
		q.st.Settled = entry.Pos
		q.stDirty = true
	}
	if len(passed) == limit {
		return false
	}
	q.st.Settled = goal
	return true
}

// enter puts a new message into the queue. It is fresh if it is available at once or when the delay
// of its FIFO queue is over. Otherwise it enters through due.
func (e *Engine) enter(q *queue, m *message, c content) {
	e.checkNew(q, m)
	e.giveLevel(q, m, c.level)
	var inline content
	if c.len() <= row.InlineMax {
		inline = c
		m.Flags |= row.FlagInline
	} else {
		e.rows.setJoined(e.rows.seqKey(q.row.Space, row.KindContent, m.Seq), c.head, c.body)
		m.Apart = true
	}
	e.rows.setJoined(e.rows.seqKey(q.row.Space, row.KindMessage, m.Seq),
		m.Meta.Encode(e.rows.scratch(), inline.head), inline.body)
	e.segmentOf(q, m.Seq).enter(&m.Meta)
	if q.fair != nil {
		e.found(q, m)
	}
	q.st.Live++
	q.stDirty = true
	if m.IsElder() {
		e.addMark(&q.elder, elderPos(m))
		m.Elder = true
	}
	if m.Away {
		e.noteMoved(q, m)
		m.Moved = true
	}
	if m.Scheduled() {
		q.fresh.skip(m.Seq)
		e.schedule(q, m)
	}
	switch {
	case q.fifo():
		if !m.Scheduled() {
			q.countFresh(&m.Meta)
			q.remember(m)
		} else if q.st.Counted.Hi == m.Seq {
			q.st.Counted.Hi++ // not fresh, so not counted
		}
		e.join(q, m)
	case !m.Scheduled():
		q.st.LastFresh = m.Seq
		if q.fair != nil {
			q.remember(m)
			e.freshEnters(q, m)
			return
		}
		q.fresh.push(m, e.cfg.Window)
	}
}

// schedule puts a message into due, at the place that its delivery names.
func (e *Engine) schedule(q *queue, m *message) {
	p := m.Pos(m.Seq)
	e.rows.setDue(q.row.Space, m.Level, p, m.Kind)
	e.rows.setDelivery(q.row.Space, m.Seq, &m.Delivery)
	q.dueOf(m.Level).insert(p, m.Kind)
	q.count(p, m.Kind, 1)
	m.hasDelivery = true
	q.remember(m)
	if q.fair != nil {
		e.countTenant(q, m, p, m.Kind, 1)
	}
	if q.fifo() {
		e.needMeta(q, m)
		e.placed(q, m)
	}
}

// unschedule takes a message out of due. The caller replaces or removes its delivery row.
func (e *Engine) unschedule(q *queue, m *message) {
	p := m.Pos(m.Seq)
	e.rows.deleteDue(q.row.Space, m.Level, p)
	q.dueOf(m.Level).remove(p)
	q.count(p, m.Kind, -1)
	if q.fair != nil {
		e.countTenant(q, m, p, m.Kind, -1)
	}
}

// unfresh takes a message that was never handed out from the fresh ones.
func (e *Engine) unfresh(q *queue, m *row.Meta) {
	switch {
	case q.fifo():
		q.uncountFresh(m.Seq)
	case e.expiryPaused, q.fair != nil && m.Seq >= q.fair.From:
		// Messages before it stay fresh: of a fair queue, those of other groups; and while expiry
		// is paused, those that have expired, because a longer retention period that is set before
		// expiry goes on makes them receivable again. [CLOCK-7]
		q.st.Mixed = max(q.st.Mixed, m.Seq+1)
	default:
		q.st.Cursor = max(q.st.Cursor, m.Seq+1)
	}
	q.stDirty = true
}

// remove ends the life of a message. The caller has taken a fresh message from the front of the
// window of a standard queue, or calls passRemoved afterwards. It has called prepareLeave for a
// FIFO queue, and prepareEnd for a queue with a history.
func (e *Engine) remove(q *queue, m *message, end ending) {
	if m.gone {
		broken("queue %s: message %d removed twice", q.name.Name, m.Seq)
	}
	if q.past != nil {
		e.record(q, m, end)
	}
	late := false
	if m.hasDelivery {
		e.unschedule(q, m)
		e.rows.deleteDelivery(q.row.Space, m.Seq)
		if m.Origin {
			e.needMeta(q, m)
			e.removeMark(&q.origin, originPos(m))
			late = m.IsLate()
		}
	} else {
		if q.fair != nil {
			e.freshLeaves(q, m)
		}
		if !m.inside {
			e.unfresh(q, &m.Meta)
		}
		m.Apart, m.Elder, m.Moved = m.Flags&row.FlagInline == 0, m.IsElder(), m.Away
		m.Story = e.storyOf(q, m) != nil
	}
	if m.Moved {
		e.needMeta(q, m)
		e.forgetMoved(q, m)
	}
	if m.Elder {
		e.needMeta(q, m)
		e.removeMark(&q.elder, elderPos(m))
	}
	if q.fifo() {
		e.needMeta(q, m)
		e.letGo(q, m)
		e.leave(q, &m.Meta)
	}
	e.rows.deleteOnce(e.rows.seqKey(q.row.Space, row.KindMessage, m.Seq))
	if m.Apart {
		e.rows.deleteOnce(e.rows.seqKey(q.row.Space, row.KindContent, m.Seq))
	}
	if m.Story {
		e.rows.delete(e.rows.seqKey(q.row.Space, row.KindStory, m.Seq))
	}
	e.segmentOf(q, m.Seq).leave(late)
	q.st.Live--
	q.stDirty = true
	q.end(m)
}
