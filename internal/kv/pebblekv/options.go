package pebblekv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the format of the files that Pebble writes. It is named here and never left to a
// default: with Pebble's own default a flipped bit in a synced log passes for the end of the log,
// and a store, once raised to a format, cannot go back.
const formatVersion = pebble.FormatValueSeparation

// Options say where the store is and what to do when its disk fails. Dir and Fatal are required.
type Options struct {
	// Dir holds the folder "store" and the file "witness". It is created if need be.
	Dir string

	// FS is the file system; nil is the disk.
	FS vfs.FS

	// Fatal is called with what is wrong, one sentence that ends with what to do, when storage can
	// no longer be trusted; Open may call it too. errors.Is tells ErrDamaged and ErrFull from other
	// failures. It must not return: print the sentence and exit. It is called where the fault was
	// noticed, often on a goroutine of Pebble's and with locks held, so it must not touch the
	// store. A test that cannot exit may pass the error on and block forever. If Fatal returns, its
	// goroutine panics.
	Fatal func(err error)

	// AcceptLoss is the number of confirmed commits whose loss Open puts up with. Anything above
	// zero also lets it make a new witness for a store that came without one.
	AcceptLoss uint64

	CacheBytes    int64        // memory for blocks read from disk; default 96 MiB
	MemTableBytes uint64       // size of a memtable and so, about, of a log file; default 16 MiB
	SeparateBytes int          // the least size of values that lie in blob files; default 1 KiB
	Logger        *slog.Logger // nil is silence
}

// pebbleOptions returns the options for a queue: rows live shortly, are read soon after they are
// written, and everything is done by one writer that waits for the log.
func pebbleOptions(o Options, log logger) *pebble.Options {
	memTable := cmp.Or(o.MemTableBytes, 16<<20)
	p := &pebble.Options{
		FS:                 o.FS,
		FormatMajorVersion: formatVersion,
		Logger:             log,

		// Pebble takes the memory of memtables, commonly two, out of that of the cache. Without
		// room for both every read of something old reads, checks and drops three blocks.
		CacheSize: cmp.Or(o.CacheBytes, 96<<20) + 2*int64(memTable),

		// Most messages are deleted before their memtable is full, and then never reach a table. A
		// larger one would keep more of them from there, but the writer waits while the memory for
		// a new one is cleared: 0.2 s for 64 MiB on a small machine.
		MemTableSize:                memTable,
		MemTableStopWritesThreshold: 4,

		// Early compactions keep the number of tables that a read must look at small; a late stop
		// leaves the writer alone while they catch up.
		L0CompactionThreshold: 2,
		L0StopWritesThreshold: 64,
		LBaseMaxBytes:         64 << 20,

		// One core is left to requests, however much there is to do.
		CompactionConcurrencyRange: func() (lower, upper int) {
			// a server has more threads than processors
			return 1, max(1, min(3, runtime.NumCPU()-1, runtime.GOMAXPROCS(0)-1))
		},

		// A purge gives its room back soon, also when nothing is written after it.
		FlushDelayDeleteRange: 30 * time.Second,

		// Without it the kernel would write back a large log at once, with a sync waiting behind
		// it.
		WALBytesPerSync: 512 << 10,
	}
	// Point reads often ask for rows that are not there: deduplication asks for little else. In
	// the last level, which has most of the rows, Pebble does not look into filters.
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	p.Levels[len(p.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
	p.TargetFileSizes[0] = 4 << 20
	// Large values are written to a blob file once, and compactions move only the rows that name
	// them. The depth is in how many blob files the values of one stretch of rows may lie; beyond
	// it they are written again. It is high because bodies are read one by one.
	separation := pebble.ValueSeparationPolicy{
		Enabled:               true,
		MinimumSize:           cmp.Or(o.SeparateBytes, 1<<10),
		MaxBlobReferenceDepth: 100,
		TargetGarbageRatio:    0.3,
	}
	p.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy { return separation }
	p.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) { log.fail("flush or compact in the background", err) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			log.fail("read "+info.Path, errors.Join(pebble.ErrCorruption, info.Details))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.log.Warn("writes stall", "reason", info.Reason)
		},
		WriteStallEnd: func() { log.log.Warn("writes resumed") },
	}
	return p
}

// A logger hands what Pebble says to slog, and what Pebble cannot survive to fail.
type logger struct {
	log  *slog.Logger
	fail func(what string, err error)
}

func (l logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("pebble", "says", fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) {
	l.log.Error("pebble", "says", fmt.Sprintf(format, args...))
}

// Fatalf finds the error among the arguments, so that its kind is not lost in the text.
func (l logger) Fatalf(format string, args ...any) {
	text := &textError{text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if err, ok := a.(error); ok {
			text.cause = err
		}
	}
	l.fail("keep the store", text)
}

type textError struct {
	text  string
	cause error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.cause }
