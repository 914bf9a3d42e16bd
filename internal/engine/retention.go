package engine

import (
	"iter"

	"tenaq/internal/engine/row"
)

// Retention. A message is gone in the millisecond in which its retention period ends, regardless of
// its state. [RET-1, RET-2] The period is added when a message is looked at, because a change of
// the queue's attribute applies to messages that are already there. [RET-5]
//
// Time never decreases, so messages expire from the front, in the order of their arrival. Segments
// say where the front is: each counts how many of 4096 neighbours are alive. So finding the oldest
// message never walks over the tombstones of deleted ones, and a few range deletes remove a segment
// that has expired as a whole. Messages that were dead-lettered into a standard queue are older
// than their place says, and those sent with a long delay, the late ones, are younger. They have an
// index of their own. [DLQ-25, EXT-26] Segments count their late messages, so the front passes
// segments that have no others.
//
// Every command on a queue first removes what has expired, in bounded steps. So no other code meets
// an expired message, except while expiry is paused. [RET-6, CLOCK-7]

// expirySteps bounds the work of one Apply: whole segments, or pieces of a segment.
const (
	expirySteps = 8
	expiryPiece = 256
)

// A segment is a segment in memory.
type segment struct {
	row.Segment
	dirty bool   // the row has to be written
	front uint64 // of the messages before it only late ones are live
}

func (s *segment) enter(m *row.Meta) {
	if s.Live, s.dirty = s.Live+1, true; m.IsLate() {
		s.Late++
	} else {
		s.Sent = max(s.Sent, m.Base)
	}
}

func (s *segment) leave(late bool) {
	if late {
		s.Late--
	}
	if s.Live, s.dirty = s.Live-1, true; s.Live < s.Late || s.Late < 0 {
		broken("a message leaves a segment, and %d are live then, %d of them late", s.Live, s.Late)
	}
}

// segmentOf returns the segment of a message.
func (e *Engine) segmentOf(q *queue, seq uint64) *segment {
	id := seq >> row.SegmentBits
	if s := q.segs[id]; s != nil {
		return s
	}
	k := row.SeqKey(q.row.Space, row.KindSegment, id)
	stored, ok := read(&e.rows, "segment", k, row.DecodeSegment)
	if !ok {
		stored.First = id << row.SegmentBits
	}
	q.segs[id] = &segment{Segment: stored}
	return q.segs[id]
}

// segments yields the segments that have live messages, from a number on.
func (e *Engine) segments(q *queue, from uint64) iter.Seq2[uint64, row.Segment] {
	return func(yield func(uint64, row.Segment) bool) {
		for k, v := range e.scan(row.SeqSpan(q.row.Space, row.KindSegment, from,
			q.st.NextSeq>>row.SegmentBits+1)) {
			s := decoded(&e.rows, "segment", k, v, row.DecodeSegment)
			if s.Live > 0 && !yield(row.SeqOf(k), s) {
				return
			}
		}
	}
}

// bounds returns between which numbers, lo <= seq < hi, the live messages of a segment are.
func (q *queue) bounds(id uint64, s *row.Segment) (lo, hi uint64) {
	return max(s.First, id<<row.SegmentBits), min((id+1)<<row.SegmentBits, q.st.NextSeq)
}

// oldestSegment returns the first segment that has live messages.
func (e *Engine) oldestSegment(q *queue) (id uint64, s *segment) {
	if id, s = e.nextSegment(q, q.st.Segment); s != nil {
		q.st.Segment = id
	}
	return id, s
}

// nextSegment returns the first segment from a number on that has live messages; nil if none.
func (e *Engine) nextSegment(q *queue, from uint64) (id uint64, s *segment) {
	for id, s := range e.segments(q, from) {
		return id, q.holdSegment(id, s)
	}
	return 0, nil
}

// holdSegment returns a segment in memory.
func (q *queue) holdSegment(id uint64, stored row.Segment) *segment {
	if q.segs[id] == nil {
		q.segs[id] = &segment{Segment: stored}
	}
	return q.segs[id]
}

