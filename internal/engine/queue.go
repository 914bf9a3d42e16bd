package engine

import (
	"slices"

	"tenaq/internal/observe/tally"
)

// queueRow is what stays of a queue when it is purged: identity, settings and tags.
type queueRow struct {
	incarnation [16]byte // new with every creation; handles are bound to it
	space       uint64   // new with every creation and every purge
	created     int64
	modified    int64
	purged      int64 // when it was last purged; zero for never
	attributes  Attributes
	tags        []Tag

	// deleted is when the queue was deleted. Such a row is a grave: it only keeps the name blocked for
	// a while, and is cleared away by a sweep or the next creation. [QUEUE-18]
	deleted int64
}

// queueVersion is that of the queue row since queues have policies.
const queueVersion = 3

func (r *queueRow) encode(b enc) []byte {
	b.byte(queueVersion)
	b.int(r.deleted)
	if r.deleted != 0 {
		return b
	}
	b.raw(r.incarnation[:])
	b.uint(r.space)
	b.int(r.created)
	b.int(r.modified)
	b.int(r.purged)
	r.attributes.encode(&b)
	b.uint(uint64(len(r.tags)))
	for _, t := range r.tags {
		b.string(t.Key)
		b.string(t.Value)
	}
	return b
}

func decodeQueueRow(value []byte) (r queueRow, ok bool) {
	d := dec{b: value}
	version := d.version(queueVersion)
	if r.deleted = d.int(); r.deleted != 0 {
		return r, d.done()
	}
	r.incarnation = d.id()
	r.space = d.uint()
	r.created, r.modified, r.purged = d.int(), d.int(), d.int()
	r.attributes.decode(&d, version)
	for n := d.uint(); n > 0 && !d.bad; n-- {
		r.tags = append(r.tags, Tag{Key: d.string(), Value: d.string()})
	}
	return r, d.done()
}

// state is the row of a space that changes with nearly every command. It is written once per turn.
type state struct {
	nextSeq   uint64 // of the next message; the first is 1
	lastFresh uint64 // the newest message that entered without a delay
	cursor    uint64 // no message before it is fresh
	mixed     uint64 // from the cursor up to here, what has a delivery row is not fresh
	segment   uint64 // low-water key of the segments
	dueLow    pos    // low-water key of due
	settled   pos    // up to here the counters have followed the due index
	boot      uint64 // the last start whose grace was given

	live, delayed, inFlight int64

	originLow pos      // low-water key of origin
	headLow   [2]pos   // low-water keys of the heads, by class
	counted   seqRange // FIFO: the fresh messages in here are counted as delayed
	buckets   []int64  // of the dedup rows, in ascending order
	elderLow  pos      // low-water key of elder
}

// newState is the state of an empty space. Messages are numbered on from next, so that sequence numbers
// grow across purges. [FIFO-38]
func newState(next uint64) state {
	return state{nextSeq: next, cursor: next, segment: next >> segmentBits, counted: seqRange{next, next}}
}

// stateVersion is that of the state row since it knows about elders.
const stateVersion = 3

func (s *state) encode(b enc) []byte {
	b.byte(stateVersion)
	b.uint(s.nextSeq)
	b.uint(s.lastFresh)
	b.uint(s.cursor)
	b.uint(s.mixed)
	b.uint(s.segment)
	b.pos(s.dueLow)
	b.pos(s.settled)
	b.uint(s.boot)
	b.int(s.live)
	b.int(s.delayed)
	b.int(s.inFlight)
	b.pos(s.originLow)
	b.pos(s.headLow[headFresh])
	b.pos(s.headLow[headPlaced])
	b.uint(s.counted.lo)
	b.uint(s.counted.hi)
	b.uint(uint64(len(s.buckets)))
	for _, bucket := range s.buckets {
		b.int(bucket)
	}
	b.pos(s.elderLow)
	return b
}

func decodeState(value []byte) (s state, ok bool) {
	d := dec{b: value}
	version := d.version(stateVersion)
	s.nextSeq, s.lastFresh, s.cursor, s.mixed, s.segment = d.uint(), d.uint(), d.uint(), d.uint(), d.uint()
	s.dueLow, s.settled = d.pos(), d.pos()
	s.boot = d.uint()
	s.live, s.delayed, s.inFlight = d.int(), d.int(), d.int()
	if version > 1 {
		s.originLow = d.pos()
		s.headLow[headFresh], s.headLow[headPlaced] = d.pos(), d.pos()
		s.counted = seqRange{d.uint(), d.uint()}
		for n := d.uint(); n > 0 && !d.bad; n-- {
			s.buckets = append(s.buckets, d.int())
		}
	}
	if version > 2 {
		s.elderLow = d.pos()
	}
	return s, d.done()
}

