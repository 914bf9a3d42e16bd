package broker

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/pebblekv"
)

// A phase is what a machine is doing when the power is cut.
type phase int32

const (
	opening  phase = iota // the store
	starting              // the broker, until its start is on disk
	working
	stopping // the broker, because it was asked to
	closing  // the store
	phases
)

// A fate is when the power is cut.
type fate int

const (
	fateWork  fate = iota // while clients work
	fateStart             // while the store is opened or the broker starts, or right after it; no client gets to work
	fateStop              // while the broker is asked to stop, or right after all is closed
	fateNone              // not before the power is cut
)

// A machine is a disk, from the moment when the machine is switched on until the power is cut.
type machine struct {
	sim   *simulation
	disk  *crashdisk.Disk
	fate  fate
	early bool // the power is cut while the store opens
	cfg   vfs.CrashCloneCfg
	off   chan struct{} // closed when the power is off and the following is known

	afterwards *crashdisk.Disk // the disk after the power cut
	cutIn      phase

	phase atomic.Int32
	wrote atomic.Int64 // changes of files until now
	until atomic.Int64 // that many; the power is cut before the last of them
}

// newMachine returns a machine that loses power before a random write, sync or other change of a
// file.
func (s *simulation) newMachine(disk *crashdisk.Disk, f fate) *machine {
	m := &machine{sim: s, disk: disk, fate: f, off: make(chan struct{})}
	m.cfg = vfs.CrashCloneCfg{
		UnsyncedDataPercent: 25 * s.rng.IntN(5),
		RNG:                 rand.New(rand.NewPCG(s.rng.Uint64(), 3)),
	}
	m.until.Store(math.MaxInt64)
	if m.early = f == fateStart && s.rng.IntN(3) > 0; m.early {
		m.cutWithin(s.openWrites)
	}
	return m
}

// cutWithin lets the power be cut before one of the next n changes of files.
func (m *machine) cutWithin(n int64) { m.until.Store(m.wrote.Load() + 1 + m.sim.rng.Int64N(max(n, 1))) }

func (m *machine) enter(p phase) { m.phase.Store(int32(p)) }

func (m *machine) String() string { return "power cut" }

// MaybeError is asked before each operation on a file, on whichever goroutine that is on.
func (m *machine) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && m.wrote.Add(1) >= m.until.Load() {
		m.cut()
	}
	return nil
}

// cut takes the state of the disk, unless that was done before. Earlier answers are in the history
// by then; later ones do not count.
func (m *machine) cut() {
	if !m.sim.history.powerOff() {
		return
	}
	m.cutIn = phase(m.phase.Load())
	m.afterwards = m.disk.CrashClone(m.cfg)
	close(m.off)
}

// isOff says that the power has been cut. Whatever still runs then works on a disk that is never
// read again.
func (m *machine) isOff() bool { return m.sim.history.off() }

// open opens the store on the machine's disk.
func (m *machine) open() *pebblekv.Store {
	store, err := pebblekv.Open(pebblekv.Options{
		FS:            errorfs.Wrap(m.disk, m),
		Dir:           "/data",
		SeparateBytes: 64,        // so that messages lie in blob files
		MemTableBytes: 256 << 10, // so that tables are flushed and compacted
		CacheBytes:    1 << 20,
		Fatal: func(err error) {
			m.sim.t.Errorf("the store failed: %v", err)
			runtime.Goexit()
		},
	})
	if err != nil {
		m.sim.t.Errorf("open: %v", err)
	}
	return store
}
