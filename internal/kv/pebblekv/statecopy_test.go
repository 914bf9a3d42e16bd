package pebblekv

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv/kvtest/crashdisk"
)

// copyInto sends a checkpoint of one state to another.
func copyInto(t *testing.T, from, to *State) *StateCopy {
	t.Helper()
	c, err := from.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	names, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	copied, err := to.NewCopy()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := c.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(copied.Add(name, f), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(copied.Force(), c.Remove()); err != nil {
		t.Fatal(err)
	}
	return copied
}

func closeStates(t *testing.T, states ...*State) {
	t.Helper()
	for _, s := range states {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func setRow(l *instantLog, key string) {
	b := l.store.NewBatch()
	b.Set([]byte(key), nil)
	b.Force()
}

// A copy replaces the state once, whenever the power fails: afterwards there is the old state or
// the copy, and nothing beside it.
func TestReplace(t *testing.T) {
	from := mustOpenState(t, vfs.NewMem())
	l := lead(from)
	setRow(l, "a")
	setRow(l, "b")
	want := from.Position()
	var old, copied int
	for at, more := int64(1), true; more; at++ {
		disk := crashdisk.New()
		var cut *crashdisk.Disk
		var ops atomic.Int64
		var counting atomic.Bool
		to, err := OpenState(small(errorfs.Wrap(disk,
			errorfs.InjectorFunc(func(op errorfs.Op) error {
				if counting.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					if ops.Add(1) == at {
						cut = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(at) % 3 * 50,
							RNG: rand.New(rand.NewPCG(uint64(at), 3))})
					}
				}
				return nil
			})), "/data", mustNotFail(t)), groupID)
		if err != nil {
			t.Fatal(err)
		}
		before := to.Position()
		c := copyInto(t, from, to)
		counting.Store(true)
		to.Replace(c)
		counting.Store(false)
		if got := to.Position(); got != want || keys(lead(to).store) != "a b" {
			t.Fatalf("at %+v with %q, want %+v with a b", got, keys(lead(to).store), want)
		}
		closeStates(t, to)
		if more = cut != nil; !more {
			cut = disk
		}
		to = mustOpenState(t, cut)
		switch got := to.Position(); got {
		case before:
			old++
		case want:
			copied++
		default:
			t.Errorf("cut %d: at %+v", at, got)
		}
		for _, name := range []string{copyName, replacedName} {
			if _, err := cut.Stat("/data/" + name); err == nil {
				t.Errorf("cut %d: %s is left", at, name)
			}
		}
		closeStates(t, to)
	}
	closeStates(t, from)
	if old == 0 || copied == 0 {
		t.Errorf("%d times the old state and %d times the copy: too few for a proof", old, copied)
	}
}

// A copy waits for readers of the old state, which may finish, and does not delay later ones.
func TestReplaceWaitsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := mustOpenState(t, vfs.NewMem()), mustOpenState(t, vfs.NewMem())
		for _, s := range []*State{from, to} {
			setRow(lead(s), "a")
		}
		setRow(lead(from), "b")
		c := copyInto(t, from, to)
		replaced := make(chan struct{})
		for range to.Scan(nil, nil) {
			go func() {
				defer close(replaced)
				to.Replace(c)
			}()
			synctest.Wait()
			if _, ok := to.Get(nil, []byte("a")); !ok || to.Position() == from.Position() {
				t.Errorf("a reader found %v at %+v", ok, to.Position())
			}
			break
		}
		<-replaced
		if _, ok := to.Get(nil, []byte("b")); !ok || to.Position() != from.Position() {
			t.Errorf("the copy has %v, at %+v", ok, to.Position())
		}
		closeStates(t, from, to)
	})
}

// While one goroutine applies entries, flushes, and takes copies, others read and make checkpoints.
// Every scan finds the rows of one commit, and none of an older one than the scan before.
func TestStateBusy(t *testing.T) {
	from, to := mustOpenState(t, vfs.NewMem()), mustOpenState(t, vfs.NewMem())
	write := func(states ...*State) {
		n := states[0].Position().Index + 1
		w := states[0].NewWrites()
		for key := range byte(8) {
			w.Set([]byte{1, key}, binary.BigEndian.AppendUint64(nil, n))
		}
		w.Set([]byte{2, byte(n)}, make([]byte, 1000)) // so that memtables fill
		for _, s := range states {
			p := Position{Index: n, Mark: s.Mark().Next(w.Bytes())}
			if err := s.Apply(p, w.Bytes()); err != nil {
				t.Error(err)
			}
		}
	}
	write(from, to)
	var stop atomic.Bool
	var others sync.WaitGroup
	var pause atomic.Pointer[chan struct{}] // a copy waits until all readers have left
	goOn := func() bool {
		if p := pause.Load(); p != nil {
			<-*p
		}
		return !stop.Load()
	}
	for range 2 {
		others.Go(func() {
			last := uint64(0)
			for goOn() {
				rows, first := 0, uint64(0)
				for _, v := range to.Scan([]byte{1}, []byte{2}) {
					n := binary.BigEndian.Uint64(v)
					if rows++; rows == 1 {
						first = n
					}
					if n != first {
						t.Errorf("a scan found rows of the commits %d and %d", first, n)
					}
				}
				if rows != 8 || first < last {
					t.Errorf("a scan found %d rows of commit %d, after commit %d", rows, first, last)
				}
				last = first
				v, ok := to.Get(nil, []byte{1, 7})
				if !ok || binary.BigEndian.Uint64(v) < last {
					t.Errorf("a read found %x, %v, after commit %d", v, ok, last)
				}
			}
		})
	}
	others.Go(func() {
		for goOn() {
			before := to.Mark().Number
			c, err := to.Checkpoint()
			if err != nil {
				t.Error(err)
				return
			}
			if c.Commit < before {
				t.Errorf("a checkpoint of commit %d, after commit %d", c.Commit, before)
			}
			if err := c.Remove(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 400 {
		switch {
		case i%40 == 39:
			for range 5 {
				write(from) // to is behind
			}
			c, going := copyInto(t, from, to), make(chan struct{})
			pause.Store(&going)
			to.Replace(c)
			pause.Store(nil)
			close(going)
		case i%10 == 9:
			to.Flush()()
		default:
			write(from, to)
		}
	}
	stop.Store(true)
	others.Wait()
	if got, want := to.Position(), from.Position(); got != want {
		t.Errorf("at %+v, want %+v", got, want)
	}
	closeStates(t, from, to)
}
