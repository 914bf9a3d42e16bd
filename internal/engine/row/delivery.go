package row

// A DueKind says why a message stands in due, and so to which counter it belongs until its time
// comes.
type DueKind byte

func (k DueKind) known() bool { return k >= DueDelayed && k <= DueReturned }

const (
	DueDelayed  DueKind = 1 // sent with a delay; standard queues only
	DueInFlight DueKind = 2 // received and hidden
	DueReturned DueKind = 3 // given back or dead-lettered: receivable since its time
)

// A Delivery is a delivery row: where a message stands in due, and facts about its receives. A
// message has a delivery row while it has a due row or a level row.
type Delivery struct {
	At           int64 // when it is, was or will be receivable
	Kind         DueKind
	Receives     uint32
	Generation   uint32 // of its receipt handles; the handle of the newest receive has this one
	FirstReceive int64
	LastReceive  int64
	Apart        bool // the content is a row of its own
	Origin       bool // it was dead-lettered here or is late, and has a row in origin
	Elder        bool // it has a row in elder; false in stores from before there were such rows
	Changed      bool // the visibility was changed since the newest receive
	Story        bool // it has a story row
	Moved        bool // it is Away, and has rows in moved
	Level        byte // above 0, it has a level row instead of a due row
}

func (v *Delivery) Pos(seq uint64) Pos { return Pos{At: v.At, Seq: seq} }

func (v *Delivery) Encode(b []byte) []byte { return encode(b, v, (*Delivery).parts) }

func (v *Delivery) parts(c *Codec) {
	version := byte(Version)
	if v.Level > 0 {
		version = deliveryVersion
	}
	version = c.version(version, deliveryVersion)
	c.Byte((*byte)(&v.Kind))
	c.Int(&v.At)
	c.uint32(&v.Receives, &v.Generation)
	c.Int(&v.FirstReceive, &v.LastReceive)
	c.flags(&v.Apart, &v.Origin, &v.Changed, &v.Elder, &v.Story, &v.Moved)
	if version > 1 {
		if c.Byte(&v.Level); v.Level < 1 || v.Level > LevelMax {
			c.fail() // of level 0, it would be written in the version before
		}
	}
}

// deliveryVersion is the version of the delivery row of a message with a level above 0.
const deliveryVersion = 2

func DecodeDelivery(value []byte) (v Delivery, ok bool) {
	ok = decode(value, &v, (*Delivery).parts)
	return v, ok && v.Kind.known()
}
