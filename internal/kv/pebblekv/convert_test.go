package pebblekv

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest"
	"tenaq/internal/kv/kvtest/crashdisk"
	"tenaq/internal/kv/replica"
	"tenaq/internal/testing/proof"
)

var conversion = Conversion{
	Log: "/data/raft", Group: "/data/groups/1", Position: Position{Index: 1, Term: 1},
	Adopt: func(log *Log, group ID) error {
		log.Write(func(b kv.Batch) { b.Set([]byte{1}, group[:]) })
		return nil
	},
}

// filled makes a store of some hundred rows, in tables and in the log.
func filled(t *testing.T, fs vfs.FS, rng *rand.Rand) *kvtest.History {
	t.Helper()
	s := mustOpen(t, small(fs, "/data", mustNotFail(t)))
	h := kvtest.NewHistory()
	for range 200 {
		if wait := h.Write(rng, s); wait != nil {
			if err := wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.NewBatch().Force()()
	mustClose(t, s)
	return h
}

// checkConverted opens what a conversion has made of a store, and continues in it.
func checkConverted(t *testing.T, fs vfs.FS, h *kvtest.History, group ID, m replica.Mark) {
	t.Helper()
	log, err := OpenLog(small(fs, "/data/raft", mustNotFail(t)))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := log.Get(nil, []byte{1}); !ok || ID(got) != group {
		t.Errorf("the log belongs to %x, want %v", got, group)
	}
	state, err := OpenState(small(fs, "/data/groups/1", mustNotFail(t)), group)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := state.Position(), (Position{Index: 1, Term: 1, Mark: m}); got != want {
		t.Errorf("the state is at %+v, want %+v", got, want)
	}
	l := lead(state)
	if err := h.Survived(l.store, h.Confirmed()); err != nil {
		t.Error(err)
	}
	setRow(l, "next")
	if got := state.Mark().Number; got != m.Number+1 {
		t.Errorf("the next commit is %d, want %d", got, m.Number+1)
	}
	if err := errors.Join(log.Close(), state.Close()); err != nil {
		t.Error(err)
	}
}

// A converted store has its rows, its identity and its chain of commits, and the store that it was
// can be put back.
func TestConvert(t *testing.T) {
	rng := proof.Random(t)
	fs := vfs.NewMem()
	h := filled(t, fs, rng)
	s := mustOpen(t, small(fs, "/data", mustNotFail(t)))
	group, m := s.ID(), replica.Mark{Number: s.chain.number, Hash: s.chain.hash}
	mustClose(t, s)

	done, err := Convert(small(fs, "/data", mustNotFail(t)), conversion)
	if err != nil {
		t.Fatal(err)
	}
	if done.Group != group || done.Commit != m.Number || done.Node == group || done.Node == (ID{}) {
		t.Errorf("converted %+v, want group %v at commit %d", done, group, m.Number)
	}
	names, err := fs.List("/data")
	if err != nil {
		t.Fatal(err)
	}
	want := "groups raft store.before-cluster witness.before-cluster"
	if got := strings.Join(slices.Sorted(slices.Values(names)), " "); got != want {
		t.Errorf("the directory holds %s, want %s", got, want)
	}
	checkConverted(t, fs, h, group, m)

	for _, name := range []string{"store", "witness"} {
		if err := fs.Rename("/data/"+name+beforeCluster, "/data/"+name); err != nil {
			t.Fatal(err)
		}
	}
	s = mustOpen(t, small(fs, "/data", mustNotFail(t)))
	if err := h.Survived(s, h.Confirmed()); err != nil {
		t.Errorf("put back: %v", err)
	}
	mustClose(t, s)
}

// Whenever the power fails during a conversion, the directory holds the store as it was, or the
// complete log and state. A second conversion completes what the first one began.
func TestConvertPowerCuts(t *testing.T) {
	rng := proof.Random(t)
	before, after := convertCuts(t, rng, int64(proof.Count(8, 1, 1, 1)), "/")
	// Background work makes the number of operations vary, but not of those at the end.
	rest, done := convertCuts(t, rng, 1, "/data/raft.new")
	t.Logf("%d cuts before the end, %d after", before+rest, after+done)
	if before < 20 || done < 3 {
		t.Errorf("%d times the store and %d times the node: too few for a proof", before, done)
	}
}

// convertCuts cuts the power at each operation, or at one of stride, from the rename of a path on;
// from the start for "/". It returns how often that left the store, and how often the node.
func convertCuts(
	t *testing.T, rng *rand.Rand, stride int64, renamed string,
) (before, after int) {
	for at, more := int64(1), true; more && !t.Failed(); at += stride {
		disk := crashdisk.New()
		h := filled(t, disk, rand.New(rand.NewPCG(rng.Uint64(), 1)))
		s := mustOpen(t, small(disk, "/data", mustNotFail(t)))
		group, m := s.ID(), replica.Mark{Number: s.chain.number, Hash: s.chain.hash}
		mustClose(t, s)

		var cut *crashdisk.Disk
		var mu sync.Mutex
		begun, ops := renamed == "/", int64(0)
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			begun = begun || op.Kind == errorfs.OpRename && op.Path == renamed
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !begun {
				return nil
			}
			if ops++; ops == at {
				cut = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(at) % 3 * 50,
					RNG: rand.New(rand.NewPCG(uint64(at), 3))})
			}
			return nil
		}))
		if _, err := Convert(small(fs, "/data", mustNotFail(t)), conversion); err != nil {
			t.Fatal(err)
		}
		if more = cut != nil; !more {
			cut = disk
		}
		if _, err := cut.Stat("/data/raft"); err == nil {
			after++
			if err := FinishConvert(small(cut, "/data", mustNotFail(t))); err != nil {
				t.Fatalf("cut %d: %v", at, err)
			}
			for _, name := range []string{"store", "witness"} {
				if _, err := cut.Stat("/data/" + name); err == nil {
					t.Errorf("cut %d: %s is left", at, name)
				}
			}
			checkConverted(t, cut, h, group, m)
			continue
		}
		before++
		s = mustOpen(t, small(cut, "/data", mustNotFail(t)))
		if err := h.Survived(s, h.Confirmed()); err != nil {
			t.Errorf("cut %d: %v", at, err)
		}
		mustClose(t, s)
		if at%5 != 0 {
			continue
		}
		if _, err := Convert(small(cut, "/data", mustNotFail(t)), conversion); err != nil {
			t.Fatalf("cut %d: again: %v", at, err)
		}
		checkConverted(t, cut, h, group, m)
	}
	return before, after
}

