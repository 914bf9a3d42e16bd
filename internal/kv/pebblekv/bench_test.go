package pebblekv

import (
	"encoding/binary"
	"testing"
)

// A life of 100 messages per commit, as the broker does it: one commit is filled while the one
// before is on its way to the disk.
func BenchmarkLives(b *testing.B) {
	s := mustOpen(b, Options{Dir: b.TempDir(), Fatal: mustNotFail(b)})
	const batch = 100
	value := make([]byte, 200)
	key := func(n int) []byte { return binary.BigEndian.AppendUint64([]byte{1}, uint64(n)) }
	n, last := 0, func() error { return nil }
	for b.Loop() {
		c := s.NewBatch()
		for range batch {
			c.Set(key(n), value)
			if n >= 10*batch {
				c.DeleteOnce(key(n - 10*batch))
			}
			n++
		}
		wait := c.Force()
		last()
		last = wait
	}
	last()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lives/s")
	mustClose(b, s)
}

// One row per commit: what the chain and the witness add weighs most here.
func BenchmarkSmallCommit(b *testing.B) {
	s := mustOpen(b, Options{Dir: b.TempDir(), Fatal: mustNotFail(b)})
	for b.Loop() {
		c := s.NewBatch()
		c.Set([]byte("key"), []byte("value"))
		c.Apply()
	}
	b.ReportAllocs()
	mustClose(b, s)
}

func BenchmarkGet(b *testing.B) {
	s := mustOpen(b, Options{Dir: b.TempDir(), Fatal: mustNotFail(b)})
	set(s, "a", "b", "c")
	var dst []byte
	for b.Loop() {
		dst, _ = s.Get(dst[:0], []byte("b"))
	}
	b.ReportAllocs()
	mustClose(b, s)
}
