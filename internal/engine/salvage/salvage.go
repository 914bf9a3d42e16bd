// Package salvage makes a consistent store of the rows that were read from a damaged one. [DUR-36]
//
// It keeps only rows that cannot be computed from others: settings of queues, messages, contents,
// deliveries, deduplication ids, move tasks, documents and records. From these it computes indexes,
// segments, groups, low-water keys, counters and the places of moved messages, so damage to those
// costs nothing. Package verify finds nothing wrong with the result.
//
// Reading the damaged store and copying its rows is left to the caller.
package salvage

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/engine/key"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
	"tenaq/internal/work/sqslimits"
)

// Takes reports whether a row of a damaged store is copied into the store that Complete completes.
func Takes(k []byte) bool {
	switch {
	case len(k) == 0:
		return false
	case k[0] == row.FamilyHistory:
		return takesHistory(k)
	case k[0] == row.FamilySystem, k[0] == row.FamilyQueue, k[0] == row.FamilyTask,
		k[0] == row.FamilyDocument, isRecord(k), k[0] == row.FamilyAction:
		return true
	case k[0] != row.FamilySpace || len(k) < row.SpacePrefixLen:
		return false
	}
	switch row.Kind(k[row.SpacePrefixLen-1]) {
	case row.KindState:
		return len(k) == row.SpacePrefixLen
	case row.KindMessage, row.KindContent, row.KindDelivery, row.KindStory:
		return len(k) == row.SeqKeyLen
	case row.KindDedup:
		return true
	}
	return false
}

// Result is the outcome of a salvage.
type Result struct {
	Queues    []Queue // in the order of their names
	Lost      int     // queues whose row cannot be read
	Cancelled int     // move tasks that were running
	Outcomes  int64   // of the histories of queues that are lost, or cannot be read

	Records     int // of programs, such as claims
	LostRecords int // those that cannot be read
}

// A Queue is the outcome for the messages of a queue.
type Queue struct {
	Queue     row.QueueName
	Recovered bool  // its name and settings are lost: it has a new name and default settings
	Kept      int64 // messages
	Lost      int64 // messages, as far as known, including those without a body
	NoBody    int64 // messages whose body is lost
	Forgotten int64 // messages that are kept without their delay, visibility and receive count
}

// Complete completes a store that holds only the salvaged rows of another one. Call it before the
// store is used.
func Complete(store kv.Store) Result {
	s := &salvage{store: store, batch: store.NewBatch(), facts: make(map[uint64]*spaceFacts)}
	s.survey()
	s.surveyHistories()
	s.queues()
	for i := range s.found {
		s.space(&s.found[i])
	}
	s.histories()
	s.tasks()
	s.documents()
	s.records()
	s.actions()
	s.system()
	s.batch.Force()()
	slices.SortFunc(s.out.Queues, func(a, b Queue) int {
		return strings.Compare(a.Queue.Account+"/"+a.Queue.Name, b.Queue.Account+"/"+b.Queue.Name)
	})
	return s.out
}

// A salvage is a salvage in progress.
type salvage struct {
	store kv.Store
	batch kv.Batch
	out   Result

	sys   row.System
	facts map[uint64]*spaceFacts
	found []salvagedQueue
}

// spaceFacts is what the rows of a space say together.
type spaceFacts struct {
	last     uint64 // the largest number of a message that is mentioned
	messages int64
	fifo     bool // a message has a deduplication id
}

// A salvagedQueue is a queue with its row.
type salvagedQueue struct {
	name      row.QueueName
	row       row.Queue
	recovered bool
	next      uint64 // number of its next message
}

// salvageBatch is about how large batches are.
const salvageBatch = 1 << 20

func (s *salvage) set(k, v []byte) {
	s.batch.Set(k, v)
	if s.batch.Len() > salvageBatch {
		s.apply()
	}
}

func (s *salvage) delete(k []byte) { s.batch.Delete(k) }

func (s *salvage) apply() {
	s.batch.Apply()
	s.batch = s.store.NewBatch()
}

func (s *salvage) get(k []byte) ([]byte, bool) { return s.store.Get(nil, k) }

// past notes a time that has passed.
func (s *salvage) past(times ...int64) { s.sys.Stamp = max(s.sys.Stamp, slices.Max(times)) }

