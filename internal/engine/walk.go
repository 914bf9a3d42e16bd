package engine

import (
	"slices"

	"tenaq/internal/engine/row"
)

// A verdict says what a walk does after a message.
type verdict int

const (
	walkOn   verdict = iota // the message is taken to be delivered; go on to the next one
	walkGone                // the message is taken and will not be in flight; go on to the next one
	walkLast                // the message is taken and no other
	walkPast                // not this one, nor in a FIFO queue the rest of its group; go on after
	walkOver                // like walkPast, and in a fair queue not the rest of its group either
	walkEnd                 // not this one, nor any other
)

// looksMax is how many unusable messages a walk passes over: those after a horizon, and while
// expiry is paused, those that have expired after they were handed out. [CLOCK-7] It bounds the
// work of one Apply. A later one finds what lies after them.
const looksMax = 1000

// walk visits the messages that can be received, in the order in which receives hand them out. It
// changes nothing, so a receive cannot meet again what it returns with a timeout of zero.
// [ORD-5, ORD-6] Fresh is how many entries of the fresh window of a standard queue were taken.
// Step is for how long messages of a standard queue wait for another level; zero if levels have no
// effect. Ahead names groups of a FIFO queue that come before all others.
func (e *Engine) walk(
	q *queue, step int64, ahead []string, visit func(*message) verdict,
) (fresh int) {
	if q.fifo() {
		e.walkGroups(q, ahead, visit)
		return 0
	}
	if q.fair != nil {
		return e.walkFair(q, visit)
	}
	retention := q.row.Attributes.Retention()
	i, past, due := 0, 0, e.dueFrom(q, step)
	for {
		for e.loadFresh(q, i) && q.fresh.at(i).Expired(e.now, retention) {
			i++
		}
		hasFresh := e.loadFresh(q, i)
		if next, ok := due.first(e, q); ok {
			// [ORD-1, ORD-2, EXT-46]
			if !hasFresh || next.rank.Less(q.fresh.at(i).FreshPos()) {
				due.taken[next.level]++
				m := e.mustFind(q, next.Pos)
				if m.Expired(e.now, retention) { // only while expiry is paused
					if past++; past > looksMax {
						return fresh
					}
					continue
				}
				if v := visit(m); v == walkLast || v == walkEnd {
					return fresh
				}
				continue
			}
		}
		if !hasFresh {
			return fresh
		}
		i++
		switch v := visit(q.fresh.at(i - 1)); v {
		case walkOn, walkGone, walkLast:
			if fresh = i; v == walkLast {
				return fresh
			}
		case walkEnd:
			return fresh
		}
	}
}

// mustFind returns the message of a due row, with its metadata.
func (e *Engine) mustFind(q *queue, p row.Pos) *message {
	m := e.find(q, p.Seq)
	if m == nil {
		e.rows.damaged("due", row.DueRows.Key(q.row.Space, p))
	}
	e.needMeta(q, m)
	return m
}

// walkGroups visits the messages of a FIFO queue that can be received: group by group, in the order
// in which the first message of each became available [FIFO-24], and of each group the messages up
// to the first that is hidden or delayed [FIFO-17]. The groups in ahead come before all others.
func (e *Engine) walkGroups(q *queue, ahead []string, visit func(*message) verdict) {
	delay := q.row.Attributes.Delay()
	for _, name := range ahead {
		if v := e.walkGroup(q, e.group(q, name), delay, visit); v == walkLast || v == walkEnd {
			return
		}
	}
	fresh, placed := e.freshHeads(q, delay), &q.heads[row.HeadPlaced]
	i, j, past := 0, 0, 0
	for {
		freshHead, hasFresh := fresh(i)
		hasPlaced := placed.load(e, j) && placed.at(j).At <= e.now
		var next string
		switch {
		case !hasFresh && !hasPlaced:
			return
		case hasFresh && (!hasPlaced ||
			row.Pos{At: freshHead.At + delay, Seq: freshHead.Seq}.Less(placed.at(j).Pos)):
			next = freshHead.value
			i++
		default:
			next = placed.at(j).value
			j++
		}
		if slices.Contains(ahead, next) {
			continue
		}
		g := e.group(q, next)
		if e.expiryPaused && e.headExpired(q, g) {
			if past++; past > looksMax {
				return
			}
			continue
		}
		if v := e.walkGroup(q, g, delay, visit); v == walkLast || v == walkEnd {
			return
		}
	}
}

