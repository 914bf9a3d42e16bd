package engine

import "tenaq/internal/engine/row"

// The age of the messages of a queue: the real one, and the one that SQS shows.

// The age that SQS shows for a standard queue leaves out messages that were received wornReceives
// times, because a message that no consumer can process must not hide how long the others wait.
// [METRIC-5]
const wornReceives = 3

// How many messages ages looks at, and in how many segments. [METRIC-8]
const (
	ageLooksMax    = 256
	ageSegmentsMax = 16
)

// ages returns how long ago the oldest work in a queue was first sent, how long the message that
// expires next has been kept, and the age that SQS would show. All are zero if no message counts.
// Looks is how many messages it has looked at. [METRIC-9]
//
// Messages are numbered in the order of their arrival, so the first one that SQS counts is the
// oldest by its rule. If it is not among those looked at, the last of them stands for it, which is
// older.
func (e *Engine) ages(q *queue) (age, kept, aws int64, looks int) {
	if q.st.Live == 0 {
		return 0, 0, 0, 0
	}
	sent, arrived, counts, more := e.now, e.now, false, false
	id, s := e.frontSegment(q)
	for segments := 0; s != nil && !counts && !more; segments++ {
		if more = segments == ageSegmentsMax; more {
			break
		}
		lo, hi := q.bounds(id, &s.Segment)
		for m := range e.metas(q, max(lo, s.front), hi) {
			if m.IsLate() { // it has a row in origin
				continue
			}
			if more = looks == ageLooksMax; more {
				break
			}
			if looks == 0 {
				sent, s.front = m.Base, m.Seq
			}
			looks, arrived = looks+1, m.Arrived
			if counts = q.fifo() || !e.worn(q, &m); counts {
				break
			}
		}
		if !counts && !more {
			id, s = e.nextFront(q, id+1)
		}
	}
	late := int64(0)
	if q.origin.load(e, 0) {
		sent = min(sent, q.origin.at(0).At)
		late = e.lateAge(q)
	}
	kept = max(e.now-sent, 0)
	if q.elder.load(e, 0) {
		sent = min(sent, q.elder.at(0).At)
	}
	if counts || more {
		aws = e.now - arrived
	}
	return max(e.now-sent, 0), kept, max(aws, late), looks
}

// lateAge returns how long the first message in origin has waited since its delay ended, if it is
// late and SQS counts it. [EXT-27]
func (e *Engine) lateAge(q *queue) int64 {
	first := q.origin.at(0)
	m := e.mustFind(q, row.Pos{Seq: first.Seq})
	if !m.IsLate() || m.Delivery.Generation >= wornReceives {
		return 0
	}
	return max(e.now-first.At, 0)
}

// worn reports whether a message of a standard queue was received too often to count for SQS.
// Receives in the queue it was dead-lettered from do not count. [METRIC-7]
func (e *Engine) worn(q *queue, m *row.Meta) bool {
	if !m.Scheduled() && m.Seq >= max(q.st.Cursor, q.st.Mixed) {
		return false // fresh
	}
	placed := e.find(q, m.Seq)
	return placed != nil && placed.Delivery.Generation >= wornReceives
}

// elderPos is the place of a message in elder.
func elderPos(m *message) row.Pos { return row.Pos{At: m.FirstSent, Seq: m.Seq} }

// hasElders reports whether messages whose retention counts from sent or earlier may have elders
// among them.
func (e *Engine) hasElders(q *queue, sent int64) bool {
	return q.elder.load(e, 0) && q.elder.at(0).At <= sent
}
