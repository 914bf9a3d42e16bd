package pebblekv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv/kvtest"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/testing/proof"
)

// A fault is one failing operation of the file system.
type fault struct {
	k     int64         // the operation that fails, counted among those that write
	err   syscall.Errno // what it says
	after bool          // a sync reaches the disk all the same
	last  bool          // and every operation after it fails, too
}

func (f fault) String() string {
	return fmt.Sprintf("operation %d: %v, persisted=%v, for good=%v", f.k, f.err, f.after, f.last)
}

// A faultyDisk counts the operations on a disk that write, and lets one fail.
type faultyDisk struct {
	disk  *crashdisk.Disk
	fault fault
	count atomic.Int64
	hit   atomic.Pointer[errorfs.Op]
}

func (d *faultyDisk) inject(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
		return nil
	}
	n := d.count.Add(1)
	if n != d.fault.k && !(d.fault.last && n > d.fault.k) {
		return nil
	}
	d.hit.CompareAndSwap(nil, &op)
	if d.fault.after && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
		if f, err := d.disk.OpenReadWrite(op.Path, vfs.WriteCategoryUnspecified); err == nil {
			_ = f.Sync()
			_ = f.Close()
		}
	}
	return &os.PathError{Op: "write", Path: op.Path, Err: d.fault.err}
}

// script opens a store twice and writes a history into it. It ends at the first refusal.
func (d *faultyDisk) script(h *kvtest.History, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 11))
	return untilFatal(func(fatal func(error)) error {
		o := small(errorfs.Wrap(d.disk, errorfs.InjectorFunc(d.inject)), "/data", fatal)
		for range 2 {
			s, err := Open(o)
			if err != nil {
				return err
			}
			for range 60 {
				if wait := h.Write(rng, s); wait != nil {
					wait()
				}
			}
			if err := s.db.Flush(); err != nil { // what a busy store does now and then
				s.fail("flush", err)
			}
			if err := s.Close(); err != nil {
				return err
			}
		}
		return nil
	})
}

// After any failure, with any part of it on disk, and after a power cut too, everything confirmed
// is there. [DUR-13]
func TestFaults(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 12))
	healthy := &faultyDisk{disk: crashdisk.New()}
	if err := healthy.script(kvtest.NewHistory(), seed); err != nil {
		t.Fatal(err)
	}
	operations := int(healthy.count.Load())

	reached := map[string]int{}
	unharmed := 0
	for range trials(120) {
		f := fault{
			k:     1 + rng.Int64N(int64(operations)),
			err:   []syscall.Errno{syscall.EIO, syscall.ENOSPC}[rng.IntN(2)],
			after: rng.IntN(2) == 0,
			last:  rng.IntN(2) == 0,
		}
		d := &faultyDisk{disk: crashdisk.New(), fault: f}
		h := kvtest.NewHistory()
		err := d.script(h, seed)
		confirmed := h.Confirmed()
		where := "nothing"
		if op := d.hit.Load(); op != nil {
			where = op.Path
			reached[fileKind(op.Path)]++
		}
		switch {
		case err == nil:
			unharmed++ // Pebble puts up with some failures, such as of a removal
		case d.hit.Load() == nil:
			t.Errorf("%v: refused before anything failed: %v", f, err)
		case f.err == syscall.ENOSPC && !strings.Contains(err.Error(), "disk full") && !strings.Contains(err.Error(), "disk is full"):
			t.Errorf("%v at %s: %q does not say that the disk is full", f, where, err)
		}

		crashed := d.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		s, err := Open(small(crashed, "/data", mustNotFail(t)))
		if err != nil {
			t.Errorf("%v at %s: not recovered: %v", f, where, err)
			continue
		}
		if err := h.Survived(s, confirmed); err != nil {
			t.Errorf("%v at %s: %v", f, where, err)
		}
		mustClose(t, s)
	}
	t.Logf("%d operations; faults by kind of file %v; %d without effect", operations, reached, unharmed)
}

