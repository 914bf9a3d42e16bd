package engine

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/key"
	"tenaq/internal/kv"
	"tenaq/internal/work/sqslimits"
)

// This file makes a consistent store of the rows that were read from a damaged one. Only rows that nothing
// else implies are taken over: settings of queues, messages, contents, deliveries, deduplication ids and move
// tasks. Indexes, segments, groups, low-water keys and counters are computed from them, so what is wrong or
// missing there costs nothing. What remains passes an audit. [DUR-36]

// IsSalvaged tells whether a row of a damaged store is put into the store that Salvage completes.
func IsSalvaged(k []byte) bool {
	switch {
	case len(k) == 0:
		return false
	case k[0] == familySystem, k[0] == familyQueue, k[0] == familyTask:
		return true
	case k[0] != familySpace || len(k) < spacePrefixLen:
		return false
	}
	switch rowKind(k[spacePrefixLen-1]) {
	case kindState:
		return len(k) == spacePrefixLen
	case kindMessage, kindContent, kindDelivery:
		return len(k) == seqKeyLen
	case kindDedup:
		return true
	}
	return false
}

// Salvaged is what became of the rows.
type Salvaged struct {
	Queues    []SalvagedQueue // in the order of their names
	Lost      int             // queues whose row cannot be read
	Cancelled int             // move tasks that were running
}

// A SalvagedQueue is what became of the messages of a queue.
type SalvagedQueue struct {
	Queue     QueueName
	Recovered bool  // its name and settings are lost: it has a new name and default settings
	Kept      int64 // messages
	Lost      int64 // messages, as far as it is known, those without a body included
	NoBody    int64 // messages of which the body is lost
	Forgotten int64 // messages that are kept but whose delay, visibility and receive count are lost
}

// Salvage completes a store that holds the salvaged rows of another one and no others. It is called before the
// store is used.
func Salvage(store kv.Store) Salvaged {
	s := &salvage{store: store, batch: store.NewBatch(), facts: make(map[uint64]*spaceFacts)}
	s.survey()
	s.queues()
	for i := range s.found {
		s.space(&s.found[i])
	}
	s.tasks()
	s.system()
	s.batch.Force()()
	slices.SortFunc(s.out.Queues, func(a, b SalvagedQueue) int {
		return strings.Compare(a.Queue.Account+"/"+a.Queue.Name, b.Queue.Account+"/"+b.Queue.Name)
	})
	return s.out
}

// A salvage is a Salvage under way.
type salvage struct {
	store kv.Store
	batch kv.Batch
	out   Salvaged

	sys   system
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
	name      QueueName
	row       queueRow
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
func (s *salvage) past(times ...int64) { s.sys.stamp = max(s.sys.stamp, slices.Max(times)) }

// survey reads every row once, for what the store as a whole must know.
func (s *salvage) survey() {
	s.sys = system{nextSpace: 1, nextTask: 1}
	if value, ok := s.get(systemKey()); ok {
		if sys, ok := decodeSystem(value); ok {
			s.sys = sys
		}
	}
	for k, v := range s.store.Scan([]byte{familyTask}, []byte{familyTask + 1}) {
		if t, ok := taskOf(k, v); ok {
			s.past(t.started, t.stepped)
			s.sys.nextTask = max(s.sys.nextTask, t.number+1)
		}
	}
	for k, v := range s.store.Scan([]byte{familySpace}, []byte{familySpace + 1}) {
		space, _, _ := key.Uint64(k[1:])
		s.sys.nextSpace = max(s.sys.nextSpace, space+1)
		f := s.facts[space]
		if f == nil {
			f = &spaceFacts{}
			s.facts[space] = f
		}
		s.fact(f, k, v)
	}
}

func (s *salvage) fact(f *spaceFacts, k, v []byte) {
	switch rowKind(k[spacePrefixLen-1]) {
	case kindState:
		if st, ok := decodeState(v); ok && st.nextSeq > 0 {
			f.last = max(f.last, st.nextSeq-1)
		}
		return
	case kindDedup:
		if d, ok := decodeDedup(v); ok {
			s.past(d.at)
			f.last = max(f.last, uint64(d.sequence))
			for _, a := range d.deliveries {
				f.last = max(f.last, a.seq)
			}
		}
		return
	case kindMessage:
		if m, _, ok := decodeMeta(seqOf(k), v); ok {
			s.past(m.sent, m.arrived)
			f.fifo = f.fifo || m.dedup != ""
			f.messages++
		}
	case kindDelivery:
		if d, ok := decodeDelivery(v); ok {
			s.past(d.lastReceive)
			if d.kind == dueReturned {
				s.past(d.at)
			}
			if d.kind == dueInFlight {
				s.sys.hidden = max(s.sys.hidden, d.at)
			}
		}
	}
	f.last = max(f.last, seqOf(k))
}

// queues reads the catalogue, and makes a queue for each space with messages that no queue has.
func (s *salvage) queues() {
	accounts := make(map[string]int)
	taken := make(map[uint64]bool)
	for k, v := range s.store.Scan([]byte{familyQueue}, []byte{familyQueue + 1}) {
		name, ok := queueNameOf(k)
		row, known := decodeQueueRow(v)
		if !ok || !known || row.deleted == 0 && (taken[row.space] || row.space == 0) {
			s.out.Lost++
			s.delete(k)
			continue
		}
		s.past(row.deleted, row.created, row.modified, row.purged)
		accounts[name.Account]++
		if row.deleted != 0 {
			continue
		}
		taken[row.space] = true
		s.sys.nextSpace = max(s.sys.nextSpace, row.space+1)
		s.found = append(s.found, salvagedQueue{name: name, row: row})
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
			all := wholeSpace(space)
			s.batch.DeleteRange(all.lo, all.hi)
		default:
			s.recover(account, space, f.fifo)
		}
	}
	for _, q := range s.found {
		if target := q.row.attributes.Redrive; target != (Redrive{}) {
			s.set(sourceKey(target.Target, q.name.Name), []byte{rowVersion})
		}
	}
}

