package engine

import (
	"container/list"

	"tenaq/internal/engine/row"
	"tenaq/internal/observe/tally"
	"tenaq/internal/work/extension"
)

// A queue is a queue in memory: its rows, and windows on the rows of its messages. All but the rows
// may be dropped between two turns.
type queue struct {
	name QueueName
	row  row.Queue
	st   row.State

	stDirty bool
	gone    bool // deleted in this turn
	stirred bool // in Engine.stirred
	noted   bool // in Engine.news

	fresh  freshWindow
	due    window[row.DueKind]
	origin window[struct{}]
	elder  window[struct{}]
	levels []window[row.DueKind]    // beside due, from level 1 on; none until a message has one
	msgs   lately[uint64, *message] // deliveries and metadata
	ended  []uint64                 // the messages that went in this turn
	told   []*message               // the messages whose story is in memory
	segs   map[uint64]*segment

	*fifoWindows           // of a FIFO queue; nil for a standard queue
	fair         *fairness // of a fair queue, else nil

	dedup dedupCache
	again againCache

	ext  *extension.Set // what its tags switch on; never nil
	past *past          // of a queue with a history, else nil

	// expiry is a time before which nothing of this queue expires; zero when unknown.
	expiry int64

	// front is a segment before which only late messages are live; zero when unknown.
	front uint64

	turn  uint64        // of the last use
	used  int64         // when that was
	place *list.Element // in Engine.recent
	bytes int           // of Engine.bytes

	tally *tally.Queue // nil until something has to be counted
}

// fifoWindows are what only a FIFO queue has in memory: windows on its heads, and groups.
type fifoWindows struct {
	heads      [row.HeadHeld]window[string] // none of held groups, which no receive looks at
	groups     lately[string, *group]
	usedGroups []*group // in this turn
	lineRoom   int      // for how many lines the groups have memory
	changed    []*group // with rows to be written
	delayNext  int64    // before it no counted message stops being delayed; zero when unknown
}

func (q *queue) fifo() bool { return q.row.Attributes.FIFO }

func (q *queue) visible() int64 { return q.st.Live - q.st.Delayed - q.st.InFlight }

// setSpace makes q the empty queue of a new space.
func (q *queue) setSpace(space uint64, now int64) {
	q.row.Space = space
	before := q.st
	q.st = row.NewState(max(before.NextSeq, 1))
	q.st.Tokens, q.st.Tokened = before.Tokens, before.Tokened // [EXT-15]
	q.st.Settled = row.LastAt(now)
	q.stDirty = true
	q.forget()
	if q.fair != nil {
		q.newFairness(now)
	}
}

// forget drops every window.
func (q *queue) forget() {
	q.fresh = freshWindow{end: q.st.Cursor}
	q.due = windowOf(&row.DueRows, q, &q.st.DueLow)
	q.forgetLevels()
	q.origin = windowOf(&row.OriginRows, q, &q.st.OriginLow)
	q.elder = windowOf(&row.ElderRows, q, &q.st.ElderLow)
	if q.fifo() {
		q.fifoWindows = &fifoWindows{groups: lately[string, *group]{of: make(map[string]*group)}}
		for class := range q.heads {
			q.heads[class] = windowOf(&row.HeadRows[class], q, &q.st.HeadLow[class])
		}
	}
	q.msgs = lately[uint64, *message]{of: make(map[uint64]*message)}
	q.ended, q.told = nil, nil
	q.segs = make(map[uint64]*segment)
	q.dedup = dedupCache{}
	q.again = newAgainCache(q)
	q.expiry, q.front = 0, 0
}

// lookup returns the queue of that name. Every action on a queue does it first, before it looks at
// other parameters. [ERR-11, QUEUE-32]
func (e *Engine) lookup(name QueueName) (*queue, *Error) {
	q, ok := e.queues[name]
	if !ok {
		stored, ok := e.rows.queue(name)
		if !ok || stored.Deleted != 0 {
			return nil, errNoQueue()
		}
		q = e.load(name, stored, e.rows.state(stored.Space))
	}
	if q.gone {
		return nil, errNoQueue()
	}
	e.touch(q)
	return q, nil
}

// queue reads the row of a queue, which may be a grave.
func (r *rows) queue(name QueueName) (stored row.Queue, ok bool) {
	return read(r, "queue", row.QueueKey(name), row.DecodeQueue)
}

// state reads the state of a space.
func (r *rows) state(space uint64) row.State {
	st, ok := read(r, "state", row.StateKey(space), row.DecodeState)
	if !ok {
		return row.NewState(1)
	}
	return st
}

// stale loads the queue of a row that a scan has found. It returns nil if time changes nothing
// about the queue, because it has no messages and remembers no deduplication. An unused queue
// therefore costs sweeps and surveys two reads, and pushes no used queue out of memory.
func (e *Engine) stale(name QueueName, stored row.Queue) *queue {
	q := e.queues[name]
	if q == nil {
		st := e.rows.state(stored.Space)
		if st.Unchanging() {
			return nil
		}
		q = e.load(name, stored, st)
	} else if q.st.Unchanging() {
		return nil
	}
	e.touch(q)
	return q
}

