package row

import (
	"encoding/binary"

	"tenaq/internal/engine/key"
)

// An Again is what was answered to a request to send, for later attempts of it. [AGAIN-1]
type Again struct {
	Hash DedupHash   // of the request
	At   int64       // when it was carried out
	Late bool        // its first attempt may still come [AGAIN-3]
	IDs  []MessageID // of the messages of its entries; zero for one that was refused
	Told uint64      // the entries whose answer says that they are duplicates, as bits [EXT-32]
}

// AgainEntries is how many entries a request has at most.
const AgainEntries = 10

// againLate is a flag beside the number of entries.
const againLate = 0x80

func (a *Again) parts(c *Codec, base int64) {
	n, since, sent := byte(len(a.IDs)), a.At-base, uint64(0)
	if a.Late {
		n |= againLate
	}
	c.ID((*[16]byte)(&a.Hash))
	c.Byte(&n)
	c.Int(&since)
	a.Late, n = n&againLate != 0, n&^againLate
	if a.At = base + since; n > 1 {
		c.Uint(&a.Told)
	}
	if n > AgainEntries {
		c.fail()
		return
	}
	if c.Reading {
		a.IDs = append(a.IDs[:0], make([]MessageID, n)...)
	}
	for i := range a.IDs {
		if c.ID((*[16]byte)(&a.IDs[i])); a.IDs[i] != (MessageID{}) {
			sent |= 1 << i
		}
	}
	if sent == 0 || a.Told&^sent != 0 {
		c.fail()
	}
}

// An again row holds what a queue has answered in a turn, or in a part of one. Its value is a
// version, the number of answers in two bytes, a time from which the times in it count, and the
// answers.

// BeginAgain begins the value of an again row.
func BeginAgain(b []byte, base int64) []byte {
	c := Codec{B: b}
	c.Version(Version)
	c.B = append(c.B, 0, 0)
	c.Int(&base)
	return c.B
}

// AppendAgain appends an answer to a value that BeginAgain has begun.
func AppendAgain(b []byte, base int64, a *Again) []byte {
	binary.BigEndian.PutUint16(b[1:], binary.BigEndian.Uint16(b[1:])+1)
	c := Codec{B: b}
	a.parts(&c, base)
	return c.B
}

// An AgainReader reads the value of an again row.
type AgainReader struct {
	c    Codec
	left uint16 // answers
	Base int64
}

func ReadAgain(value []byte) (r AgainReader) {
	r.c = Codec{B: value, Reading: true}
	r.c.Version(Version)
	if count := r.c.take(2); count != nil {
		r.left = binary.BigEndian.Uint16(count)
	}
	if r.c.Int(&r.Base); r.left == 0 {
		r.c.fail()
	}
	return r
}

// Next reads the next answer, whose IDs are valid until the next call with the same one.
func (r *AgainReader) Next(a *Again) (more bool) {
	if r.left == 0 || r.c.bad {
		return false
	}
	r.left--
	a.Told = 0
	a.parts(&r.c, r.Base)
	return !r.c.bad
}

// Done reports whether the whole row was read and nothing was wrong with it.
func (r *AgainReader) Done() bool { return r.left == 0 && r.c.Done() }

// AgainKey is the key of an again row: the minute of its first answer, and the number of the first
// message that it is about and that was new.
func AgainKey(space uint64, minute int64, seq uint64) []byte {
	return key.AppendUint64(key.AppendInt64(SpaceKey(space, KindAgain), minute), seq)
}

// AgainOf reads the parts of the key of an again row.
func AgainOf(k []byte) (minute int64, seq uint64, ok bool) {
	if len(k) != SpacePrefixLen+8+8 {
		return 0, 0, false
	}
	minute, k, _ = key.Int64(k[SpacePrefixLen:])
	seq, _, ok = key.Uint64(k)
	return minute, seq, ok
}

// AgainSpan covers the again rows of the minutes from lo up to hi, which is not among them.
func AgainSpan(space uint64, lo, hi int64) Span {
	return Span{Lo: AgainKey(space, lo, 0), Hi: AgainKey(space, hi, 0)}
}
