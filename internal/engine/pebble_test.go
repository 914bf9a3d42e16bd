package engine_test

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
)

// A pebbleDisk is a file system in memory with a Pebble store on it.
type pebbleDisk struct {
	fs    *crashdisk.Disk
	store *pebblekv.Store
}

func newPebbleDisk() enginetest.Disk { return &pebbleDisk{fs: crashdisk.New()} }

func (d *pebbleDisk) Open() kv.Store {
	store, err := pebblekv.Open(pebblekv.Options{
		Dir:   "data",
		FS:    d.fs,
		Fatal: func(err error) { panic(err) },
		// Small, so that scripts meet tables and compactions and not only the memtable.
		MemTableBytes: 256 << 10,
		SeparateBytes: 64, // so that messages lie in blob files
		CacheBytes:    1 << 20,
	})
	if err != nil {
		panic(err)
	}
	d.store = store
	return store
}

func (d *pebbleDisk) Stop(clean bool) {
	left := d.fs
	if !clean {
		left = d.fs.CrashClone(vfs.CrashCloneCfg{})
	}
	if err := d.store.Close(); err != nil {
		panic(err)
	}
	d.fs = left
}
