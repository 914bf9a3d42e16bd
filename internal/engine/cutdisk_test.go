package engine_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
)

// A cutDisk is a file system in memory with a Pebble store on it, that is watched while it is
// written to.
type cutDisk struct {
	fs     *crashdisk.Disk
	before func(op string) // each operation on a file that writes, on whichever goroutine that is on
	fatal  func(err error) // panics when nil
	store  *pebblekv.Store

	// memTable is the size of a memtable. By default it is so small that scripts fill several, and
	// its tables are compacted.
	memTable uint64
}

// String and MaybeError make it an errorfs.Injector that never injects an error.
func (d *cutDisk) String() string { return "power cuts" }

func (d *cutDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileClose, errorfs.OpLock: // change nothing on the disk
	default:
		if d.before != nil && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			d.before(fmt.Sprintf("%s %s", writeNames[op.Kind], op.Path))
		}
	}
	return nil
}

var writeNames = map[errorfs.OpKind]string{
	errorfs.OpCreate:          "create",
	errorfs.OpLink:            "link",
	errorfs.OpRemove:          "remove",
	errorfs.OpRemoveAll:       "remove all of",
	errorfs.OpRename:          "rename",
	errorfs.OpReuseForWrite:   "reuse",
	errorfs.OpMkdirAll:        "make",
	errorfs.OpFilePreallocate: "preallocate",
	errorfs.OpFileWrite:       "write",
	errorfs.OpFileWriteAt:     "write at",
	errorfs.OpFileSync:        "sync",
	errorfs.OpFileSyncData:    "sync data of",
	errorfs.OpFileSyncTo:      "sync part of",
	errorfs.OpFileFlush:       "flush",
}

// open opens the store.
func (d *cutDisk) open() (kv.Store, error) {
	fatal := d.fatal
	if fatal == nil {
		fatal = func(err error) { panic(err) }
	}
	store, err := pebblekv.Open(pebblekv.Options{
		Dir: "/data", FS: errorfs.Wrap(d.fs, d), MemTableBytes: cmp.Or(d.memTable, 32<<10), CacheBytes: 256 << 10, Fatal: fatal,
		SeparateBytes: 64, // so that messages lie in blob files
	})
	d.store = store
	return store, err
}

// Open implements enginetest.Disk.
func (d *cutDisk) Open() kv.Store {
	store, err := d.open()
	if err != nil {
		panic(err)
	}
	return store
}

// Stop implements enginetest.Disk.
func (d *cutDisk) Stop(bool) {
	if err := d.store.Close(); err != nil {
		panic(err)
	}
}

// clone is the disk after a power cut at this moment, which keeps a percentage of the data that was
// not forced to it.
func (d *cutDisk) clone(keep int, r *rand.Rand) *crashdisk.Disk {
	return d.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: r})
}

// exactly is a copy of a disk.
func exactly(fs *crashdisk.Disk) *crashdisk.Disk {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}
