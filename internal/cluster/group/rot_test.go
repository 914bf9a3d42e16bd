package group

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
)

// flipBit flips a bit of a file on the disk of a machine that is off. The program must refuse the
// disk, or find exactly what was there. The disk works again then.
func (s *story) flipBit() {
	n := s.anyone()
	if !n.running.Load() || s.crashing[n] != nil {
		return
	}
	n.stop()
	s.down[n] = time.Now()
	whole, bad := n.disk.CrashClone(vfs.CrashCloneCfg{}), n.disk.CrashClone(vfs.CrashCloneCfg{})
	name := s.flip(bad, []string{"/raft", "/groups/1/state"}[s.rng.IntN(2)])
	var want, got content
	var err error
	s.outside(func() { want, err = inspect(whole) })
	if err != nil {
		s.t.Errorf("the disk of %s without the flipped bit: %v", n.id, err)
	}
	s.outside(func() { got, err = inspect(bad) })
	switch {
	case err != nil:
		s.faults["bit flipped, refused"]++
	case got == want || got.log == want.log && got.index < want.index:
		s.faults["bit flipped, without effect"]++ // older rows the log leads on from, or not
	default:
		s.t.Errorf("a bit flipped in %s, and the program reads other rows", name)
	}
	s.flipped = true
}

// flip flips one bit of a file below dir and returns its name.
func (s *story) flip(disk *crashdisk.Disk, dir string) string {
	var files []string
	var walk func(dir string)
	walk = func(dir string) {
		all, err := disk.List(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		slices.Sort(all)
		for _, f := range all {
			info, err := disk.Stat(path.Join(dir, f))
			if err != nil {
				s.t.Fatal(err)
			}
			if info.IsDir() {
				walk(path.Join(dir, f))
			} else if info.Size() > 0 && !strings.Contains(f, "LOCK") {
				files = append(files, path.Join(dir, f))
			}
		}
	}
	walk(dir)
	name := files[s.rng.IntN(len(files))]
	f, err := disk.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		s.t.Fatal(err)
	}
	info, _ := f.Stat()
	at, b := s.rng.Int64N(info.Size()), []byte{0}
	if _, err := f.ReadAt(b, at); err != nil {
		s.t.Fatal(err)
	}
	b[0] ^= 1 << s.rng.IntN(8)
	if _, err := f.WriteAt(b, at); err != nil {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// outside returns what runs functions outside of a bubble that begins later: Pebble leaves
// goroutines behind when it refuses a store.
func outside(t *testing.T) func(f func()) {
	work, done := make(chan func()), make(chan struct{})
	go func() {
		for f := range work {
			f()
			done <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(work) })
	return func(f func()) { work <- f; <-done }
}

// A content is what a disk holds.
type content struct {
	log, rows     uint64 // hashes
	index, commit uint64 // to which the rows have got
}

// inspect reads a disk.
func inspect(disk *crashdisk.Disk) (c content, err error) {
	var log, state *pebblekv.Reader
	if log, err = pebblekv.OpenReadLog(pebblekv.Options{Dir: "/raft", FS: disk}); err != nil {
		return c, err
	}
	defer log.Close()
	if state, err = pebblekv.OpenReadState(pebblekv.Options{Dir: "/groups/1", FS: disk}); err != nil {
		return c, err
	}
	defer state.Close()
	c.index, c.commit = state.Index(), state.CommitNumber()
	err = errors.Join(append(log.Doubts(), state.Doubts()...)...)
	sum := func(r *pebblekv.Reader) uint64 {
		h := fnv.New64a()
		err = errors.Join(err, r.Try(func() {
			for k, v := range r.Scan(nil, nil) {
				h.Write(binary.AppendUvarint(nil, uint64(len(k))))
				h.Write(bytes.Join([][]byte{k, v}, nil))
			}
		}))
		return h.Sum64()
	}
	c.log, c.rows = sum(log), sum(state)
	return c, err
}
