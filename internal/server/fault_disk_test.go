package server

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"tenaq/internal/kv/kvtest/crashdisk"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A fault is one failing operation of a file system: which, what is said of it, and what has become
// of it.
type fault struct {
	Place string        // such as "sync log": the operation and the kind of file
	Nth   int           // among the operations at this place
	Errno syscall.Errno // what the operation returns
	How   string        // notDone, done, half or flipped
	Good  bool          // every later operation that writes fails too, or every later one that reads

	// Power says that the power fails with the process: of what was not forced to disk, Kept
	// percent is there afterwards. Else the files are on the real disk, which keeps it all.
	Power bool
	Kept  int
	Seed  uint64 // of what is kept
}

const (
	notDone = "not done"
	done    = "done"      // the operation has happened, and is said to have failed
	half    = "half done" // half of the bytes were written
	flipped = "flipped"   // a read says nothing, and has a bit that is not what was written
)

func (f fault) String() string {
	s := fmt.Sprintf("%s, number %d: %v, %s", f.Place, f.Nth, f.Errno, f.How)
	if f.Good {
		s += ", for good"
	}
	if f.Power {
		s += fmt.Sprintf(", power fails, %d%% of the rest is kept (seed %d)", f.Kept, f.Seed)
	}
	return s
}

// A faultyDisk is a file system in which one operation fails. It counts the operations of each
// place: where background work interleaves, the third sync of a table is still the third, and the
// two hundredth operation is not the same again.
type faultyDisk struct {
	vfs.FS
	fault fault
	dir   string // of the server
	hit   func(path string)

	gate sync.RWMutex // taken for writing, for good, when the process ends

	mu     sync.Mutex
	counts map[string]int // operations by place
	struck bool
}

// reads are the operations that write nothing.
var reads = map[string]bool{"open": true, "list": true, "stat": true, "read": true, "open directory": true}

// strikes counts an operation, and says whether it is to fail.
func (d *faultyDisk) strikes(op, path string) bool {
	place := op + " " + d.kindOf(path)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[place]++
	first := place == d.fault.Place && d.counts[place] == d.fault.Nth
	if first {
		d.struck = true
		d.hit(path)
	}
	faulty, _, _ := d.fault.parts()
	return first || d.struck && d.fault.Good && reads[op] == reads[faulty]
}

// parts takes the place of a fault apart.
func (f fault) parts() (op, file string, ok bool) {
	for _, op := range operations {
		if file, ok := strings.CutPrefix(f.Place, op+" "); ok {
			return op, file, true
		}
	}
	return "", "", false
}

// operations are those that a faultyDisk tells apart; one that begins like another comes first.
var operations = []string{
	"open directory", "open to write", "open", "list", "stat", "read", "create", "link", "remove all", "remove", "rename", "reuse",
	"make directory", "lock", "write", "preallocate", "sync", "close behind reading", "close",
}

// kindOf names the kind of a file.
func (d *faultyDisk) kindOf(path string) string {
	rest, inside := strings.CutPrefix(path, d.dir)
	switch {
	case !filepath.IsAbs(path):
		return "name alone" // Pebble asks how large a manifest is that it removes, and leaves the directory out
	case !inside:
		return "directory above"
	}
	base := filepath.Base(path)
	kind := ""
	switch {
	case rest == "":
		return "data directory"
	case base == "store":
		return "store directory"
	case strings.HasPrefix(rest, "/checkpoint"):
		return "checkpoint" // of a backup
	case strings.HasPrefix(base, "MANIFEST"), strings.HasPrefix(base, "copy-of-MANIFEST"):
		kind = "manifest"
	case strings.HasPrefix(base, "marker."):
		kind = "marker"
	case strings.HasPrefix(base, "OPTIONS"):
		kind = "options"
	case strings.HasPrefix(base, "witness"):
		kind = "witness"
	case strings.HasSuffix(base, ".log"):
		kind = "log"
	case strings.HasSuffix(base, ".sst"), strings.HasSuffix(base, ".blob"):
		kind = "table"
	}
	return cmp.Or(kind, base)
}

// do carries an operation out, or lets it fail.
func (d *faultyDisk) do(op, path string, run func() error) error {
	d.gate.RLock()
	defer d.gate.RUnlock()
	if !d.strikes(op, path) {
		return run()
	}
	if d.fault.How == done {
		_ = run()
	}
	return d.failed(op, path)
}

func (d *faultyDisk) failed(op, path string) error {
	return &os.PathError{Op: op, Path: path, Err: d.fault.Errno}
}