// frontSegment returns the first segment that has messages which expire in the order of arrival.
func (e *Engine) frontSegment(q *queue) (id uint64, s *segment) {
	if id, s = e.oldestSegment(q); s == nil || s.Live > s.Late {
		return id, s
	}
	if id, s = e.nextFront(q, max(id+1, q.front)); s != nil {
		q.front = id
	} else {
		q.front = q.st.NextSeq >> row.SegmentBits
	}
	return id, s
}

// nextFront is nextSegment, without the segments that have only late messages.
func (e *Engine) nextFront(q *queue, from uint64) (id uint64, s *segment) {
	for id, s := range e.segments(q, from) {
		if s.Live > s.Late {
			return id, q.holdSegment(id, s)
		}
	}
	return 0, nil
}

// expire removes what has expired and reports whether nothing expired is left.
func (e *Engine) expire(q *queue) (done bool) {
	retention := q.row.Attributes.Retention()
	var recorded int64
	if q.past != nil {
		recorded = q.past.written
	}
	for range expirySteps {
		if q.past != nil && q.past.written-recorded > moveBytesMax {
			return false
		}
		if e.expiryPaused || e.now < q.expiry {
			return true
		}
		next := e.now + retention
		if q.st.Live > 0 {
			next = min(e.expireOrigins(q, retention), e.expireFront(q, retention))
		}
		e.rows.boundary()
		if next > e.now {
			q.expiry = next
			return true
		}
	}
	return false
}

// expireOrigins removes dead letters and late messages, which do not expire in the order of their
// arrival, at most expiryPiece of them. It returns when the next one expires; Now if that may be at
// once.
func (e *Engine) expireOrigins(q *queue, retention int64) (next int64) {
	over := q.origin.between(e, q.st.OriginLow, row.LastAt(e.now-retention), expiryPiece)
	var gone []*message
	size := int64(0)
	for _, o := range over {
		m := e.mustFind(q, row.Pos{Seq: o.Seq})
		if size += m.Size; q.past != nil && len(gone) > 0 && size > moveBytesMax {
			break
		}
		e.prepareEnd(q, m)
		gone = append(gone, m)
	}
	next = row.MaxTime
	switch {
	case len(over) == expiryPiece || len(gone) < len(over):
		next = e.now
	case q.origin.load(e, len(over)):
		next = q.origin.at(len(over)).At + retention
	}
	for _, m := range gone {
		e.remove(q, m, endExpired)
	}
	e.countExpired(q, len(gone))
	e.rows.boundary()
	return next
}

// expireFront removes a whole segment or a piece of one from the front of the queue, and returns
// like expireOrigins.
func (e *Engine) expireFront(q *queue, retention int64) (next int64) {
	id, s := e.frontSegment(q)
	switch {
	case s == nil:
		return e.now + retention
	case e.now >= s.Sent+retention && !q.fifo() && s.Late == 0 && !e.hasElders(q, s.Sent) &&
		q.past == nil && q.fair == nil:
		e.expireSegment(q, id, s)
		return e.now
	}
	return e.expirePiece(q, id, s, retention)
}

// expireSegment removes every message of a segment of a standard queue that has no elders, no late
// messages and no history, and is not fair. To find elders among messages that were never handed
// out, to keep their outcomes or to count them in their groups, it would have to read them all.
func (e *Engine) expireSegment(q *queue, id uint64, s *segment) {
	lo, hi := id<<row.SegmentBits, min((id+1)<<row.SegmentBits, q.st.NextSeq)
	for _, m := range e.deliveriesOf(q, lo, hi) {
		e.unschedule(q, m)
		if m.Origin || m.Moved {
			e.needMeta(q, m)
		}
		if m.Origin {
			e.removeMark(&q.origin, originPos(m))
		}
		if m.Moved {
			e.forgetMoved(q, m)
		}
		q.end(m)
	}
	for _, kind := range []row.Kind{row.KindMessage, row.KindContent, row.KindDelivery,
		row.KindStory} {
		e.rows.deleteRange(row.SeqSpan(q.row.Space, kind, lo, hi))
	}
	q.fresh.drop(hi)
	q.st.Cursor = max(q.st.Cursor, hi)
	q.st.Live -= s.Live
	e.countExpired(q, int(s.Live))
	s.Live, s.First, s.dirty = 0, hi, true
	q.stDirty = true
}