func (e *Engine) load(name QueueName, stored row.Queue, st row.State) *queue {
	q := &queue{name: name.Clone(), row: stored, st: st}
	q.forget()
	q.readExtensions()
	e.loadFair(q)
	e.add(q)
	return q
}

// add puts a queue that was read or created into memory.
func (e *Engine) add(q *queue) {
	e.queues[q.name] = q
	q.turn = e.turn - 1
	q.place = e.recent.PushBack(q)
}

// drop forgets a queue that is in memory.
func (e *Engine) drop(q *queue) {
	e.recent.Remove(q.place)
	e.bytes -= q.bytes
	if e.queues[q.name] == q {
		delete(e.queues, q.name)
	}
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
		e.recent.MoveToBack(q.place)
	}
	if e.news.watched && !q.noted {
		e.note(q)
	}
}

// writeRow writes the queue row.
func (e *Engine) writeRow(q *queue) { e.rows.set(row.QueueKey(q.name), q.row.Encode(nil)) }

// save writes what has changed of the rows that are kept in memory during a turn.
func (q *queue) save(e *Engine) {
	if q.gone {
		return
	}
	for id, s := range q.segs { // order does not matter: each is a row of its own
		if s.dirty {
			s.dirty = false
			k := e.rows.seqKey(q.row.Space, row.KindSegment, id)
			if s.Live == 0 && id < q.st.NextSeq>>row.SegmentBits {
				e.rows.delete(k)
			} else {
				e.rows.set(k, s.Encode(e.rows.scratch()))
			}
		}
	}
	if q.fifo() && len(q.changed) > 0 {
		e.saveGroups(q)
	}
	if q.past != nil {
		e.saveHistory(q)
	}
	if q.fair != nil {
		e.saveFair(q)
	}
	e.saveAgain(q)
	if q.stDirty {
		q.stDirty = false
		e.checkState(q)
		e.rows.set(row.StateKey(q.row.Space), q.st.Encode(e.rows.scratch()))
	}
}

// remember keeps a message in memory, at least until the end of the turn.
func (q *queue) remember(m *message) { q.msgs.put(m.Seq, m) }

// end marks a message as gone for the rest of the turn, while the store still shows its rows.
func (q *queue) end(m *message) {
	m.gone = true
	q.ended = append(q.ended, m.Seq)
}

// find returns the message with its delivery; nil if it does not exist or was never handed out.
func (e *Engine) find(q *queue, seq uint64) *message {
	m := q.msgs.of[seq]
	if m == nil {
		k := e.rows.seqKey(q.row.Space, row.KindDelivery, seq)
		v, ok := read(&e.rows, "delivery", k, row.DecodeDelivery)
		if !ok {
			return nil
		}
		m = &message{Meta: row.Meta{Seq: seq}, Delivery: v, hasDelivery: true}
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
	k := e.rows.seqKey(q.row.Space, row.KindMessage, m.Seq)
	value, _ := e.rows.get(k) // without a row it is damaged
	m.Meta, _ = e.decodeMessage(k, value)
	m.hasMeta = true
}

// trim brings the windows back to their size after a turn and forgets the messages that went.
func (q *queue) trim(window int) {
	q.fresh.trim(window)
	q.due.trim(window)
	for i := range q.levels {
		q.levels[i].trim(window)
	}
	q.origin.trim(window)
	q.elder.trim(window)
	if q.fifo() {
		for class := range q.heads {
			q.heads[class].trim(window)
		}
		q.trimGroups(window)
	}
	q.dedup.endTurn()
	q.again.endTurn()
	if q.fair != nil {
		q.trimFair(window)
	}
	for _, seq := range q.ended {
		delete(q.msgs.of, seq)
	}
	q.ended = q.ended[:0]
	for _, m := range q.told {
		m.story = nil
	}
	clear(q.told)
	q.told = q.told[:0]
	q.msgs.trim(window, func(*message) {})
	if len(q.segs) > 64 {
		clear(q.segs)
	}
}

// footprint is about how many bytes of memory the queue takes.
func (q *queue) footprint() int {
	const queueSize, messageSize, dueSize, segmentSize, headSize, groupSize, lineSize,
		fifoSize, bucketSize, waitingSize, levelSize = 1328, 512, 24, 96, 56, 512, 16, 320, 40, 24,
		112
	n := queueSize + len(q.row.Attributes.Policy) + messageSize*(len(q.msgs.of)+q.fresh.len()) +
		segmentSize*len(q.segs) +
		dueSize*(cap(q.due.entries)+cap(q.origin.entries)+cap(q.elder.entries))
	for i := range q.levels {
		n += levelSize + dueSize*cap(q.levels[i].entries)
	}
	if q.fifo() {
		n += fifoSize + headSize*(cap(q.heads[0].entries)+cap(q.heads[1].entries)) +
			groupSize*len(q.groups.of) + lineSize*q.lineRoom
	}
	n += q.dedup.bytes() + q.again.bytes()
	if q.past != nil {
		n += bucketSize * cap(q.past.buckets)
	}
	if f := q.fair; f != nil {
		n += fifoSize + headSize*cap(f.turns.entries) + dueSize*cap(f.coming.entries) +
			groupSize*len(f.tenants.of) + waitingSize*f.lineRoom
	}
	return n
}