func fileKind(path string) string {
	i := slices.IndexFunc(fileKinds, func(kind string) bool { return strings.Contains(path, kind) })
	if i < 0 {
		return "other"
	}
	return fileKinds[i]
}

// A disk without room ends the program with a sentence that says so, wherever it is noticed: at a
// log, a table, the manifest or the witness. [DUR-12]
func TestDiskFull(t *testing.T) {
	for _, kind := range []string{".log", ".sst", ".blob", "MANIFEST", "witness"} {
		t.Run(kind, func(t *testing.T) {
			var full atomic.Bool
			fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, kind) {
					return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
				}
				return nil
			}))
			err := untilFatal(func(fatal func(error)) error {
				s, err := Open(small(fs, "/data", fatal))
				if err != nil {
					return err
				}
				full.Store(true)
				for i := range 10_000 {
					b := s.NewBatch()
					b.Set(fmt.Appendf(nil, "k%05d", i), make([]byte, 1000))
					b.Force()()
				}
				return errors.New("everything was written")
			})
			for _, words := range []string{"disk full", "free space on the file system of /data/store"} {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("sentence %q does not say %q", err, words)
				}
			}
		})
	}
}

// A failing read is a fault as well, and not a missing row.
func TestReadFault(t *testing.T) {
	healthy := small(vfs.NewMem(), "/data", mustNotFail(t))
	s := mustOpen(t, healthy)
	b := s.NewBatch()
	value := make([]byte, 10_000)
	for i := range 20 { // more than the one block that Open reads
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(value)
		b.Set([]byte{'a' + byte(i)}, value)
	}
	b.Force()()
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)

	for name, read := range map[string]func(s *Store){
		"Get":  func(s *Store) { s.Get(nil, []byte("t")) },
		"Scan": func(s *Store) { keys(s) },
	} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			err := untilFatal(func(fatal func(error)) error {
				o := healthy
				o.Fatal = fatal
				o.FS = errorfs.Wrap(copyDisk(t, healthy), errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && op.Kind == errorfs.OpFileReadAt {
						return &os.PathError{Op: "read", Path: op.Path, Err: syscall.EIO}
					}
					return nil
				}))
				s, err := Open(o)
				if err != nil {
					return err
				}
				broken.Store(true)
				read(s)
				return errors.New("read as if nothing were wrong")
			})
			if !strings.Contains(err.Error(), "storage failed: ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// While commits flow the witness is written once in a pause, and while none do, nothing is.
// [DUR-14, DUR-15]
func TestWitnessPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var witness, others atomic.Int64
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch {
			case op.Kind.ReadOrWrite() == errorfs.OpIsRead:
			case strings.HasSuffix(op.Path, "witness") && op.Kind == errorfs.OpFileSyncData:
				witness.Add(1)
			default:
				others.Add(1)
			}
			return nil
		}))
		s := mustOpen(t, small(fs, "/data", mustNotFail(t)))
		synctest.Wait()

		witness.Store(0)
		for range 1000 { // one second
			set(s, "a")
			time.Sleep(time.Millisecond)
		}
		time.Sleep(witnessPause)
		if got, want := witness.Load(), int64(time.Second/witnessPause); got < want || got > want+1 {
			t.Errorf("the witness was written %d times in a second, want %d", got, want)
		}
		if got, _, _, err := readWitness(fs, "/data/witness"); err != nil || got.number != 1000 {
			t.Errorf("the witness states commit %d, %v, want 1000", got.number, err)
		}

		witness.Store(0)
		others.Store(0)
		time.Sleep(time.Hour)
		if got := witness.Load() + others.Load(); got != 0 {
			t.Errorf("%d writes in an idle hour, want none", got)
		}

		// The first commit after a rest is witnessed at once.
		set(s, "a")
		synctest.Wait()
		if got := witness.Load(); got != 1 {
			t.Errorf("the witness was written %d times, want once", got)
		}
		mustClose(t, s)
	})
}
