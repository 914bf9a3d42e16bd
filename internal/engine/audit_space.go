package engine

// A spaceAudit audits the rows of one queue.
type spaceAudit struct {
	*audit
	queue    QueueName
	settings Attributes
	space    uint64
	st       state

	live, delayed, inFlight int64

	dues    relation // of the messages that have a delivery row
	origins relation // of dead letters of a standard queue
	elders  relation // of messages that are older than they seem
	lines   relation // of the messages of a FIFO queue
	heads   relation // of the groups of one

	placed     map[string]uint64 // groupRow.placed of groups that were looked up
	firstElder uint64            // the least number among those that have an elder row
}

// A namedGroup is a group row with its key.
type namedGroup struct {
	name string
	groupRow
}

// space audits the rows of a queue.
func (a *audit) space(name QueueName, space uint64) {
	value, _ := a.get(queueKey(name))
	row, _ := decodeQueueRow(value)
	s := &spaceAudit{audit: a, queue: name, settings: row.attributes, space: space, placed: make(map[string]uint64)}
	if !s.state() {
		return
	}
	s.relate()
	s.messages()
	s.due()
	s.inGroups()
	s.origin()
	s.elder()
	s.dedup()
	s.others()
	if s.live != s.st.live || s.delayed != s.st.delayed || s.inFlight != s.st.inFlight {
		s.say(stateKey(space), "the state counts %d messages, %d of them delayed and %d in flight, and there are %d, %d and %d",
			s.st.live, s.st.delayed, s.st.inFlight, s.live, s.delayed, s.inFlight)
	}
}

func (s *spaceAudit) say(k []byte, format string, args ...any) { s.report(s.queue, k, format, args...) }

func (s *spaceAudit) kind(kind rowKind) span {
	return span{lo: spaceKey(s.space, kind), hi: spaceKey(s.space, kind+1)}
}

// state reads the row that the others are judged by. Without it nothing can be said about them.
func (s *spaceAudit) state() (ok bool) {
	for k, v := range s.rows(s.kind(kindState)) {
		if len(k) != spacePrefixLen {
			s.say(k, "this row is of no kind that there is")
			continue
		}
		if s.st, ok = decodeState(v); !ok {
			s.damagedRow(s.queue, k, "state", v)
			break
		}
		s.canonical(s.queue, k, v, s.st.encode(nil))
		s.checkState(k)
	}
	if !ok {
		s.say(stateKey(s.space), "without the state row nothing else of the queue was looked at")
	}
	return ok
}

func (s *spaceAudit) checkState(k []byte) {
	st := &s.st
	s.past(s.queue, k, "the place up to which it has counted", st.settled.at)
	switch {
	case st.nextSeq == 0 || st.cursor > st.nextSeq || st.mixed > st.nextSeq || st.lastFresh >= st.nextSeq || st.segment > st.nextSeq>>segmentBits:
		s.say(k, "the next message is %d, but the cursor %d, mixed %d, the last fresh one %d, the first segment %d",
			st.nextSeq, st.cursor, st.mixed, st.lastFresh, st.segment)
	case st.boot > s.sys.boot:
		s.say(k, "it was given the grace of boot %d, and the last one was %d", st.boot, s.sys.boot)
	case st.counted.lo > st.counted.hi || st.counted.hi > st.nextSeq:
		s.say(k, "the range of counted messages is from %d to %d, and the next message is %d", st.counted.lo, st.counted.hi, st.nextSeq)
	}
	for i := 1; i < len(st.buckets); i++ {
		if st.buckets[i] <= st.buckets[i-1] {
			s.say(k, "the minutes of its dedup rows are not in order: %v", st.buckets)
			break
		}
	}
}

// relate says which rows belong to which.
func (s *spaceAudit) relate() {
	// seqOwner reads the number of an index row that ends with a place.
	seqOwner := func(kind rowKind) func(k, _ []byte) ([]byte, bool) {
		return func(k, _ []byte) ([]byte, bool) {
			return seqKey(s.space, kind, posOf(k[min(spacePrefixLen, len(k)):]).seq), len(k) == posKeyLen
		}
	}
	ofMeta := func(want func(*meta) (k, v []byte, ok bool)) func(k, v []byte) ([]byte, []byte, bool) {
		return func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			m, _, known := decodeMeta(seqOf(k), v)
			wantKey, wantValue, ok = want(&m)
			return wantKey, wantValue, ok && known
		}
	}
	index := func(name string, owners, rows rowKind) relation {
		return relation{audit: s.audit, queue: s.queue, name: name, owners: s.kind(owners), rows: s.kind(rows), owner: seqOwner(owners)}
	}
	s.dues = index("due", kindDelivery, kindDue)
	s.dues.wants = func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
		d, ok := decodeDelivery(v)
		wantKey, wantValue, _ = s.dueRow(seqOf(k), &d)
		return wantKey, wantValue, ok
	}
	s.origins = index("origin", kindMessage, kindOrigin)
	s.origins.wants = ofMeta(s.originRow)
	s.elders = index("elder", kindMessage, kindElder)
	s.elders.wants = ofMeta(s.elderRow)
	// Those that came before the program knew of elders have none, and every later one has.
	s.elders.excused = func(k, _ []byte) bool { return s.firstElder == 0 || seqOf(k) < s.firstElder }
	s.lines = index("line", kindMessage, kindLine)
	s.lines.wants = ofMeta(s.lineRow)
	s.lines.owner = func(k, _ []byte) ([]byte, bool) { return seqKey(s.space, kindMessage, lineSeq(k)), true }
	s.lines.excused = func(k, v []byte) bool {
		m, _, _ := decodeMeta(seqOf(k), v)
		return s.groupRow(m.group).founder == m.seq
	}
	s.heads = index("head", kindGroup, kindHead)
	s.heads.wants = func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
		name, named := groupOf(k)
		row, ok := decodeGroupRow(v)
		if !named || !ok {
			return nil, nil, false
		}
		return s.headRow(&namedGroup{name, row})
	}
	s.heads.owner = func(_, v []byte) ([]byte, bool) {
		name, ok := decodeHead(v)
		return groupKey(s.space, name), ok
	}
}