// A queue is a queue in memory: its rows, and windows on what lies behind them. Everything but the rows
// may be dropped between two turns.
type queue struct {
	name QueueName
	row  queueRow
	st   state

	stDirty bool
	gone    bool // deleted in this turn
	stirred bool // in Engine.stirred
	noted   bool // in Engine.news

	fresh  freshWindow
	due    window[dueKind]
	origin window[struct{}]
	elder  window[struct{}]
	msgs   map[uint64]*message // deliveries, and metadata, that were read or written lately
	order  []uint64            // the keys of msgs in the order they came, and some that are gone from it
	ended  []uint64            // the messages that went in this turn
	segs   map[uint64]*segment

	*fifoWindows // of a FIFO queue; nil for a standard queue

	// expiry is a time before which nothing of this queue expires; zero when unknown.
	expiry int64

	turn       uint64 // of the last use
	used       int64  // when that was
	prev, next *queue // in Engine.recent
	bytes      int

	tally *tally.Queue // nil until something has to be counted
}

// fifoWindows are what a FIFO queue has in memory besides: windows on its heads, and groups that were read or written lately.
type fifoWindows struct {
	heads      [2]window[string]
	groups     map[string]*group
	groupOrder []string // the keys of groups in the order they came, and some that are gone from it
	usedGroups []*group // in this turn
	lineRoom   int      // for how many lines the groups have memory
	changed    []*group // with rows to be written
	delayNext  int64    // before it no counted message stops being delayed; zero when unknown
	dedup      dedupCache
}

func (q *queue) fifo() bool { return q.row.attributes.FIFO }

func (q *queue) visible() int64 { return q.st.live - q.st.delayed - q.st.inFlight }

// setSpace makes q the empty queue of a new space.
func (q *queue) setSpace(space uint64, now int64) {
	q.row.space = space
	q.st = newState(max(q.st.nextSeq, 1))
	q.st.settled = lastAt(now)
	q.stDirty = true
	q.forget()
}

// forget drops every window.
func (q *queue) forget() {
	q.fresh = freshWindow{end: q.st.cursor}
	empty := q.st.live == 0
	q.due = window[dueKind]{end: q.st.dueLow, whole: empty}
	q.origin = window[struct{}]{end: q.st.originLow, whole: empty}
	q.elder = window[struct{}]{end: q.st.elderLow, whole: empty}
	if q.fifo() {
		q.fifoWindows = &fifoWindows{groups: make(map[string]*group)}
		for class := range q.heads {
			q.heads[class] = window[string]{end: q.st.headLow[class], whole: empty}
		}
	}
	q.msgs = make(map[uint64]*message)
	q.order, q.ended = nil, nil
	q.segs = make(map[uint64]*segment)
	q.expiry = 0
}

// lookup returns the queue of that name. It is the first thing every action on a queue does, before it
// looks at any other parameter. [ERR-11, QUEUE-32]
func (e *Engine) lookup(name QueueName) (*queue, *Error) {
	q, ok := e.queues[name]
	if !ok {
		row, ok := e.rows.queue(name)
		if !ok || row.deleted != 0 {
			return nil, errNoQueue()
		}
		q = e.load(name, row, e.rows.state(row.space))
	}
	if q.gone {
		return nil, errNoQueue()
	}
	e.touch(q)
	return q, nil
}

// queue reads the row of a queue, which may be a grave.
func (r *rows) queue(name QueueName) (row queueRow, ok bool) {
	k := queueKey(name)
	value, ok := r.get(k)
	if !ok {
		return row, false
	}
	row, ok = decodeQueueRow(value)
	if !ok {
		r.damaged("queue", k)
	}
	return row, true
}

// state reads the state of a space.
func (r *rows) state(space uint64) state {
	k := stateKey(space)
	value, ok := r.get(k)
	if !ok {
		return newState(1)
	}
	st, ok := decodeState(value)
	if !ok {
		r.damaged("state", k)
	}
	return st
}

// stale returns the queue of a row that a scan has found, in memory, if time changes anything about it, and nil if not:
// it has no messages and remembers no deduplication. Those who look after all queues ask for it, so that a queue that
// nobody uses costs them two reads, and does not push one that is used out of memory.
func (e *Engine) stale(name QueueName, row queueRow) *queue {
	q := e.queues[name]
	if q == nil {
		st := e.rows.state(row.space)
		if st.unchanging() {
			return nil
		}
		q = e.load(name, row, st)
	} else if q.st.unchanging() {
		return nil
	}
	e.touch(q)
	return q
}

func (s *state) unchanging() bool { return s.live == 0 && len(s.buckets) == 0 }

func (e *Engine) load(name QueueName, row queueRow, st state) *queue {
	q := &queue{name: name.clone(), row: row, st: st}
	q.forget()
	e.add(q)
	return q
}

// add puts a queue that was read or created into memory.
func (e *Engine) add(q *queue) {
	e.queues[q.name] = q
	q.turn = e.turn - 1
	e.recent.add(q)
}

// tally returns what counts for q.
func (e *Engine) tally(q *queue) *tally.Queue {
	if q.tally == nil {
		q.tally = e.cfg.Tally.Of(q.name.Account, q.name.Name)
	}
	return q.tally
}

// touch marks q as used in this turn. Nothing of a queue changes before.
func (e *Engine) touch(q *queue) {
	if q.turn != e.turn {
		q.turn, q.used = e.turn, e.now
		e.touched = append(e.touched, q)
		e.recent.touch(q)
	}
	if e.news.watched && !q.noted {
		e.note(q)
	}
}

