package salvage

import (
	"bytes"
	"crypto/md5"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/engine/key"
	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
	"tenaq/internal/work/sqslimits"
)

// A spaceSalvage computes the rows of a queue.
type spaceSalvage struct {
	*salvage
	queue *salvagedQueue
	space uint64
	fifo  bool
	old   row.State // zero if it is lost
	st    row.State
	out   Queue

	segment  row.Segment
	segments uint64 // number of segment
	groups   map[string]*row.Group
	fronts   map[string][]row.Line // the messages that stand in front of all others of their group
}

// remembered keeps the deduplication ids that do not contradict the messages.
func (w *spaceSalvage) remembered() {
	w.buckets()
	for k, v := range w.store.Scan(row.SpaceKey(w.space, row.KindDedup),
		row.SpaceKey(w.space, row.KindDedup+1)) {
		bucket, d, ok := w.dedup(k, v)
		of, covered := w.st.BucketOf(d.At)
		ok = ok && covered && of == bucket
		if ok && d.Deliveries == nil {
			value, there := w.get(row.SeqKey(w.space, row.KindMessage, uint64(d.Sequence)))
			m, _, read := row.DecodeMeta(uint64(d.Sequence), value)
			ok = d.Sequence != 0 && !(there && read && (m.ID != d.ID || m.Sent != d.At))
		}
		for _, a := range d.Deliveries {
			ok = ok && a.Seq != 0 && a.Generation != 0
		}
		if !ok {
			w.delete(bytes.Clone(k))
		}
	}
}

// buckets finds the buckets of the dedup rows. The last one covers the latest of its rows at least.
func (w *spaceSalvage) buckets() {
	for k, v := range w.store.Scan(row.SpaceKey(w.space, row.KindDedup),
		row.SpaceKey(w.space, row.KindDedup+1)) {
		bucket, d, ok := w.dedup(k, v)
		if !ok {
			continue
		}
		if n := len(w.st.Buckets); n == 0 || w.st.Buckets[n-1] != bucket {
			w.st.Buckets, w.st.Wide = append(w.st.Buckets, bucket), 0
		}
		w.st.Wide = max(w.st.Wide, d.At/row.DedupBucket-bucket)
	}
	if n := len(w.st.Buckets); n > 0 {
		w.st.Forgot = w.old.Forgot
		if last := len(w.old.Buckets); last > 0 && w.old.Buckets[last-1] == w.st.Buckets[n-1] {
			w.st.Wide = max(w.st.Wide, w.old.Wide)
		}
	}
}

// dedup reads a dedup row that may be in the queue.
func (w *spaceSalvage) dedup(k, v []byte) (bucket int64, d row.Dedup, ok bool) {
	bucket, hash, _ := key.Int64(k[row.SpacePrefixLen:])
	d, ok = row.DecodeDedup(v)
	return bucket, d, ok && len(hash) == len(row.DedupHash{}) && d.At/row.DedupBucket >= bucket &&
		(w.fifo || d.Deliveries == nil)
}

// A message is a message row with its delivery row, if it has one.
type message struct {
	row.Meta
	row.Delivery
	hasDelivery bool
}

// messages keeps the messages that are whole.
func (w *spaceSalvage) messages() {
	lowest := w.st.NextSeq
	for k, v := range w.store.Scan(row.SpaceKey(w.space, row.KindMessage),
		row.SpaceKey(w.space, row.KindMessage+1)) {
		seq := row.SeqOf(k)
		m, content, ok := row.DecodeMeta(seq, v)
		if ok && m.Flags&row.FlagInline == 0 {
			content, _ = w.get(row.SeqKey(w.space, row.KindContent, seq))
		}
		if !ok || !metaFits(&m, w.fifo) || !holds(&m, content) {
			for _, kind := range []row.Kind{row.KindMessage, row.KindContent, row.KindDelivery,
				row.KindStory} {
				w.delete(row.SeqKey(w.space, kind, seq))
			}
			w.out.Lost++
			w.out.NoBody++
			continue
		}
		lowest = min(lowest, seq)
		w.keep(&m)
	}
	if w.segment.Live > 0 {
		w.saveSegment()
	}
	if w.fifo {
		w.st.Counted = row.SeqRange{Lo: lowest, Hi: lowest}
		return
	}
	if w.st.LastFresh > 0 {
		w.st.Mixed = w.st.NextSeq
	}
}

