package pebblekv

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/replica"
	"tenaq/internal/testing/proof"
)

var groupID = ID([]byte("a group of nodes"))

func mustOpenState(t testing.TB, fs vfs.FS) *State {
	t.Helper()
	s, err := OpenState(small(fs, "/data", mustNotFail(t)), groupID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An instantLog commits every entry at once.
type instantLog struct {
	state   *State
	store   *replica.Store
	entries []*replica.Entry
}

func lead(state *State) *instantLog {
	l := &instantLog{state: state}
	l.store = replica.NewStore(state, l, replica.Session{1})
	return l
}

func (l *instantLog) Propose(b []byte) replica.Ticket {
	e, err := replica.Decode(b)
	if err == nil && !e.Follows(l.state.Mark()) {
		err = errors.New("the entry does not follow")
	}
	if err == nil {
		l.entries = append(l.entries, &e)
		p := l.state.Position()
		err = l.state.Apply(Position{p.Index + 1, 5, e.Session, e.Mark}, e.Writes)
		l.store.Landed(e.Mark.Number)
	}
	return instant{err}
}

func (*instantLog) Confirm() error { return nil }

type instant struct{ err error }

func (i instant) Wait() error { return i.err }

// The store of a leader over a state is a store as any other.
func TestStateUnderStore(t *testing.T) {
	kvtest.Run(t, func(t testing.TB) kv.Store {
		state := mustOpenState(t, vfs.NewMem())
		t.Cleanup(func() {
			if err := state.Close(); err != nil {
				t.Error(err)
			}
		})
		return lead(state).store
	})
}

// After a power cut, a state holds a prefix of the applied entries, whose end it can name, and
// everything that a flush has waited for. The later entries bring it up to date.
func TestStateCrashes(t *testing.T) {
	rng := proof.Random(t)
	for range 12 {
		disk, h := crashdisk.New(), kvtest.NewHistory()
		marks := []replica.Mark{}
		for range 4 {
			state := mustOpenState(t, disk)
			l := lead(state)
			if err := h.Survived(l.store, 0); err != nil {
				t.Fatal(err)
			}
			begin := state.Position()
			if marks = append(marks[:begin.Index], begin.Mark); begin.Index > 0 && begin.Term != 5 {
				t.Fatalf("position %+v", begin)
			}
			flushed := begin.Index
			for range 20 + rng.IntN(300) {
				if wait := h.Write(rng, l.store); wait == nil {
					continue
				} else if err := wait(); err != nil {
					t.Fatal(err)
				}
				marks = append(marks, state.Mark())
				if rng.IntN(60) == 0 {
					state.Flush()()
					flushed = state.Position().Index
				}
			}
			cut := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101),
				RNG: rand.New(rand.NewPCG(rng.Uint64(), 3))})
			end := state.Position()
			if err := state.Close(); err != nil {
				t.Fatal(err)
			}
			disk = cut

			state = mustOpenState(t, disk)
			p := state.Position()
			if p.Index < flushed || p.Index > end.Index || p.Mark != marks[p.Index] {
				t.Fatalf("came back with %+v, want one from entry %d on", p, flushed)
			}
			if rng.IntN(2) == 0 { // what the log has is applied again
				for _, e := range l.entries[p.Index-begin.Index:] {
					next := Position{state.Position().Index + 1, 5, e.Session, e.Mark}
					if err := state.Apply(next, e.Writes); err != nil {
						t.Fatal(err)
					}
				}
				state.Flush()()
				if got := state.Position(); got != end {
					t.Fatalf("applied again up to %+v, want %+v", got, end)
				}
			}
			if err := state.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The rows and the position that belongs to them reach the disk together, whenever a memtable ends.
func TestStatePositionWithRows(t *testing.T) {
	disk := crashdisk.New()
	state := mustOpenState(t, disk)
	l, marks := lead(state), []replica.Mark{state.Mark()}
	var stop atomic.Bool
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for !stop.Load() {
			state.Flush()()
		}
	})
	var cuts []*crashdisk.Disk
	for i := range 2000 {
		b := l.store.NewBatch()
		b.Set([]byte("key"), []byte{byte(i)})
		if err := b.Force()(); err != nil {
			t.Fatal(err)
		}
		if marks = append(marks, state.Mark()); i%100 == 99 {
			cuts = append(cuts, disk.CrashClone(vfs.CrashCloneCfg{}))
		}
	}
	stop.Store(true)
	flusher.Wait()
	if err := state.Close(); err != nil {
		t.Fatal(err)
	}
	for i, cut := range cuts {
		state := mustOpenState(t, cut)
		if p := state.Position(); p.Mark != marks[p.Index] {
			t.Errorf("cut %d: position %+v, want mark %+v", i, p, marks[p.Index])
		}
		if err := state.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A state keeps no log of its own.
func TestStateHasNoLog(t *testing.T) {
	fs := vfs.NewMem()
	l := lead(mustOpenState(t, fs))
	for range 100 {
		b := l.store.NewBatch()
		b.Set([]byte("key"), make([]byte, 10_000))
		b.Force()
	}
	names, err := fs.List("/data/state")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			info, _ := fs.Stat("/data/state/" + name)
			if info.Size() > 0 {
				t.Errorf("the log %s has %d bytes", name, info.Size())
			}
		}
	}
	if err := l.state.Close(); err != nil {
		t.Fatal(err)
	}
}

