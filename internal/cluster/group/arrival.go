package group

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tenaq/internal/cluster/raftlog"
)

// arrivals is the log of a group that remembers when its latest entries came. They are applied
// later than that: a follower learns only from the next message that an entry is committed, and
// when the leader dies, that is a message of the leader after it.
type arrivals struct {
	*raftlog.Store
	snapshot func() (*raft.SnapshotMeta, error)

	mu     sync.Mutex
	latest [64]arrival // by index
}

type arrival struct {
	index uint64
	at    time.Time
}

func (a *arrivals) StoreLog(entry *raft.Log) error { return a.StoreLogs([]*raft.Log{entry}) }

func (a *arrivals) StoreLogs(entries []*raft.Log) error {
	now := time.Now()
	a.mu.Lock()
	for _, e := range entries[max(0, len(entries)-len(a.latest)):] {
		a.latest[e.Index%uint64(len(a.latest))] = arrival{e.Index, now}
	}
	a.mu.Unlock()
	return a.Store.StoreLogs(entries)
}

// GetLog is that of the store. It also knows the term of the entry that a copy ends with. Raft asks
// for it when the leader sends the entries after it once more, because an answer was lost. Without
// it the node would need another copy. The entry is never sent on, as the one before it is missing.
func (a *arrivals) GetLog(index uint64, entry *raft.Log) error {
	err := a.Store.GetLog(index, entry)
	if !errors.Is(err, raft.ErrLogNotFound) || index == 1 {
		return err
	}
	m, failed := a.snapshot()
	if failed != nil || m == nil || m.Index != index {
		return cmp.Or(failed, err)
	}
	*entry = raft.Log{Index: index, Term: m.Term, Type: raft.LogNoop}
	return nil
}

// of returns when an entry came; now if that is forgotten.
func (a *arrivals) of(index uint64) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.latest[index%uint64(len(a.latest))]; e.index == index {
		return e.at
	}
	return time.Now()
}
