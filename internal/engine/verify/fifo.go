package verify

import (
	"bytes"

	"tenaq/internal/engine/key"
	"tenaq/internal/engine/row"
)

// inGroups goes through the groups of a FIFO queue and, beside them, through their lines. Since the
// lines are compared with the messages, it is enough to compare the groups with the lines.
func (s *spaceRun) inGroups() {
	if !s.settings.FIFO {
		return
	}
	lines := s.cursor(s.kind(row.KindLine))
	defer lines.stop()
	for k, v := range s.rows(s.kind(row.KindGroup)) {
		name, named := row.GroupOf(k)
		stored, ok := row.DecodeGroup(v)
		if !named || !ok {
			s.damagedRow(s.queue, k, "group", v)
			continue
		}
		s.canonical(s.queue, k, v, stored.Encode(nil))
		g := &namedGroup{name, stored}
		s.group(k, g, lines)
		s.heads.expect(s.headRow(g))
	}
	s.linesUntil(lines, nil, func(row.Line) {})
	s.lines.settle()
	s.heads.all(func(k, v []byte) {
		_, ok := row.DecodeHead(v)
		if !ok || len(k) != row.PosKeyLen+1 ||
			row.HeadClass(k[row.SpacePrefixLen]) > row.HeadHeld {
			s.damagedRow(s.queue, k, "head", v)
			return
		}
		if class := row.HeadClass(k[row.SpacePrefixLen]); class != row.HeadHeld {
			s.low(k, row.PosOf(k[row.SpacePrefixLen+1:]), s.st.HeadLow[class])
		}
	})
	s.heads.settle()
}

// group compares a group with its lines and with its first message.
func (s *spaceRun) group(k []byte, g *namedGroup, lines *cursor) {
	var count uint64
	var first, last row.Line
	add := func(l row.Line) {
		if count == 0 {
			first = l
		}
		last = l
		count++
	}
	ahead := g.Ahead()
	for _, l := range ahead {
		s.lines.have.add(row.LineKey(s.space, g.name, l.Seq), row.EncodeLine(nil, l.Sent))
		add(l)
	}
	// The founder came first, so if it is not the first it has gone.
	if len(g.Front) == 0 && g.First.Seq == g.Founder {
		s.lines.have.add(row.LineKey(s.space, g.name, g.Founder), row.EncodeLine(nil, g.First.Sent))
		add(g.First)
	}
	s.linesUntil(lines, k[row.SpacePrefixLen:], func(l row.Line) {
		if l.Seq == g.Founder {
			s.say(lines.k, "this is a line row of the message with which its group began, which has none")
		}
		add(l)
	})
	switch {
	case count != g.Count:
		s.say(k, "group %s says that it has %d messages, and it has %d", g.name, g.Count, count)
	case first != g.First:
		s.say(k, "group %s says that it begins with message %d of %d, and it is message %d of %d",
			g.name, g.First.Seq, g.First.Sent, first.Seq, first.Sent)
	case g.Last != row.Line{} && last != g.Last:
		s.say(k, "group %s says that it ends with message %d of %d, and it is message %d of %d",
			g.name, g.Last.Seq, g.Last.Sent, last.Seq, last.Sent)
	case g.Founder == 0 || g.Count > 0 && g.Founder > g.First.Seq || g.Placed >= s.st.NextSeq:
		s.say(k, "group %s began with message %d, and messages up to %d were handed out", g.name,
			g.Founder, g.Placed)
	}
	if len(g.Front) > 0 && !s.sys.Holds {
		s.say(k, "group %s has slots, and the system row does not keep out programs that do not know them",
			g.name)
	}
	if g.IsHeld() {
		s.held(k, g)
		return
	}
	class, at := row.HeadFresh, g.First.Sent
	if value, ok := s.get(row.SeqKey(s.space, row.KindDelivery, g.First.Seq)); ok {
		if d, ok := row.DecodeDelivery(value); ok {
			class, at = row.HeadPlaced, d.At
		}
	}
	if class != g.Class || at != g.At {
		s.say(k, "group %s stands in class %d at %d, and its first message in class %d at %d",
			g.name, g.Class, g.At, class, at)
	}
}

// held looks for the dead letters that hold a group. Without one of them, nothing would ever end
// the hold.
func (s *spaceRun) held(k []byte, g *namedGroup) {
	s.past(s.queue, k, "the beginning of a hold", g.At)
	if g.Held == 0 || g.Held >= s.st.NextSeq {
		s.say(k, "group %s is held since message %d, and the next one is to be %d", g.name, g.Held,
			s.st.NextSeq)
	}
	want := row.Hold{Queue: s.queue, Group: g.name}
	for _, slot := range g.Front {
		if !slot.Dead() {
			continue
		}
		value, _ := s.get(row.SeqKey(slot.Space, row.KindHold, slot.Seq))
		if h, ok := row.DecodeHold(value); !ok || h != want ||
			!s.has(row.SeqKey(slot.Space, row.KindMessage, slot.Seq)) {
			s.say(k, "group %s is held by message %d of space %d, which is not there or does not hold it",
				g.name, slot.Seq, slot.Space)
		}
	}
}