// A conversion that cannot be made leaves the store, and nothing beside it.
func TestConvertRefuses(t *testing.T) {
	errAdopt := errors.New("no")
	fails := conversion
	fails.Adopt = func(*Log, ID) error { return errAdopt }
	for name, c := range map[string]struct {
		prepare func(fs vfs.FS) error
		with    Conversion
		want    error
	}{
		"no store": {
			func(fs vfs.FS) error { return fs.RemoveAll("/data/store") }, conversion, errNotExist,
		},
		"damaged": {
			func(fs vfs.FS) error { return fs.Remove("/data/witness") }, conversion, ErrDamaged,
		},
		"log not written": {func(vfs.FS) error { return nil }, fails, errAdopt},
	} {
		fs := vfs.NewMem()
		h := filled(t, fs, rand.New(rand.NewPCG(1, 1)))
		if err := c.prepare(fs); err != nil {
			t.Fatal(err)
		}
		if _, err := Convert(small(fs, "/data", mustNotFail(t)), c.with); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		for _, left := range []string{"raft", "raft.new", "groups/1", "checkpoint"} {
			if _, err := fs.Stat("/data/" + left); err == nil {
				t.Errorf("%s: %s is left", name, left)
			}
		}
		if c.want == errAdopt {
			s := mustOpen(t, small(fs, "/data", mustNotFail(t)))
			if err := h.Survived(s, h.Confirmed()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mustClose(t, s)
		}
	}

	fs := vfs.NewMem()
	filled(t, fs, rand.New(rand.NewPCG(1, 1)))
	if _, err := Convert(small(fs, "/data", mustNotFail(t)), conversion); err != nil {
		t.Fatal(err)
	}
	filled(t, fs, rand.New(rand.NewPCG(1, 1)))
	_, err := Convert(small(fs, "/data", mustNotFail(t)), conversion)
	if err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("beside an earlier store: %v", err)
	}
}

// A checkpoint of a state becomes a store whose commits continue, and that can be converted again.
func TestStateBecomesStore(t *testing.T) {
	l := lead(mustOpenState(t, vfs.NewMem()))
	setRow(l, "a")
	setRow(l, "b")
	c, err := l.state.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	fs := copied(t, c)
	o := small(fs, "copy", mustNotFail(t))
	r, err := OpenRead(o)
	if err != nil {
		t.Fatal(err)
	}
	if doubts := r.Doubts(); len(doubts) > 0 {
		t.Errorf("doubts: %v", doubts)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	id, err := Renew(o, func(_ *Store, b kv.Batch) { b.Set([]byte("c"), nil) })
	if err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, o)
	if got := s.CommitNumber(); keys(s) != "a b c" || got != c.Commit+1 || c.Commit != 2 {
		t.Errorf("%q at commit %d, of a checkpoint at %d", keys(s), got, c.Commit)
	}
	if _, ok := s.Get(nil, positionKey); ok {
		t.Error("the store has the position of the state")
	}
	mustClose(t, s)
	again := conversion
	again.Log, again.Group = "copy/raft", "copy/groups/1"
	if _, err := Convert(o, again); err != nil {
		t.Fatal(err)
	}
	state, err := OpenState(small(fs, "copy/groups/1", mustNotFail(t)), id)
	if err != nil {
		t.Fatal(err)
	}
	if p := state.Position(); p.Index != 1 || p.Mark.Number != 3 {
		t.Errorf("converted again, at %+v", p)
	}
	closeStates(t, state, l.state)
}
