package engine

import (
	"slices"

	"tenaq/internal/engine/row"
)

// A fairLane is a tenant while a walk takes messages from it.
type fairLane struct {
	*tenant
	level  uint64  // in flight, with what the walk has taken
	served row.Pos // and when the walk took the last one
	next   int     // the first of its lines that was not visited

	// Of the messages that were there before: how many entries of fresh, and which of due and of
	// the levels, were visited.
	fresh int
	due   dueWalk
}

// A fairWalk visits the messages of a fair queue.
type fairWalk struct {
	e     *Engine
	q     *queue
	lanes []*fairLane // tenants that were begun and have more
	turn  int         // the first of the turns that was not begun
	none  *fairLane   // the messages without a group
	past  int         // expired messages that were passed over
	taken int         // entries of the fresh window that were taken
	on    uint64      // messages that were taken to be delivered
}

// walkFair is walk for a fair queue: it visits the next message of the tenant with the fewest in
// flight, or of these of the one that was served longest ago. What it takes counts as in flight.
// [EXT-37, EXT-39]
func (e *Engine) walkFair(q *queue, visit func(*message) verdict) (fresh int) {
	q.fair.arrange()
	w := &fairWalk{e: e, q: q}
	w.none = &fairLane{tenant: e.tenant(q, row.TenantNone)}
	for {
		l := w.nextLane()
		if l == nil {
			return w.taken
		}
		m, ok := w.nextOf(l)
		if !ok {
			w.close(l)
			continue
		}
		if m.Expired(e.now, q.row.Attributes.Retention()) { // only while expiry is paused [CLOCK-7]
			if w.past++; w.past > looksMax {
				return w.taken
			}
			continue
		}
		v := visit(m)
		if v == walkOn || v == walkLast || v == walkGone {
			if l.name == row.TenantBefore && !m.hasDelivery && m.Seq < q.fair.From {
				w.taken = l.fresh
			}
		}
		switch v {
		case walkLast, walkEnd:
			return w.taken
		case walkOn:
			w.on++
			l.level, l.served = l.level+1, row.Pos{At: e.now, Seq: q.fair.Serves + w.on}
		case walkOver:
			w.close(l)
		}
	}
}

// nextLane returns the lane whose turn it is; nil if there is none.
func (w *fairWalk) nextLane() (next *fairLane) {
	e, f := w.e, w.q.fair
	var first row.Pos
	if w.none != nil {
		if e.loadWaiting(w.q, w.none.tenant, w.none.next) {
			next, first = w.none, row.TurnAt(0, w.none.lines[w.none.next].Pos)
		} else {
			w.none = nil
		}
	}
	for _, l := range w.lanes {
		if at := row.TurnAt(l.level, l.served); next == nil || at.Less(first) {
			next, first = l, at
		}
	}
	if !f.turns.load(e, w.turn) {
		return next
	}
	if begun := f.turns.at(w.turn); next == nil || begun.Less(first) {
		t := e.tenant(w.q, begun.value)
		next = &fairLane{tenant: t, level: t.row.InFlight, served: t.row.Served}
		w.lanes = append(w.lanes, next)
		w.turn++
	}
	return next
}

// close leaves the rest of a lane alone. Of the messages without a group that is none, because each
// is a tenant of its own.
func (w *fairWalk) close(l *fairLane) {
	w.lanes = slices.DeleteFunc(w.lanes, func(other *fairLane) bool { return other == l })
}

// nextOf returns the next message of a lane and passes it; false if there is none.
func (w *fairWalk) nextOf(l *fairLane) (m *message, ok bool) {
	if l.name == row.TenantBefore && w.q.fair.Before > 0 {
		return w.nextBefore(l)
	}
	return w.nextLine(l)
}

// nextLine returns the next message of a lane that has a waiting row.
func (w *fairWalk) nextLine(l *fairLane) (m *message, ok bool) {
	if !w.e.loadWaiting(w.q, l.tenant, l.next) {
		return nil, false
	}
	line := l.lines[l.next]
	l.next++
	if line.value {
		return w.e.mustFind(w.q, line.Pos), true
	}
	return w.e.freshOf(w.q, line.Seq), true
}

// nextBefore returns the next of the messages that were there before the queue was fair, in the
// order of a queue that is not fair. [EXT-42]
func (w *fairWalk) nextBefore(l *fairLane) (m *message, ok bool) {
	e, q := w.e, w.q
	hasFresh := e.loadFresh(q, l.fresh)
	due, hasDue := l.due.first(e, q)
	hasDue = hasDue && !q.fair.Due.Less(due.Pos)
	if !hasFresh && !hasDue {
		return w.nextLine(l)
	}
	first, isFresh := row.Pos{}, hasFresh
	if hasFresh {
		first = q.fresh.at(l.fresh).FreshPos()
	}
	if hasDue && (!hasFresh || due.Less(first)) {
		first, isFresh = due.Pos, false
	}
	switch {
	case e.loadWaiting(q, l.tenant, l.next) && l.lines[l.next].Less(first):
		return w.nextLine(l)
	case isFresh:
		l.fresh++
		return q.fresh.at(l.fresh - 1), true
	}
	l.due.taken[due.level]++
	return e.mustFind(q, first), true
}