// holds looks at the hold rows of dead letters. What they name may be gone: then they hold nothing.
func (s *spaceRun) holds() {
	for k, v := range s.rows(s.kind(row.KindHold)) {
		h, ok := row.DecodeHold(v)
		if !ok || len(k) != row.SeqKeyLen {
			s.damagedRow(s.queue, k, "hold", v)
			continue
		}
		s.canonical(s.queue, k, v, h.Encode(nil))
		value, _ := s.get(row.SeqKey(s.space, row.KindMessage, row.SeqOf(k)))
		m, _, ok := row.DecodeMeta(row.SeqOf(k), value)
		if !ok || m.Source == "" || m.Group != h.Group {
			s.say(k, "this is the hold row of message %d, which is no dead letter of group %s",
				row.SeqOf(k), h.Group)
		}
	}
}

// linesUntil takes the lines of a group forward, whose name is given as it is in a key, and those
// of groups before it, which are not there. Without a group it takes what is left.
func (s *spaceRun) linesUntil(c *cursor, group []byte, add func(row.Line)) {
	for ; c.ok; c.next() {
		of := c.k[row.SpacePrefixLen:max(len(c.k)-8, row.SpacePrefixLen)]
		order := -1
		if group != nil {
			order = bytes.Compare(of, group)
		}
		if order > 0 {
			return
		}
		s.lines.have.add(c.k, c.v)
		sent, ok := row.DecodeLine(c.v)
		switch {
		case !ok:
			s.damagedRow(s.queue, c.k, "line", c.v)
		case order < 0:
			s.say(c.k, "this is the line row of a message in a group that is not there")
		default:
			add(row.Line{Seq: row.LineSeq(c.k), Sent: sent})
		}
	}
}

// remembered checks that the deduplication of a message is remembered as long as others of its time
// are.
func (s *spaceRun) remembered(k []byte, m *row.Meta) {
	if m.Scheduled() || m.Redrives > 0 || m.Replayed {
		return // it was moved here
	}
	bucket, known := s.st.BucketOf(m.Sent)
	if !known {
		return
	}
	for _, h := range []row.DedupHash{row.HashOf(row.HashQueue, "", m.Dedup),
		row.HashOf(row.HashGroup, m.Group, m.Dedup)} {
		value, ok := s.get(row.DedupKey(s.space, bucket, h))
		if !ok {
			continue
		}
		d, ok := row.DecodeDedup(value)
		if !ok || d.Deliveries != nil {
			continue
		}
		if d.At == m.Sent && d.ID == m.ID && uint64(d.Sequence) == m.Seq || d.At > m.Sent {
			return // or its id was used again, after a window that became shorter
		}
	}
	s.say(k, "its deduplication id is not remembered, and others of its time are")
}

// dedup looks at what may not be sent, or received, twice.
func (s *spaceRun) dedup() {
	known := make(map[int64]bool)
	for _, bucket := range s.st.Buckets {
		known[bucket] = true
	}
	for k, v := range s.rows(s.kind(row.KindDedup)) {
		bucket, rest, _ := key.Int64(k[row.SpacePrefixLen:])
		d, ok := row.DecodeDedup(v)
		if !ok || len(rest) != len(row.DedupHash{}) {
			s.damagedRow(s.queue, k, "dedup", v)
			continue
		}
		s.canonical(s.queue, k, v, d.Encode(nil))
		s.past(s.queue, k, "its first use", d.At)
		switch of, covered := s.st.BucketOf(d.At); {
		case !known[bucket]:
			s.say(k, "it is of minute %d, and the state knows of %v", bucket, s.st.Buckets)
		case of != bucket || !covered:
			s.say(k, "it is of minute %d and of the time %d", bucket, d.At)
		case !s.settings.FIFO && d.Deliveries != nil:
			s.say(k, "it is of a receive attempt, and the queue is a standard queue")
		case d.Deliveries == nil:
			s.dedupSend(k, &d)
		}
		for _, a := range d.Deliveries {
			if a.Seq == 0 || a.Seq >= s.st.NextSeq || a.Generation == 0 {
				s.say(k, "it is of delivery %d of message %d, and the next message is to be %d",
					a.Generation, a.Seq, s.st.NextSeq)
				break
			}
		}
	}
}

func (s *spaceRun) dedupSend(k []byte, d *row.Dedup) {
	seq := uint64(d.Sequence)
	if seq == 0 || seq >= s.st.NextSeq {
		s.say(k, "it is of message %d, and the next one is to be %d", seq, s.st.NextSeq)
		return
	}
	value, ok := s.get(row.SeqKey(s.space, row.KindMessage, seq))
	if m, _, read := row.DecodeMeta(seq, value); ok && read && (m.ID != d.ID || m.Sent != d.At) {
		s.say(k, "it is of message %d, which has another id or was sent at another time", seq)
	}
}