// writeRow writes the queue row.
func (e *Engine) writeRow(q *queue) { e.rows.set(queueKey(q.name), q.row.encode(nil)) }

// save writes what has changed of the rows that are kept in memory during a turn.
func (q *queue) save(e *Engine) {
	if q.gone {
		return
	}
	for id, s := range q.segs { // order does not matter: each is a row of its own
		if s.dirty {
			s.dirty = false
			k := seqKey(q.row.space, kindSegment, id)
			if s.live == 0 && id < q.st.nextSeq>>segmentBits {
				e.rows.delete(k)
			} else {
				e.rows.set(k, s.encode(nil))
			}
		}
	}
	if q.fifo() && len(q.changed) > 0 {
		e.saveGroups(q)
	}
	if q.stDirty {
		q.stDirty = false
		e.checkState(q)
		e.rows.set(stateKey(q.row.space), q.st.encode(nil))
	}
}

// remember keeps a message in memory, at least until the end of the turn.
func (q *queue) remember(m *message) {
	if _, ok := q.msgs[m.seq]; !ok {
		q.order = append(q.order, m.seq)
	}
	q.msgs[m.seq] = m
}

// end marks a message as gone for the rest of the turn, while the store still shows its rows.
func (q *queue) end(m *message) {
	m.gone = true
	q.ended = append(q.ended, m.seq)
}

// find returns the message with its delivery, or nil when it does not exist or was never handed out.
func (e *Engine) find(q *queue, seq uint64) *message {
	m := q.msgs[seq]
	if m == nil {
		k := seqKey(q.row.space, kindDelivery, seq)
		value, ok := e.rows.get(k)
		if !ok {
			return nil
		}
		m = &message{}
		m.seq = seq
		if m.delivery, ok = decodeDelivery(value); !ok {
			e.rows.damaged("delivery", k)
		}
		m.hasDelivery = true
		q.remember(m)
	}
	if m.gone || !m.hasDelivery {
		return nil
	}
	return m
}

// needMeta reads the metadata of a message that find returned.
func (e *Engine) needMeta(q *queue, m *message) {
	if m.hasMeta {
		return
	}
	k := seqKey(q.row.space, kindMessage, m.seq)
	value, ok := e.rows.get(k)
	if ok {
		m.meta, _, ok = decodeMeta(m.seq, value)
	}
	if !ok {
		e.rows.damaged("message", k)
	}
	m.hasMeta = true
}

// trim brings the windows back to their size after a turn and forgets the messages that went.
func (q *queue) trim(window int) {
	q.fresh.trim(window)
	q.due.trim(window)
	q.origin.trim(window)
	q.elder.trim(window)
	if q.fifo() {
		for class := range q.heads {
			q.heads[class].trim(window)
		}
		q.trimGroups(window)
		q.dedup.endTurn()
	}
	for _, seq := range q.ended {
		delete(q.msgs, seq)
	}
	q.ended = q.ended[:0]
	for len(q.msgs) > window {
		delete(q.msgs, q.order[0])
		q.order = q.order[1:]
	}
	if len(q.order) > 2*len(q.msgs)+64 {
		q.order = slices.DeleteFunc(slices.Clone(q.order), func(seq uint64) bool { return q.msgs[seq] == nil })
	}
	if len(q.segs) > 64 {
		clear(q.segs)
	}
}

// footprint is about how many bytes of memory the queue takes.
func (q *queue) footprint() int {
	const queueSize, messageSize, dueSize, segmentSize, headSize, groupSize, lineSize, fifoSize = 1152, 512, 24, 96, 56, 512, 16, 320
	n := queueSize + len(q.row.attributes.Policy) + messageSize*(len(q.msgs)+q.fresh.len()) + segmentSize*len(q.segs) +
		dueSize*(cap(q.due.entries)+cap(q.origin.entries)+cap(q.elder.entries))
	if q.fifo() {
		n += fifoSize + headSize*(cap(q.heads[0].entries)+cap(q.heads[1].entries)) +
			groupSize*len(q.groups) + lineSize*q.lineRoom + q.dedup.bytes()
	}
	return n
}

// lru is the list of queues in memory, the one used longest ago first, and their size together.
type lru struct {
	first, last *queue
	bytes       int
}

func (l *lru) oldest() *queue { return l.first }

func (l *lru) add(q *queue) {
	q.prev, q.next = l.last, nil
	if l.last != nil {
		l.last.next = q
	} else {
		l.first = q
	}
	l.last = q
	l.bytes += q.bytes
}

func (l *lru) remove(q *queue) {
	if q.prev != nil {
		q.prev.next = q.next
	} else {
		l.first = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	} else {
		l.last = q.prev
	}
	q.prev, q.next = nil, nil
	l.bytes -= q.bytes
}

func (l *lru) touch(q *queue) {
	l.remove(q)
	l.add(q)
}

func (l *lru) resize(q *queue, bytes int) {
	l.bytes += bytes - q.bytes
	q.bytes = bytes
}