func (e *Engine) countExpired(q *queue, n int) {
	if n > 0 {
		e.tally(q).Expired.Add(int64(n))
		if q.ext.MaxInFlight > 0 || q.ext.MaxInFlightPerGroup > 0 {
			e.stir(q) // some may have been in flight [EXT-7]
		}
	}
}

// originPos is the place of a message in origin.
func originPos(m *message) row.Pos { return row.Pos{At: m.Base, Seq: m.Seq} }

// addMark gives a message its row in origin or elder.
func (e *Engine) addMark(w *window[struct{}], p row.Pos) {
	e.rows.set(w.index.Key(w.q.row.Space, p), []byte{row.Version})
	w.insert(p, struct{}{})
}

// removeMark takes a message out of origin or elder.
func (e *Engine) removeMark(w *window[struct{}], p row.Pos) {
	e.rows.delete(w.index.Key(w.q.row.Space, p))
	w.remove(p)
}

// deliveriesOf reads the messages with lo <= seq < hi that have a place in due.
func (e *Engine) deliveriesOf(q *queue, lo, hi uint64) (found []*message) {
	for k, v := range e.scan(row.SeqSpan(q.row.Space, row.KindDelivery, lo, hi)) {
		seq := row.SeqOf(k)
		m := q.msgs.of[seq]
		if m == nil {
			m = &message{Meta: row.Meta{Seq: seq}, hasDelivery: true,
				Delivery: decoded(&e.rows, "delivery", k, v, row.DecodeDelivery)}
			q.remember(m)
		}
		found = append(found, m)
	}
	return found
}

// expirePiece removes up to expiryPiece messages from the front of a segment. Behind the first one
// that has not expired, only origins may have expired.
func (e *Engine) expirePiece(q *queue, id uint64, s *segment, retention int64) (next int64) {
	lo, hi := q.bounds(id, &s.Segment)
	var over []*message
	next = e.now
	size, first := int64(0), s.front <= lo
	for m := range e.metas(q, max(lo, s.front), hi) {
		if m.IsLate() {
			first = false
			continue
		}
		if s.front = m.Seq; first {
			s.First = m.Seq
		}
		if !m.Expired(e.now, retention) {
			next = m.Base + retention
			break
		}
		size += m.Size
		if len(over) == expiryPiece || q.past != nil && len(over) > 0 && size > moveBytesMax {
			break
		}
		over = append(over, &message{Meta: m, hasMeta: true})
	}
	leaving := make(map[string]int)
	for i, m := range over {
		if placed := e.find(q, m.Seq); placed != nil {
			placed.Meta, placed.hasMeta = m.Meta, true
			over[i] = placed
		}
		e.prepareEnd(q, over[i])
		if q.fifo() {
			leaving[m.Group]++
			e.prepareLeave(q, m, leaving[m.Group])
		}
	}
	for _, m := range over {
		q.fresh.drop(m.Seq + 1)
		e.remove(q, m, endExpired)
	}
	e.countExpired(q, len(over))
	if q.fifo() && len(over) > 0 {
		e.stir(q) // what was behind them in their groups can be received
	}
	return next
}

// firstUnexpired returns a number before which every message that is not in due has expired.
// Receives need it while expiry is paused.
func (e *Engine) firstUnexpired(q *queue) uint64 {
	retention := q.row.Attributes.Retention()
	for id, s := range e.segments(q, q.st.Segment) {
		if e.now < s.Sent+retention {
			return id << row.SegmentBits
		}
	}
	return q.st.NextSeq
}
