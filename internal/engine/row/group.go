package row

import "slices"

// A HeadClass says what the time of the first message of a group means.
type HeadClass byte

const (
	// never handed out: receivable since it was sent, or the queue's delay later
	HeadFresh  HeadClass = 0
	HeadPlaced HeadClass = 1 // it stands in due: receivable since its place there
	HeadHeld   HeadClass = 2 // of a held group, which may have no message: since when it is held
)

// HeadRows hold the first message of every group by time. Fresh ones are held by the time of their
// send. A reader adds the delay of the queue, because a change of the delay applies to messages
// that are there. [FIFO-11]
var HeadRows = [...]Index[string]{
	HeadFresh:  {Name: "head", Kind: KindHead, Sub: []byte{byte(HeadFresh)}, Read: DecodeHead},
	HeadPlaced: {Name: "head", Kind: KindHead, Sub: []byte{byte(HeadPlaced)}, Read: DecodeHead},
	HeadHeld:   {Name: "head", Kind: KindHead, Sub: []byte{byte(HeadHeld)}, Read: DecodeHead},
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

// A Slot is a place at the front of a group that its number does not give: that of a dead letter
// which holds the group, or of a message that came back to such a place or stands before one.
type Slot struct {
	Space uint64 // of the dead letter, in the dead-letter queue; zero for a message of the group
	Seq   uint64 // in that space
	Sent  int64  // as in a Line; zero for a dead letter
}

// Dead reports whether the slot is that of a dead letter.
func (s Slot) Dead() bool { return s.Space != 0 }

// A Group is what the store knows about a group that has messages, or that a dead letter holds.
type Group struct {
	Count   uint64
	First   Line // zero if there is no message
	Class   HeadClass
	At      int64  // place of the first message in the head index, or since when the group is held
	Last    Line   // the last message of the group; zero when that is not known
	Founder uint64 // the message with which the group began: has no line row, as those in Front
	Placed  uint64 // no message behind this one has ever been in due

	// Front has the slots of the group in order. They come before all messages with a line row.
	// Held is the number of the message whose move began the hold, or the latest one.
	Front []Slot
	Held  uint64
}

// Exists reports whether the group has a row.
func (r *Group) Exists() bool { return r.Count > 0 || r.IsHeld() }

// IsHeld reports whether a dead letter holds the group. [HOLD-1]
func (r *Group) IsHeld() bool { return slices.ContainsFunc(r.Front, Slot.Dead) }

// Ahead returns the messages in Front.
func (r *Group) Ahead() (lines []Line) {
	for _, s := range r.Front {
		if !s.Dead() {
			lines = append(lines, Line{Seq: s.Seq, Sent: s.Sent})
		}
	}
	return lines
}

// SlotOf returns the index in Front of the slot with this space and number; -1 if there is none.
func (r *Group) SlotOf(space, seq uint64) int {
	return slices.IndexFunc(r.Front, func(s Slot) bool { return s.Space == space && s.Seq == seq })
}

// Pos is the place of the group in the head index.
func (r *Group) Pos() Pos {
	if r.Class == HeadHeld {
		return Pos{At: r.At, Seq: r.Held}
	}
	return Pos{At: r.At, Seq: r.First.Seq}
}

func (r *Group) Encode(b []byte) []byte { return encode(b, r, (*Group).parts) }

func (r *Group) parts(c *Codec) {
	version := byte(Version)
	if len(r.Front) > 0 {
		version = groupVersion
	}
	version = c.version(version, groupVersion)
	c.Uint(&r.Count, &r.First.Seq)
	c.Int(&r.First.Sent)
	c.Byte((*byte)(&r.Class))
	c.Int(&r.At)
	c.Uint(&r.Last.Seq)
	c.Int(&r.Last.Sent)
	c.Uint(&r.Founder, &r.Placed)
	if version > 1 {
		c.Uint(&r.Held)
		list(c, &r.Front, func(s *Slot) {
			c.Uint(&s.Space, &s.Seq)
			c.Int(&s.Sent)
		})
		if len(r.Front) == 0 {
			c.fail() // it would be written in the version before
		}
	}
}

// groupVersion is the version of the row of a group that has slots.
const groupVersion = 2

func DecodeGroup(value []byte) (r Group, ok bool) {
	ok = decode(value, &r, (*Group).parts)
	return r, ok && r.Exists() && r.Class <= HeadHeld &&
		r.IsHeld() == (r.Class == HeadHeld)
}

// A Hold is the row of a dead letter that holds a group: it names the queue and the group. It may
// outlive the hold. [HOLD-7]
type Hold struct {
	Queue QueueName
	Group string
}

func (r *Hold) Encode(b []byte) []byte { return encode(b, r, (*Hold).parts) }

func (r *Hold) parts(c *Codec) {
	c.Version(Version)
	c.string(&r.Queue.Account, &r.Queue.Name, &r.Group)
}

func DecodeHold(value []byte) (r Hold, ok bool) {
	ok = decode(value, &r, (*Hold).parts)
	return r, ok
}