// freshHeads returns a function that returns the i-th available head that was never handed out;
// false if there are fewer. While expiry is paused, it leaves out the expired ones without looking
// at each: they are the first. [FIFO-30]
func (e *Engine) freshHeads(q *queue, delay int64) func(i int) (entry[string], bool) {
	w := &q.heads[row.HeadFresh]
	if !e.expiryPaused {
		return func(i int) (found entry[string], ok bool) {
			if w.load(e, i) && w.at(i).At+delay <= e.now {
				return w.at(i), true
			}
			return found, false
		}
	}
	lo := row.LastAt(e.now - q.row.Attributes.Retention()).Next()
	heads := w.between(e, lo, row.LastAt(e.now-delay), looksMax)
	return func(i int) (found entry[string], ok bool) {
		if i < len(heads) {
			return heads[i], true
		}
		return found, false
	}
}

// headExpired reports whether the first message of a group has outlived its retention.
func (e *Engine) headExpired(q *queue, g *group) bool {
	m := e.lineOf(q, g, g.row.First)
	if m == nil {
		m = e.freshOf(q, g.row.First.Seq)
	}
	e.needMeta(q, m)
	return m.Expired(e.now, q.row.Attributes.Retention())
}

// walkGroup visits the messages of one group.
func (e *Engine) walkGroup(q *queue, g *group, delay int64, visit func(*message) verdict) verdict {
	if g.row.IsHeld() {
		return walkPast
	}
	retention := q.row.Attributes.Retention()
	for k := 0; uint64(k) < g.row.Count; k++ {
		e.loadLines(q, g, k+1)
		l := g.lines[k]
		m := e.lineOf(q, g, l)
		switch {
		case m == nil && l.Sent+delay > e.now, m != nil && m.At > e.now:
			return walkPast
		case m == nil:
			m = e.freshOf(q, l.Seq)
		default:
			e.needMeta(q, m)
		}
		if m.Expired(e.now, retention) { // only while expiry is paused [FIFO-37]
			return walkPast
		}
		if v := visit(m); v != walkOn && v != walkGone {
			return v
		}
	}
	return walkOn
}

// freshOf returns a message of a FIFO queue that was never handed out.
func (e *Engine) freshOf(q *queue, seq uint64) *message {
	m := q.msgs.of[seq]
	if m == nil {
		m = &message{}
		m.Seq = seq
		q.remember(m)
	}
	e.needMeta(q, m)
	return m
}

// nextReady returns when time alone will let a receive find a message; zero for never. That is when
// a message becomes available, or if the queue is full, when a message is no longer in flight.
// [POLL-4, LIM-4]
func (e *Engine) nextReady(q *queue, full bool) (at int64) {
	last := row.Pos{At: row.MaxTime}
	earlier := func(t int64) {
		if at == 0 || t < at {
			at = t
		}
	}
	if q.fair != nil && q.levels == nil {
		if w := &q.fair.coming; w.load(e, 0) {
			return w.at(0).At
		}
		return 0
	}
	if !q.fifo() || full {
		for _, next := range e.dueBetween(q, row.LastAt(e.now).Next(), last, 1) {
			earlier(next.At)
		}
	}
	if !q.fifo() {
		return at
	}
	delay := q.row.Attributes.Delay()
	for class, later := range []int64{row.HeadFresh: delay, row.HeadPlaced: 0} {
		w := &q.heads[class]
		for _, next := range w.between(e, row.LastAt(e.now-later).Next(), last, 1) {
			earlier(next.At + later)
		}
	}
	return at
}