// The state of another group is refused.
func TestStateOfAnotherGroup(t *testing.T) {
	fs := vfs.NewMem()
	if err := mustOpenState(t, fs).Close(); err != nil {
		t.Fatal(err)
	}
	_, err := OpenState(small(fs, "/data", mustNotFail(t)), ID{1})
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("error %v, want ErrDamaged", err)
	}
}

// Equal IDs and equal entries make equal marks, on every node.
func TestStatesAgree(t *testing.T) {
	a, b := mustOpenState(t, vfs.NewMem()), mustOpenState(t, vfs.NewMem())
	if a.Mark() != b.Mark() || a.ID() != b.ID() {
		t.Errorf("new states have the marks %+v and %+v", a.Mark(), b.Mark())
	}
	for _, s := range []*State{a, b} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Writes that cannot be read, or that are to rows of the package, change nothing.
func TestStateRefusesWrites(t *testing.T) {
	s := mustOpenState(t, vfs.NewMem())
	good := s.NewWrites()
	good.Set([]byte("a"), []byte("1"))
	reserved := s.store.db.NewBatch()
	if err := reserved.Set([]byte{0, 'x'}, nil, nil); err != nil {
		t.Fatal(err)
	}
	data := s.store.db.NewBatch()
	if err := data.LogData([]byte("note"), nil); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string][]byte{
		"cut off":      good.Bytes()[:len(good.Bytes())-1],
		"unknown kind": {0xEE, 1, 'a'},
		"reserved":     reserved.Repr()[12:],
		"no row":       data.Repr()[12:],
	} {
		before := s.Position()
		next := before
		next.Index, next.Mark = 1, before.Mark.Next(w)
		if err := s.Apply(next, w); err == nil || s.Position() != before {
			t.Errorf("%s: error %v, position %+v", name, err, s.Position())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A checkpoint is a state of its own, with the position of its moment.
func TestStateCheckpoint(t *testing.T) {
	fs := vfs.NewMem()
	l := lead(mustOpenState(t, fs))
	write := func(key string) {
		b := l.store.NewBatch()
		b.Set([]byte(key), nil)
		b.Force()
	}
	write("a")
	want := l.state.Position()
	c, err := l.state.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	write("b")
	other, err := l.state.Checkpoint() // beside it
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Remove(); err != nil {
		t.Fatal(err)
	}
	if ok, err := vfs.Clone(fs, fs, c.Dir, "/copy/state"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	copied, err := OpenState(small(fs, "/copy", mustNotFail(t)), groupID)
	if err != nil {
		t.Fatal(err)
	}
	if got := copied.Position(); got != want || keys(lead(copied).store) != "a" {
		t.Errorf("the copy is at %+v with %q, want %+v with a", got, keys(lead(copied).store), want)
	}
	if err := errors.Join(copied.Close(), c.Remove(), l.state.Close()); err != nil {
		t.Fatal(err)
	}
}

// The encoding of the row does not change.
func TestPositionBytes(t *testing.T) {
	p := Position{Index: 0x0102030405060708, Term: 9,
		Session: replica.Session([]byte("session-of-16-by"))}
	want := golden(t, "position.1.hex", p.encode())
	if got := p.encode(); !bytes.Equal(got, want) {
		t.Errorf("encoded as %x, want %x", got, want)
	}
	var got Position
	if err := got.decode(want); err != nil || got != p {
		t.Errorf("read as %+v, %v, want %+v", got, err, p)
	}
	for name, b := range map[string][]byte{
		"empty": nil, "short": want[:len(want)-1], "version 0": append([]byte{0}, want[1:]...),
	} {
		if err := new(Position).decode(b); !errors.Is(err, errMalformed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	var newer *newerError
	if err := new(Position).decode(append([]byte{2}, want[1:]...)); !errors.As(err, &newer) {
		t.Errorf("version 2: error %v", err)
	}
}

// Many goroutines write a log at the same time, and it has the rows of all of them after a restart.
func TestLogWriters(t *testing.T) {
	o := small(vfs.NewMem(), "/data", mustNotFail(t))
	l, err := OpenLog(o)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for j := range 50 {
				l.Write(func(b kv.Batch) { b.Set([]byte{1, byte(i), byte(j)}, nil) })
			}
		})
	}
	writers.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(o); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range l.Scan(nil, nil) {
		n++
	}
	last, ok := l.Last([]byte{1, 3}, []byte{1, 4})
	if n != 400 || !ok || !bytes.Equal(last, []byte{1, 3, 49}) {
		t.Errorf("%d rows, the last of writer 3 is %x, %v", n, last, ok)
	}
	if key, ok := l.Last([]byte{2}, []byte{3}); ok {
		t.Errorf("the last row of none is %x", key)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
