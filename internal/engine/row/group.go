package row

// A HeadClass says what the time of the first message of a group means.
type HeadClass byte

const (
	// never handed out: receivable since it was sent, or the queue's delay later
	HeadFresh  HeadClass = 0
	HeadPlaced HeadClass = 1 // it stands in due: receivable since its place there
)

// HeadRows hold the first message of every group by time. Fresh ones are held by the time of their
// send. A reader adds the delay of the queue, because a change of the delay applies to messages
// that are there. [FIFO-11]
var HeadRows = [...]Index[string]{
	HeadFresh:  {Name: "head", Kind: KindHead, Sub: []byte{byte(HeadFresh)}, Read: DecodeHead},
	HeadPlaced: {Name: "head", Kind: KindHead, Sub: []byte{byte(HeadPlaced)}, Read: DecodeHead},
}

func EncodeHead(b []byte, group string) []byte {
	c := Codec{B: b}
	c.Version(Version)
	c.string(&group)
	return c.B
}

func DecodeHead(value []byte) (group string, ok bool) {
	c := Codec{B: value, Reading: true}
	c.Version(Version)
	c.string(&group)
	return group, c.Done()
}

// A Line is one message of a group.
type Line struct {
	Seq  uint64
	Sent int64
}

func EncodeLine(b []byte, sent int64) []byte {
	c := Codec{B: b}
	c.Version(Version)
	c.Int(&sent)
	return c.B
}

func DecodeLine(value []byte) (sent int64, ok bool) {
	c := Codec{B: value, Reading: true}
	c.Version(Version)
	c.Int(&sent)
	return sent, c.Done()
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

func (r *Group) Encode(b []byte) []byte {
	c := Codec{B: b}
	r.parts(&c)
	return c.B
}

func (r *Group) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&r.Count, &r.First.Seq)
	c.Int(&r.First.Sent)
	c.Byte((*byte)(&r.Class))
	c.Int(&r.At)
	c.Uint(&r.Last.Seq)
	c.Int(&r.Last.Sent)
	c.Uint(&r.Founder, &r.Placed)
}

func DecodeGroup(value []byte) (r Group, ok bool) {
	c := Codec{B: value, Reading: true}
	r.parts(&c)
	return r, c.Done() && r.Count > 0 && r.Class <= HeadPlaced
}