// survey reads every row once, for facts about the store as a whole.
func (s *salvage) survey() {
	s.sys = row.System{NextSpace: 1, NextTask: 1}
	if value, ok := s.get(row.SystemKey()); ok {
		if sys, ok := row.DecodeSystem(value); ok {
			s.sys = sys
		}
	}
	if s.sys.IDKey == (row.IDKey{}) { // ids from before the damage carry no place that can be read
		rand.Read(s.sys.IDKey[:])
	}
	for k, v := range s.store.Scan([]byte{row.FamilyTask}, []byte{row.FamilyTask + 1}) {
		if t, ok := row.TaskOf(k, v); ok {
			s.past(t.Started, t.Stepped)
			s.sys.NextTask = max(s.sys.NextTask, t.Number+1)
		}
	}
	for _, v := range s.store.Scan([]byte{row.FamilyAction}, []byte{row.FamilyAction + 1}) {
		if a, ok := row.DecodeAction(v); ok {
			s.past(a.At)
		}
	}
	for k, v := range s.store.Scan([]byte{row.FamilySpace}, []byte{row.FamilySpace + 1}) {
		space, _, _ := key.Uint64(k[1:])
		s.sys.NextSpace = max(s.sys.NextSpace, space+1)
		f := s.facts[space]
		if f == nil {
			f = &spaceFacts{}
			s.facts[space] = f
		}
		s.fact(f, k, v)
	}
}

func (s *salvage) fact(f *spaceFacts, k, v []byte) {
	switch row.Kind(k[row.SpacePrefixLen-1]) {
	case row.KindState:
		if st, ok := row.DecodeState(v); ok && st.NextSeq > 0 {
			f.last = max(f.last, st.NextSeq-1)
		}
		return
	case row.KindDedup:
		if d, ok := row.DecodeDedup(v); ok {
			s.past(d.At)
			f.last = max(f.last, uint64(d.Sequence))
			for _, a := range d.Deliveries {
				f.last = max(f.last, a.Seq)
			}
		}
		return
	case row.KindMessage:
		if m, _, ok := row.DecodeMeta(row.SeqOf(k), v); ok {
			s.past(m.Sent, m.Arrived)
			f.fifo = f.fifo || m.Dedup != ""
			f.messages++
		}
	case row.KindDelivery:
		if d, ok := row.DecodeDelivery(v); ok {
			s.past(d.LastReceive)
			if d.Kind == row.DueReturned {
				s.past(d.At)
			}
			if d.Kind == row.DueInFlight {
				s.sys.Hidden = max(s.sys.Hidden, d.At)
			}
		}
	case row.KindStory:
		if told, ok := row.DecodeStory(v); ok {
			s.past(told.Last().Ended)
		}
	}
	f.last = max(f.last, row.SeqOf(k))
}

// queues reads the catalogue, and makes a queue for each space with messages that no queue has.
func (s *salvage) queues() {
	accounts := make(map[string]int)
	taken := make(map[uint64]bool)
	for k, v := range s.store.Scan([]byte{row.FamilyQueue}, []byte{row.FamilyQueue + 1}) {
		name, ok := row.QueueOf(k)
		stored, known := row.DecodeQueue(v)
		if !ok || !known || stored.Deleted == 0 && (taken[stored.Space] || stored.Space == 0) {
			s.out.Lost++
			s.delete(k)
			continue
		}
		s.past(stored.Deleted, stored.Created, stored.Modified, stored.Purged)
		accounts[name.Account]++
		if stored.Deleted != 0 {
			continue
		}
		taken[stored.Space] = true
		s.sys.NextSpace = max(s.sys.NextSpace, stored.Space+1)
		s.found = append(s.found, salvagedQueue{name: name, row: stored})
	}
	account, most := "000000000000", 0
	for _, a := range slices.Sorted(maps.Keys(accounts)) {
		if accounts[a] > most {
			account, most = a, accounts[a]
		}
	}
	for _, space := range slices.Sorted(maps.Keys(s.facts)) {
		switch f := s.facts[space]; {
		case taken[space]:
		case f.messages == 0:
			all := row.WholeSpace(space)
			s.batch.DeleteRange(all.Lo, all.Hi)
		default:
			s.recover(account, space, f.fifo)
		}
	}
	for _, q := range s.found {
		if target := q.row.Attributes.Redrive; target != (row.Redrive{}) {
			s.set(row.SourceKey(target.Target, q.name.Name), []byte{row.Version})
		}
	}
}

