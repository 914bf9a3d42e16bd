package engine

// Retention. A message is gone the millisecond its retention period is over, whatever state it is in.
// [RET-1, RET-2] The period is added when a message is looked at, because a change of the queue's
// attribute acts on messages that are already there. [RET-5]
//
// Since time never decreases, messages expire in the order they came, from the front. Where the front is
// say the segments: each counts how many of 4096 neighbours still live, so that finding the oldest message
// never walks over the tombstones of deleted ones, and a segment that has expired as a whole falls to a
// few range deletes. Only messages that were dead-lettered into a standard queue are older than their
// place says; an index of their own finds those. [DLQ-25]
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
	sent  int64  // the latest time from which the retention of one of them counts
	live  int64
	dirty bool
}

func (s *segment) enter(sent int64) {
	s.sent, s.live, s.dirty = max(s.sent, sent), s.live+1, true
}

func (s *segment) leave() {
	if s.live <= 0 {
		broken("a message leaves a segment of which %d are live", s.live)
	}
	s.live, s.dirty = s.live-1, true
}

func (s *segment) encode(b enc) []byte {
	b.byte(rowVersion)
	b.uint(s.first)
	b.int(s.sent)
	b.int(s.live)
	return b
}

func decodeSegment(value []byte) (s segment, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
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
	if id, s = e.nextSegment(q, q.st.segment); s != nil {
		q.st.segment = id
	}
	return id, s
}

// nextSegment returns the first segment from the one of that number on that has live messages, nil when there is none.
func (e *Engine) nextSegment(q *queue, from uint64) (id uint64, s *segment) {
	for k, v := range e.scan(seqSpan(q.row.space, kindSegment, from, q.st.nextSeq>>segmentBits+1)) {
		id := seqOf(k)
		s, ok := decodeSegment(v)
		if !ok {
			e.rows.damaged("segment", k)
		}
		if s.live > 0 {
			if q.segs[id] == nil {
				q.segs[id] = &s
			}
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
		next := e.now + retention
		if q.st.live > 0 {
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

// expireOrigins removes dead-lettered messages, which expire in another order than they came, at most
// expiryPiece of them. It returns when the next one expires; Now when that may be at once.
func (e *Engine) expireOrigins(q *queue, retention int64) (next int64) {
	over := originIndex.between(e, q, &q.origin, q.st.originLow, lastAt(e.now-retention), expiryPiece)
	var gone []*message
	for _, o := range over {
		gone = append(gone, e.mustFind(q, pos{seq: o.seq}))
	}
	next = maxTime
	switch {
	case len(over) == expiryPiece:
		next = e.now
	case originIndex.load(e, q, &q.origin, len(over)):
		next = q.origin.at(len(over)).at + retention
	}
	for _, m := range gone {
		e.remove(q, m)
	}
	e.countExpired(q, len(gone))
	e.rows.boundary()
	return next
}

// expireFront removes messages from the front of the queue, a whole segment or a piece of one, and
// returns as expireOrigins does.
func (e *Engine) expireFront(q *queue, retention int64) (next int64) {
	id, s := e.oldestSegment(q)
	switch {
	case s == nil:
		return e.now + retention
	case e.now >= s.sent+retention && !q.fifo() && !e.hasElders(q, s.sent):
		e.expireSegment(q, id, s)
		return e.now
	}
	return e.expirePiece(q, id, s, retention)
}

// expireSegment removes every message of a segment of a standard queue. None of them is an elder: which of those that
// were never handed out are cannot be told without reading them all.
func (e *Engine) expireSegment(q *queue, id uint64, s *segment) {
	lo, hi := id<<segmentBits, min((id+1)<<segmentBits, q.st.nextSeq)
	for _, m := range e.deliveriesOf(q, lo, hi) {
		e.unschedule(q, m)
		if m.origin {
			e.removeOrigin(q, m)
		}
		q.end(m)
	}
	for _, kind := range []rowKind{kindMessage, kindContent, kindDelivery} {
		e.rows.deleteRange(seqSpan(q.row.space, kind, lo, hi))
	}
	q.fresh.drop(hi)
	q.st.cursor = max(q.st.cursor, hi)
	q.st.live -= s.live
	e.countExpired(q, int(s.live))
	s.live, s.first, s.dirty = 0, hi, true
	q.stDirty = true
}

func (e *Engine) countExpired(q *queue, n int) {
	if n > 0 {
		e.tally(q).Expired.Add(int64(n))
	}
}

// addOrigin gives a message that was dead-lettered here its row in origin.
func (e *Engine) addOrigin(q *queue, m *message) {
	p := pos{m.base, m.seq}
	e.rows.set(originIndex.key(q.row.space, p), []byte{rowVersion})
	q.origin.insert(entry[struct{}]{pos: p})
	if p.less(q.st.originLow) {
		q.st.originLow = p
	}
	q.expiry = min(q.expiry, m.base+q.row.attributes.retention())
}

// removeOrigin takes a message out of origin.
func (e *Engine) removeOrigin(q *queue, m *message) {
	e.needMeta(q, m)
	p := pos{m.base, m.seq}
	e.rows.delete(originIndex.key(q.row.space, p))
	q.origin.remove(p)
	q.st.originLow = q.origin.low(p)
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

// expirePiece removes up to expiryPiece messages from the front of a segment. What lies behind the first
// that has not expired has not either, or is one of the origins.
func (e *Engine) expirePiece(q *queue, id uint64, s *segment, retention int64) (next int64) {
	lo, hi := max(s.first, id<<segmentBits), min((id+1)<<segmentBits, q.st.nextSeq)
	var over []*message
	next = e.now
	for k, v := range e.scan(seqSpan(q.row.space, kindMessage, lo, hi)) {
		m := e.decodeMeta(k, v)
		if s.first = m.seq; !m.expired(e.now, retention) {
			next = m.base + retention
			break
		}
		if len(over) == expiryPiece {
			break
		}
		over = append(over, &message{meta: m, hasMeta: true})
	}
	leaving := make(map[string]int)
	for i, m := range over {
		if placed := e.find(q, m.seq); placed != nil {
			placed.meta, placed.hasMeta = m.meta, true
			over[i] = placed
		}
		if q.fifo() {
			leaving[m.group]++
			e.prepareLeave(q, m, leaving[m.group])
		}
	}
	for _, m := range over {
		q.fresh.drop(m.seq + 1)
		e.remove(q, m)
	}
	e.countExpired(q, len(over))
	if q.fifo() && len(over) > 0 {
		e.stir(q) // what was behind them in their groups can be received
	}
	return next
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
