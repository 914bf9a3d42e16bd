package row

import "encoding/binary"

// Version is the version of the encoding of all rows that have not changed yet. The first byte of
// every value is its version. A change of an encoding takes a new version and keeps reading the old
// ones. docs/formats.md shows the bytes, and testdata/formats keeps samples of each version.
const Version = 1

// A Codec writes the parts of a value, or reads them. Each kind of row has one method, parts, that
// visits its parts, so a row is read as it was written.
//
// After the first part that is not there, everything reads as zero, so a reader checks once, with
// Done.
type Codec struct {
	B       []byte // what is written, or is left to be read
	Reading bool
	bad     bool
}

// encode appends the value of a row to b. It is inlined, as decode is, and so the codec stays on
// the stack.
func encode[T any](b []byte, r *T, parts func(*T, *Codec)) []byte {
	c := Codec{B: b}
	parts(r, &c)
	return c.B
}

// decode reads a row, and reports whether it is the whole value.
func decode[T any](value []byte, r *T, parts func(*T, *Codec)) bool {
	c := Codec{B: value, Reading: true}
	parts(r, &c)
	return c.Done()
}

func (c *Codec) fail() { c.B, c.bad = nil, true }

// take returns the next n bytes without copying them.
func (c *Codec) take(n uint64) []byte {
	if n > uint64(len(c.B)) {
		c.fail()
		return nil
	}
	v := c.B[:n]
	c.B = c.B[n:]
	return v
}

// varint removes a number of n bytes from the front, as encoding/binary has read it.
func (c *Codec) varint(n int) {
	if n <= 0 {
		c.fail()
		return
	}
	c.B = c.B[n:]
}

func (c *Codec) Byte(v *byte) {
	if !c.Reading {
		c.B = append(c.B, *v)
	} else if b := c.take(1); len(b) > 0 {
		*v = b[0]
	} else {
		*v = 0
	}
}

func (c *Codec) Uint(parts ...*uint64) {
	for _, v := range parts {
		if c.Reading {
			n := 0
			*v, n = binary.Uvarint(c.B)
			c.varint(n)
		} else {
			c.B = binary.AppendUvarint(c.B, *v)
		}
	}
}

func (c *Codec) Int(parts ...*int64) {
	for _, v := range parts {
		if c.Reading {
			n := 0
			*v, n = binary.Varint(c.B)
			c.varint(n)
		} else {
			c.B = binary.AppendVarint(c.B, *v)
		}
	}
}

func (c *Codec) uint32(parts ...*uint32) {
	for _, v := range parts {
		n := uint64(*v)
		c.Uint(&n)
		*v = uint32(n)
	}
}

// bool is a byte for each part.
func (c *Codec) bool(parts ...*bool) {
	for _, v := range parts {
		var b byte
		if *v {
			b = 1
		}
		c.Byte(&b)
		*v = b != 0
	}
}

// flags is a byte with a bit for each part, the lowest one first.
func (c *Codec) flags(parts ...*bool) {
	var b byte
	for i, v := range parts {
		if *v {
			b |= 1 << i
		}
	}
	c.Byte(&b)
	for i, v := range parts {
		*v = b&(1<<i) != 0
	}
}

func (c *Codec) ID(v *[16]byte) {
	if c.Reading {
		*v = [16]byte{}
		copy(v[:], c.take(16))
	} else {
		c.B = append(c.B, v[:]...)
	}
}

func (c *Codec) string(parts ...*string) {
	for _, v := range parts {
		n := uint64(len(*v))
		if c.Uint(&n); c.Reading {
			*v = string(c.take(n))
		} else {
			c.B = append(c.B, *v...)
		}
	}
}

func (c *Codec) bytes(v *[]byte) {
	n := uint64(len(*v))
	if c.Uint(&n); c.Reading {
		*v = append([]byte(nil), c.take(n)...)
	} else {
		c.B = append(c.B, *v...)
	}
}

func (c *Codec) pos(parts ...*Pos) {
	for _, p := range parts {
		c.Int(&p.At)
		c.Uint(&p.Seq)
	}
}

// list is the number of elements and then each of them, which part visits.
func list[T any](c *Codec, elements *[]T, part func(*T)) {
	n := uint64(len(*elements))
	c.Uint(&n)
	for i := uint64(0); i < n && !c.bad; i++ {
		if c.Reading {
			*elements = append(*elements, *new(T))
		}
		part(&(*elements)[i])
	}
}

// Version is the first byte. It writes newest, and reads a version from 1 to newest.
func (c *Codec) Version(newest byte) byte { return c.version(newest, newest) }

// version is Version where not every row is written in the newest version.
func (c *Codec) version(v, newest byte) byte {
	if c.Byte(&v); v < 1 || v > newest {
		c.fail()
	}
	return v
}

// Done reports whether the whole value was read and nothing was missing.
func (c *Codec) Done() bool { return !c.bad && len(c.B) == 0 }