// recover makes a queue for messages whose queue is unknown.
func (s *salvage) recover(account string, space uint64, fifo bool) {
	q := salvagedQueue{name: row.QueueName{Account: account,
		Name: fmt.Sprintf("salvaged-%d", space)}, recovered: true}
	q.row = row.Queue{Space: space, Created: s.sys.Stamp, Modified: s.sys.Stamp,
		Attributes: row.DefaultAttributes()}
	if q.row.Attributes.FIFO = fifo; fifo {
		q.name.Name += row.FIFOSuffix
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(q.name.Account+"/"+q.name.Name), space))
	copy(q.row.Incarnation[:], sum[:])
	s.set(row.QueueKey(q.name), q.row.Encode(nil))
	s.found = append(s.found, q)
}

// seqMargin is how many numbers of messages are skipped, because the last messages may be lost.
const seqMargin = 1 << 20

// space computes all rows of a queue that follow from its messages.
func (s *salvage) space(q *salvagedQueue) {
	space := q.row.Space
	w := &spaceSalvage{salvage: s, queue: q, space: space, fifo: q.row.Attributes.FIFO,
		groups: make(map[string]*row.Group)}
	w.out = Queue{Queue: q.name, Recovered: q.recovered}
	if value, ok := s.get(row.StateKey(space)); ok {
		w.old, _ = row.DecodeState(value)
	}
	last := uint64(0)
	if f := s.facts[space]; f != nil {
		last = f.last
	}
	q.next = last + 1 + seqMargin
	w.st = row.NewState(q.next)
	w.st.Segment = 0
	w.st.Settled = row.LastAt(s.sys.Stamp)
	s.apply() // what was made of the catalogue
	w.remembered()
	w.messages()
	w.saveGroups()
	s.apply()
	orphans := w.orphans(row.KindContent) + w.orphans(row.KindDelivery)
	w.orphans(row.KindStory)
	w.st.Live = w.out.Kept
	s.set(row.OwnerKey(space), row.EncodeOwner(nil, q.name))
	s.set(row.StateKey(space), w.st.Encode(nil))
	w.out.Lost = max(w.out.Lost+orphans, w.old.Live-w.out.Kept)
	s.out.Queues = append(s.out.Queues, w.out)
}

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
}

// remembered keeps the deduplication ids that do not contradict the messages.
func (w *spaceSalvage) remembered() {
	for k, v := range w.store.Scan(row.SpaceKey(w.space, row.KindDedup),
		row.SpaceKey(w.space, row.KindDedup+1)) {
		bucket, hash, _ := key.Int64(k[row.SpacePrefixLen:])
		d, ok := row.DecodeDedup(v)
		ok = ok && w.fifo && len(hash) == len(row.DedupHash{}) && d.At/row.DedupBucket == bucket
		if ok && d.Deliveries == nil {
			value, there := w.get(row.SeqKey(w.space, row.KindMessage, uint64(d.Sequence)))
			m, _, read := row.DecodeMeta(uint64(d.Sequence), value)
			ok = d.Sequence != 0 && !(there && read && (m.ID != d.ID || m.Sent != d.At))
		}
		for _, a := range d.Deliveries {
			ok = ok && a.Seq != 0 && a.Generation != 0
		}
		switch n := len(w.st.Buckets); {
		case !ok:
			w.delete(bytes.Clone(k))
		case n == 0 || w.st.Buckets[n-1] != bucket:
			w.st.Buckets = append(w.st.Buckets, bucket)
		}
	}
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
		if m.Source == "" { // it was sent with a delay that is lost: it must not come too early
			placed.Kind, placed.At = row.DueDelayed, m.Arrived+sqslimits.DelayMax.Milliseconds()
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
			m.Source != "", m.IsElder()
		placed.Moved = m.Away
		w.set(k, placed.Delivery.Encode(nil))
		w.set(row.DueRows.Key(w.space, placed.Pos(m.Seq)), []byte{byte(placed.Kind)})
		w.count(&placed)
	} else if !w.fifo {
		w.st.Cursor, w.st.LastFresh = min(w.st.Cursor, m.Seq), m.Seq
	}
	if !w.fifo && m.Source != "" {
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
		w.segments, w.segment = m.Seq>>row.SegmentBits, row.Segment{First: m.Seq, Sent: m.Base}
	}
	w.segment.Live++
	w.segment.Sent = max(w.segment.Sent, m.Base)
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
		w.set(row.GroupKey(w.space, name), g.Encode(nil))
		w.set(row.HeadRows[g.Class].Key(w.space, g.Pos()), row.EncodeHead(nil, name))
	}
}

