package row

// InlineMax is the size up to which a message's content lies in its message row. One row instead of
// two spares a write and a removal per message life; larger contents would make every scan over
// metadata drag bodies along.
const InlineMax = 1024

// Flags of a message row.
const (
	FlagScheduled = 1 << iota // entered through due; the fresh cursor skips it
	FlagInline                // the content follows the metadata
	flagBase                  // the retention base is not the time it was sent
	flagLineage               // the lineage is not the message's own id
	// generation, redrive count, first-sent time differ from a new message's
	flagHistory
	flagGroup
	flagDedup
	flagSource // where it was moved from

	flagsComputed = flagBase | flagLineage | flagHistory | flagGroup | flagDedup | flagSource
)

// Meta is a message row without its inline content. It is written once and never changed.
type Meta struct {
	Seq   uint64
	Flags byte
	ID    MessageID
	Sent  int64 // when it was accepted
	Size  int64 // as SQS counts it

	Base       int64    // retention counts from here, which may be in the future
	Arrived    int64    // when it came into this queue
	Lineage    [16]byte // survives moves, redrives and replays
	Generation uint64   // raised only by an intended replay of completed work
	Redrives   uint64
	FirstSent  int64  // of the lineage
	Fence      uint64 // deliveries of the lineage before the message came to this place

	// Away says that the id or the lineage does not carry the place of the message, so that rows in
	// moved do.
	Away bool

	// Replayed says that a replay sent the message, or one that it was before it moved here.
	Replayed bool

	Group, Dedup, Source string
}

// Encode returns the message row. Inline is the content when flagInline is set, else nil.
func (m *Meta) Encode(b, inline []byte) []byte {
	c := Codec{B: b}
	m.parts(&c)
	return append(c.B, inline...)
}

// parts visits all but the inline content.
func (m *Meta) parts(c *Codec) {
	write := byte(Version)
	switch {
	case m.Replayed:
		write = messageVersion
	case m.Fence != 0 || m.Away:
		write = messageFence
	case m.Arrived != m.Base:
		write = messageArrived
	}
	version := c.version(write, messageVersion)
	flags := m.Flags &^ flagsComputed
	mark := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	mark(flagBase, m.Base != m.Sent)
	mark(flagLineage, m.Lineage != m.ID)
	mark(flagHistory, m.Generation != 0 || m.Redrives != 0 || m.FirstSent != m.Sent)
	mark(flagGroup, m.Group != "")
	mark(flagDedup, m.Dedup != "")
	mark(flagSource, m.Source != "")
	c.Byte(&flags)
	c.ID((*[16]byte)(&m.ID))
	c.Int(&m.Sent, &m.Size)
	if c.Reading {
		m.Flags = flags
		m.Base, m.Lineage, m.FirstSent = m.Sent, m.ID, m.Sent
	}
	if flags&flagBase != 0 {
		c.Int(&m.Base)
	}
	if flags&flagLineage != 0 {
		c.ID(&m.Lineage)
	}
	if flags&flagHistory != 0 {
		c.Uint(&m.Generation, &m.Redrives)
		c.Int(&m.FirstSent)
	}
	if flags&flagGroup != 0 {
		c.string(&m.Group)
	}
	if flags&flagDedup != 0 {
		c.string(&m.Dedup)
	}
	if flags&flagSource != 0 {
		c.string(&m.Source)
	}
	if c.Reading {
		m.Arrived = m.Base
	}
	if version >= messageArrived {
		c.Int(&m.Arrived)
	}
	if version >= messageFence {
		c.Uint(&m.Fence)
		c.bool(&m.Away)
	}
	if version >= messageVersion {
		c.bool(&m.Replayed)
	}
}

// FreshPos is the place of a fresh message among those in due.
func (m *Meta) FreshPos() Pos { return Pos{m.Sent, m.Seq} }

func (m *Meta) Scheduled() bool { return m.Flags&FlagScheduled != 0 }

// IsElder reports whether the message has a row in elder: it is older than the queue finds it to
// be, or it was moved, so that its rows in moved have to go with it.
func (m *Meta) IsElder() bool {
	return m.FirstSent < m.Base && !m.IsLate() || m.Away && m.Source == ""
}

// IsLate reports whether the message was sent with a long delay. Its retention counts from the end
// of the delay, so it does not expire in the order of arrival and has a row in origin. [EXT-26]
func (m *Meta) IsLate() bool { return m.Base > m.Arrived }

// LateMax is the longest such delay, in milliseconds. [EXT-24]
const LateMax = 365 * 24 * 3600 * 1000

// Expired reports whether the message has outlived the retention of its queue. [RET-1]
func (m *Meta) Expired(now, retention int64) bool { return now >= m.Base+retention }

// NewMeta returns the metadata of a message that begins a lineage of its own.
func NewMeta(seq uint64, id MessageID, now, size int64) Meta {
	return Meta{Seq: seq, ID: id, Sent: now, Size: size, Base: now, Arrived: now, Lineage: id,
		FirstSent: now}
}

// Versions of message rows. A row is of the first version that has what there is to be said.
const (
	messageArrived = 2 // has the arrival in the queue, if it is not the start of the retention
	messageFence   = 3 // has the fence and says whether the message is away
	messageVersion = 4 // says whether the message was replayed
)

// DecodeMeta reads a message row. The inline content, if there is any, is a part of value.
func DecodeMeta(seq uint64, value []byte) (m Meta, inline []byte, ok bool) {
	c := Codec{B: value, Reading: true}
	m.parts(&c)
	if m.Seq = seq; m.Flags&FlagInline != 0 {
		return m, c.B, !c.bad
	}
	return m, nil, c.Done()
}