// keep writes the rows that follow from a message.
func (w *spaceSalvage) keep(m *row.Meta) {
	w.out.Kept++
	placed := message{Meta: *m}
	k := row.SeqKey(w.space, row.KindDelivery, m.Seq)
	tale := row.SeqKey(w.space, row.KindStory, m.Seq)
	value, told := w.get(tale)
	story, read := row.DecodeStory(value)
	told = told && read
	if value, ok := w.get(k); ok {
		placed.Delivery, ok = row.DecodeDelivery(value)
		placed.Story = told && story.Generation <= placed.Delivery.Generation
		placed.hasDelivery = ok && deliveryFits(&placed.Delivery, m, w.fifo)
	}
	switch {
	case placed.hasDelivery:
	case m.Scheduled():
		placed.Delivery, placed.hasDelivery = row.Delivery{Kind: row.DueReturned,
			At: m.Arrived}, true
		if m.Source == "" && !w.fifo { // its delay is lost, and it must not come too early
			placed.Kind, placed.At = row.DueDelayed, m.Arrived+sqslimits.DelayMax.Milliseconds()
			if m.IsLate() {
				placed.At = m.Base
			}
		}
		w.out.Forgotten++
	default:
		w.delete(k)
		if !w.fifo && m.Seq < w.old.Cursor {
			w.out.Forgotten++ // it had been handed out
		}
	}
	if !placed.hasDelivery {
		told = told && story.Generation == 0 && m.Redrives > 0
	} else if told = told && story.Generation <= placed.Delivery.Generation; told {
		placed.Story = true
	}
	if !told {
		w.delete(tale)
	}
	if placed.hasDelivery {
		placed.Apart, placed.Origin, placed.Elder = m.Flags&row.FlagInline == 0, !w.fifo &&
			m.Source != "" || m.IsLate(), m.IsElder()
		placed.Moved = m.Away
		w.set(k, placed.Delivery.Encode(nil))
		w.set(row.DueOf(placed.Level).Key(w.space, placed.Pos(m.Seq)), []byte{byte(placed.Kind)})
		if placed.Level > 0 {
			w.st.LevelLow = make([]row.Pos, row.LevelMax)
		}
		w.count(&placed)
	} else if !w.fifo {
		w.st.Cursor, w.st.LastFresh = min(w.st.Cursor, m.Seq), m.Seq
	}
	if !w.fifo && m.Source != "" || m.IsLate() {
		w.set(row.OriginRows.Key(w.space, row.Pos{At: m.Base, Seq: m.Seq}), []byte{row.Version})
	}
	if m.IsElder() {
		w.set(row.ElderRows.Key(w.space, row.Pos{At: m.FirstSent, Seq: m.Seq}), []byte{row.Version})
	}
	for _, id := range m.MovedIDs(&w.sys.IDKey, w.space) {
		w.set(row.MovedKey(id), row.EncodeMoved(nil, row.Place{Space: w.space, Seq: m.Seq}))
	}
	if id := m.Seq >> row.SegmentBits; id != w.segments && w.segment.Live > 0 {
		w.saveSegment()
	}
	if w.segment.Live == 0 {
		w.segments, w.segment = m.Seq>>row.SegmentBits, row.Segment{First: m.Seq}
	}
	if w.segment.Live++; m.IsLate() {
		w.segment.Late++
	} else {
		w.segment.Sent = max(w.segment.Sent, m.Base)
	}
	if w.fifo {
		w.join(&placed)
		w.rememberSend(m)
	}
}

// count counts what waits beyond the present.
func (w *spaceSalvage) count(m *message) {
	switch {
	case !w.st.Settled.Less(m.Pos(m.Seq)):
	case m.Kind != row.DueDelayed:
		w.st.InFlight++
	case !w.fifo:
		w.st.Delayed++
	}
}

func (w *spaceSalvage) saveSegment() {
	w.set(row.SeqKey(w.space, row.KindSegment, w.segments), w.segment.Encode(nil))
	w.segment = row.Segment{}
}

