package pebblekv

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv"
	"tenaq/internal/testing/proof"
)

// What a node of a cluster says when its files are damaged names the replacement of the node, and
// offers no loss to accept.
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

// With a bit flipped in a table of a state, whatever is read is what was written, or Fatal ends the
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
			err := untilFatal(func(fatal func(error)) error { return readRows(t, disk, fatal) })
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
