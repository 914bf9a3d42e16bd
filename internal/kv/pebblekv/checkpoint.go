package pebblekv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv"
)

// checkpointName is the directory, beside the store, that holds a checkpoint while it is read.
const checkpointName = "checkpoint"

// A Checkpoint is the store as it was at a moment, in files that do not change. Most are links to
// those of the store, so it costs no room of its own at first, but keeps what the store would
// remove meanwhile.
type Checkpoint struct {
	Dir     string // the files lie in it, and nothing else
	ID      ID
	Commit  uint64 // everything up to this commit is in it, and perhaps more
	Witness []byte // what the witness file of that moment would say

	fs vfs.FS
}

// Checkpoint makes a checkpoint that holds all that a wait function has confirmed before. It may be
// called on any goroutine beside the writer, which goes on. There may be one checkpoint at a time;
// it is removed when the store is opened again. A disk without room for it is an error here, and
// not a fault of the store.
func (s *Store) Checkpoint() (c *Checkpoint, err error) {
	s.witness.mu.Lock()
	m := s.witness.confirmed
	s.witness.mu.Unlock()
	c = &Checkpoint{Dir: s.aside.dir, ID: s.id, Commit: m.number,
		Witness: witnessBytes(slot{id: s.id, turn: 1, mark: m}), fs: s.aside.raw}
	if err := c.Remove(); err != nil {
		return nil, err
	}
	return s.writeCheckpoint(c, pebble.WithFlushedWAL())
}

// writeCheckpoint writes the files of a checkpoint, or leaves none. Pebble panics when it cannot
// sync the directory.
func (s *Store) writeCheckpoint(
	c *Checkpoint, how ...pebble.CheckpointOption,
) (*Checkpoint, error) {
	if err := guard(func() error { return s.db.Checkpoint(c.Dir, how...) }); err != nil {
		return nil, errors.Join(fmt.Errorf("make a checkpoint of %s: %w", s.dir, err), c.Remove())
	}
	return c, nil
}

// Remove removes the files of a checkpoint.
func (c *Checkpoint) Remove() error { return c.fs.RemoveAll(c.Dir) }

// Files are the names of the files of a checkpoint.
func (c *Checkpoint) Files() ([]string, error) { return c.fs.List(c.Dir) }

// Size is how large a file of a checkpoint is.
func (c *Checkpoint) Size(name string) (int64, error) {
	info, err := c.fs.Stat(c.fs.PathJoin(c.Dir, name))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Open opens a file of a checkpoint.
func (c *Checkpoint) Open(name string) (io.ReadCloser, error) {
	return c.fs.Open(c.fs.PathJoin(c.Dir, name), vfs.SequentialReadsOption)
}

// An aside is a disk beside which checkpoints are made: a write for one that fails is no fault of
// the store.
type aside struct {
	*disk
	raw vfs.FS
	dir string // of the checkpoint
}

// in returns the file system for a name.
func (a aside) in(name string) vfs.FS {
	if name == a.dir || strings.HasPrefix(name, a.dir+string(filepath.Separator)) {
		return a.raw
	}
	return a.disk
}

func (a aside) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return a.in(name).Create(name, c)
}

func (a aside) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return a.in(name).Open(name, opts...)
}

func (a aside) OpenReadWrite(
	name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return a.in(name).OpenReadWrite(name, c, opts...)
}

func (a aside) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return a.in(newname).ReuseForWrite(oldname, newname, c)
}

func (a aside) List(name string) ([]string, error)    { return a.in(name).List(name) }
func (a aside) OpenDir(name string) (vfs.File, error) { return a.in(name).OpenDir(name) }
func (a aside) Link(oldname, newname string) error {
	return a.in(newname).Link(oldname, newname)
}
func (a aside) Rename(oldname, newname string) error {
	return a.in(newname).Rename(oldname, newname)
}
func (a aside) Remove(name string) error                  { return a.in(name).Remove(name) }
func (a aside) RemoveAll(name string) error               { return a.in(name).RemoveAll(name) }
func (a aside) MkdirAll(name string, m fs.FileMode) error { return a.in(name).MkdirAll(name, m) }

// Renew gives the store in o.Dir, which is a copy of another one, an identity of its own, so that
// nothing that belongs to the other one is taken for its own. Change adds what else the copy must
// not share; it reads the store and writes the batch.
func Renew(o Options, change func(s *Store, b kv.Batch)) (ID, error) {
	s, err := Open(o)
	if err != nil {
		return ID{}, err
	}
	var id ID
	if _, err := io.ReadFull(rand.Reader, id[:]); err != nil {
		return ID{}, errors.Join(err, s.Close())
	}
	b := &batch{store: s, b: s.db.NewBatch()}
	b.check(b.b.Set(genesisKey, encodeGenesis(id), nil))
	b.check(b.b.Delete(positionKey, nil)) // which the state of a cluster has
	change(s, b)
	b.Force()()
	err = s.db.Flush() // as a genesis record is when it is created
	err = errors.Join(err, s.Close())
	if err == nil {
		err = createWitness(s.aside.raw, s.aside.raw.PathJoin(o.Dir, witnessName),
			slot{id: id, turn: s.witness.written.turn + 1, mark: s.chain.mark})
	}
	if err != nil {
		return ID{}, classify(s.dir, err)
	}
	return id, nil
}