// end stops the disk, so that nothing that happens from now on can be answered as done, and puts
// what is left of it into the directory of the server.
func (d *faultyDisk) end() {
	d.gate.Lock()
	memory, ok := d.FS.(*crashdisk.Disk)
	if !ok {
		return
	}
	left := memory.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: d.fault.Kept, RNG: rand.New(rand.NewPCG(d.fault.Seed, 21))})
	if _, err := vfs.Clone(left, vfs.Default, d.dir, d.dir); err != nil {
		panic(err)
	}
}

// total returns the counts.
func (d *faultyDisk) total() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// file carries out an operation that returns a file.
func (d *faultyDisk) file(op, path string, run func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := d.do(op, path, func() (err error) {
		f, err = run()
		return err
	})
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	return &faultyFile{f, path, d, reads[op]}, nil
}

func (d *faultyDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file("create", name, func() (vfs.File, error) { return d.FS.Create(name, c) })
}

func (d *faultyDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.file("open", name, func() (vfs.File, error) { return d.FS.Open(name, opts...) })
}

func (d *faultyDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.file("open to write", name, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, opts...) })
}

func (d *faultyDisk) OpenDir(name string) (vfs.File, error) {
	return d.file("open directory", name, func() (vfs.File, error) { return d.FS.OpenDir(name) })
}

func (d *faultyDisk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file("reuse", newname, func() (vfs.File, error) { return d.FS.ReuseForWrite(oldname, newname, c) })
}

func (d *faultyDisk) Link(oldname, newname string) error {
	return d.do("link", newname, func() error { return d.FS.Link(oldname, newname) })
}

func (d *faultyDisk) Remove(name string) error {
	return d.do("remove", name, func() error { return d.FS.Remove(name) })
}

func (d *faultyDisk) RemoveAll(name string) error {
	return d.do("remove all", name, func() error { return d.FS.RemoveAll(name) })
}

func (d *faultyDisk) Rename(oldname, newname string) error {
	return d.do("rename", newname, func() error { return d.FS.Rename(oldname, newname) })
}

func (d *faultyDisk) MkdirAll(name string, mode os.FileMode) error {
	return d.do("make directory", name, func() error { return d.FS.MkdirAll(name, mode) })
}

func (d *faultyDisk) Lock(name string) (c io.Closer, err error) {
	err = d.do("lock", name, func() (err error) {
		c, err = d.FS.Lock(name)
		return err
	})
	if err != nil && c != nil {
		c.Close()
	}
	return c, err
}

func (d *faultyDisk) List(name string) (names []string, err error) {
	err = d.do("list", name, func() (err error) {
		names, err = d.FS.List(name)
		return err
	})
	return names, err
}

func (d *faultyDisk) Stat(name string) (info vfs.FileInfo, err error) {
	err = d.do("stat", name, func() (err error) {
		info, err = d.FS.Stat(name)
		return err
	})
	return info, err
}

// A faultyFile is a file of a faultyDisk.
type faultyFile struct {
	vfs.File
	path string
	disk *faultyDisk
	read bool // it was opened to be read
}

// transfer reads or writes.
func (f *faultyFile) transfer(op string, p []byte, run func([]byte) (int, error)) (n int, err error) {
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	if !f.disk.strikes(op, f.path) {
		return run(p)
	}
	switch f.disk.fault.How {
	case half:
		n, _ = run(p[:len(p)/2])
	case done:
		n, _ = run(p)
	case flipped:
		if n, err = run(p); n > 0 {
			p[n/3] ^= 4
		}
		return n, err
	}
	return n, f.disk.failed(op, f.path)
}

func (f *faultyFile) Read(p []byte) (int, error) { return f.transfer("read", p, f.File.Read) }

func (f *faultyFile) ReadAt(p []byte, at int64) (int, error) {
	return f.transfer("read", p, func(p []byte) (int, error) { return f.File.ReadAt(p, at) })
}

func (f *faultyFile) Write(p []byte) (int, error) { return f.transfer("write", p, f.File.Write) }

func (f *faultyFile) WriteAt(p []byte, at int64) (int, error) {
	return f.transfer("write", p, func(p []byte) (int, error) { return f.File.WriteAt(p, at) })
}

func (f *faultyFile) Preallocate(offset, length int64) error {
	return f.disk.do("preallocate", f.path, func() error { return f.File.Preallocate(offset, length) })
}

func (f *faultyFile) Sync() error     { return f.disk.do("sync", f.path, f.File.Sync) }
func (f *faultyFile) SyncData() error { return f.disk.do("sync", f.path, f.File.SyncData) }

func (f *faultyFile) Close() error {
	op := "close"
	if f.read {
		op = "close behind reading"
	}
	return f.disk.do(op, f.path, f.File.Close)
}

func (f *faultyFile) SyncTo(length int64) (full bool, err error) {
	err = f.disk.do("sync", f.path, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full && err == nil, err
}