// join puts a message at the end of its group.
func (w *spaceSalvage) join(m *message) {
	g := w.groups[m.Group]
	l := row.Line{Seq: m.Seq, Sent: m.Sent}
	if g == nil {
		g = &row.Group{First: l, Founder: m.Seq, Class: row.HeadFresh, At: m.Sent}
		if m.hasDelivery {
			g.Class, g.At = row.HeadPlaced, m.At
		}
		w.groups[strings.Clone(m.Group)] = g
	} else {
		w.set(row.LineKey(w.space, m.Group, m.Seq), row.EncodeLine(nil, m.Sent))
	}
	g.Count++
	g.Last = l
	if m.hasDelivery {
		g.Placed = m.Seq
	}
}

func (w *spaceSalvage) saveGroups() {
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		g := w.groups[name]
		w.putAhead(name, g)
		w.set(row.GroupKey(w.space, name), g.Encode(nil))
		w.set(row.HeadRows[g.Class].Key(w.space, g.Pos()), row.EncodeHead(nil, name))
	}
}

// readFronts notes which messages stand where their numbers do not say, and removes the group rows.
// Holds end: a salvage may lose the dead letters. [HOLD-11]
func (w *spaceSalvage) readFronts() {
	w.fronts = make(map[string][]row.Line)
	span := row.Span{Lo: row.SpaceKey(w.space, row.KindGroup),
		Hi: row.SpaceKey(w.space, row.KindGroup+1)}
	for k, v := range w.store.Scan(span.Lo, span.Hi) {
		name, named := row.GroupOf(k)
		if g, ok := row.DecodeGroup(v); named && ok {
			w.fronts[name] = g.Ahead()
		}
	}
	w.batch.DeleteRange(span.Lo, span.Hi)
	w.apply()
}

// putAhead puts the messages of a group in front of the others that were there.
func (w *spaceSalvage) putAhead(name string, g *row.Group) {
	if len(w.fronts[name]) == 0 {
		return
	}
	w.apply()
	for _, l := range w.fronts[name] {
		value, _ := w.get(row.SeqKey(w.space, row.KindMessage, l.Seq))
		if m, _, ok := row.DecodeMeta(l.Seq, value); ok && m.Group == name && m.Sent == l.Sent &&
			g.SlotOf(0, l.Seq) < 0 {
			g.Front = append(g.Front, row.Slot{Seq: l.Seq, Sent: l.Sent})
		}
	}
	if len(g.Front) == 0 {
		return
	}
	if g.SlotOf(0, g.Founder) < 0 { // the first one after them, which has no line row
		g.Front = append(g.Front, row.Slot{Seq: g.Founder, Sent: g.First.Sent})
	}
	for _, s := range g.Front {
		w.delete(row.LineKey(w.space, name, s.Seq))
	}
	if g.SlotOf(0, g.Last.Seq) >= 0 {
		g.Last = row.Line{}
	}
	w.sys.Holds = true
	g.First = g.Ahead()[0]
	g.Class, g.At = row.HeadFresh, g.First.Sent
	value, ok := w.get(row.SeqKey(w.space, row.KindDelivery, g.First.Seq))
	if d, read := row.DecodeDelivery(value); ok && read {
		g.Class, g.At = row.HeadPlaced, d.At
	}
}

// saveFair begins the index of a fair queue anew: all messages were there before. [EXT-42]
func (w *spaceSalvage) saveFair() {
	if !slices.ContainsFunc(w.queue.row.Tags, func(t row.Tag) bool {
		return t.Key == extension.Fair
	}) {
		return
	}
	fair, before, some := row.NewFair(&w.st, w.st.Settled.At)
	w.set(row.FairKey(w.space), fair.Encode(nil))
	if some {
		w.set(row.TenantKey(w.space, row.TenantBefore), before.Encode(nil))
	}
	if before.Waiting > 0 {
		w.set(row.TurnRows.Key(w.space, before.Turn()), row.EncodeHead(nil, row.TenantBefore))
	}
}