// rememberSend makes sure that the deduplication id of a message is remembered if others of its
// minute are.
//
// A send is remembered within its queue or within its group, by the scope at that time. When the
// scope changes within a minute, messages of one group can have the same id: one is remembered
// within the queue, and one within the group. A row of one must not replace that of the other.
func (w *spaceSalvage) rememberSend(m *row.Meta) {
	minute := m.Sent / row.DedupBucket
	if m.Source != "" || m.Redrives > 0 || !slices.Contains(w.st.Buckets, minute) {
		return
	}
	d := row.Dedup{At: m.Sent, ID: m.ID, Sequence: row.Sequence(m.Seq)}
	want := d.Encode(nil)
	inQueue := row.DedupKey(w.space, minute, row.HashOf(row.HashQueue, "", m.Dedup))
	inGroup := row.DedupKey(w.space, minute, row.HashOf(row.HashGroup, m.Group, m.Dedup))
	ofQueue, queueTaken := w.get(inQueue)
	ofGroup, groupTaken := w.get(inGroup)
	if bytes.Equal(ofQueue, want) || bytes.Equal(ofGroup, want) {
		return
	}
	if !groupTaken {
		w.set(inGroup, want)
	}
	// What is replaced here is remembered within its own group: of two messages of a group, the
	// send of one was remembered within the queue.
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

// tasks keeps move tasks but cancels those that were running, because their messages may be lost or
// be there twice.
func (s *salvage) tasks() {
	next := make(map[row.QueueName]uint64)
	for _, q := range s.found {
		next[q.name] = q.next
	}
	for k, v := range s.store.Scan([]byte{row.FamilyTask}, []byte{row.FamilyTask + 1}) {
		t, ok := row.TaskOf(k, v)
		limit, there := next[t.Source]
		if !ok || !there || t.Limit == 0 || t.Limit > limit || t.Stepped < t.Started {
			s.delete(bytes.Clone(k))
			continue
		}
		if t.Status.Active() {
			t.Status, t.Failure, t.Paused = row.TaskCancelled, "", false
			s.out.Cancelled++
			s.set(bytes.Clone(k), t.Encode(nil))
		}
	}
}

// documents drops what cannot be read.
func (s *salvage) documents() {
	family := row.Family(row.FamilyDocument)
	for k, v := range s.store.Scan(family.Lo, family.Hi) {
		_, ok := row.DocumentOf(k)
		if _, known := row.DecodeDocument(v); !ok || !known {
			s.delete(bytes.Clone(k))
		}
	}
}

// actions drops entries of the action log that cannot be read.
func (s *salvage) actions() {
	family := row.Family(row.FamilyAction)
	for k, v := range s.store.Scan(family.Lo, family.Hi) {
		if a, ok := row.DecodeAction(v); !ok || !bytes.Equal(k, row.ActionKey(a.Number)) {
			s.delete(bytes.Clone(k))
		}
	}
}

// system writes the row about the store as a whole. The store starts as after a crash, so that
// messages in flight are not delivered at once. [CLOCK-10]
func (s *salvage) system() {
	s.sys.Clean, s.sys.GraceFrom, s.sys.GraceUntil = false, 0, 0
	s.sys.Unowned, s.sys.Fallen, s.sys.Swept = false, false, row.MessageID{}
	s.sys.NextTask = max(s.sys.NextTask, 1)
	s.set(row.SystemKey(), s.sys.Encode(nil))
}

// metaFits reports whether a message may be in a queue as it says.
func metaFits(m *row.Meta, fifo bool) bool {
	switch {
	case m.Seq == 0, m.FirstSent < 0, m.FirstSent > m.Sent, m.Base < m.Sent, m.Arrived < m.Base:
		return false
	case fifo:
		return m.Group != "" && m.Dedup != "" && m.Scheduled() == (m.Source != "")
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
		received && d.FirstReceive < m.Sent {
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