// The rows that messages and groups must have in the indexes.

func (s *spaceAudit) dueRow(seq uint64, d *delivery) (k, v []byte, ok bool) {
	return dueIndex.key(s.space, d.pos(seq)), []byte{byte(d.kind)}, true
}

func (s *spaceAudit) originRow(m *meta) (k, v []byte, ok bool) {
	if s.settings.FIFO || m.source == "" {
		return nil, nil, false
	}
	return originIndex.key(s.space, pos{m.base, m.seq}), []byte{rowVersion}, true
}

func (s *spaceAudit) elderRow(m *meta) (k, v []byte, ok bool) {
	if !m.isElder() {
		return nil, nil, false
	}
	return elderIndex.key(s.space, pos{m.firstSent, m.seq}), []byte{rowVersion}, true
}

func (s *spaceAudit) lineRow(m *meta) (k, v []byte, ok bool) {
	if !s.settings.FIFO {
		return nil, nil, false
	}
	return lineKey(s.space, m.group, m.seq), encodeLine(nil, m.sent), true
}

func (s *spaceAudit) headRow(g *namedGroup) (k, v []byte, ok bool) {
	return headIndexes[g.class].key(s.space, g.pos()), encodeHead(nil, g.name), true
}

// due looks at the index of everything that waits, and counts as the state does.
func (s *spaceAudit) due() {
	s.dues.all(func(k, v []byte) {
		kind, ok := dueIndex.read(v)
		if !ok || len(k) != posKeyLen {
			s.damagedRow(s.queue, k, "due", v)
			return
		}
		p := posOf(k[spacePrefixLen:])
		s.low(k, p, s.st.dueLow)
		switch {
		case !s.st.settled.less(p):
		case kind != dueDelayed:
			s.inFlight++
		case !s.settings.FIFO:
			s.delayed++
		}
	})
	s.dues.settle()
}

// low checks that an index is not read from behind one of its rows.
func (s *spaceAudit) low(k []byte, p, low pos) {
	if p.less(low) {
		s.say(k, "it lies before %d, %d, where reading begins", low.at, low.seq)
	}
}

func (s *spaceAudit) origin() {
	s.origins.all(func(k, v []byte) {
		if _, ok := originIndex.read(v); !ok || len(k) != posKeyLen {
			s.damagedRow(s.queue, k, "origin", v)
			return
		}
		s.low(k, posOf(k[spacePrefixLen:]), s.st.originLow)
	})
	s.origins.settle()
}

func (s *spaceAudit) elder() {
	s.elders.all(func(k, v []byte) {
		if _, ok := elderIndex.read(v); !ok || len(k) != posKeyLen {
			s.damagedRow(s.queue, k, "elder", v)
			return
		}
		p := posOf(k[spacePrefixLen:])
		s.low(k, p, s.st.elderLow)
		if s.firstElder == 0 || p.seq < s.firstElder {
			s.firstElder = p.seq
		}
	})
	s.elders.settle()
}

// others finds rows of kinds that there are not, and those that only the other type of queue has.
func (s *spaceAudit) others() {
	all := wholeSpace(s.space)
	for _, gap := range []span{{all.lo, spaceKey(s.space, kindState)}, {spaceKey(s.space, kindElder+1), all.hi}} {
		for k := range s.rows(gap) {
			s.say(k, "this row is of no kind that there is")
		}
	}
	if s.settings.FIFO {
		return
	}
	for kind, name := range []string{0: "group", 1: "line", 2: "head", 3: "dedup"} {
		for k := range s.rows(s.kind(kindGroup + rowKind(kind))) {
			s.say(k, "this is a %s row, and the queue is no FIFO queue", name)
		}
	}
}

// groupRow looks up a group.
func (s *spaceAudit) groupRow(name string) (r groupRow) {
	if value, ok := s.get(groupKey(s.space, name)); ok {
		r, _ = decodeGroupRow(value)
	}
	return r
}

// placedOf looks up how far the messages of a group have been in due. It remembers a bounded number of groups.
func (s *spaceAudit) placedOf(name string) uint64 {
	placed, ok := s.placed[name]
	if !ok {
		if len(s.placed) >= 1<<16 {
			clear(s.placed)
		}
		placed = s.groupRow(name).placed
		s.placed[name] = placed
	}
	return placed
}
