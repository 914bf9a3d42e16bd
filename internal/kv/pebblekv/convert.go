package pebblekv

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Conversion makes the first node of a cluster of the store of a single server.
type Conversion struct {
	// Log is where the node's Log is to be, in Options.Dir. Group is where the State is.
	Log, Group string

	// Position is where in the log of the group the rows stand. Its Mark is not used.
	Position Position

	// Adopt writes what the log begins with. The group gets the ID of the store.
	Adopt func(log *Log, group ID) error
}

// A Converted is what a Conversion has made.
type Converted struct {
	Group  ID     // of the rows
	Node   ID     // of the log
	Commit uint64 // the last one of the rows
}

// beforeCluster ends the names under which a conversion keeps what it has replaced.
const beforeCluster = ".before-cluster"

// ErrKept reports that the directory still has what an earlier conversion has kept.
var ErrKept = errors.New("the store from before an earlier conversion is still there")

// Convert converts the store in o.Dir. The rows and their chain of commits stay what they are. The
// store is kept as "store.before-cluster", with its witness, and shares its tables with the State
// until either removes them.
//
// After a crash o.Dir holds the store, as it was, or the log and the state, both complete: the log
// gets its name when everything else is durable. Convert may be called again then. FinishConvert
// completes the renaming of the store.
//
// Errors are those of Open, ErrKept, and fs.ErrNotExist when there is no store. The caller makes
// sure that there is no log in o.Dir.
func Convert(o Options, c Conversion) (done Converted, err error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	at := func(name string) string { return o.FS.PathJoin(o.Dir, name) }
	if _, err := o.FS.Stat(at(storeName)); errors.Is(err, errNotExist) {
		return done, fmt.Errorf("there is no store in %s: %w", o.Dir, errNotExist)
	}
	for _, name := range []string{storeName, witnessName} {
		if _, err := o.FS.Stat(at(name + beforeCluster)); err == nil {
			return done, fmt.Errorf("%w: %s: move it away and start again", ErrKept,
				at(name+beforeCluster))
		}
	}
	s, err := Open(o)
	if err != nil {
		return done, err
	}
	done.Group, done.Commit = s.id, s.chain.number
	err = s.makeState(o, c.Group, c.Position)
	next := c.Log + ".new"
	if err == nil {
		done.Node, err = makeLog(o, next, func(l *Log) error { return c.Adopt(l, s.id) })
	}
	if err = errors.Join(err, s.closeFiles()); err == nil {
		err = o.FS.Rename(next, c.Log)
	}
	if err != nil {
		err = errors.Join(err, o.FS.RemoveAll(next), o.FS.RemoveAll(c.Group))
	} else if err = syncDir(o.FS, o.FS.PathDir(c.Log)); err == nil {
		err = FinishConvert(o)
	}
	// Only now: no other process may open the store while it is still under its name.
	if err = errors.Join(err, s.lock.Close()); err != nil {
		return done, fmt.Errorf("convert %s: %w", o.Dir, err)
	}
	return done, nil
}

// FinishConvert gives the store that a conversion has replaced its new name, if a crash has left it
// under the old one. The caller makes sure that there is a log in o.Dir.
func FinishConvert(o Options) error {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	for _, name := range []string{witnessName, storeName} { // a store without a witness is refused
		from := o.FS.PathJoin(o.Dir, name)
		if _, err := o.FS.Stat(from); errors.Is(err, errNotExist) {
			continue
		}
		if err := o.FS.Rename(from, from+beforeCluster); err != nil {
			return err
		}
	}
	return syncDir(o.FS, o.Dir)
}

// makeState makes a State of the rows in a folder, whatever that has held.
func (s *Store) makeState(o Options, dir string, p Position) error {
	fs := s.aside.raw
	if err := errors.Join(fs.RemoveAll(dir), makeDir(fs, dir)); err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil { // a State reads no log
		return err
	}
	c, err := s.Checkpoint()
	if err != nil {
		return err
	}
	if err := errors.Join(fs.Rename(c.Dir, fs.PathJoin(dir, stateName)), syncDir(fs, dir),
		syncDir(fs, o.Dir)); err != nil {
		return errors.Join(err, c.Remove())
	}
	o.Dir = dir
	state, err := openState(o, s.id, false) // what is damaged is the store
	if err != nil {
		return err
	}
	if p.Mark = state.Mark(); p.Mark.Number != s.chain.number || p.Mark.Hash != s.chain.hash {
		err = fmt.Errorf("the copy ends at commit %d and not at commit %d", p.Mark.Number,
			s.chain.number)
	} else if err = state.Apply(p, nil); err == nil {
		state.Flush()()
	}
	return errors.Join(err, state.Close())
}

// makeLog makes a Log in a folder, whatever that has held.
func makeLog(o Options, dir string, adopt func(*Log) error) (ID, error) {
	if err := o.FS.RemoveAll(dir); err != nil {
		return ID{}, err
	}
	o.Dir = dir
	s, err := Open(o)
	if err != nil {
		return ID{}, err
	}
	log := &Log{store: s}
	return s.id, errors.Join(adopt(log), log.Close())
}
