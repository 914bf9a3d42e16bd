package row

import "encoding/binary"

// The first byte of every value is the version of its encoding. A change of an encoding takes a new
// version and keeps reading the old ones; docs/formats.md shows the bytes, testdata/formats keeps
// samples of each version. Version is that of all rows that have not changed yet.
const Version = 1

// Enc appends the parts of a value.
type Enc []byte

func (b *Enc) byte(v byte) { *b = append(*b, v) }

func (b *Enc) uint(v uint64) { *b = binary.AppendUvarint(*b, v) }

func (b *Enc) int(v int64) { *b = binary.AppendVarint(*b, v) }

func (b *Enc) raw(v []byte) { *b = append(*b, v...) }

func (b *Enc) string(v string) { b.uint(uint64(len(v))); *b = append(*b, v...) }

func (b *Enc) pos(p Pos) { b.int(p.At); b.uint(p.Seq) }

func (b *Enc) bool(v bool) {
	if v {
		b.byte(1)
	} else {
		b.byte(0)
	}
}

// Dec takes the parts of a value off its front. After the first part that is not there, everything
// reads as zero and bad is set, so that a decoder checks once, at its end.
type Dec struct {
	B   []byte
	Bad bool
}

func (d *Dec) fail() { d.B, d.Bad = nil, true }

func (d *Dec) byte() byte {
	if len(d.B) == 0 {
		d.fail()
		return 0
	}
	v := d.B[0]
	d.B = d.B[1:]
	return v
}

func (d *Dec) bool() bool { return d.byte() != 0 }

func (d *Dec) Uint() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

func (d *Dec) Int() int64 {
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// take returns the next n bytes without copying them.
func (d *Dec) take(n uint64) []byte {
	if n > uint64(len(d.B)) {
		d.fail()
		return nil
	}
	v := d.B[:n]
	d.B = d.B[n:]
	return v
}

func (d *Dec) pos() Pos { return Pos{d.Int(), d.Uint()} }

func (d *Dec) ID() (id [16]byte) {
	copy(id[:], d.take(16))
	return id
}

func (d *Dec) string() string { return string(d.take(d.Uint())) }

// Version reads the first byte, which must be a version from 1 to newest.
func (d *Dec) Version(newest byte) byte {
	v := d.byte()
	if v < 1 || v > newest {
		d.fail()
	}
	return v
}

// Done reports whether the whole value was read and nothing was missing.
func (d *Dec) Done() bool { return !d.Bad && len(d.B) == 0 }