// recover makes a queue of messages whose queue is not known.
func (s *salvage) recover(account string, space uint64, fifo bool) {
	q := salvagedQueue{name: QueueName{Account: account, Name: fmt.Sprintf("salvaged-%d", space)}, recovered: true}
	q.row = queueRow{space: space, created: s.sys.stamp, modified: s.sys.stamp, attributes: defaultAttributes()}
	if q.row.attributes.FIFO = fifo; fifo {
		q.name.Name += fifoSuffix
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(q.name.Account+"/"+q.name.Name), space))
	copy(q.row.incarnation[:], sum[:])
	s.set(queueKey(q.name), q.row.encode(nil))
	s.found = append(s.found, q)
}

// seqMargin is how many numbers of messages are left out, since the last ones may have been lost.
const seqMargin = 1 << 20

// space computes all rows of a queue that follow from its messages.
func (s *salvage) space(q *salvagedQueue) {
	space := q.row.space
	w := &spaceSalvage{salvage: s, queue: q, space: space, fifo: q.row.attributes.FIFO, groups: make(map[string]*groupRow)}
	w.out = SalvagedQueue{Queue: q.name, Recovered: q.recovered}
	if value, ok := s.get(stateKey(space)); ok {
		w.old, _ = decodeState(value)
	}
	last := uint64(0)
	if f := s.facts[space]; f != nil {
		last = f.last
	}
	q.next = last + 1 + seqMargin
	w.st = newState(q.next)
	w.st.segment = 0
	w.st.settled = lastAt(s.sys.stamp)
	s.apply() // what was made of the catalogue
	w.remembered()
	w.messages()
	w.saveGroups()
	s.apply()
	orphans := w.orphans(kindContent) + w.orphans(kindDelivery)
	w.st.live = w.out.Kept
	s.set(stateKey(space), w.st.encode(nil))
	w.out.Lost = max(w.out.Lost+orphans, w.old.live-w.out.Kept)
	s.out.Queues = append(s.out.Queues, w.out)
}

// A spaceSalvage computes the rows of a queue.
type spaceSalvage struct {
	*salvage
	queue *salvagedQueue
	space uint64
	fifo  bool
	old   state // zero if it is lost
	st    state
	out   SalvagedQueue

	segment  segment
	segments uint64 // number of segment
	groups   map[string]*groupRow
}

// remembered keeps the deduplication ids that do not contradict the messages.
func (w *spaceSalvage) remembered() {
	for k, v := range w.store.Scan(spaceKey(w.space, kindDedup), spaceKey(w.space, kindDedup+1)) {
		bucket, hash, _ := key.Int64(k[spacePrefixLen:])
		d, ok := decodeDedup(v)
		ok = ok && w.fifo && len(hash) == len(dedupHash{}) && d.at/dedupBucket == bucket
		if ok && d.deliveries == nil {
			value, there := w.get(seqKey(w.space, kindMessage, uint64(d.sequence)))
			m, _, read := decodeMeta(uint64(d.sequence), value)
			ok = d.sequence != 0 && !(there && read && (m.id != d.id || m.sent != d.at))
		}
		for _, a := range d.deliveries {
			ok = ok && a.seq != 0 && a.generation != 0
		}
		switch n := len(w.st.buckets); {
		case !ok:
			w.delete(bytes.Clone(k))
		case n == 0 || w.st.buckets[n-1] != bucket:
			w.st.buckets = append(w.st.buckets, bucket)
		}
	}
}

