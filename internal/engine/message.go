package engine

// A message is what the engine knows about one message in memory: its metadata, its place in due if it
// has one, or both. Content is never here.
type message struct {
	meta
	delivery
	hasMeta, hasDelivery bool // which of the two rows has been read or written

	// gone says that the rows were removed in this turn. The record stays until the turn ends, since
	// the store still shows the rows until then.
	gone bool
}

// inlineMax is the size up to which a message's content lies in its message row. One row instead of two
// spares a write and a removal per message life; larger contents would make every scan over metadata
// drag bodies along.
const inlineMax = 1024

// Flags of a message row.
const (
	flagScheduled = 1 << iota // entered through due; the fresh cursor skips it
	flagInline                // the content follows the metadata
	flagBase                  // the retention base is not the time it was sent
	flagLineage               // the lineage is not the message's own id
	flagHistory               // generation, redrive count, first-sent time differ from a new message's
	flagGroup
	flagDedup
	flagSource // where it was moved from
)

// meta is a message row without its inline content. It is written once and never changed.
type meta struct {
	seq   uint64
	flags byte
	id    MessageID
	sent  int64 // when it was accepted
	size  int64 // as SQS counts it

	base       int64    // retention counts from here
	arrived    int64    // when it came into this queue
	lineage    [16]byte // survives moves, redrives and replays
	generation uint64   // raised only by an intended replay of completed work
	redrives   uint64
	firstSent  int64 // of the lineage

	group, dedup, source string
}

// newMeta returns the metadata of a message that begins a lineage of its own.
func newMeta(seq uint64, id MessageID, now, size int64) meta {
	return meta{seq: seq, id: id, sent: now, size: size, base: now, arrived: now, lineage: id, firstSent: now}
}

// messageVersion is that of a message row that says when the message came into its queue, as it does when that is
// neither when it was sent nor when its retention began. Every other one is of version 1.
const messageVersion = 2

// encode returns the message row. Inline is the content when flagInline is set, else nil.
func (m *meta) encode(b enc, inline []byte) []byte {
	flags := m.flags &^ (flagBase | flagLineage | flagHistory | flagGroup | flagDedup | flagSource)
	mark := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	mark(flagBase, m.base != m.sent)
	mark(flagLineage, m.lineage != m.id)
	mark(flagHistory, m.generation != 0 || m.redrives != 0 || m.firstSent != m.sent)
	mark(flagGroup, m.group != "")
	mark(flagDedup, m.dedup != "")
	mark(flagSource, m.source != "")

	version := byte(rowVersion)
	if m.arrived != m.base {
		version = messageVersion
	}
	b.byte(version)
	b.byte(flags)
	b.raw(m.id[:])
	b.int(m.sent)
	b.int(m.size)
	if flags&flagBase != 0 {
		b.int(m.base)
	}
	if flags&flagLineage != 0 {
		b.raw(m.lineage[:])
	}
	if flags&flagHistory != 0 {
		b.uint(m.generation)
		b.uint(m.redrives)
		b.int(m.firstSent)
	}
	if flags&flagGroup != 0 {
		b.string(m.group)
	}
	if flags&flagDedup != 0 {
		b.string(m.dedup)
	}
	if flags&flagSource != 0 {
		b.string(m.source)
	}
	if version > 1 {
		b.int(m.arrived)
	}
	b.raw(inline)
	return b
}

// decodeMeta reads a message row. The inline content, if there is any, is a part of value.
func decodeMeta(seq uint64, value []byte) (m meta, inline []byte, ok bool) {
	d := dec{b: value}
	version := d.version(messageVersion)
	m.seq, m.flags, m.id = seq, d.byte(), d.id()
	m.sent, m.size = d.int(), d.int()
	m.base, m.lineage, m.firstSent = m.sent, m.id, m.sent
	if m.flags&flagBase != 0 {
		m.base = d.int()
	}
	if m.flags&flagLineage != 0 {
		m.lineage = d.id()
	}
	if m.flags&flagHistory != 0 {
		m.generation, m.redrives, m.firstSent = d.uint(), d.uint(), d.int()
	}
	if m.flags&flagGroup != 0 {
		m.group = d.string()
	}
	if m.flags&flagDedup != 0 {
		m.dedup = d.string()
	}
	if m.flags&flagSource != 0 {
		m.source = d.string()
	}
	if m.arrived = m.base; version > 1 {
		m.arrived = d.int()
	}
	if m.flags&flagInline != 0 {
		return m, d.b, !d.bad
	}
	return m, nil, d.done()
}

// decodeMeta reads a message row that a scan has found.
func (e *Engine) decodeMeta(k, v []byte) meta {
	m, _, ok := decodeMeta(seqOf(k), v)
	if !ok || m.seq == 0 {
		e.rows.damaged("message", k)
	}
	return m
}

func (m *meta) scheduled() bool { return m.flags&flagScheduled != 0 }

// isElder reports whether the message is older than the queue finds it to be.
func (m *meta) isElder() bool { return m.firstSent < m.base }

// expired reports whether the message has outlived the retention of its queue. [RET-1]
func (m *meta) expired(now, retention int64) bool { return now >= m.base+retention }

// A delivery is a delivery row: where a message stands in due and what its receives have left behind.
// A message has one exactly as long as it has a due row.
type delivery struct {
	at           int64 // when it is, was or will be receivable
	kind         dueKind
	receives     uint32
	generation   uint32 // of its receipt handles; the handle of the newest receive has this one
	firstReceive int64
	lastReceive  int64
	apart        bool // the content is a row of its own
	origin       bool // it was dead-lettered here and has a row in origin
	elder        bool // it has a row in elder, unless it is of a store from before there were such rows
	changed      bool // the visibility was changed since the newest receive
}

// Flags of a delivery row.
const (
	deliveryApart = 1 << iota
	deliveryOrigin
	deliveryChanged
	deliveryElder
)

func (v *delivery) pos(seq uint64) pos { return pos{at: v.at, seq: seq} }

func (v *delivery) encode(b enc) []byte {
	b.byte(rowVersion)
	b.byte(byte(v.kind))
	b.int(v.at)
	b.uint(uint64(v.receives))
	b.uint(uint64(v.generation))
	b.int(v.firstReceive)
	b.int(v.lastReceive)
	var flags byte
	if v.apart {
		flags |= deliveryApart
	}
	if v.origin {
		flags |= deliveryOrigin
	}
	if v.changed {
		flags |= deliveryChanged
	}
	if v.elder {
		flags |= deliveryElder
	}
	b.byte(flags)
	return b
}

func decodeDelivery(value []byte) (v delivery, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
	v.kind, v.at = dueKind(d.byte()), d.int()
	v.receives, v.generation = uint32(d.uint()), uint32(d.uint())
	v.firstReceive, v.lastReceive = d.int(), d.int()
	flags := d.byte()
	v.apart, v.origin = flags&deliveryApart != 0, flags&deliveryOrigin != 0
	v.changed, v.elder = flags&deliveryChanged != 0, flags&deliveryElder != 0
	return v, d.done() && v.kind.known()
}
