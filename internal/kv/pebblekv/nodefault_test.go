package pebblekv

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/testing/proof"
)

// A node of a cluster whose files are damaged suggests replacing the node, and offers no loss to
// accept.
func TestNodeDamageSays(t *testing.T) {
	fs := vfs.NewMem()
	log, err := OpenLog(small(fs, "/data/raft", mustNotFail(t)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		log.Write(func(b kv.Batch) { b.Set([]byte{1, byte(i)}, nil) })
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("/data/raft/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			if err := fs.Remove("/data/raft/store/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := small(fs, "/data/raft", mustNotFail(t))
	o.AcceptLoss = 100
	_, lost := OpenLog(o)

	_, other := OpenState(small(func() vfs.FS {
		fs := vfs.NewMem()
		closeStates(t, mustOpenState(t, fs))
		return fs
	}(), "/data", mustNotFail(t)), ID{1})

	fault := newFault("/data/state", "read a row", pebble.ErrCorruption, true)
	for name, err := range map[string]error{"lost": lost, "of another": other, "read": fault} {
		if !errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), adviceNode) ||
			strings.Contains(err.Error(), "accept-loss") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With a bit flipped in a table of a state, a read returns what was written, or Fatal ends the
// program with the sentence for a node.
func TestFlippedBitInState(t *testing.T) {
	rng := proof.Random(t)
	fs := vfs.NewMem()
	l := lead(mustOpenState(t, fs))
	for i := range 200 {
		b := l.store.NewBatch()
		b.Set([]byte{1, byte(i)}, bytes.Repeat([]byte{byte(i)}, 100))
		b.Force()
	}
	l.state.Flush()()
	closeStates(t, l.state)
	const dir = "/data/state/"
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	said, tables := 0, 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		tables++
		whole := readFile(t, fs, dir+name)
		for range proof.Count(20, 40, 200, 1000) {
			b := bytes.Clone(whole)
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			disk := vfs.NewMem()
			if ok, err := vfs.Clone(fs, disk, "/data", "/data"); !ok || err != nil {
				t.Fatal(ok, err)
			}
			writeFile(t, disk, dir+name, b)
			r, err := OpenReadState(small(disk, "/data", nil))
			if err == nil {
				_ = r.Close()
			} else if len(err.Error()) > 600 {
				t.Errorf("%s: a reader says %v", name, err)
			}
			err = untilFatal(func(fatal func(error)) error { return readRows(t, disk, fatal) })
			if err == nil {
				continue // nothing reads that part of the file
			}
			if said++; !errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), adviceNode) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if tables == 0 || said == 0 {
		t.Errorf("%d of %d tables were found damaged", said, tables)
	}
}

// readRows reads the rows of TestFlippedBitInState in every way.
func readRows(t *testing.T, disk vfs.FS, fatal func(error)) error {
	s, err := OpenState(small(disk, "/data", fatal), groupID)
	if err != nil {
		return err
	}
	n := 0
	for k, v := range s.Scan(nil, nil) {
		if got, ok := s.Get(nil, k); !ok || !bytes.Equal(got, v) ||
			!bytes.Equal(v, bytes.Repeat(k[1:], 100)) {
			t.Errorf("row %x is %x by a scan and %x, %v by a read", k, v, got, ok)
		}
		n++
	}
	if n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
	setRow(lead(s), "next")
	s.Flush()()
	if err := s.store.db.Compact(t.Context(), []byte{0}, []byte{0xFF}, false); err != nil {
		s.store.fail("compact", err)
	}
	return s.Close()
}

// If any operation of the disk fails while entries are applied, flushed and copied, the program
// ends with a sentence or is unharmed. After a power cut the rows are those of the position: none
// that a flush has waited for is missing.
func TestStateFaults(t *testing.T) {
	seed := proof.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 14))
	healthy := &faultyDisk{disk: crashdisk.New()}
	if _, err := healthy.stateScript(new(atomic.Uint64)); err != nil {
		t.Fatal(err)
	}
	operations, ended := healthy.count.Load(), 0
	for range trials(120) {
		d := &faultyDisk{disk: crashdisk.New(), fault: fault{k: 1 + rng.Int64N(operations),
			err:   []syscall.Errno{syscall.EIO, syscall.ENOSPC}[rng.IntN(2)],
			after: rng.IntN(2) == 0, last: rng.IntN(2) == 0}}
		var flushed atomic.Uint64
		marks, err := d.stateScript(&flushed)
		least := flushed.Load()
		if err != nil {
			ended++
			if d.hit.Load() == nil ||
				errors.Is(err, ErrFull) != (d.fault.err == syscall.ENOSPC) && !d.fault.last {
				t.Errorf("%v: %v", d.fault, err)
			}
		}
		cut := d.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		s, err := OpenState(small(cut, "/data", mustNotFail(t)), groupID)
		if err != nil {
			t.Errorf("%v: not recovered: %v", d.fault, err)
			continue
		}
		p := s.Position()
		if want, ok := marks.Load(p.Index); p.Index < least || p.Index > 0 && (!ok || want != p.Mark) {
			t.Errorf("%v: came back at %+v, flushed up to %d", d.fault, p, least)
		}
		rows := 0
		for range s.Scan(nil, nil) {
			rows++
		}
		if rows != int(p.Index) {
			t.Errorf("%v: %d rows at entry %d", d.fault, rows, p.Index)
		}
		closeStates(t, s)
	}
	t.Logf("%d operations; %d faults ended the program", operations, ended)
	if ended == 0 {
		t.Error("no fault ended the program")
	}
}

// stateScript applies entries to a state, each of which adds a row, and notes their marks and the
// last one that a flush has waited for. It ends with the first fault.
func (d *faultyDisk) stateScript(flushed *atomic.Uint64) (marks *sync.Map, err error) {
	marks = new(sync.Map)
	return marks, untilFatal(func(fatal func(error)) error {
		o := small(errorfs.Wrap(d.disk, errorfs.InjectorFunc(d.inject)), "/data", fatal)
		s, err := OpenState(o, groupID)
		if err != nil {
			return err
		}
		for i := range byte(200) {
			w := s.NewWrites()
			w.Set([]byte{1, i}, make([]byte, 1000))
			p := Position{Index: uint64(i) + 1, Mark: s.Mark().Next(w.Bytes())}
			marks.Store(p.Index, p.Mark)
			if err := s.Apply(p, w.Bytes()); err != nil {
				return err
			}
			switch i % 40 {
			case 20:
				s.Flush()()
				flushed.Store(p.Index)
			case 30: // which may fail without harm
				if c, err := s.Checkpoint(); err == nil {
					_ = c.Remove()
				}
			}
		}
		return s.Close()
	})
}
