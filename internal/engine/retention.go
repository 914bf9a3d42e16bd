package engine

// Retention. A message is gone the millisecond its retention period is over, whatever state it is in.
// [RET-1, RET-2] The period is added when a message is looked at, because a change of the queue's
// attribute acts on messages that are already there. [RET-5]
//
// Since time never decreases, messages expire in the order they were sent, from the front. Where the
// front is say the segments: each counts how many of 4096 neighbours still live, so that finding the
// oldest message never walks over the tombstones of deleted ones, and a segment that has expired as a
// whole falls to a few range deletes.
//
// Every command on a queue first removes what has expired by its time, a bounded step at a time, so
// nothing behind this file ever meets an expired message, except while expiry is held. [RET-6, CLOCK-7]

const segmentBits = 12

// expirySteps bounds the work of one Apply: whole segments, or pieces of one.
const (
	expirySteps = 8
	expiryPiece = 256
)

// A segment is a segment row.
type segment struct {
	first uint64 // no message of the segment before it is live
	sent  int64  // when the newest was sent
	live  int64
	dirty bool
}

func (s *segment) enter(sent int64) { s.sent, s.live, s.dirty = max(s.sent, sent), s.live+1, true }
func (s *segment) leave()           { s.live, s.dirty = s.live-1, true }

func (s *segment) encode(b enc) []byte {
	b.byte(rowVersion)
	b.uint(s.first)
	b.int(s.sent)
	b.int(s.live)
	return b
}

func decodeSegment(value []byte) (s segment, ok bool) {
	d := dec{b: value}
	d.version()
	s.first, s.sent, s.live = d.uint(), d.int(), d.int()
	return s, d.done()
}

// segmentOf returns the segment of a message.
func (e *Engine) segmentOf(q *queue, seq uint64) *segment {
	id := seq >> segmentBits
	if s := q.segs[id]; s != nil {
		return s
	}
	s := &segment{first: id << segmentBits}
	k := seqKey(q.row.space, kindSegment, id)
	if value, ok := e.rows.get(k); ok {
		if *s, ok = decodeSegment(value); !ok {
			e.rows.damaged("segment", k)
		}
	}
	q.segs[id] = s
	return s
}

// oldestSegment returns the first segment that has live messages.
func (e *Engine) oldestSegment(q *queue) (id uint64, s *segment) {
	for k, v := range e.scan(seqSpan(q.row.space, kindSegment, q.st.segment, q.st.nextSeq>>segmentBits+1)) {
		id := seqOf(k)
		s, ok := decodeSegment(v)
		if !ok {
			e.rows.damaged("segment", k)
		}
		if s.live > 0 {
			if q.segs[id] == nil {
				q.segs[id] = &s
			}
			q.st.segment = id
			return id, q.segs[id]
		}
	}
	return 0, nil
}

// expire removes what has expired and reports whether nothing expired is left.
func (e *Engine) expire(q *queue) (done bool) {
	retention := q.row.attributes.retention()
	for range expirySteps {
		if e.hold || e.now < q.expiry {
			return true
		}
		if q.st.live == 0 {
			q.expiry = e.now + retention
			return true
		}
		id, s := e.oldestSegment(q)
		if s == nil {
			return true
		}
		if e.now >= s.sent+retention {
			e.expireSegment(q, id, s)
		} else if e.expirePiece(q, id, s, retention) {
			return true
		}
		e.rows.boundary()
	}
	return e.now < q.expiry
}

// expireSegment removes every message of a segment.
func (e *Engine) expireSegment(q *queue, id uint64, s *segment) {
	lo, hi := id<<segmentBits, min((id+1)<<segmentBits, q.st.nextSeq)
	for _, m := range e.deliveriesOf(q, lo, hi) {
		e.unschedule(q, m)
		q.end(m)
	}
	for _, kind := range []rowKind{kindMessage, kindContent, kindDelivery} {
		e.rows.deleteRange(seqSpan(q.row.space, kind, lo, hi))
	}
	q.fresh.drop(hi)
	q.st.cursor = max(q.st.cursor, hi)
	q.st.live -= s.live
	s.live, s.first, s.dirty = 0, hi, true
	q.stDirty = true
}

// deliveriesOf reads the messages with lo <= seq < hi that have a place in due.
func (e *Engine) deliveriesOf(q *queue, lo, hi uint64) (found []*message) {
	for k, v := range e.scan(seqSpan(q.row.space, kindDelivery, lo, hi)) {
		seq := seqOf(k)
		m := q.msgs[seq]
		if m == nil {
			m = &message{hasDelivery: true}
			m.seq = seq
			var ok bool
			if m.delivery, ok = decodeDelivery(v); !ok {
				e.rows.damaged("delivery", k)
			}
			q.remember(m)
		}
		found = append(found, m)
	}
	return found
}

// expirePiece removes up to expiryPiece messages from the front of a segment that has not expired as a
// whole. It reports whether it met one that has not expired, and notes when that will.
func (e *Engine) expirePiece(q *queue, id uint64, s *segment, retention int64) (done bool) {
	lo, hi := max(s.first, id<<segmentBits), min((id+1)<<segmentBits, q.st.nextSeq)
	var over []meta
	for k, v := range e.scan(seqSpan(q.row.space, kindMessage, lo, hi)) {
		m, _, ok := decodeMeta(seqOf(k), v)
		if !ok {
			e.rows.damaged("message", k)
		}
		if s.first = m.seq; !m.expired(e.now, retention) {
			q.expiry, done = m.base+retention, true
			break
		}
		if len(over) == expiryPiece {
			break
		}
		over = append(over, m)
	}
	for _, m := range over {
		if placed := e.find(q, m.seq); placed != nil {
			e.remove(q, placed)
			continue
		}
		q.fresh.drop(m.seq + 1)
		q.st.cursor = max(q.st.cursor, m.seq+1)
		e.erase(q, m.seq, m.flags&flagInline == 0)
	}
	return done
}

// firstUnexpired returns a number before which every message that is not in due has expired. It serves
// receives while expiry is held.
func (e *Engine) firstUnexpired(q *queue) uint64 {
	retention := q.row.attributes.retention()
	for k, v := range e.scan(seqSpan(q.row.space, kindSegment, q.st.segment, q.st.nextSeq>>segmentBits+1)) {
		s, ok := decodeSegment(v)
		if !ok {
			e.rows.damaged("segment", k)
		}
		if s.live > 0 && e.now < s.sent+retention {
			return seqOf(k) << segmentBits
		}
	}
	return q.st.nextSeq
}
