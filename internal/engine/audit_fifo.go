package engine

import (
	"bytes"

	"tenaq/internal/key"
)

// groupOf reads the name of a group from its key.
func groupOf(k []byte) (name string, ok bool) {
	name, rest, ok := key.String(k[min(spacePrefixLen, len(k)):])
	return name, ok && len(rest) == 0
}

// inGroups goes through the groups of a FIFO queue and, beside them, through their lines. Since the lines are compared
// with the messages, it is enough to compare the groups with the lines.
func (s *spaceAudit) inGroups() {
	if !s.settings.FIFO {
		return
	}
	lines := s.cursor(s.kind(kindLine))
	defer lines.stop()
	for k, v := range s.rows(s.kind(kindGroup)) {
		name, named := groupOf(k)
		row, ok := decodeGroupRow(v)
		if !named || !ok {
			s.damagedRow(s.queue, k, "group", v)
			continue
		}
		s.canonical(s.queue, k, v, row.encode(nil))
		g := &namedGroup{name, row}
		s.group(k, g, lines)
		s.heads.expect(s.headRow(g))
	}
	s.linesUntil(lines, nil, func(line) {})
	s.lines.settle()
	s.heads.all(func(k, v []byte) {
		_, ok := decodeHead(v)
		if !ok || len(k) != posKeyLen+1 || headClass(k[spacePrefixLen]) > headPlaced {
			s.damagedRow(s.queue, k, "head", v)
			return
		}
		s.low(k, posOf(k[spacePrefixLen+1:]), s.st.headLow[k[spacePrefixLen]])
	})
	s.heads.settle()
}

// group compares a group with its lines and with its first message.
func (s *spaceAudit) group(k []byte, g *namedGroup, lines *cursor) {
	var count uint64
	var first, last line
	add := func(l line) {
		if count == 0 {
			first = l
		}
		last = l
		count++
	}
	if g.first.seq == g.founder { // it came first, so if it is not the first it has gone
		s.lines.have.add(lineKey(s.space, g.name, g.founder), encodeLine(nil, g.first.sent))
		add(g.first)
	}
	s.linesUntil(lines, k[spacePrefixLen:], func(l line) {
		if l.seq == g.founder {
			s.say(lines.k, "this is a line row of the message with which its group began, which has none")
		}
		add(l)
	})
	switch {
	case count != g.count:
		s.say(k, "group %s says that it has %d messages, and it has %d", g.name, g.count, count)
	case first != g.first:
		s.say(k, "group %s says that it begins with message %d of %d, and it is message %d of %d", g.name, g.first.seq, g.first.sent, first.seq, first.sent)
	case g.last != line{} && last != g.last:
		s.say(k, "group %s says that it ends with message %d of %d, and it is message %d of %d", g.name, g.last.seq, g.last.sent, last.seq, last.sent)
	case g.founder == 0 || g.founder > g.first.seq || g.placed >= s.st.nextSeq:
		s.say(k, "group %s began with message %d, and messages up to %d were handed out", g.name, g.founder, g.placed)
	}
	class, at := headFresh, g.first.sent
	if value, ok := s.get(seqKey(s.space, kindDelivery, g.first.seq)); ok {
		if d, ok := decodeDelivery(value); ok {
			class, at = headPlaced, d.at
		}
	}
	if class != g.class || at != g.at {
		s.say(k, "group %s stands in class %d at %d, and its first message in class %d at %d", g.name, g.class, g.at, class, at)
	}
}

// linesUntil takes the lines of a group forward, whose name is given as it is in a key, and those of groups before it,
// which are not there. Without a group it takes what is left.
func (s *spaceAudit) linesUntil(c *cursor, group []byte, add func(line)) {
	for ; c.ok; c.next() {
		of := c.k[spacePrefixLen:max(len(c.k)-8, spacePrefixLen)]
		order := -1
		if group != nil {
			order = bytes.Compare(of, group)
		}
		if order > 0 {
			return
		}
		s.lines.have.add(c.k, c.v)
		sent, ok := decodeLine(c.v)
		switch {
		case !ok:
			s.damagedRow(s.queue, c.k, "line", c.v)
		case order < 0:
			s.say(c.k, "this is the line row of a message in a group that is not there")
		default:
			add(line{lineSeq(c.k), sent})
		}
	}
}

// remembered checks that the deduplication of a message is remembered as long as others of its time are.
func (s *spaceAudit) remembered(k []byte, m *meta) {
	if m.source != "" || m.redrives > 0 {
		return // it was moved here
	}
	known := false
	for _, bucket := range s.st.buckets {
		known = known || bucket == m.sent/dedupBucket
	}
	if !known {
		return
	}
	for _, h := range []dedupHash{hashOf(hashQueue, "", m.dedup), hashOf(hashGroup, m.group, m.dedup)} {
		value, ok := s.get(dedupKey(s.space, m.sent/dedupBucket, h))
		if !ok {
			continue
		}
		if d, ok := decodeDedup(value); ok && d.deliveries == nil && d.at == m.sent && d.id == m.id && uint64(d.sequence) == m.seq {
			return
		}
	}
	s.say(k, "its deduplication id is not remembered, and others of its minute are")
}

// dedup looks at what may not be sent, or received, twice.
func (s *spaceAudit) dedup() {
	if !s.settings.FIFO {
		return
	}
	known := make(map[int64]bool)
	for _, bucket := range s.st.buckets {
		known[bucket] = true
	}
	for k, v := range s.rows(s.kind(kindDedup)) {
		bucket, rest, _ := key.Int64(k[spacePrefixLen:])
		d, ok := decodeDedup(v)
		if !ok || len(rest) != len(dedupHash{}) {
			s.damagedRow(s.queue, k, "dedup", v)
			continue
		}
		s.canonical(s.queue, k, v, d.encode(nil))
		s.past(s.queue, k, "its first use", d.at)
		switch {
		case !known[bucket]:
			s.say(k, "it is of minute %d, and the state knows of %v", bucket, s.st.buckets)
		case d.at/dedupBucket != bucket:
			s.say(k, "it is of minute %d and of the time %d", bucket, d.at)
		case d.deliveries == nil:
			s.dedupSend(k, &d)
		}
		for _, a := range d.deliveries {
			if a.seq == 0 || a.seq >= s.st.nextSeq || a.generation == 0 {
				s.say(k, "it is of delivery %d of message %d, and the next message is to be %d", a.generation, a.seq, s.st.nextSeq)
				break
			}
		}
	}
}

func (s *spaceAudit) dedupSend(k []byte, d *dedupEntry) {
	seq := uint64(d.sequence)
	if seq == 0 || seq >= s.st.nextSeq {
		s.say(k, "it is of message %d, and the next one is to be %d", seq, s.st.nextSeq)
		return
	}
	value, ok := s.get(seqKey(s.space, kindMessage, seq))
	if m, _, read := decodeMeta(seq, value); ok && read && (m.id != d.id || m.sent != d.at) {
		s.say(k, "it is of message %d, which has another id or was sent at another time", seq)
	}
}
