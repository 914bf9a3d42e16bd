package group

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/server/backup"
)

// snapshots is the group as Raft's store of snapshots. There is one: the rows themselves. What is
// stored is its metadata, which says "the rows hold at least the log up to this entry".
type snapshots Group

const (
	rowsID = "rows" // the snapshot that this node has
	copyID = "copy" // the one that it is receiving
)

const snapshotForm = 1

var snapshotKey = []byte("Snapshot")

// saveSnapshot stores the metadata of a snapshot.
func (g *Group) saveSnapshot(m raft.SnapshotMeta) error {
	b := binary.BigEndian.AppendUint64([]byte{snapshotForm}, m.Index)
	b = binary.BigEndian.AppendUint64(b, m.Term)
	b = binary.BigEndian.AppendUint64(b, m.ConfigurationIndex)
	return g.cfg.Log.Set(snapshotKey, append(b, raft.EncodeConfiguration(m.Configuration)...))
}

// snapshot reads the metadata of the snapshot; nil when there is none.
func (g *Group) snapshot() (*raft.SnapshotMeta, error) {
	b, err := g.cfg.Log.Get(snapshotKey)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	if len(b) <= 25 || b[0] != snapshotForm {
		return nil, fmt.Errorf("snapshot: %w", errForm)
	}
	return &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, ID: rowsID,
		Index: binary.BigEndian.Uint64(b[1:]), Term: binary.BigEndian.Uint64(b[9:]),
		ConfigurationIndex: binary.BigEndian.Uint64(b[17:]),
		Configuration:      raft.DecodeConfiguration(b[25:])}, nil
}

var errForm = errors.New("the row cannot be read, or is of a newer version of this program")

func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	m, err := (*Group)(s).snapshot()
	if m == nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{m}, nil
}

// Open opens the rows, for a follower that needs a copy of them. It makes a checkpoint, which may
// hold more than the metadata says. The copy that was received needs no reader.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	g := (*Group)(s)
	if id == copyID {
		return &g.copied.meta, io.NopCloser(strings.NewReader("")), nil
	}
	m, err := g.snapshot()
	if err == nil && m == nil {
		err = errors.New("there is no snapshot")
	}
	if err != nil {
		return nil, nil, err
	}
	out, err := g.send()
	if err != nil {
		g.cfg.Logger.Warn("copy not sent", "error", err)
		return nil, nil, err
	}
	g.cfg.Logger.Info("sending a copy of the rows", "bytes", out.size)
	m.Size = out.size
	return m, out, nil
}

// An outgoing is a copy on its way to a follower.
type outgoing struct {
	*io.PipeReader
	size  int64
	close func() error
}

func (o *outgoing) Close() error { return o.close() }

var errSending = errors.New("a copy for another node is being sent")

// send makes a checkpoint of the rows and begins to write it into a pipe.
func (g *Group) send() (*outgoing, error) {
	if !g.sending.TryLock() {
		return nil, errSending
	}
	c, err := g.cfg.State.Checkpoint()
	if err != nil {
		g.sending.Unlock()
		return nil, err
	}
	files, err := filesOf(c)
	if err != nil {
		err = errors.Join(err, c.Remove())
		g.sending.Unlock()
		return nil, err
	}
	m := backup.Manifest{Store: c.ID.String(), Commit: c.Commit, Taken: time.Now().UTC()}
	in, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.CloseWithError(backup.Write(out, m, files))
	}()
	return &outgoing{in, backup.Size(m, files), func() error {
		_ = in.Close()
		<-done
		defer g.sending.Unlock()
		return c.Remove()
	}}, nil
}

const folder = "store/" // of the files in the archive

func filesOf(c *pebblekv.Checkpoint) (files []backup.File, err error) {
	names, err := c.Files()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		size, err := c.Size(name)
		if err != nil {
			return nil, err
		}
		files = append(files, backup.File{Name: folder + name, Size: size,
			Open: func() (io.ReadCloser, error) { return c.Open(name) }})
	}
	return files, nil
}

// Create begins a snapshot: one of this node, or a copy that the leader sends.
func (s *snapshots) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration,
	configurationIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	return &sink{group: (*Group)(s), meta: raft.SnapshotMeta{Version: raft.SnapshotVersionMax,
		ID: copyID, Index: index, Term: term, Configuration: c,
		ConfigurationIndex: configurationIndex}}, nil
}

// A sink takes a snapshot.
type sink struct {
	group *Group
	meta  raft.SnapshotMeta
	own   bool      // it is one of this node
	in    *incoming // the copy otherwise, from the first byte on
}

func (s *sink) ID() string {
	if s.own {
		return rowsID
	}
	return copyID
}