// messages keeps the messages that are whole.
func (w *spaceSalvage) messages() {
	lowest := w.st.nextSeq
	for k, v := range w.store.Scan(spaceKey(w.space, kindMessage), spaceKey(w.space, kindMessage+1)) {
		seq := seqOf(k)
		m, content, ok := decodeMeta(seq, v)
		if ok && m.flags&flagInline == 0 {
			content, _ = w.get(seqKey(w.space, kindContent, seq))
		}
		if !ok || !m.fits(w.fifo) || !m.holds(content) {
			for _, kind := range []rowKind{kindMessage, kindContent, kindDelivery} {
				w.delete(seqKey(w.space, kind, seq))
			}
			w.out.Lost++
			w.out.NoBody++
			continue
		}
		lowest = min(lowest, seq)
		w.keep(&m)
	}
	if w.segment.live > 0 {
		w.saveSegment()
	}
	if w.fifo {
		w.st.counted = seqRange{lowest, lowest}
		return
	}
	if w.st.lastFresh > 0 {
		w.st.mixed = w.st.nextSeq
	}
}

// keep writes the rows that follow from a message.
func (w *spaceSalvage) keep(m *meta) {
	w.out.Kept++
	placed := message{meta: *m, hasMeta: true}
	k := seqKey(w.space, kindDelivery, m.seq)
	if value, ok := w.get(k); ok {
		placed.delivery, ok = decodeDelivery(value)
		placed.hasDelivery = ok && placed.delivery.fits(m, w.fifo)
	}
	switch {
	case placed.hasDelivery:
	case m.scheduled():
		placed.delivery, placed.hasDelivery = delivery{kind: dueReturned, at: m.arrived}, true
		if m.source == "" { // it was sent with a delay that is lost: it must not come too early
			placed.kind, placed.at = dueDelayed, m.arrived+sqslimits.DelayMax.Milliseconds()
		}
		w.out.Forgotten++
	default:
		w.delete(k)
		if !w.fifo && m.seq < w.old.cursor {
			w.out.Forgotten++ // it had been handed out
		}
	}
	if placed.hasDelivery {
		placed.apart, placed.origin, placed.elder = m.flags&flagInline == 0, !w.fifo && m.source != "", m.isElder()
		w.set(k, placed.delivery.encode(nil))
		w.set(dueIndex.key(w.space, placed.pos(m.seq)), []byte{byte(placed.kind)})
		w.count(&placed)
	} else if !w.fifo {
		w.st.cursor, w.st.lastFresh = min(w.st.cursor, m.seq), m.seq
	}
	if !w.fifo && m.source != "" {
		w.set(originIndex.key(w.space, pos{m.base, m.seq}), []byte{rowVersion})
	}
	if m.isElder() {
		w.set(elderIndex.key(w.space, pos{m.firstSent, m.seq}), []byte{rowVersion})
	}
	if id := m.seq >> segmentBits; id != w.segments && w.segment.live > 0 {
		w.saveSegment()
	}
	if w.segment.live == 0 {
		w.segments, w.segment = m.seq>>segmentBits, segment{first: m.seq, sent: m.base}
	}
	w.segment.live++
	w.segment.sent = max(w.segment.sent, m.base)
	if w.fifo {
		w.join(&placed)
		w.rememberSend(m)
	}
}

// count counts what waits beyond the present.
func (w *spaceSalvage) count(m *message) {
	switch {
	case !w.st.settled.less(m.pos(m.seq)):
	case m.kind != dueDelayed:
		w.st.inFlight++
	case !w.fifo:
		w.st.delayed++
	}
}

func (w *spaceSalvage) saveSegment() {
	w.set(seqKey(w.space, kindSegment, w.segments), w.segment.encode(nil))
	w.segment = segment{}
}

// join puts a message at the end of its group.
func (w *spaceSalvage) join(m *message) {
	g := w.groups[m.group]
	l := line{m.seq, m.sent}
	if g == nil {
		g = &groupRow{first: l, founder: m.seq, class: headFresh, at: m.sent}
		if m.hasDelivery {
			g.class, g.at = headPlaced, m.at
		}
		w.groups[strings.Clone(m.group)] = g
	} else {
		w.set(lineKey(w.space, m.group, m.seq), encodeLine(nil, m.sent))
	}
	g.count++
	g.last = l
	if m.hasDelivery {
		g.placed = m.seq
	}
}

