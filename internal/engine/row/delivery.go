package row

// A DueKind says why a message stands in due, and so which counter it belongs to until its time
// comes.
type DueKind byte

func (k DueKind) known() bool { return k >= DueDelayed && k <= DueReturned }

const (
	DueDelayed  DueKind = 1 // sent with a delay; standard queues only
	DueInFlight DueKind = 2 // received and hidden
	DueReturned DueKind = 3 // given back or dead-lettered: receivable since its time
)

// A Delivery is a delivery row: where a message stands in due and what its receives have left
// behind. A message has one exactly as long as it has a due row.
type Delivery struct {
	At           int64 // when it is, was or will be receivable
	Kind         DueKind
	Receives     uint32
	Generation   uint32 // of its receipt handles; the handle of the newest receive has this one
	FirstReceive int64
	LastReceive  int64
	Apart        bool // the content is a row of its own
	Origin       bool // it was dead-lettered here and has a row in origin
	// it has a row in elder, unless it is of a store from before there were such rows
	Elder   bool
	Changed bool // the visibility was changed since the newest receive
}

func (v *Delivery) Pos(seq uint64) Pos { return Pos{At: v.At, Seq: seq} }

func (v *Delivery) Encode(b Enc) []byte {
	b.byte(Version)
	b.byte(byte(v.Kind))
	b.int(v.At)
	b.uint(uint64(v.Receives))
	b.uint(uint64(v.Generation))
	b.int(v.FirstReceive)
	b.int(v.LastReceive)
	var flags byte
	if v.Apart {
		flags |= deliveryApart
	}
	if v.Origin {
		flags |= deliveryOrigin
	}
	if v.Changed {
		flags |= deliveryChanged
	}
	if v.Elder {
		flags |= deliveryElder
	}
	b.byte(flags)
	return b
}

// Flags of a delivery row.
const (
	deliveryApart = 1 << iota
	deliveryOrigin
	deliveryChanged
	deliveryElder
)

func DecodeDelivery(value []byte) (v Delivery, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	v.Kind, v.At = DueKind(d.byte()), d.Int()
	v.Receives, v.Generation = uint32(d.Uint()), uint32(d.Uint())
	v.FirstReceive, v.LastReceive = d.Int(), d.Int()
	flags := d.byte()
	v.Apart, v.Origin = flags&deliveryApart != 0, flags&deliveryOrigin != 0
	v.Changed, v.Elder = flags&deliveryChanged != 0, flags&deliveryElder != 0
	return v, d.Done() && v.Kind.known()
}
