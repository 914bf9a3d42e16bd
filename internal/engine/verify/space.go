package verify

import (
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// A spaceRun verifies the rows of one queue.
type spaceRun struct {
	*run
	queue    row.QueueName
	settings row.Attributes
	space    uint64
	st       row.State

	live, delayed, inFlight int64

	dues    relation // of the messages of level 0 that have a delivery row
	levels  relation // of those of higher levels
	origins relation // of dead letters and late messages of a standard queue
	elders  relation // of messages that are older than they seem
	lines   relation // of the messages of a FIFO queue
	heads   relation // of the groups of one

	fairTag bool     // the queue is fair
	fair    *fairRun // and its index can be read

	placed     map[string]uint64 // groupRow.placed of groups that were looked up
	firstElder uint64            // the least number among those that have an elder row
}

// A namedGroup is a group row with its key.
type namedGroup struct {
	name string
	row.Group
}

// space verifies the rows of a queue.
func (a *run) space(name row.QueueName, space uint64) {
	value, _ := a.get(row.QueueKey(name))
	stored, _ := row.DecodeQueue(value)
	s := &spaceRun{run: a, queue: name, settings: stored.Attributes, space: space,
		placed: make(map[string]uint64)}
	s.fairTag = slices.ContainsFunc(stored.Tags, func(t row.Tag) bool {
		return t.Key == extension.Fair
	})
	if !s.state() {
		return
	}
	s.relate()
	s.fair = s.fairRow()
	s.messages()
	s.due()
	s.inGroups()
	s.holds()
	s.inTenants()
	s.origin()
	s.elder()
	s.dedup()
	s.again()
	s.owner()
	s.others()
	if s.live != s.st.Live || s.delayed != s.st.Delayed || s.inFlight != s.st.InFlight {
		s.say(row.StateKey(space),
			"the state counts %d messages, %d of them delayed and %d in flight, and there are %d, %d and %d",
			s.st.Live, s.st.Delayed, s.st.InFlight, s.live, s.delayed, s.inFlight)
	}
}

func (s *spaceRun) say(k []byte, format string, args ...any) {
	s.report(s.queue, k, format, args...)
}

func (s *spaceRun) kind(kind row.Kind) row.Span {
	return row.Span{Lo: row.SpaceKey(s.space, kind), Hi: row.SpaceKey(s.space, kind+1)}
}

// state reads the row that the others are judged by. Without it nothing can be said about them.
func (s *spaceRun) state() (ok bool) {
	for k, v := range s.rows(s.kind(row.KindState)) {
		if len(k) != row.SpacePrefixLen {
			s.say(k, "this row is of no kind that there is")
			continue
		}
		if s.st, ok = row.DecodeState(v); !ok {
			s.damagedRow(s.queue, k, "state", v)
			break
		}
		s.canonical(s.queue, k, v, s.st.Encode(nil))
		s.checkState(k)
	}
	if !ok {
		s.say(row.StateKey(s.space),
			"without the state row nothing else of the queue was looked at")
	}
	return ok
}

func (s *spaceRun) checkState(k []byte) {
	st := &s.st
	s.past(s.queue, k, "the place up to which it has counted", st.Settled.At)
	s.past(s.queue, k, "the last use of its rate", st.Tokened)
	if st.Tokens < 0 || st.Tokens > 0 && st.Tokened == 0 {
		s.say(k, "it has %d units of tokens since %d", st.Tokens, st.Tokened)
	}
	switch {
	case st.NextSeq == 0 || st.Cursor > st.NextSeq || st.Mixed > st.NextSeq ||
		st.LastFresh >= st.NextSeq || st.Segment > st.NextSeq>>row.SegmentBits:
		s.say(k, "the next message is %d, but the cursor %d, mixed %d, the last fresh one %d, the first segment %d",
			st.NextSeq, st.Cursor, st.Mixed, st.LastFresh, st.Segment)
	case st.Boot > s.sys.Boot:
		s.say(k, "it was given the grace of boot %d, and the last one was %d", st.Boot, s.sys.Boot)
	case st.Counted.Lo > st.Counted.Hi || st.Counted.Hi > st.NextSeq:
		s.say(k, "the range of counted messages is from %d to %d, and the next message is %d",
			st.Counted.Lo, st.Counted.Hi, st.NextSeq)
	}
	s.past(s.queue, k, "the last send that it has forgotten", st.Forgot)
	if st.Wide < 0 || st.Wide > 0 && len(st.Buckets) == 0 {
		s.say(k, "the last of %d buckets of dedup rows covers %d minutes more", len(st.Buckets), st.Wide)
	}
	for i := 1; i < len(st.Buckets); i++ {
		if st.Buckets[i] <= st.Buckets[i-1] {
			s.say(k, "the minutes of its dedup rows are not in order: %v", st.Buckets)
			break
		}
	}
}

// relate says which rows belong to which.
func (s *spaceRun) relate() {
	// seqOwner reads the number of an index row that ends with a place.
	seqOwner := func(kind row.Kind) func(k, _ []byte) ([]byte, bool) {
		return func(k, _ []byte) ([]byte, bool) {
			return row.SeqKey(s.space, kind,
				row.PosOf(k[min(row.SpacePrefixLen, len(k)):]).Seq), len(k) == row.PosKeyLen
		}
	}
	ofMeta := func(
		want func(*row.Meta) (k, v []byte, ok bool),
	) func(k, v []byte) ([]byte, []byte, bool) {
		return func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			m, _, known := row.DecodeMeta(row.SeqOf(k), v)
			wantKey, wantValue, ok = want(&m)
			return wantKey, wantValue, ok && known
		}
	}
	index := func(name string, owners, rows row.Kind) relation {
		return relation{audit: s.run, queue: s.queue, name: name, owners: s.kind(owners),
			rows: s.kind(rows), owner: seqOwner(owners)}
	}
	ofDelivery := func(
		want func(seq uint64, d *row.Delivery) (k, v []byte, ok bool),
	) func(k, v []byte) ([]byte, []byte, bool) {
		return func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			d, known := row.DecodeDelivery(v)
			if !known {
				return nil, nil, false
			}
			return want(row.SeqOf(k), &d)
		}
	}
	s.dues = index("due", row.KindDelivery, row.KindDue)
	s.dues.wants = ofDelivery(s.dueRow)
	s.levels = index("level", row.KindDelivery, row.KindLevel)
	s.levels.wants = ofDelivery(s.levelRow)
	s.levels.owner = func(k, _ []byte) ([]byte, bool) {
		level, p := levelPos(k)
		return row.SeqKey(s.space, row.KindDelivery, p.Seq), level > 0
	}
	s.origins = index("origin", row.KindMessage, row.KindOrigin)
	s.origins.wants = ofMeta(s.originRow)
	s.elders = index("elder", row.KindMessage, row.KindElder)
	s.elders.wants = ofMeta(s.elderRow)
	// Those that came before the program knew of elders have none, and every later one has.
	s.elders.excused = func(k, _ []byte) bool {
		return s.firstElder == 0 || row.SeqOf(k) < s.firstElder
	}
	s.lines = index("line", row.KindMessage, row.KindLine)
	s.lines.wants = ofMeta(s.lineRow)
	s.lines.owner = func(k, _ []byte) ([]byte, bool) {
		return row.SeqKey(s.space, row.KindMessage, row.LineSeq(k)), true
	}
	s.lines.excused = func(k, v []byte) bool {
		m, _, _ := row.DecodeMeta(row.SeqOf(k), v)
		g := s.groupRow(m.Group)
		return g.Founder == m.Seq || g.SlotOf(0, m.Seq) >= 0
	}
	s.heads = index("head", row.KindGroup, row.KindHead)
	s.heads.wants = func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
		name, named := row.GroupOf(k)
		stored, ok := row.DecodeGroup(v)
		if !named || !ok {
			return nil, nil, false
		}
		return s.headRow(&namedGroup{name, stored})
	}
	s.heads.owner = func(_, v []byte) ([]byte, bool) {
		name, ok := row.DecodeHead(v)
		return row.GroupKey(s.space, name), ok
	}
}

