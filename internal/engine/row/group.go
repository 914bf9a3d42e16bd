package row

// A HeadClass tells apart why the first message of a group has the time it has.
type HeadClass byte

const (
	// never handed out: receivable since it was sent, or the queue's delay later
	HeadFresh  HeadClass = 0
	HeadPlaced HeadClass = 1 // it stands in due: receivable since its place there
)

// headIndexes hold the first message of every group by time: fresh ones by the time they were sent,
// to which the delay of the queue is added when it is read, because a change of it acts on messages
// that are there. [FIFO-11]
var HeadRows = [...]Index[string]{
	HeadFresh:  {Name: "head", Kind: KindHead, Sub: []byte{byte(HeadFresh)}, Read: DecodeHead},
	HeadPlaced: {Name: "head", Kind: KindHead, Sub: []byte{byte(HeadPlaced)}, Read: DecodeHead},
}

func EncodeHead(b Enc, group string) []byte {
	b.byte(Version)
	b.string(group)
	return b
}

func DecodeHead(value []byte) (group string, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	group = d.string()
	return group, d.Done()
}

// A Line is one message of a group.
type Line struct {
	Seq  uint64
	Sent int64
}

func EncodeLine(b Enc, sent int64) []byte {
	b.byte(Version)
	b.int(sent)
	return b
}

func DecodeLine(value []byte) (sent int64, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	sent = d.Int()
	return sent, d.Done()
}

// A Group is what the store knows about a group that has messages.
type Group struct {
	Count   uint64
	First   Line
	Class   HeadClass
	At      int64  // place of the first message in the head index
	Last    Line   // the last message of the group; zero when that is not known
	Founder uint64 // the message with which the group began: the only one without a line row
	Placed  uint64 // no message behind this one has ever been in due
}

func (r *Group) Pos() Pos { return Pos{At: r.At, Seq: r.First.Seq} }

func (r *Group) Encode(b Enc) []byte {
	b.byte(Version)
	b.uint(r.Count)
	b.uint(r.First.Seq)
	b.int(r.First.Sent)
	b.byte(byte(r.Class))
	b.int(r.At)
	b.uint(r.Last.Seq)
	b.int(r.Last.Sent)
	b.uint(r.Founder)
	b.uint(r.Placed)
	return b
}

func DecodeGroup(value []byte) (r Group, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	r.Count = d.Uint()
	r.First = Line{d.Uint(), d.Int()}
	r.Class, r.At = HeadClass(d.byte()), d.Int()
	r.Last = Line{d.Uint(), d.Int()}
	r.Founder, r.Placed = d.Uint(), d.Uint()
	return r, d.Done() && r.Count > 0 && r.Class <= HeadPlaced
}
