package verify

import (
	"bytes"
	"crypto/md5"
	"math"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// A message is a message with its delivery row, if it has one.
type message struct {
	row.Meta
	row.Delivery
	hasDelivery bool
}

// messages goes through the messages of a queue, and beside them through the rows that go by their
// numbers: contents, deliveries and segments.
func (s *spaceRun) messages() {
	contents, deliveries := s.cursor(s.kind(row.KindContent)), s.cursor(s.kind(row.KindDelivery))
	stories := s.cursor(s.kind(row.KindStory))
	defer contents.stop()
	defer deliveries.stop()
	defer stories.stop()
	segments := s.cursor(s.kind(row.KindSegment))
	defer segments.stop()
	var part segmentSum
	for k, v := range s.rows(s.kind(row.KindMessage)) {
		s.read.Messages++
		s.live++
		seq := row.SeqOf(k)
		s.orphans(contents, "content", seq)
		s.orphans(deliveries, "delivery", seq)
		s.orphans(stories, "story", seq)
		m, inline, ok := row.DecodeMeta(seq, v)
		if !ok || seq == 0 {
			s.damagedRow(s.queue, k, "message", v)
			m = row.Meta{Seq: seq, Base: math.MinInt64, Flags: row.FlagInline}
		}
		if id := seq >> row.SegmentBits; id != part.id {
			s.segment(segments, &part)
			part = segmentSum{id: id}
		}
		part.add(&m)
		var content []byte
		if contents.ok && row.SeqOf(contents.k) == seq {
			content = contents.v
		}
		placed := message{Meta: m}
		if deliveries.ok && row.SeqOf(deliveries.k) == seq {
			placed.hasDelivery = true
			placed.Delivery, placed.hasDelivery = row.DecodeDelivery(deliveries.v)
			if !placed.hasDelivery || len(deliveries.k) != row.SeqKeyLen {
				s.damagedRow(s.queue, deliveries.k, "delivery", deliveries.v)
			} else {
				s.canonical(s.queue, deliveries.k, deliveries.v, placed.Delivery.Encode(nil))
				s.dues.expect(s.dueRow(seq, &placed.Delivery))
				s.levels.expect(s.levelRow(seq, &placed.Delivery))
			}
		}
		told := stories.ok && row.SeqOf(stories.k) == seq
		if told {
			s.story(stories.k, stories.v, &placed)
			stories.next()
		}
		if placed.hasDelivery && placed.Story && !told {
			s.say(row.SeqKey(s.space, row.KindDelivery, seq),
				"it says that the message has a story row, and that is not there")
		}
		if ok {
			s.canonical(s.queue, k, v, m.Encode(nil, inline))
			s.message(k, &placed)
			s.content(k, &m, inline, contents.k, content)
		}
		if content != nil {
			contents.next()
		}
		if deliveries.ok && row.SeqOf(deliveries.k) == seq {
			deliveries.next()
		}
	}
	s.segment(segments, &part)
	s.segment(segments, &segmentSum{id: math.MaxUint64})
	s.orphans(contents, "content", math.MaxUint64)
	s.orphans(deliveries, "delivery", math.MaxUint64)
	s.orphans(stories, "story", math.MaxUint64)
}

// story looks at what consumers said about a message.
func (s *spaceRun) story(k, v []byte, m *message) {
	stored, ok := row.DecodeStory(v)
	if !ok || len(k) != row.SeqKeyLen {
		s.damagedRow(s.queue, k, "story", v)
		return
	}
	s.canonical(s.queue, k, v, stored.Encode(nil))
	for _, a := range stored.Attempts {
		s.past(s.queue, k, "the end of an attempt", a.Ended)
	}
	switch {
	case m.hasDelivery && !m.Story, !m.hasDelivery && m.Redrives == 0:
		s.say(k, "this is the story row of message %d, which does not know of it", m.Seq)
	case stored.Generation > m.Delivery.Generation:
		s.say(k, "its last attempt ended delivery %d, and the latest one is %d", stored.Generation,
			m.Delivery.Generation)
	}
}

// orphans reports the rows before a message which are of messages that are not there.
func (s *spaceRun) orphans(c *cursor, kind string, before uint64) {
	for ; c.ok && (row.SeqOf(c.k) < before || before == math.MaxUint64 ||
		len(c.k) != row.SeqKeyLen); c.next() {
		s.say(c.k, "this is the %s row of message %d, which is not there", kind, row.SeqOf(c.k))
	}
}

// message compares a message with its delivery and with the state.
func (s *spaceRun) message(k []byte, m *message) {
	st, meta, fifo := &s.st, &m.Meta, s.settings.FIFO
	s.past(s.queue, k, "the sending of the message", meta.Sent)
	s.past(s.queue, k, "its arrival", meta.Arrived)
	switch {
	case meta.Seq >= st.NextSeq:
		s.say(k, "this is message %d, and the next one is to be %d", meta.Seq, st.NextSeq)
	case meta.FirstSent > meta.Sent || meta.FirstSent < 0 || meta.Base < meta.Sent ||
		meta.IsLate() && (fifo || meta.Source != "" || !meta.Scheduled() ||
			meta.Base > meta.Arrived+row.LateMax):
		s.say(k, "it was first sent at %d, sent at %d, is kept from %d on and arrived at %d",
			meta.FirstSent, meta.Sent, meta.Base, meta.Arrived)
	case fifo && (meta.Group == "" || meta.Dedup == ""):
		s.say(k, "it is in a FIFO queue without a group or a deduplication id")
	case !fifo && meta.Dedup != "":
		s.say(k, "it is in a standard queue and has a deduplication id")
	case meta.Source != "" && !meta.Scheduled(),
		fifo && meta.Source == "" && meta.Scheduled() && !meta.Away: // parked in its own queue
		s.say(k, "it came from %q and entered through due: %v", meta.Source, meta.Scheduled())
	case m.hasDelivery:
		s.delivery(m)
	case meta.Scheduled():
		s.say(k, "it entered through due and has no delivery row")
	case !fifo && (meta.Seq < st.Cursor || meta.Seq > st.LastFresh):
		s.say(k, "it was never handed out, and what was not is from %d to %d", st.Cursor,
			st.LastFresh)
	}
	if fifo && !m.hasDelivery && st.Counted.Has(meta.Seq) {
		s.delayed++
	}
	s.origins.expect(s.originRow(meta))
	s.elders.expect(s.elderRow(meta))
	s.away(k, meta)
	if s.fair != nil {
		s.inTenant(m)
	}
	if fifo {
		s.lines.expect(s.lineRow(meta))
		s.remembered(k, meta)
	}
}

// delivery compares a message with its delivery row.
func (s *spaceRun) delivery(m *message) {
	d, fifo := &m.Delivery, s.settings.FIFO
	k := row.SeqKey(s.space, row.KindDelivery, m.Seq)
	s.past(s.queue, k, "the last receive of the message", d.LastReceive)
	received := d.FirstReceive != 0
	switch {
	case d.Apart == (m.Flags&row.FlagInline != 0):
		s.say(k, "its content is a row of its own: %v, and its message row says otherwise", d.Apart)
	case d.Origin != (!fifo && m.Source != "" || m.IsLate()):
		s.say(k, "it has an origin row: %v, and it came from %q", d.Origin, m.Source)
	case d.Elder && !m.IsElder():
		s.say(k, "it has an elder row, and it was first sent at %d and is kept from %d on",
			m.FirstSent, m.Base)
	case !d.Elder && m.IsElder() &&
		s.has(row.ElderRows.Key(s.space, row.Pos{At: m.FirstSent, Seq: m.Seq})):
		s.say(k, "it has an elder row and does not know of it")
	case d.Moved != m.Away:
		s.say(k, "it has rows in moved: %v, and its message row says %v", d.Moved, m.Away)
	case !counted(d):
		s.say(k, "it was received %d times, %d of them here, first at %d and last at %d",
			d.Receives, d.Generation, d.FirstReceive, d.LastReceive)
	case received && d.FirstReceive < m.Sent:
		s.say(k, "it was sent at %d and received at %d", m.Sent, d.FirstReceive)
	case d.Level > 0 && (fifo || !m.Scheduled()):
		s.say(k, "it has level %d, and it entered through due: %v", d.Level, m.Scheduled())
	case d.Kind == row.DueDelayed && (fifo || received || d.At <= m.Arrived ||
		m.IsLate() && d.At != m.Base ||
		!m.IsLate() && d.At > m.Arrived+sqslimits.DelayMax.Milliseconds()):
		s.say(k, "it arrived at %d and is delayed until %d, after %d receives", m.Arrived, d.At,
			d.Receives)
	case d.Kind == row.DueInFlight && (d.Generation == 0 || d.At <= d.LastReceive ||
		d.At > s.sys.Hidden):
		s.say(k, "it is in flight until %d, was last received at %d, and nothing was hidden until later than %d", d.At, d.LastReceive, s.sys.Hidden)
	case d.Kind == row.DueReturned && d.At < m.Sent:
		s.say(k, "it was given back at %d and sent at %d", d.At, m.Sent)
	case fifo && m.Seq > s.placedOf(m.Group):
		s.say(k, "it was handed out, and its group row says that no message behind %d was",
			s.placedOf(m.Group))
	case !fifo && !m.Scheduled() && m.Seq >= max(s.st.Cursor, s.st.Mixed):
		s.say(k, "it was handed out; the cursor is %d and mixed %d", s.st.Cursor, s.st.Mixed)
	}
	if d.Kind == row.DueReturned {
		s.past(s.queue, k, "its return", d.At)
	}
}

// counted reports whether the counts and times of the receives of a message agree. Receives that a
// consumer released are not counted, and the story row then says so.
func counted(d *row.Delivery) bool {
	received := d.FirstReceive != 0
	return received == (d.LastReceive != 0) && d.FirstReceive <= d.LastReceive &&
		(received || d.Receives == 0) &&
		(d.Story || received == (d.Receives > 0) && d.Generation <= d.Receives)
}

func (s *spaceRun) has(k []byte) bool { _, ok := s.get(k); return ok }

// content reads the content of a message, which is in its row or in one of its own, and compares it
// with the digest and the size that it was sent with.
func (s *spaceRun) content(k []byte, m *row.Meta, inline, apartKey, apart []byte) {
	value := inline
	switch {
	case m.Flags&row.FlagInline == 0 && apart == nil:
		s.say(k, "its content is a row of its own, and that is not there")
		return
	case m.Flags&row.FlagInline == 0:
		value, k = apart, apartKey
	case apart != nil:
		s.say(apartKey, "this is the content of message %d, which has its content in itself", m.Seq)
	}
	c, ok := row.DecodeContent(value)
	if !ok {
		s.damagedRow(s.queue, k, "content", value)
		return
	}
	size := int64(len(c.Body))
	for _, a := range c.Attributes {
		size += int64(len(a.Name) + len(a.Type) + len(a.String) + len(a.Binary))
	}
	switch {
	case (len(value) <= row.InlineMax) != (m.Flags&row.FlagInline != 0):
		s.say(k, "it is a content of %d bytes, which is in a message row up to %d", len(value),
			row.InlineMax)
	case size != m.Size:
		s.say(k, "its message is of %d bytes, and it is of %d", m.Size, size)
	case c.BodyMD5 != [16]byte{} && c.BodyMD5 != md5.Sum([]byte(c.Body)):
		s.say(k, "the body of the message is not the one whose MD5 was noted when it was sent")
	case !bytes.Equal(c.Encode(), value):
		s.say(k, "the content says what is never written so")
	}
}

// A segmentSum is what the messages of a segment come to.
type segmentSum struct {
	id    uint64
	live  int64
	late  int64
	first uint64
	sent  int64
}

func (p *segmentSum) add(m *row.Meta) {
	if p.live == 0 {
		p.first, p.sent = m.Seq, math.MinInt64
	}
	if p.live++; m.IsLate() {
		p.late++
	} else {
		p.sent = max(p.sent, m.Base)
	}
}

// segment compares the rows of the segments up to one with the messages, of which only that one has
// any.
func (s *spaceRun) segment(c *cursor, part *segmentSum) {
	for ; c.ok; c.next() {
		id := row.SeqOf(c.k)
		if id > part.id && part.id != math.MaxUint64 {
			break
		}
		stored, ok := row.DecodeSegment(c.v)
		if !ok || len(c.k) != row.SeqKeyLen {
			s.damagedRow(s.queue, c.k, "segment", c.v)
			if id == part.id {
				part.live = 0 // that there is one need not be said
			}
			continue
		}
		s.canonical(s.queue, c.k, c.v, stored.Encode(nil))
		found := segmentSum{id: id}
		if id == part.id {
			found = *part
			part.live = 0
		}
		switch {
		case stored.Live != found.live:
			s.say(c.k, "this segment says that it has %d messages, and it has %d", stored.Live,
				found.live)
		case stored.Late != found.late:
			s.say(c.k, "this segment says that %d of its messages are late, and %d are", stored.Late,
				found.late)
		case id > s.st.NextSeq>>row.SegmentBits || stored.First < id<<row.SegmentBits ||
			stored.First > (id+1)<<row.SegmentBits:
			s.say(c.k, "this segment begins at message %d, and the next one is to be %d",
				stored.First, s.st.NextSeq)
		case found.live == 0:
		case id < s.st.Segment:
			s.say(c.k, "this segment has %d messages, and reading begins at segment %d",
				stored.Live, s.st.Segment)
		case found.first < stored.First || found.sent > stored.Sent:
			s.say(c.k, "this segment begins at message %d and at the latest is kept from %d on, and there are message %d and the time %d",
				stored.First, stored.Sent, found.first, found.sent)
		}
		s.past(s.queue, c.k, "its latest message", stored.Sent)
	}
	if part.live > 0 {
		s.say(row.SeqKey(s.space, row.KindSegment, part.id),
			"%d messages from number %d on have no segment row", part.live, part.first)
	}
}
