package group

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
)

// flipBit flips a bit of a file on the disk of a machine that is off. The program must refuse the
// disk, or find exactly what was there. The disk is mended then.
func (s *story) flipBit(rot *inspector) {
	n := s.anyone()
	if !n.running.Load() || s.crashing[n] != nil {
		return
	}
	n.stop()
	s.down[n] = time.Now()
	whole, bad := n.disk.CrashClone(vfs.CrashCloneCfg{}), n.disk.CrashClone(vfs.CrashCloneCfg{})
	dir := []string{"/raft", "/groups/1/state"}[s.rng.IntN(2)]
	name := s.flip(bad, dir)
	want, got := rot.look(whole), rot.look(bad)
	if want.err != nil {
		s.t.Errorf("the disk of %s without the flipped bit: %v", n.id, want.err)
	}
	if got.err == nil && (got.log != want.log || got.position.Index > want.position.Index ||
		got.position == want.position && got.rows != want.rows) {
		s.t.Errorf("a bit flipped in %s, and the program read other rows", name)
	}
	outcome := "bit flipped, refused"
	if got.err == nil {
		outcome = "bit flipped, without effect"
	}
	s.faults[outcome]++
	s.lastFlip = true
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

// An inspector reads disks outside of a bubble: a store that is damaged may leave goroutines behind
// that wait for ever.
type inspector struct {
	disks chan *crashdisk.Disk
	found chan content
}

// A content is what a disk holds.
type content struct {
	err       error
	log, rows uint64
	position  pebblekv.Position
}

func newInspector() *inspector {
	i := &inspector{make(chan *crashdisk.Disk), make(chan content)}
	go func() {
		for disk := range i.disks {
			i.found <- inspect(disk)
		}
	}()
	return i
}

func (i *inspector) close() { close(i.disks) }

func (i *inspector) look(disk *crashdisk.Disk) content {
	i.disks <- disk
	return <-i.found
}

func inspect(disk *crashdisk.Disk) content {
	found := make(chan content, 8)
	fatal := func(err error) {
		found <- content{err: err}
		select {} // neither the caller nor a goroutine of Pebble's may go on; both may hold locks
	}
	go func() {
		c := content{}
		log, err := pebblekv.OpenLog(pebblekv.Options{Dir: "/raft", FS: disk, Fatal: fatal})
		if err != nil {
			found <- content{err: err}
			return
		}
		state, err := pebblekv.OpenState(pebblekv.Options{Dir: "/groups/1", FS: disk, Fatal: fatal}, groupID)
		if err != nil {
			log.Close()
			found <- content{err: err}
			return
		}
		sum := func(rows func(yield func(k, v []byte) bool)) uint64 {
			h := fnv.New64a()
			for k, v := range rows {
				h.Write(binary.AppendUvarint(nil, uint64(len(k))))
				h.Write(bytes.Join([][]byte{k, v}, nil))
			}
			return h.Sum64()
		}
		c.log, c.rows, c.position = sum(log.Scan(nil, nil)), sum(state.Scan(nil, nil)), state.Position()
		log.Close()
		state.Close()
		found <- c
	}()
	return <-found
}
