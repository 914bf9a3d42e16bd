package group

import (
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

// of returns when an entry came; now if that is forgotten.
func (a *arrivals) of(index uint64) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.latest[index%uint64(len(a.latest))]; e.index == index {
		return e.at
	}
	return time.Now()
}
