package pebblekv

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest"
	"tenaq/internal/kv/kvtest/crashdisk"
)

// small are options under which a few hundred rows flush and compact, and most values of a history
// lie in blob files.
func small(fs vfs.FS, dir string, fatal func(error)) Options {
	return Options{FS: fs, Dir: dir, Fatal: fatal, MemTableBytes: 64 << 10, CacheBytes: 256 << 10,
		SeparateBytes: 32}
}

// mustNotFail is the Fatal of a test whose disk is healthy.
func mustNotFail(t testing.TB) func(error) {
	return func(err error) {
		t.Errorf("Fatal: %v", err)
		runtime.Goexit()
	}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// set applies and forces a batch that sets keys to themselves.
func set(s *Store, keys ...string) {
	b := s.NewBatch()
	for _, k := range keys {
		b.Set([]byte(k), []byte(k))
	}
	b.Force()()
}

func keys(s kv.Store) string {
	var keys []string
	for k := range s.Scan(nil, nil) {
		keys = append(keys, string(k))
	}
	return strings.Join(keys, " ")
}

func TestDisk(t *testing.T) {
	kvtest.Run(t, func(t testing.TB) kv.Store {
		return mustOpen(t, small(nil, t.TempDir(), mustNotFail(t)))
	})
}

func TestMemFS(t *testing.T) {
	kvtest.Run(t, func(t testing.TB) kv.Store {
		return mustOpen(t, Options{FS: vfs.NewMem(), Dir: "data", Fatal: mustNotFail(t)})
	})
}

// Confirmed commits survive, and no wait function returns once the log cannot be synced. [DUR-13]
func TestDurable(t *testing.T) {
	kvtest.RunDurable(t, func(testing.TB) kvtest.Machine { return newMachine() })
}

// A machine has a disk in memory that can lose its power and can break.
type machine struct {
	disk    *crashdisk.Disk
	broken  atomic.Int32 // 1: the next sync of a log fails before it reaches the disk; 2: after
	noticed chan struct{}
}

func newMachine() *machine { return &machine{disk: crashdisk.New()} }

func (m *machine) Open(t testing.TB) kv.Store {
	m.broken.Store(0)
	fs := errorfs.Wrap(m.disk, errorfs.InjectorFunc(m.inject))
	return mustOpen(t, small(fs, "/var/data", m.fatal(t)))
}

func (m *machine) fatal(t testing.TB) func(error) {
	return func(err error) {
		if m.broken.Load() == 0 {
			t.Errorf("Fatal: %v", err)
		} else {
			close(m.noticed)
		}
		select {} // nothing may go on, as if the process had ended
	}
}

func (m *machine) inject(op errorfs.Op) error {
	if !strings.HasSuffix(op.Path, ".log") {
		return nil
	}
	if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
		return nil
	}
	switch m.broken.Load() {
	case 1:
		return errorfs.ErrInjected
	case 2:
		// The data reaches the disk, and then the answer says otherwise.
		f, err := m.disk.OpenReadWrite(op.Path, vfs.WriteCategoryUnspecified)
		if err == nil {
			err = f.Sync()
			f.Close()
		}
		if err != nil {
			panic(err)
		}
		return errorfs.ErrInjected
	}
	return nil
}

func (m *machine) Crash(_ testing.TB, rng *rand.Rand) {
	percent := []int{0, 0, rng.IntN(101), 100}[rng.IntN(4)]
	m.disk = m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
}

func (m *machine) Break(_ testing.TB, persisted bool) (noticed <-chan struct{}) {
	m.noticed = make(chan struct{})
	if persisted {
		m.broken.Store(2)
	} else {
		m.broken.Store(1)
	}
	return m.noticed
}

func TestIdentity(t *testing.T) {
	fs := vfs.NewMem()
	o := small(fs, "data", mustNotFail(t))
	s := mustOpen(t, o)
	id := s.ID()
	if id == (ID{}) {
		t.Error("the store has no ID")
	}
	if got := s.CommitNumber(); got != 0 {
		t.Errorf("commit number of a new store %d, want 0", got)
	}
	set(s, "a")
	b := s.NewBatch()
	b.Set([]byte("b"), nil)
	b.Apply()
	s.NewBatch().Apply() // an empty batch is none
	if got := s.CommitNumber(); got != 2 {
		t.Errorf("commit number %d, want 2", got)
	}
	mustClose(t, s)

	s = mustOpen(t, o)
	if s.ID() != id {
		t.Errorf("ID %v after reopening, want %v", s.ID(), id)
	}
	if got := s.CommitNumber(); got != 2 {
		t.Errorf("commit number after reopening %d, want 2", got)
	}
	if got, want := keys(s), "a b"; got != want {
		t.Errorf("keys %q, want %q: a clean stop keeps what was applied", got, want)
	}
	mustClose(t, s)

	o.Dir = "other"
	other := mustOpen(t, o)
	if other.ID() == id {
		t.Error("two stores have the same ID")
	}
	mustClose(t, other)
}

// Wait functions on many goroutines leave the witness with the newest commit.
func TestWitnessOfManyWaits(t *testing.T) {
	s := mustOpen(t, small(vfs.NewMem(), "data", mustNotFail(t)))
	var waits sync.WaitGroup
	for range 200 {
		b := s.NewBatch()
		b.Set([]byte("a"), nil)
		wait := b.Force()
		waits.Go(func() { wait() })
	}
	waits.Wait()
	w := s.witness
	mustClose(t, s)
	if got := w.written.number; got != 200 {
		t.Errorf("the witness states commit %d, want 200", got)
	}
	if got := w.written.turn; got > 20 {
		t.Errorf("the witness was written %d times for 200 commits in a moment", got)
	}
}
