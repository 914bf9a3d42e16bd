package engine

import (
	"bytes"
	"net/url"
	"slices"

	"tenaq/internal/engine/history"
	"tenaq/internal/engine/row"
	"tenaq/internal/invariant"
	"tenaq/internal/kv"
	"tenaq/internal/work/extension"
)

// A queue with a history keeps every message that ends, with its content, as an outcome. The rows
// of package row say how. The outcome is written in the batch that removes the message, so there is
// exactly one of the two. [HIST-1]
//
// Outcomes are kept in buckets. The oldest bucket is removed as a whole, by one range delete, when
// all of it is too old or all buckets together are too large. A bucket is a 64th of either bound,
// so a history is never smaller than its bounds allow by more than that. [HIST-5]
//
// A queue without a history has a nil pointer here, and nothing else.

// historyParts is how many buckets make up a bound, and historyBucketsMax how many there may be,
// whatever the bounds have been.
const (
	historyParts      = 64
	historyBucketsMax = 512
)

// A past is the history of a queue in memory: its bounds and its buckets.
type past struct {
	bounds  extension.Bounds
	loaded  bool
	buckets []row.Bucket // ascending; the last one is open
	bytes   int64        // of all buckets
	written int64        // bytes of outcomes since it is in memory
	dirty   bool         // the row of the last bucket has to be written
}

// An ending is how a message leaves its queue.
type ending struct {
	kind row.OutcomeKind
	to   QueueName // where it moves
}

// The endings of messages that do not move.
var (
	endDeleted = ending{kind: row.OutcomeDeleted}
	endExpired = ending{kind: row.OutcomeExpired}
	endRemoved = ending{kind: row.OutcomeRemoved}
)

// remains are the rows of a message that is about to end: what its outcome keeps.
type remains struct {
	row     []byte // of the message, with its content if that is inline
	content []byte // the content, wherever it is stored
}

// prepareEnd reads what the outcome of a message keeps. A command calls it before its first write
// for every message that it removes from a queue with a history, unless the message is visible in
// the store for sure.
func (e *Engine) prepareEnd(q *queue, m *message) {
	if q.past == nil || m.remains != nil {
		return
	}
	k := row.SeqKey(q.row.Space, row.KindMessage, m.Seq)
	value, ok := e.rows.get(k)
	if !ok { // it was written in this turn
		if e.rows.wrote {
			invariant.Fail("message %d ends in the turn in which it came, and was not prepared",
				m.Seq)
		}
		e.flush()
		value, ok = e.rows.get(k)
	}
	if !ok {
		e.rows.damaged("message", k)
	}
	m.remains = &remains{row: value}
	m.Meta, m.remains.content = e.decodeWhole(q, k, value)
	m.hasMeta = true
}

// record writes the outcome of a message that is about to be removed.
func (e *Engine) record(q *queue, m *message, end ending) {
	e.prepareEnd(q, m)
	kept := m.remains
	m.remains = nil
	if e.noHistory { // [HIST-6]
		return
	}
	o := row.Outcome{Kind: end.kind, Ended: e.now, To: end.to, Meta: m.Meta,
		Key: workOf(kept.content), Story: e.storyOf(q, m)}
	if m.hasDelivery {
		o.Receives, o.Deliveries = m.Receives, m.Delivery.Generation
		o.FirstReceive, o.LastReceive = m.FirstReceive, m.LastReceive
	}
	value := append(o.EncodeHead(e.rows.scratch()), kept.row...)
	marks := o.Marks()
	size := int64(row.HistoryKeyLen + len(value) + len(marks)*(row.MarkKeyLen+1))
	apart := m.Flags&row.FlagInline == 0
	if apart {
		size += int64(row.HistoryKeyLen + len(kept.content))
	}
	h := q.past
	b := e.openBucket(q, size)
	number := b.End()
	set := func(k, v []byte) { e.rows.set(k, v); e.rows.key = k }
	set(row.AppendHistoryKey(e.rows.key[:0], q.row.Incarnation, b.First, row.HistoryOutcome,
		number), value)
	if apart {
		set(row.AppendHistoryKey(e.rows.key[:0], q.row.Incarnation, b.First, row.HistoryContent,
			number), kept.content)
	}
	for _, mark := range marks {
		set(row.AppendMarkKey(e.rows.key[:0], q.row.Incarnation, b.First, mark, number),
			[]byte{row.Version})
	}
	if b.Count == 0 {
		b.From = e.now
	}
	b.Until = e.now
	b.Count++
	if m.Replayed {
		b.Replayed++
	}
	b.Bytes += size
	h.bytes += size
	h.written += size
	h.dirty = true
}

// openBucket returns the bucket for the next outcome.
func (e *Engine) openBucket(q *queue, size int64) *row.Bucket {
	h := q.past
	if !h.loaded {
		broken("queue %s: its history is written and was not read", q.name.Name)
	}
	n := len(h.buckets)
	if n == 0 {
		h.buckets = append(h.buckets, row.Bucket{First: 1})
		return &h.buckets[0]
	}
	b := &h.buckets[n-1]
	full := h.bounds.Size > 0 && b.Bytes+size > h.bounds.Size/historyParts ||
		h.bounds.Age > 0 && e.now >= b.From+max(h.bounds.Age/historyParts, 1)
	if b.Count == 0 || !full || n == historyBucketsMax {
		return b
	}
	e.saveHistory(q)
	h.buckets = append(h.buckets, row.Bucket{First: b.End()})
	return &h.buckets[n]
}

// saveHistory writes the row of the last bucket.
func (e *Engine) saveHistory(q *queue) {
	h := q.past
	if !h.dirty {
		return
	}
	b := &h.buckets[len(h.buckets)-1]
	e.rows.set(row.BucketKey(q.row.Incarnation, b.First), b.Encode(nil))
	h.dirty = false
}

