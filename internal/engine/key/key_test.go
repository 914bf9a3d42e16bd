package key_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/engine/key"
)

func TestEncoding(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"uint64 zero", key.AppendUint64(nil, 0), "\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"uint64", key.AppendUint64([]byte{9}, 0x0102030405060708), "\x09\x01\x02\x03\x04\x05\x06\x07\x08"},
		{"int64 minimum", key.AppendInt64(nil, math.MinInt64), "\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"int64 minus one", key.AppendInt64(nil, -1), "\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"},
		{"int64 zero", key.AppendInt64(nil, 0), "\x80\x00\x00\x00\x00\x00\x00\x00"},
		{"int64 maximum", key.AppendInt64(nil, math.MaxInt64), "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"},
		{"string empty", key.AppendString(nil, ""), "\x00\x01"},
		{"string", key.AppendString([]byte{9}, "ab"), "\x09ab\x00\x01"},
		{"string with zeros", key.AppendString(nil, "\x00a\x00\x00"), "\x00\xFFa\x00\xFF\x00\xFF\x00\x01"},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("%s: got %x, want %x", tt.name, tt.got, tt.want)
		}
	}
}

// Strings in order, and each of their encodings followed by anything, in the same order.
func TestStringOrder(t *testing.T) {
	in := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xFF", "\x01", "a", "a\x00", "a\x00b", "a\x01", "aa", "b", "\xFE", "\xFF", "\xFF\x00", "\xFF\xFF"}
	var last []byte
	for _, s := range in {
		for _, tail := range []uint64{0, 1, math.MaxUint64} {
			k := key.AppendUint64(key.AppendString(nil, s), tail)
			if bytes.Compare(last, k) >= 0 {
				t.Errorf("%x (%q, %d) is not above %x", k, s, tail, last)
			}
			last = k
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, in := range []string{"", "a", "a\x00", "\x00", "\x00\x00", "\x00\x02", "a\x00\xFEb\x00\x01", "\x00\xFF", "\x00\xFF\x00"} {
		if got, rest, ok := key.String([]byte(in)); ok || got != "" || string(rest) != in {
			t.Errorf("String(%q) = %q, %q, %v, want empty, unchanged and false", in, got, rest, ok)
		}
	}
	for _, in := range []string{"", "1234567"} {
		if v, rest, ok := key.Uint64([]byte(in)); ok || v != 0 || string(rest) != in {
			t.Errorf("Uint64(%q) = %d, %q, %v, want 0 and false", in, v, rest, ok)
		}
		if v, rest, ok := key.Int64([]byte(in)); ok || v != 0 || string(rest) != in {
			t.Errorf("Int64(%q) = %d, %q, %v, want 0 and false", in, v, rest, ok)
		}
	}
}

func TestNext(t *testing.T) {
	for _, tt := range []struct{ prefix, want string }{
		{"a", "b"},
		{"ab", "ac"},
		{"a\xFF", "b"},
		{"a\xFF\xFF", "b"},
		{"\x00", "\x01"},
		{"\xFE\xFF", "\xFF"},
		{"a\x00", "a\x01"},
	} {
		prefix := []byte(tt.prefix)
		if got := key.Next(prefix); string(got) != tt.want {
			t.Errorf("Next(%q) = %q, want %q", tt.prefix, got, tt.want)
		}
		if string(prefix) != tt.prefix {
			t.Errorf("Next changed its argument from %q to %q", tt.prefix, prefix)
		}
	}
	for _, prefix := range []string{"", "\xFF", "\xFF\xFF"} {
		if got := key.Next([]byte(prefix)); got != nil {
			t.Errorf("Next(%q) = %q, want nil", prefix, got)
		}
	}
}

// A tuple is what the fuzz tests build keys from.
type tuple struct {
	u uint64
	s string
	i int64
	z string
}

func (x tuple) key() []byte {
	k := key.AppendUint64(nil, x.u)
	k = key.AppendString(k, x.s)
	k = key.AppendInt64(k, x.i)
	return key.AppendString(k, x.z)
}

func (x tuple) compare(y tuple) int {
	switch {
	case x.u != y.u:
		return sign(x.u < y.u)
	case x.s != y.s:
		return sign(x.s < y.s)
	case x.i != y.i:
		return sign(x.i < y.i)
	}
	return strings.Compare(x.z, y.z)
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

func read(k []byte) (x tuple, ok bool) {
	var oks [4]bool
	x.u, k, oks[0] = key.Uint64(k)
	x.s, k, oks[1] = key.String(k)
	x.i, k, oks[2] = key.Int64(k)
	x.z, k, oks[3] = key.String(k)
	return x, !slices.Contains(oks[:], false) && len(k) == 0
}

func FuzzOrder(f *testing.F) {
	f.Add(uint64(2), "a", int64(-3), "z", uint64(2), "a\x00", int64(3), "")
	f.Add(uint64(2), "", int64(-1), "\x00", uint64(2), "", int64(0), "\x00\xFF")
	f.Add(uint64(0), "a\x00\x01", int64(0), "", uint64(0), "a", int64(0), "")
	f.Fuzz(func(t *testing.T, u1 uint64, s1 string, i1 int64, z1 string, u2 uint64, s2 string, i2 int64, z2 string) {
		for _, pair := range [][2]tuple{
			{{u1, s1, i1, z1}, {u2, s2, i2, z2}},
			{{u1, s1, i1, z1}, {u1, s2, i2, z2}}, // more often equal at first
			{{u1, s1, i1, z1}, {u1, s1, i1, z2}},
		} {
			x, y := pair[0], pair[1]
			if got, want := bytes.Compare(x.key(), y.key()), x.compare(y); got != want {
				t.Errorf("%+v and %+v: keys compare %d, want %d", x, y, got, want)
			}
		}
		x := tuple{u1, s1, i1, z1}
		if got, ok := read(x.key()); !ok || got.compare(x) != 0 {
			t.Errorf("read %+v, %v, want %+v", got, ok, x)
		}
	})
}

// Reading anything must not panic, and what reads must be the one encoding of what was read.
func FuzzRead(f *testing.F) {
	f.Add(tuple{2, "a\x00b", -4, "z"}.key())
	f.Add([]byte("\x00\x00\x02"))
	f.Fuzz(func(t *testing.T, k []byte) {
		if x, ok := read(k); ok && !bytes.Equal(x.key(), k) {
			t.Errorf("%x reads as %+v, which encodes as %x", k, x, x.key())
		}
	})
}

func FuzzNext(f *testing.F) {
	f.Add([]byte("a\xFF"), []byte("tail"))
	f.Fuzz(func(t *testing.T, prefix, tail []byte) {
		next := key.Next(prefix)
		k := append(bytes.Clone(prefix), tail...)
		if next != nil && bytes.Compare(k, next) >= 0 {
			t.Errorf("%x begins with %x and is not below %x", k, prefix, next)
		}
		// Every key in between has the prefix, so the bound is the smallest.
		if !bytes.HasPrefix(tail, prefix) && bytes.Compare(tail, prefix) > 0 && (next == nil || bytes.Compare(tail, next) < 0) {
			t.Errorf("%x is above %x, below %x, and does not begin with the prefix", tail, prefix, next)
		}
	})
}

func TestAllocations(t *testing.T) {
	dst, s := make([]byte, 0, 64), "a queue name"
	got := testing.AllocsPerRun(100, func() {
		k := key.AppendUint64(key.AppendString(dst, s), 7)
		_, _, _ = key.Uint64(k[len(k)-8:])
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
