package engine

import "tenaq/internal/engine/row"

// graceStep bounds how many deliveries of a queue one Apply moves.
const graceStep = 512

// grace gives a queue the visibility grace of the last start, when the queue is first used after
// that start. Deliveries that were hidden when the server stopped, and would end before the grace,
// stay hidden until its end. It reports whether it is done. [CLOCK-10]
func (e *Engine) grace(q *queue) (done bool) {
	if q.st.Boot == e.sys.Boot || e.now >= e.sys.GraceUntil {
		return true
	}
	var held []row.Pos
	from, until := row.LastAt(e.sys.GraceFrom), row.Pos{At: e.sys.GraceUntil}
	for level := range 1 + len(q.levels) {
		rows := row.DueOf(byte(level))
		for k, v := range e.scan(rows.From(q.row.Space, from)) {
			hidden := entryOf(e, rows, k, v)
			if len(held) == graceStep || !hidden.Less(until) {
				break
			}
			if hidden.value == row.DueInFlight {
				held = append(held, hidden.Pos)
			}
		}
	}
	for _, p := range held {
		m := e.mustFind(q, p)
		e.unschedule(q, m)
		m.At = e.sys.GraceUntil
		e.schedule(q, m)
	}
	if len(held) == graceStep {
		return false
	}
	q.st.Boot, q.stDirty = e.sys.Boot, true
	return true
}

// ready does to a queue what time alone has changed. If it reports false, the operation must be
// submitted again.
func (e *Engine) ready(q *queue) bool {
	defer e.rows.boundary()
	if !e.grace(q) {
		return false
	}
	e.rows.boundary()
	if q.past != nil {
		e.keepHistory(q)
		e.rows.boundary()
	}
	if !e.expire(q) {
		return false
	}
	e.rows.boundary()
	e.forgetDedup(q)
	e.forgetAgain(q)
	e.rows.boundary()
	e.settle(q, settleStep)
	e.settleDelayed(q, settleStep)
	return true
}

// settled is ready, and reports whether the counters have followed time to its end. [ATTR-42]
func (e *Engine) settled(q *queue) bool {
	return e.ready(q) && e.settle(q, settleStep) && e.settleDelayed(q, settleStep)
}

// settleStep is how many due entries the counters follow in one Apply. It exceeds what one command
// can add, so the counters catch up even when nothing but commands moves them.
const settleStep = 1000
