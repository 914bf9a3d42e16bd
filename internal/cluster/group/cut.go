package group

import (
	"cmp"
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// The log is cut when this much has arrived since the last time.
const (
	cutEntries = 10_000
	cutBytes   = 64 << 20
)

// A meter measures what arrives in the log.
type meter struct{ entries, bytes uint64 }

// measure asks for a cut when enough has arrived.
func (g *Group) measure(l *raft.Log) {
	m := &g.arrived
	m.entries++
	m.bytes += uint64(len(l.Data))
	if m.entries < cmp.Or(g.cfg.CutEntries, cutEntries) &&
		m.bytes < cmp.Or(g.cfg.CutBytes, cutBytes) {
		return
	}
	select {
	case g.cuts <- m.entries:
		*m = meter{}
	default: // the last cut is not done
	}
}

// cutLogs cuts the log whenever it is asked to. It keeps the entries of two such times for
// followers that are behind. Raft counts entries, so large ones are counted as fewer.
func (g *Group) cutLogs() {
	defer close(g.cutsEnded)
	for {
		var entries uint64
		select {
		case <-g.ended:
			return
		case entries = <-g.cuts:
		}
		for !g.isEnded() {
			rc := g.raft.ReloadableConfig()
			rc.TrailingLogs = 2 * entries
			err := g.raft.ReloadConfig(rc)
			if err == nil {
				err = g.await(g.raft.Snapshot())
			}
			if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) {
				break
			}
			if !g.isEnded() {
				g.cfg.Logger.Warn("log not cut, trying again", "error", err)
			}
			g.pause(g.cfg.Heartbeat)
		}
	}
}

// checkRows refuses rows that lack what a snapshot stands for, because they were removed or put
// back to an earlier moment. Raft does not deliver those entries again, and later ones of another
// session would count as fenced.
func (g *Group) checkRows() error {
	m, err := g.snapshot()
	if m == nil {
		return err
	}
	first, err := g.cfg.Log.FirstIndex()
	if err != nil || first == 0 {
		return err
	}
	var l raft.Log
	for index := max(first, g.Position().Index+1); index <= min(m.Index, g.known); index++ {
		if err := g.cfg.Log.GetLog(index, &l); err != nil {
			return err
		}
		if l.Type == raft.LogCommand {
			return g.cfg.State.Lacks(index)
		}
	}
	return nil
}

// Snapshot begins to flush the rows. Raft takes the index of the snapshot when it calls this, so a
// flush that began before might lack some of what the snapshot stands for.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	g := (*Group)(m)
	if !g.use.begin(cutting) {
		return nil, errBusy
	}
	return &flushing{g, g.cfg.State.Flush()}, nil
}

// A flushing is a snapshot: the rows on disk, from the end of a flush on.
type flushing struct {
	group *Group
	wait  func()
}

// Persist says that the rows on disk are at least those of the snapshot.
func (f *flushing) Persist(s raft.SnapshotSink) error {
	f.wait()
	s.(*sink).own = true
	_, err := s.Write([]byte("rows"))
	return errors.Join(err, f.group.Err())
}

// Release ends the snapshot. Raft has cut the log by now.
func (f *flushing) Release() { f.group.use.end(cutting) }

// A use is what the rows of a node are in use for. A copy may replace them only when it is the only
// one.
type use int

const (
	leading use = 1 << iota // a broker has the rows in memory, or is about to
	cutting                 // a snapshot is being taken
	copying                 // a copy is coming that will replace the rows
)

type uses struct {
	mu  sync.Mutex
	now use
}

func (u *uses) begin(x use) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now&copying != 0 || x == copying && u.now != 0 {
		return false
	}
	u.now |= x
	return true
}

func (u *uses) end(x use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now &^= x
}
