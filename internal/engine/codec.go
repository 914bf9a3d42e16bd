package engine

import "encoding/binary"

// The first byte of every value is the version of its encoding. A change of an encoding takes a new
// version and keeps reading the old ones; docs/formats.md shows the bytes, testdata/formats keeps samples
// of each version. rowVersion is that of all rows that have not changed yet.
const rowVersion = 1

// enc appends the parts of a value.
type enc []byte

func (b *enc) byte(v byte)     { *b = append(*b, v) }
func (b *enc) uint(v uint64)   { *b = binary.AppendUvarint(*b, v) }
func (b *enc) int(v int64)     { *b = binary.AppendVarint(*b, v) }
func (b *enc) raw(v []byte)    { *b = append(*b, v...) }
func (b *enc) string(v string) { b.uint(uint64(len(v))); *b = append(*b, v...) }

func (b *enc) pos(p pos) { b.int(p.at); b.uint(p.seq) }

func (b *enc) bool(v bool) {
	if v {
		b.byte(1)
	} else {
		b.byte(0)
	}
}

// dec takes the parts of a value off its front. After the first part that is not there, everything
// reads as zero and bad is set, so that a decoder checks once, at its end.
type dec struct {
	b   []byte
	bad bool
}

func (d *dec) fail() { d.b, d.bad = nil, true }

func (d *dec) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *dec) bool() bool { return d.byte() != 0 }

func (d *dec) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// take returns the next n bytes without copying them.
func (d *dec) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *dec) pos() pos { return pos{d.int(), d.uint()} }

func (d *dec) id() (id [16]byte) {
	copy(id[:], d.take(16))
	return id
}

func (d *dec) string() string { return string(d.take(d.uint())) }

// version reads the first byte, which must be a version from 1 to newest.
func (d *dec) version(newest byte) byte {
	v := d.byte()
	if v < 1 || v > newest {
		d.fail()
	}
	return v
}

// done reports whether the whole value was read and nothing was missing.
func (d *dec) done() bool { return !d.bad && len(d.b) == 0 }