func (s *spaceRun) dueRow(seq uint64, d *row.Delivery) (k, v []byte, ok bool) {
	return row.DueRows.Key(s.space, d.Pos(seq)), []byte{byte(d.Kind)}, d.Level == 0
}

func (s *spaceRun) levelRow(seq uint64, d *row.Delivery) (k, v []byte, ok bool) {
	return row.DueOf(d.Level).Key(s.space, d.Pos(seq)), []byte{byte(d.Kind)}, d.Level > 0
}

// levelPos reads the key of a row of a level; level 0 says that it is none.
func levelPos(k []byte) (level byte, p row.Pos) {
	if len(k) != row.PosKeyLen+1 || k[row.SpacePrefixLen] > row.LevelMax {
		return 0, p
	}
	return k[row.SpacePrefixLen], row.PosOf(k[row.SpacePrefixLen+1:])
}

func (s *spaceRun) originRow(m *row.Meta) (k, v []byte, ok bool) {
	if s.settings.FIFO || m.Source == "" && !m.IsLate() {
		return nil, nil, false
	}
	return row.OriginRows.Key(s.space, row.Pos{At: m.Base, Seq: m.Seq}), []byte{row.Version}, true
}

func (s *spaceRun) elderRow(m *row.Meta) (k, v []byte, ok bool) {
	if !m.IsElder() {
		return nil, nil, false
	}
	return row.ElderRows.Key(s.space,
		row.Pos{At: m.FirstSent, Seq: m.Seq}), []byte{row.Version}, true
}

