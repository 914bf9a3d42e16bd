package engine_test

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/engine/enginetest"
	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
)

// A pebbleDisk is a file system in memory with a Pebble store on it.
type pebbleDisk struct {
	fs    *vfs.MemFS
	store *pebblekv.Store
}

func newPebbleDisk() enginetest.Disk { return &pebbleDisk{fs: vfs.NewCrashableMem()} }

func (d *pebbleDisk) Open() kv.Store {
	store, err := pebblekv.Open(pebblekv.Options{
		Dir:   "data",
		FS:    d.fs,
		Fatal: func(sentence string) { panic(sentence) },
		// Small, so that scripts meet tables and compactions and not only the memtable.
		MemTableBytes: 256 << 10,
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

// pebbleVariants run the engine over Pebble.
func pebbleVariants(short bool) []enginetest.Variant {
	list := []enginetest.Variant{{Name: "pebble-window-4-turns-of-3", Window: 4, Turn: 3, Disk: newPebbleDisk}}
	if short {
		return list
	}
	return append(list,
		enginetest.Variant{Name: "pebble", Window: 4096, Disk: newPebbleDisk},
		enginetest.Variant{Name: "pebble-window-1-restarts", Window: 1, Restart: true, Disk: newPebbleDisk},
		enginetest.Variant{Name: "pebble-one-turn", Window: 4096, Turn: 1 << 30, Disk: newPebbleDisk},
	)
}
