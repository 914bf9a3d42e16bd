package pebblekv

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk is the file system as Pebble gets it, with seven corrections.
//
// Pebble replays its logs, writes what it could read of them into tables and removes them, all
// before anyone can compare the outcome with the witness. A disk puts the removal of logs off until
// the store is released. So a store that is refused still has every log, and perhaps more in it
// than Pebble made of it.
//
// A failing write ends in many ways in Pebble: as an error, as an event, in Logger.Fatalf, and when
// a log cannot be created or closed, when a directory cannot be synced, or when opening fails
// beside a compaction, in a panic that takes the process down without a sentence. A disk reports
// every failing write itself, where it happens, and Pebble never hears of it.
//
// So it does with two failures of reading. Some compactions answer a read of a table that fails
// with a panic, and Open answers a listing that fails with closing what its goroutines are using.
//
// Damage to a blob file ends in Pebble in a panic that does not name the file. So a disk compares
// what is read of one with its checksum first, and reports it.
//
// Only the manifest says which blob file a table refers to, and a store can be salvaged without it
// in all other respects. So a disk writes a copy of each manifest beside it.
//
// Pebble names its current manifest by creating a marker, removing the marker before it, and then
// syncing the directory. Nothing says in which order a file system makes these changes durable, nor
// that the manifest was listed before its marker was. A disk syncs the directory between the steps.
//
// A disk also writes logs ahead (logFile), and of a log that is being written it lets only the
// beginning be read. Flushes and compactions rest now and then (pace).
type disk struct {
	vfs.FS
	fail func(what string, err error)
	pace pace

	mu       sync.Mutex
	released bool
	kept     []string            // logs that Pebble believes it has removed
	writing  map[string]*logFile // by name, until they are closed
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.released && strings.HasSuffix(name, ".log") {
		d.kept = append(d.kept, name)
		return nil
	}
	if err := d.settle(name); err != nil {
		return err
	}
	if path, is := d.copyOf(name); is {
		_ = d.FS.Remove(path) // release finds it again
	}
	return d.FS.Remove(name)
}

// settle makes what was done in the directory of a marker durable before the marker changes.
func (d *disk) settle(name string) error {
	if !strings.HasPrefix(d.PathBase(name), "marker.") {
		return nil
	}
	return d.check("sync the directory of", name, syncDir(d.FS, d.PathDir(name)))
}

// release removes what was kept, now that the store in dir is whole without it, and copies of
// manifests that are gone. What cannot be removed now is found again at the next start. A directory
// that cannot be listed fails the store, as everywhere.
func (d *disk) release(dir string) {
	d.mu.Lock()
	d.released = true
	for _, name := range d.kept {
		_ = d.FS.Remove(name)
	}
	d.kept = nil
	d.mu.Unlock()
	names, _ := d.List(dir)
	for _, name := range names {
		of, is := strings.CutPrefix(name, copyPrefix)
		if is && !slices.Contains(names, of) {
			_ = d.FS.Remove(d.PathJoin(dir, name))
		}
	}
}

// copyPrefix begins the name of the copy of a manifest.
const copyPrefix = "copy-of-"

// copyOf returns the path of the copy of a manifest.
func (d *disk) copyOf(name string) (path string, is bool) {
	base := d.PathBase(name)
	return d.PathJoin(d.PathDir(name), copyPrefix+base), strings.HasPrefix(base, manifestPrefix)
}

// A twinned file is a manifest, with its copy. The copy is for salvage, and so it is not forced.
type twinned struct {
	vfs.File
	twin vfs.File
}

// Write gives each file bytes of its own, because it may change them.
func (c twinned) Write(p []byte) (int, error) {
	if _, err := c.twin.Write(bytes.Clone(p)); err != nil {
		return 0, err
	}
	return c.File.Write(p)
}

func (c twinned) Close() error { return errors.Join(c.twin.Close(), c.File.Close()) }

// check reports err, if it is one.
func (d *disk) check(what, name string, err error) error {
	if err != nil {
		d.fail(what+" "+name, err)
	}
	return err
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.settle(name); err != nil {
		return nil, err
	}
	f, err := d.FS.Create(name, c)
	if path, is := d.copyOf(name); is && err == nil {
		var twin vfs.File
		if twin, err = d.FS.Create(path, c); err == nil {
			f = twinned{f, twin}
		}
	}
	return d.wrap(f, name, d.check("create", name, err))
}

func (d *disk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(oldname, newname, c)
	return d.wrap(f, newname, d.check("create", newname, err))
}

func (d *disk) OpenReadWrite(
	name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	return d.wrap(f, name, d.check("open", name, err))
}

func (d *disk) List(name string) ([]string, error) {
	names, err := d.FS.List(name)
	if errors.Is(err, errNotExist) {
		return nil, err
	}
	return names, d.check("list", name, err)
}

func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if isBlob(name) {
		f, err := openBlob(d.FS, name, opts...)
		if errors.Is(err, ErrDamaged) {
			d.fail("open a blob file", err)
		}
		if err != nil {
			return nil, d.check("open", name, err)
		}
		return table{f, name, d}, nil
	}
	f, err := d.FS.Open(name, opts...)
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(name, ".sst"):
		return table{f, name, d}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if log := d.writing[name]; log != nil {
		return &beginning{f, log.end.Load()}, nil
	}
	return f, nil
}

func (d *disk) Rename(oldname, newname string) error {
	return d.check("rename", oldname, d.FS.Rename(oldname, newname))
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return file{f, name, d}, nil
}

// Unwrap lets Pebble find the file system beneath.
func (d *disk) Unwrap() vfs.FS { return d.FS }

func (d *disk) wrap(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasSuffix(name, ".log"):
		return openLog(file{f, name, d})
	case strings.HasSuffix(name, ".sst") || isBlob(name):
		return paced{file{f, name, d}, time.Now().UnixNano()}, nil
	}
	return file{f, name, d}, nil
}

// A file is one that Pebble writes, or a directory that it syncs.
type file struct {
	vfs.File
	name string
	disk *disk
}

func (f file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.disk.check("write", f.name, err)
}

func (f file) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	return n, f.disk.check("write", f.name, err)
}

func (f file) Sync() error  { return f.disk.check("sync", f.name, f.File.Sync()) }
func (f file) Close() error { return f.disk.check("close", f.name, f.File.Close()) }

// SyncData is what forces the log, and so every commit.
func (f file) SyncData() error {
	err := f.File.SyncData()
	return f.disk.check("sync", f.name, err)
}

func (f file) SyncTo(length int64) (full bool, err error) {
	full, err = f.File.SyncTo(length)
	return full, f.disk.check("sync", f.name, err)
}

// A table is a table or a blob file that Pebble reads. Where it ends is not for the disk to judge:
// Pebble knows how long it should be.
type table struct {
	vfs.File
	name string
	disk *disk
}

func (t table) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	return n, t.check(err)
}

func (t table) ReadAt(p []byte, at int64) (int, error) {
	n, err := t.File.ReadAt(p, at)
	return n, t.check(err)
}

func (t table) check(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if errors.Is(err, ErrDamaged) {
		t.disk.fail("read a blob file", err)
	}
	return t.disk.check("read", t.name, err)
}