func (w *spaceSalvage) saveGroups() {
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		g := w.groups[name]
		w.set(groupKey(w.space, name), g.encode(nil))
		w.set(headIndexes[g.class].key(w.space, g.pos()), encodeHead(nil, name))
	}
}

// rememberSend makes sure that the deduplication id of a message is remembered if others of its minute are.
func (w *spaceSalvage) rememberSend(m *meta) {
	minute := m.sent / dedupBucket
	if m.source != "" || m.redrives > 0 || !slices.Contains(w.st.buckets, minute) {
		return
	}
	d := dedupEntry{at: m.sent, id: m.id, sequence: Sequence(m.seq)}
	want := d.encode(nil)
	hashes := []dedupHash{hashOf(hashQueue, "", m.dedup), hashOf(hashGroup, m.group, m.dedup)}
	for _, h := range hashes {
		if value, ok := w.get(dedupKey(w.space, minute, h)); ok && bytes.Equal(value, want) {
			return
		}
	}
	h := hashes[0]
	if w.queue.row.attributes.GroupScope {
		h = hashes[1]
	}
	w.set(dedupKey(w.space, minute, h), want)
}

// orphans removes the rows of a kind whose message is lost, and counts the messages that are known by them alone.
func (w *spaceSalvage) orphans(kind rowKind) (n int64) {
	for k := range w.store.Scan(spaceKey(w.space, kind), spaceKey(w.space, kind+1)) {
		seq := seqOf(k)
		if _, ok := w.get(seqKey(w.space, kindMessage, seq)); ok {
			continue
		}
		w.delete(bytes.Clone(k))
		_, counted := w.get(seqKey(w.space, kindContent, seq))
		if kind == kindContent || !counted {
			n++
		}
	}
	return n
}

// tasks keeps what is known of move tasks. None goes on: what it was to move may be lost, or be there twice.
func (s *salvage) tasks() {
	next := make(map[QueueName]uint64)
	for _, q := range s.found {
		next[q.name] = q.next
	}
	for k, v := range s.store.Scan([]byte{familyTask}, []byte{familyTask + 1}) {
		t, ok := taskOf(k, v)
		limit, there := next[t.source]
		if !ok || !there || t.limit == 0 || t.limit > limit || t.stepped < t.started {
			s.delete(bytes.Clone(k))
			continue
		}
		if t.status.active() {
			t.status, t.failure = taskCancelled, ""
			s.out.Cancelled++
			s.set(bytes.Clone(k), t.encode(nil))
		}
	}
}

// system writes the row about the store as a whole. The store begins as after a crash, so that what was in
// flight is not delivered at once. [CLOCK-10]
func (s *salvage) system() {
	s.sys.clean, s.sys.graceFrom, s.sys.graceUntil = false, 0, 0
	s.sys.nextTask = max(s.sys.nextTask, 1)
	s.set(systemKey(), s.sys.encode(nil))
}

// fits tells whether a message may be in a queue as it says.
func (m *meta) fits(fifo bool) bool {
	switch {
	case m.seq == 0, m.firstSent < 0, m.firstSent > m.sent, m.base < m.sent, m.arrived < m.base:
		return false
	case fifo:
		return m.group != "" && m.dedup != "" && m.scheduled() == (m.source != "")
	}
	return m.dedup == "" && (m.source == "" || m.scheduled())
}

// holds tells whether a content is that of the message.
func (m *meta) holds(value []byte) bool {
	c, ok := decodeContent(value)
	if !ok || (len(value) <= inlineMax) != (m.flags&flagInline != 0) {
		return false
	}
	size := int64(len(c.Body))
	for _, a := range c.Attributes {
		size += int64(len(a.Name) + len(a.Type) + len(a.String) + len(a.Binary))
	}
	return size == m.size && (c.BodyMD5 == [16]byte{} || c.BodyMD5 == md5.Sum([]byte(c.Body))) && bytes.Equal(c.encode(), value)
}

// fits tells whether a message may have been delivered as its row says.
func (d *delivery) fits(m *meta, fifo bool) bool {
	received := d.receives > 0
	if received != (d.firstReceive != 0) || received != (d.lastReceive != 0) || d.firstReceive > d.lastReceive || d.generation > d.receives ||
		received && d.firstReceive < m.sent {
		return false
	}
	switch d.kind {
	case dueDelayed:
		return !fifo && !received && d.at > m.arrived && d.at <= m.arrived+sqslimits.DelayMax.Milliseconds()
	case dueInFlight:
		return d.generation > 0 && d.at > d.lastReceive
	}
	return d.at >= m.sent
}
