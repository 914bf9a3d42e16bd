package engine

import (
	"bytes"
	"crypto/md5"
	"math"

	"tenaq/internal/work/sqslimits"
)

// messages goes through the messages of a queue, and beside them through the rows that go by their numbers: contents,
// deliveries and segments.
func (s *spaceAudit) messages() {
	contents, deliveries := s.cursor(s.kind(kindContent)), s.cursor(s.kind(kindDelivery))
	defer contents.stop()
	defer deliveries.stop()
	segments := s.cursor(s.kind(kindSegment))
	defer segments.stop()
	var part segmentSum
	for k, v := range s.rows(s.kind(kindMessage)) {
		s.read.Messages++
		s.live++
		seq := seqOf(k)
		s.orphans(contents, "content", seq)
		s.orphans(deliveries, "delivery", seq)
		m, inline, ok := decodeMeta(seq, v)
		if !ok || seq == 0 {
			s.damagedRow(s.queue, k, "message", v)
			m = meta{seq: seq, base: math.MinInt64, flags: flagInline}
		}
		if id := seq >> segmentBits; id != part.id {
			s.segment(segments, &part)
			part = segmentSum{id: id}
		}
		part.add(&m)
		var content []byte
		if contents.ok && seqOf(contents.k) == seq {
			content = contents.v
		}
		placed := message{meta: m, hasMeta: true}
		if deliveries.ok && seqOf(deliveries.k) == seq {
			placed.hasDelivery = true
			if placed.delivery, placed.hasDelivery = decodeDelivery(deliveries.v); !placed.hasDelivery || len(deliveries.k) != seqKeyLen {
				s.damagedRow(s.queue, deliveries.k, "delivery", deliveries.v)
			} else {
				s.canonical(s.queue, deliveries.k, deliveries.v, placed.delivery.encode(nil))
				s.dues.expect(s.dueRow(seq, &placed.delivery))
			}
		}
		if ok {
			s.canonical(s.queue, k, v, m.encode(nil, inline))
			s.message(k, &placed)
			s.content(k, &m, inline, contents.k, content)
		}
		if content != nil {
			contents.next()
		}
		if deliveries.ok && seqOf(deliveries.k) == seq {
			deliveries.next()
		}
	}
	s.segment(segments, &part)
	s.segment(segments, &segmentSum{id: math.MaxUint64})
	s.orphans(contents, "content", math.MaxUint64)
	s.orphans(deliveries, "delivery", math.MaxUint64)
}

// orphans reports the rows before a message which are of messages that are not there.
func (s *spaceAudit) orphans(c *cursor, kind string, before uint64) {
	for ; c.ok && (seqOf(c.k) < before || before == math.MaxUint64 || len(c.k) != seqKeyLen); c.next() {
		s.say(c.k, "this is the %s row of message %d, which is not there", kind, seqOf(c.k))
	}
}

// message compares a message with its delivery and with the state.
func (s *spaceAudit) message(k []byte, m *message) {
	st, meta, fifo := &s.st, &m.meta, s.settings.FIFO
	s.past(s.queue, k, "the sending of the message", meta.sent)
	s.past(s.queue, k, "its arrival", meta.arrived)
	switch {
	case meta.seq >= st.nextSeq:
		s.say(k, "this is message %d, and the next one is to be %d", meta.seq, st.nextSeq)
	case meta.firstSent > meta.sent || meta.firstSent < 0 || meta.base < meta.sent || meta.arrived < meta.base:
		s.say(k, "it was first sent at %d, sent at %d, is kept from %d on and arrived at %d", meta.firstSent, meta.sent, meta.base, meta.arrived)
	case fifo && (meta.group == "" || meta.dedup == ""):
		s.say(k, "it is in a FIFO queue without a group or a deduplication id")
	case !fifo && meta.dedup != "":
		s.say(k, "it is in a standard queue and has a deduplication id")
	case meta.source != "" && !meta.scheduled(), fifo && meta.source == "" && meta.scheduled():
		s.say(k, "it came from %q and entered through due: %v", meta.source, meta.scheduled())
	case m.hasDelivery:
		s.delivery(m)
	case meta.scheduled():
		s.say(k, "it entered through due and has no delivery row")
	case !fifo && (meta.seq < st.cursor || meta.seq > st.lastFresh):
		s.say(k, "it was never handed out, and what was not is from %d to %d", st.cursor, st.lastFresh)
	}
	if fifo && !m.hasDelivery && st.counted.has(meta.seq) {
		s.delayed++
	}
	s.origins.expect(s.originRow(meta))
	s.elders.expect(s.elderRow(meta))
	if fifo {
		s.lines.expect(s.lineRow(meta))
		s.remembered(k, meta)
	}
}

