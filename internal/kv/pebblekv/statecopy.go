package pebblekv

import (
	"errors"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A StateCopy is the state of another node, which is to replace the one here. Its files are in the
// folder "state.new", which the next OpenState removes.
type StateCopy struct {
	state *State
	dir   string
}

const (
	copyName     = "state.new"
	replacedName = "state.old" // the state that a copy replaces, until the copy is in its place
)

// NewCopy begins a copy. There may be one at a time. Errors of a StateCopy are those of the file
// system, and leave the state as it is.
func (s *State) NewCopy() (*StateCopy, error) {
	c := &StateCopy{s, s.dir(copyName)}
	if err := c.Remove(); err != nil {
		return nil, err
	}
	return c, makeDir(s.options.FS, c.dir)
}

// Add writes a file of the copy and forces it.
func (c *StateCopy) Add(name string, content io.Reader) error {
	fs := c.state.options.FS
	f, err := fs.Create(fs.PathJoin(c.dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Force makes the listing of the copy durable.
func (c *StateCopy) Force() error { return syncDir(c.state.options.FS, c.dir) }

// Remove removes the copy.
func (c *StateCopy) Remove() error { return c.state.options.FS.RemoveAll(c.dir) }

// Replace puts a copy that is forced in the place of the state. It waits for a moment without
// readers of the old one: a node that copies has no broker that reads all the time. The goroutine
// that applies entries calls it. The position is that of the copy afterwards. After a crash the
// state is the old one or the copy. A failure is Fatal.
func (s *State) Replace(c *StateCopy) {
	s.gate.shut()
	defer s.gate.open()
	s.Flush()() // a closed Pebble does not end the flushes that others may be waiting for
	if err := s.replace(c); err != nil {
		s.store.fail("replace the state by a copy", err)
	}
}

func (s *State) replace(c *StateCopy) error {
	if err := s.Close(); err != nil {
		return err
	}
	fs, old := s.options.FS, s.dir(replacedName)
	for _, step := range []func() error{
		func() error { return fs.RemoveAll(old) },
		func() error { return fs.Rename(s.dir(stateName), old) },
		func() error { return syncDir(fs, s.options.Dir) },
		func() error { return fs.Rename(c.dir, s.dir(stateName)) },
		func() error { return syncDir(fs, s.options.Dir) },
		s.open,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// undoReplace puts the old state back if a Replace was cut short between its two renames.
func (s *State) undoReplace() error {
	fs := s.options.FS
	if _, err := fs.Stat(s.dir(stateName)); !errors.Is(err, errNotExist) {
		return err
	}
	if _, err := fs.Stat(s.dir(replacedName)); err != nil {
		if errors.Is(err, errNotExist) {
			return nil
		}
		return err
	}
	if err := fs.Rename(s.dir(replacedName), s.dir(stateName)); err != nil {
		return err
	}
	return syncDir(fs, s.options.Dir)
}

// A gate lets readers in until it is shut. Unlike a sync.RWMutex it also lets a reader that is
// inside enter again while another goroutine waits to shut it.
type gate struct {
	mu     sync.Mutex
	moved  *sync.Cond // nil until the first wait
	inside int
	isShut bool
}

func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.await(func() bool { return !g.isShut })
	g.inside++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 {
		g.wake()
	}
}

// shut waits until no reader is inside, and lets none in.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.await(func() bool { return !g.isShut && g.inside == 0 })
	g.isShut = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = false
	g.wake()
}

func (g *gate) await(is func() bool) {
	for !is() {
		if g.moved == nil {
			g.moved = sync.NewCond(&g.mu)
		}
		g.moved.Wait()
	}
}

func (g *gate) wake() {
	if g.moved != nil {
		g.moved.Broadcast()
	}
}