// keepHistory reads the buckets of a queue, if that has not been done, and lets those fall that are
// too old or too much. The numbers of outcomes go on, so the last bucket leaves an empty one
// behind. [HIST-5]
func (e *Engine) keepHistory(q *queue) {
	h := q.past
	if !h.loaded {
		e.loadHistory(q)
	}
	for len(h.buckets) > 0 && h.over(e.trusted()) {
		oldest := h.buckets[0]
		if len(h.buckets) == 1 {
			h.buckets = append(h.buckets, row.Bucket{First: oldest.End()})
			h.dirty = true
		}
		e.rows.deleteRange(row.InBucket(q.row.Incarnation, oldest.First))
		e.rows.delete(row.BucketKey(q.row.Incarnation, oldest.First))
		h.buckets = h.buckets[1:]
		h.bytes -= oldest.Bytes
	}
}

// over reports whether the oldest bucket has to fall.
func (h *past) over(now int64) bool {
	b := &h.buckets[0]
	return b.Count > 0 && (h.bounds.Age > 0 && b.Until <= now-h.bounds.Age ||
		h.bounds.Size > 0 && h.bytes > h.bounds.Size)
}

// loadHistory reads the rows of the buckets.
func (e *Engine) loadHistory(q *queue) {
	h := q.past
	h.buckets, h.bytes = nil, 0
	for k, v := range e.scan(row.BucketsOf(q.row.Incarnation)) {
		first, isRow := row.BucketOf(k)
		b, ok := row.DecodeBucket(first, v)
		if !isRow || !ok {
			e.rows.damaged("history bucket", k)
		}
		h.buckets = append(h.buckets, b)
		h.bytes += b.Bytes
	}
	h.loaded = true
}

// workOf returns the key of the work of a message, which workers and producers write into its
// attribute tenaq. Clients write the attribute, so the key is trusted no more than the message.
func workOf(content []byte) string {
	if !bytes.Contains(content, []byte(trailAttribute)) {
		return ""
	}
	c, ok := row.DecodeContentHead(content)
	if !ok {
		return ""
	}
	key, err := url.QueryUnescape(trailField(c.Attributes, trailKey))
	if err != nil || len(key) > historyKeyMax {
		return ""
	}
	return key
}

// historyKeyMax bounds the key of work that an outcome has, in bytes, as trails do.
const historyKeyMax = 512

// History prepares a search of what a queue has kept of messages that have ended. Search it with
// ReadHistory after the turn is committed. [HIST-1, HIST-7]
type History struct {
	Queue QueueName
	After string // Next of the page before; empty to begin
	HistoryQuery

	View history.View // the answer: the history as it is now
}

// Types of answers to History.
type (
	HistoryQuery = history.Query
	Outcome      = history.Found
	OutcomeKind  = row.OutcomeKind
)

// OutcomeKindOf returns the kind of that name, and OutcomeKinds the names of all.
func OutcomeKindOf(name string) (OutcomeKind, bool) { return row.OutcomeKindOf(name) }
func OutcomeKinds() []string                        { return row.OutcomeKinds() }

// HistoryMax is how many outcomes a page may have.
const HistoryMax = history.MaxPage

func (op *History) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if q.past == nil {
		return errNoHistory(q)
	}
	after, ok := openPlace(amongOutcomes, q.row.Incarnation, op.After)
	switch {
	case !ok:
		return errValue(op.After, "after", "It is not a place in this queue.")
	case op.Max < 1 || op.Max > HistoryMax:
		return errNumber(int64(op.Max), "limit", "Must be between 1 and 1000.")
	}
	if !e.ready(q) {
		return ErrAgain
	}
	op.HistoryQuery.After = after
	op.View = q.past.view(q.row.Incarnation, e.trusted())
	return nil
}

// Histories returns the queues of an account that keep a history and come after a name, up to most
// of them and by name, and the name to continue after; empty at the end. It looks at a bounded
// number of queues. It may be called on any goroutine, and sees every change that was answered.
func Histories(
	store kv.Store, account, after string, most int, fault func(string),
) (names []QueueName, next string) {
	r := rows{store: store, fault: fault}
	looks, last := 0, ""
	behind := queuesBehind(QueueName{Account: account, Name: after})
	for k, v := range store.Scan(behind.Lo, behind.Hi) {
		name, ok := row.QueueOf(k)
		stored, known := row.DecodeQueue(v)
		switch {
		case !ok || !known:
			r.damaged("queue", k)
		case name.Account != account:
			return names, ""
		}
		if looks++; looks > historyLooks || len(names) == most { // there may be others
			return names, last
		}
		last = name.Name
		if _, keeps := searchTag(stored.Tags, extension.History); keeps && stored.Deleted == 0 {
			names = append(names, name)
		}
	}
	return names, ""
}

// historyLooks is how many queues one call of Histories looks at.
const historyLooks = 20_000

// view is the history at this moment.
func (h *past) view(incarnation [16]byte, now int64) history.View {
	v := history.View{Incarnation: incarnation, Buckets: slices.Clone(h.buckets)}
	if h.bounds.Age > 0 {
		v.Since = now - h.bounds.Age + 1
	}
	return v
}

// ReadHistory returns a page of a search, and where the next page begins; empty after the last. It
// may be called on any goroutine after the turn of op is committed. It reports rows that do not
// decode to fault, which must not return.
func ReadHistory(store kv.Store, op *History, fault func(string)) (page []Outcome, next string) {
	page, after := history.Read(store, &op.View, &op.HistoryQuery, fault)
	if after != 0 {
		next = sealPlace(amongOutcomes, op.View.Incarnation, after)
	}
	return page, next
}