// delivery compares a message with its delivery row.
func (s *spaceAudit) delivery(m *message) {
	d, fifo := &m.delivery, s.settings.FIFO
	k := seqKey(s.space, kindDelivery, m.seq)
	s.past(s.queue, k, "the last receive of the message", d.lastReceive)
	received := d.receives > 0
	switch {
	case d.apart == (m.flags&flagInline != 0):
		s.say(k, "its content is a row of its own: %v, and its message row says otherwise", d.apart)
	case d.origin != (!fifo && m.source != ""):
		s.say(k, "it has an origin row: %v, and it came from %q", d.origin, m.source)
	case d.elder && !m.isElder():
		s.say(k, "it has an elder row, and it was first sent at %d and is kept from %d on", m.firstSent, m.base)
	case !d.elder && m.isElder() && s.has(elderIndex.key(s.space, pos{m.firstSent, m.seq})):
		s.say(k, "it has an elder row and does not know of it")
	case received != (d.firstReceive != 0) || received != (d.lastReceive != 0) || d.firstReceive > d.lastReceive || d.generation > d.receives:
		s.say(k, "it was received %d times, %d of them here, first at %d and last at %d", d.receives, d.generation, d.firstReceive, d.lastReceive)
	case received && d.firstReceive < m.sent:
		s.say(k, "it was sent at %d and received at %d", m.sent, d.firstReceive)
	case d.kind == dueDelayed && (fifo || received || d.at <= m.arrived || d.at > m.arrived+sqslimits.DelayMax.Milliseconds()):
		s.say(k, "it arrived at %d and is delayed until %d, after %d receives", m.arrived, d.at, d.receives)
	case d.kind == dueInFlight && (d.generation == 0 || d.at <= d.lastReceive || d.at > s.sys.hidden):
		s.say(k, "it is in flight until %d, was last received at %d, and nothing was hidden until later than %d", d.at, d.lastReceive, s.sys.hidden)
	case d.kind == dueReturned && d.at < m.sent:
		s.say(k, "it was given back at %d and sent at %d", d.at, m.sent)
	case fifo && m.seq > s.placedOf(m.group):
		s.say(k, "it was handed out, and its group row says that no message behind %d was", s.placedOf(m.group))
	case !fifo && !m.scheduled() && m.seq >= max(s.st.cursor, s.st.mixed):
		s.say(k, "it was handed out; the cursor is %d and mixed %d", s.st.cursor, s.st.mixed)
	}
	if d.kind == dueReturned {
		s.past(s.queue, k, "its return", d.at)
	}
}

func (s *spaceAudit) has(k []byte) bool { _, ok := s.get(k); return ok }

// content reads the content of a message, which is in its row or in one of its own, and compares it with the digest and
// the size that it was sent with.
func (s *spaceAudit) content(k []byte, m *meta, inline, apartKey, apart []byte) {
	value := inline
	switch {
	case m.flags&flagInline == 0 && apart == nil:
		s.say(k, "its content is a row of its own, and that is not there")
		return
	case m.flags&flagInline == 0:
		value, k = apart, apartKey
	case apart != nil:
		s.say(apartKey, "this is the content of message %d, which has its content in itself", m.seq)
	}
	c, ok := decodeContent(value)
	if !ok {
		s.damagedRow(s.queue, k, "content", value)
		return
	}
	size := int64(len(c.Body))
	for _, a := range c.Attributes {
		size += int64(len(a.Name) + len(a.Type) + len(a.String) + len(a.Binary))
	}
	switch {
	case (len(value) <= inlineMax) != (m.flags&flagInline != 0):
		s.say(k, "it is a content of %d bytes, which is in a message row up to %d", len(value), inlineMax)
	case size != m.size:
		s.say(k, "its message is of %d bytes, and it is of %d", m.size, size)
	case c.BodyMD5 != [16]byte{} && c.BodyMD5 != md5.Sum([]byte(c.Body)):
		s.say(k, "the body of the message is not the one whose MD5 was noted when it was sent")
	case !bytes.Equal(c.encode(), value):
		s.say(k, "the content says what is never written so")
	}
}

// A segmentSum is what the messages of a segment come to.
type segmentSum struct {
	id    uint64
	live  int64
	first uint64
	sent  int64
}

func (p *segmentSum) add(m *meta) {
	if p.live == 0 {
		p.first, p.sent = m.seq, m.base
	}
	p.live++
	p.sent = max(p.sent, m.base)
}

// segment compares the rows of the segments up to one with the messages, of which only that one has any.
func (s *spaceAudit) segment(c *cursor, part *segmentSum) {
	for ; c.ok; c.next() {
		id := seqOf(c.k)
		if id > part.id && part.id != math.MaxUint64 {
			break
		}
		row, ok := decodeSegment(c.v)
		if !ok || len(c.k) != seqKeyLen {
			s.damagedRow(s.queue, c.k, "segment", c.v)
			if id == part.id {
				part.live = 0 // that there is one need not be said
			}
			continue
		}
		s.canonical(s.queue, c.k, c.v, row.encode(nil))
		found := segmentSum{id: id}
		if id == part.id {
			found = *part
			part.live = 0
		}
		switch {
		case row.live != found.live:
			s.say(c.k, "this segment says that it has %d messages, and it has %d", row.live, found.live)
		case id > s.st.nextSeq>>segmentBits || row.first < id<<segmentBits || row.first > (id+1)<<segmentBits:
			s.say(c.k, "this segment begins at message %d, and the next one is to be %d", row.first, s.st.nextSeq)
		case found.live == 0:
		case id < s.st.segment:
			s.say(c.k, "this segment has %d messages, and reading begins at segment %d", row.live, s.st.segment)
		case found.first < row.first || found.sent > row.sent:
			s.say(c.k, "this segment begins at message %d and at the latest is kept from %d on, and there are message %d and the time %d",
				row.first, row.sent, found.first, found.sent)
		}
		s.past(s.queue, c.k, "its latest message", row.sent)
	}
	if part.live > 0 {
		s.say(seqKey(s.space, kindSegment, part.id), "%d messages from number %d on have no segment row", part.live, part.first)
	}
}