func (s *sink) Write(p []byte) (n int, err error) {
	if s.own {
		return len(p), nil
	}
	if s.in == nil {
		if s.in, err = s.group.receive(s.meta); err != nil {
			s.group.cfg.Logger.Warn("copy refused", "error", err)
			return 0, err
		}
	}
	return s.in.Write(p)
}

func (s *sink) Close() error {
	switch {
	case s.own:
		return s.group.saveSnapshot(s.meta)
	case s.in == nil:
		return backup.ErrCut
	}
	err := s.in.end(nil)
	if err != nil {
		s.group.cfg.Logger.Warn("copy refused", "error", err)
	}
	return err
}

func (s *sink) Cancel() error {
	if s.in == nil {
		return nil
	}
	_ = s.in.end(errCancelled)
	return nil
}

var errCancelled = errors.New("the copy was not sent to its end")

// An incoming is a copy that this node receives.
type incoming struct {
	*io.PipeWriter
	group *Group
	meta  raft.SnapshotMeta
	files *pebblekv.StateCopy
	begun time.Time
	done  chan error // of the reader of the pipe
}

// A node takes copies while its disk has this much room.
const copyRoom = 1 << 30

var (
	errNoRoom    = errors.New("the disk has less than 1 GB of free space")
	errNotNeeded = errors.New("the log holds what the copy is for")
	errBusy      = errors.New("the rows are in use")
)

// receive begins to receive a copy. Nothing else may use the rows of this node until Restore has
// replaced them.
func (g *Group) receive(meta raft.SnapshotMeta) (*incoming, error) {
	if has, err := g.covers(meta); err != nil || has {
		return nil, cmp.Or(err, errNotNeeded)
	}
	if free, err := g.cfg.Free(); err != nil || free < copyRoom {
		return nil, errors.Join(err, errNoRoom)
	}
	if !g.use.begin(copying) {
		return nil, errBusy
	}
	files, err := g.cfg.State.NewCopy()
	if err != nil {
		g.use.end(copying)
		return nil, err
	}
	r, w := io.Pipe()
	in := &incoming{w, g, meta, files, time.Now(), make(chan error, 1)}
	go func() {
		err := in.read(r)
		r.CloseWithError(err)
		in.done <- err
	}()
	return in, nil
}

// covers reports whether this node has what a copy is for: it was sent again, or arrives late. Raft
// would remove the log for it, with entries that this node has promised to keep.
func (g *Group) covers(meta raft.SnapshotMeta) (bool, error) {
	first, err := g.cfg.Log.FirstIndex()
	if err != nil {
		return false, err
	}
	if first == 0 {
		m, err := g.snapshot()
		return m != nil && m.Index > meta.Index, err
	}
	var l raft.Log
	err = g.cfg.Log.GetLog(meta.Index, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return first > meta.Index, nil
	}
	return l.Term == meta.Term, err
}

// read writes the files of the copy, and checks and forces them.
func (in *incoming) read(r io.Reader) error {
	want := in.group.cfg.State.ID().String()
	_, err := backup.Read(r, func(m backup.Manifest, name string, _ int64, f io.Reader) error {
		name, ok := strings.CutPrefix(name, folder)
		if !ok || m.Store != want {
			return fmt.Errorf("the file %s of %s is not one of group %s", name, m.Store, want)
		}
		return in.files.Add(name, f)
	})
	if err == nil {
		err = in.files.Force()
	}
	return err
}

// end ends the copy, which is ready for Restore unless there is an error.
func (in *incoming) end(err error) error {
	in.CloseWithError(err) // io.EOF for nil
	if err = errors.Join(err, <-in.done); err != nil {
		_ = in.files.Remove()
		in.group.use.end(copying)
		return err
	}
	in.group.copied = in
	return nil
}

// Restore puts the copy that was received in the place of the rows. The position is the copy's own:
// entries up to it are skipped when they come.
func (m *machine) Restore(io.ReadCloser) error {
	g := (*Group)(m)
	in := g.copied
	defer g.use.end(copying)
	if err := g.Err(); err != nil {
		return err
	}
	g.cfg.State.Replace(in.files)
	g.live.Store(&in.begun) // the last commit in the copy is no later
	g.members.Store(&Members{in.meta.ConfigurationIndex, in.meta.Configuration.Servers})
	err := g.saveSnapshot(in.meta)
	g.copies.Add(1)
	g.cfg.Logger.Info("rows replaced by a copy", "index", g.Position().Index)
	return err
}

// dropCopiedLog removes the log of a node that lost power after a copy had replaced its rows, and
// before Raft had removed the log.
func (g *Group) dropCopiedLog() error {
	m, err := g.snapshot()
	if m == nil {
		return err
	}
	first, err := g.cfg.Log.FirstIndex()
	if err != nil || first == 0 || g.known >= m.Index {
		return err
	}
	return g.cfg.Log.DeleteRange(first, g.known)
}
