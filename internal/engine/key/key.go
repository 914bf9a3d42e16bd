// Package key encodes tuples as bytes whose order is the order of the tuples.
//
// A key is built by appending its elements, and read by removing them in the same order. The types
// are not in the key, so the reader must know what was written. The package guarantees, for two
// keys built from the same sequence of types:
//
//   - Comparing the bytes compares the tuples, element by element; a tuple that is the beginning of
//     another comes first.
//   - No key is the beginning of another unless its tuple is, and then at the end of an element. A
//     scan over a prefix of whole elements finds exactly the tuples that begin with them.
//   - What is read is what was written, and every element has one encoding only.
//   - Reading bytes that this package did not write reports false, and never panics.
//
// Elements:
//
//	uint64        8 bytes, big endian
//	int64         8 bytes, big endian, sign bit flipped, so that negative numbers come first
//	string        00 becomes 00 FF, other bytes stay; 00 01 at the end
package key

import (
	"bytes"
	"encoding/binary"
	"strings"
)

const (
	escape     = 0x00 // begins a pair
	escapedNul = 0xFF // second of a pair: a zero byte of the string
	terminator = 0x01 // second of a pair: the end of the string, below every other continuation
)

const signBit = 1 << 63

// AppendUint64 appends v to dst.
func AppendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendInt64 appends v to dst.
func AppendInt64(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^signBit)
}

// AppendString appends s to dst.
func AppendString(dst []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, escape)
		if i < 0 {
			dst = append(dst, s...)
			return append(dst, escape, terminator)
		}
		dst = append(dst, s[:i]...)
		dst = append(dst, escape, escapedNul)
		s = s[i+1:]
	}
}

// Uint64 reads a uint64 from the beginning of k and returns what follows it.
func Uint64(k []byte) (v uint64, rest []byte, ok bool) {
	if len(k) < 8 {
		return 0, k, false
	}
	return binary.BigEndian.Uint64(k), k[8:], true
}

// Int64 reads an int64 from the beginning of k and returns what follows it.
func Int64(k []byte) (v int64, rest []byte, ok bool) {
	u, rest, ok := Uint64(k)
	if !ok {
		return 0, k, false
	}
	return int64(u ^ signBit), rest, true
}

// String reads a string from the beginning of k and returns what follows it.
func String(k []byte) (s string, rest []byte, ok bool) {
	b, rest := []byte(nil), k
	for {
		i := bytes.IndexByte(rest, escape)
		if i < 0 || i+1 == len(rest) {
			return "", k, false
		}
		part, second := rest[:i], rest[i+1]
		rest = rest[i+2:]
		switch {
		case second == terminator && b == nil:
			return string(part), rest, true
		case second == terminator:
			return string(append(b, part...)), rest, true
		case second == escapedNul:
			b = append(append(b, part...), escape)
		default:
			return "", k, false
		}
	}
}

// Next returns the smallest key after every key that begins with prefix: the upper bound of a scan
// over the prefix. It is nil if prefix is empty or all FF, because there is no such key. To a scan,
// a nil bound means the last row, which is then correct.
func Next(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			next := bytes.Clone(prefix[:i+1])
			next[i]++
			return next
		}
	}
	return nil
}
