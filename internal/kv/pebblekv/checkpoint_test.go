package pebblekv

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tenaq/internal/kv"
	"tenaq/internal/kv/kvtest"
	"tenaq/internal/testing/proof"
)

// copied puts a checkpoint into a directory of its own, as a backup that is restored does.
func copied(t *testing.T, c *Checkpoint) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewMem()
	if err := disk.MkdirAll("copy/store", 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := c.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		if size, err := c.Size(name); err != nil || size != int64(len(b)) {
			t.Errorf("%s has %d bytes, and Size says %d, %v", name, len(b), size, err)
		}
		f.Close()
		writeFile(t, disk, "copy/store/"+name, b)
	}
	writeFile(t, disk, "copy/witness", c.Witness)
	return disk
}

// A checkpoint has everything that was confirmed before, while the store continues, and becomes a
// store of its own. [DUR-30, DUR-32]
func TestCheckpoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 32))
	disk := vfs.NewMem()
	s := mustOpen(t, small(disk, "data", mustNotFail(t)))
	h := kvtest.NewHistory()
	for round := range 4 {
		for range 150 {
			if wait := h.Write(rng, s); wait != nil {
				wait()
			}
		}
		confirmed := h.Confirmed()
		s.NewBatch().Force()() // so that the last one is confirmed too
		c, err := s.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if c.Commit != s.CommitNumber() {
			t.Errorf("the checkpoint says commit %d, and %d was confirmed", c.Commit, s.CommitNumber())
		}
		set(s, "later") // which the files that are there do not get
		there := copied(t, c)
		if err := c.Remove(); err != nil {
			t.Fatal(err)
		}
		o := small(there, "copy", mustNotFail(t))
		id, err := Renew(o, func(_ *Store, b kv.Batch) { b.Set([]byte("new"), []byte("row")) })
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if id == s.ID() || c.ID != s.ID() {
			t.Errorf("the checkpoint is of %v and the copy is %v, want %v and another one", c.ID, id, s.ID())
		}
		twin := mustOpen(t, o)
		if _, ok := twin.Get(nil, []byte("new")); !ok || twin.ID() != id {
			t.Errorf("the copy is store %v and has the new row: %v", twin.ID(), ok)
		}
		if twin.CommitNumber() <= c.Commit {
			t.Errorf("the copy ends at commit %d, and the checkpoint was of %d", twin.CommitNumber(), c.Commit)
		}
		b := twin.NewBatch()
		b.Delete([]byte("new"))
		b.Delete([]byte("later")) // it may be there: what is done while a checkpoint is made is in it or not
		b.Force()()
		if err := h.Survived(twin, confirmed); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		mustClose(t, twin)
		writeFile(t, there, "copy/witness", c.Witness)
		if _, err := Open(o); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "is of store") {
			t.Errorf("with the witness of the other store: %v", err)
		}
		b = s.NewBatch()
		b.Delete([]byte("later"))
		b.Force()()
	}
	mustClose(t, s)
}

// A slowDisk calls between, once, after the first block of a log was read.
type slowDisk struct {
	vfs.FS
	between func()
}

func (d *slowDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.Open(name, opts...)
	if err != nil || d.between == nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return slowLog{f, d}, nil
}

type slowLog struct {
	vfs.File
	disk *slowDisk
}

func (l slowLog) Read(p []byte) (int, error) {
	n, err := l.File.Read(p[:min(len(p), logBlock)])
	if between := l.disk.between; between != nil {
		l.disk.between = nil
		between()
	}
	return n, err
}

// A log to which much is written while it is copied has a copy without a gap.
func TestCheckpointOfGrowingLog(t *testing.T) {
	disk := &slowDisk{FS: vfs.NewMem()}
	s := mustOpen(t, Options{FS: disk, Dir: "data", Fatal: mustNotFail(t)})
	set(s, "a")
	disk.between = func() {
		for range 100 { // a block has room for 32
			b := s.NewBatch()
			b.Set([]byte("b"), make([]byte, 1000))
			b.Force()()
		}
	}
	c, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if disk.between != nil {
		t.Fatal("no log was copied")
	}
	twin := mustOpen(t, Options{FS: copied(t, c), Dir: "copy", Fatal: mustNotFail(t)})
	if got := twin.CommitNumber(); got < c.Commit {
		t.Errorf("the copy ends at commit %d, and the checkpoint was of %d", got, c.Commit)
	}
	mustClose(t, twin)
	mustClose(t, s)
}

// A start removes the remains of an interrupted checkpoint.
func TestCheckpointLeft(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, small(disk, "data", mustNotFail(t)))
	c, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Checkpoint(); err != nil || again.Dir != c.Dir {
		t.Errorf("another one in the place of the first: %v", err)
	}
	mustClose(t, s)
	mustClose(t, mustOpen(t, small(disk, "data", mustNotFail(t))))
	if _, err := disk.Stat(c.Dir); !errors.Is(err, errNotExist) {
		t.Errorf("the checkpoint is still there: %v", err)
	}
}

// fullAside is a disk without room for checkpoints.
type fullAside struct{ vfs.FS }

func (f fullAside) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.Contains(name, checkpointName) {
		return nil, syscall.ENOSPC
	}
	return f.FS.Create(name, c)
}

// A checkpoint that cannot be made is an error of the checkpoint, and the store continues.
func TestCheckpointWithoutRoom(t *testing.T) {
	s := mustOpen(t, small(fullAside{vfs.NewMem()}, "data", mustNotFail(t)))
	if _, err := s.Checkpoint(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want that there is no room", err)
	}
	set(s, "on")
	if _, ok := s.Get(nil, []byte("on")); !ok {
		t.Error("the store does not go on")
	}
	mustClose(t, s)
}

// A failed operation on a checkpoint is an error of the checkpoint alone: the store continues, and
// the next checkpoint succeeds.
func TestCheckpointFaults(t *testing.T) {
	failed := 0
	for k := int64(1); ; k++ {
		var ops atomic.Int64
		hit := false
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, checkpointName) &&
				ops.Add(1) == k {
				hit = true
				return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
			}
			return nil
		}))
		s := mustOpen(t, small(fs, "data", mustNotFail(t)))
		ops.Store(0)
		hit = false
		c, err := s.Checkpoint()
		switch {
		case err == nil:
		case !hit || c != nil || !errors.Is(err, syscall.ENOSPC):
			t.Errorf("operation %d: %v, %v", k, c, err)
		default:
			failed++
		}
		more := hit
		ops.Store(k) // nothing fails from now on
		if set(s, "on"); keys(s) != "on" {
			t.Errorf("operation %d: the store does not go on", k)
		}
		if c, err = s.Checkpoint(); err != nil {
			t.Errorf("operation %d: the next checkpoint: %v", k, err)
		} else if err := c.Remove(); err != nil {
			t.Error(err)
		}
		mustClose(t, s)
		if !more {
			break
		}
	}
	if failed < 5 {
		t.Errorf("%d operations failed: too few for a proof", failed)
	}
}