// rememberSend makes sure that the deduplication id of a message is remembered if others of its
// time are.
//
// A send is remembered within its queue or within its group, by the scope at that time. When the
// scope changes within a minute, messages of one group can have the same id: one is remembered
// within the queue, and one within the group. A row of one must not replace that of the other.
func (w *spaceSalvage) rememberSend(m *row.Meta) {
	bucket, ok := w.st.BucketOf(m.Sent)
	if m.Scheduled() || m.Redrives > 0 || m.Replayed || !ok {
		return
	}
	d := row.Dedup{At: m.Sent, ID: m.ID, Sequence: row.Sequence(m.Seq)}
	want := d.Encode(nil)
	inQueue := row.DedupKey(w.space, bucket, row.HashOf(row.HashQueue, "", m.Dedup))
	inGroup := row.DedupKey(w.space, bucket, row.HashOf(row.HashGroup, m.Group, m.Dedup))
	ofQueue, queueTaken := w.get(inQueue)
	ofGroup, groupTaken := w.get(inGroup)
	if bytes.Equal(ofQueue, want) || bytes.Equal(ofGroup, want) {
		return
	}
	if !groupTaken {
		w.set(inGroup, want)
	}
	// The replaced row is remembered within its own group: of two messages of a group, the send of
	// one was remembered within the queue.
	if groupTaken || !queueTaken && !w.queue.row.Attributes.GroupScope {
		w.set(inQueue, want)
	}
	w.apply() // the next message finds these rows
}

// orphans removes the rows of a kind whose message is lost, and counts the messages that only these
// rows mention.
func (w *spaceSalvage) orphans(kind row.Kind) (n int64) {
	for k := range w.store.Scan(row.SpaceKey(w.space, kind), row.SpaceKey(w.space, kind+1)) {
		seq := row.SeqOf(k)
		if _, ok := w.get(row.SeqKey(w.space, row.KindMessage, seq)); ok {
			continue
		}
		w.delete(bytes.Clone(k))
		_, counted := w.get(row.SeqKey(w.space, row.KindContent, seq))
		if kind == row.KindContent || !counted {
			n++
		}
	}
	return n
}

// metaFits reports whether a message may be in a queue as it says.
func metaFits(m *row.Meta, fifo bool) bool {
	switch {
	case m.Seq == 0, m.FirstSent < 0, m.FirstSent > m.Sent, m.Base < m.Sent,
		m.IsLate() && (fifo || !m.Scheduled() || m.Source != "" || m.Base > m.Arrived+row.LateMax):
		return false
	case fifo:
		parked := m.Away && m.Scheduled() // behind its own queue, so it has no source
		return m.Group != "" && m.Dedup != "" && (m.Scheduled() == (m.Source != "") || parked)
	}
	return m.Dedup == "" && (m.Source == "" || m.Scheduled())
}

// holds reports whether a content is that of the message.
func holds(m *row.Meta, value []byte) bool {
	c, ok := row.DecodeContent(value)
	if !ok || (len(value) <= row.InlineMax) != (m.Flags&row.FlagInline != 0) {
		return false
	}
	size := int64(len(c.Body))
	for _, a := range c.Attributes {
		size += int64(len(a.Name) + len(a.Type) + len(a.String) + len(a.Binary))
	}
	return size == m.Size && (c.BodyMD5 == [16]byte{} || c.BodyMD5 == md5.Sum([]byte(c.Body))) &&
		bytes.Equal(c.Encode(), value)
}

// deliveryFits reports whether a message may have been delivered as its row says.
func deliveryFits(d *row.Delivery, m *row.Meta, fifo bool) bool {
	received, counted := d.FirstReceive != 0, d.Receives > 0
	if received != (d.LastReceive != 0) || d.FirstReceive > d.LastReceive || counted && !received ||
		!d.Story && (counted != received || d.Generation > d.Receives) ||
		received && d.FirstReceive < m.Sent || d.Level > 0 && (fifo || !m.Scheduled()) {
		return false
	}
	switch d.Kind {
	case row.DueDelayed:
		return !fifo && !counted && d.At > m.Arrived &&
			d.At <= m.Arrived+sqslimits.DelayMax.Milliseconds()
	case row.DueInFlight:
		return d.Generation > 0 && d.At > d.LastReceive
	}
	return d.At >= m.Sent
}