func (s *spaceRun) lineRow(m *row.Meta) (k, v []byte, ok bool) {
	if !s.settings.FIFO {
		return nil, nil, false
	}
	return row.LineKey(s.space, m.Group, m.Seq), row.EncodeLine(nil, m.Sent), true
}

func (s *spaceRun) headRow(g *namedGroup) (k, v []byte, ok bool) {
	return row.HeadRows[g.Class].Key(s.space, g.Pos()), row.EncodeHead(nil, g.name), true
}

// due looks at the index of everything that waits, and counts as the state does.
func (s *spaceRun) due() {
	inPlaces(s, &s.dues, row.DueRows.Read, s.st.DueLow, s.count)
	s.levels.all(func(k, v []byte) {
		kind, ok := row.DueRows.Read(v)
		level, p := levelPos(k)
		switch {
		case !ok || level == 0:
			s.damagedRow(s.queue, k, "level", v)
			return
		case len(s.st.LevelLow) == 0:
			s.say(k, "this is a level row, and the state knows of no levels")
			return
		}
		s.low(k, p, s.st.LevelLow[level-1])
		s.count(p, kind)
	})
	s.levels.settle()
}

// count counts a message that waits as the state does.
func (s *spaceRun) count(p row.Pos, kind row.DueKind) {
	switch {
	case !s.st.Settled.Less(p):
	case kind != row.DueDelayed:
		s.inFlight++
	case !s.settings.FIFO:
		s.delayed++
	}
}

// low checks that an index is not read from after one of its rows.
func (s *spaceRun) low(k []byte, p, low row.Pos) {
	if p.Less(low) {
		s.say(k, "it lies before %d, %d, where reading begins", low.At, low.Seq)
	}
}

// inPlaces looks at every row of an index by place, and compares the index with its owners. It is
// read from low on.
func inPlaces[T any](
	s *spaceRun, r *relation, read func([]byte) (T, bool), low row.Pos, look func(row.Pos, T),
) {
	r.all(func(k, v []byte) {
		value, ok := read(v)
		if !ok || len(k) != row.PosKeyLen {
			s.damagedRow(s.queue, k, r.name, v)
			return
		}
		p := row.PosOf(k[row.SpacePrefixLen:])
		s.low(k, p, low)
		look(p, value)
	})
	r.settle()
}

func (s *spaceRun) origin() {
	inPlaces(s, &s.origins, row.OriginRows.Read, s.st.OriginLow, func(row.Pos, struct{}) {})
}

func (s *spaceRun) elder() {
	inPlaces(s, &s.elders, row.ElderRows.Read, s.st.ElderLow, func(p row.Pos, _ struct{}) {
		if s.firstElder == 0 || p.Seq < s.firstElder {
			s.firstElder = p.Seq
		}
	})
}

// others finds rows of kinds that there are not, and those that only the other type of queue has.
func (s *spaceRun) others() {
	all, fair := row.WholeSpace(s.space), row.FairSpan(s.space)
	s.gaps(s.queue, row.Span{Lo: all.Lo, Hi: row.SpaceKey(s.space, row.KindState)},
		row.Span{Lo: row.SpaceKey(s.space, row.KindAgain+1), Hi: fair.Lo},
		row.Span{Lo: fair.Hi, Hi: all.Hi})
	if s.settings.FIFO {
		for k := range s.rows(s.kind(row.KindLevel)) {
			s.say(k, "this is a level row, and the queue is no standard queue")
		}
		return
	}
	for kind, name := range []string{0: "group", 1: "line", 2: "head"} {
		for k := range s.rows(s.kind(row.KindGroup + row.Kind(kind))) {
			s.say(k, "this is a %s row, and the queue is no FIFO queue", name)
		}
	}
}

// groupRow looks up a group.
func (s *spaceRun) groupRow(name string) (r row.Group) {
	if value, ok := s.get(row.GroupKey(s.space, name)); ok {
		r, _ = row.DecodeGroup(value)
	}
	return r
}

// placedOf looks up how far the messages of a group have been in due. It remembers a bounded number
// of groups.
func (s *spaceRun) placedOf(name string) uint64 {
	placed, ok := s.placed[name]
	if !ok {
		if len(s.placed) >= 1<<16 {
			clear(s.placed)
		}
		placed = s.groupRow(name).Placed
		s.placed[name] = placed
	}
	return placed
}
