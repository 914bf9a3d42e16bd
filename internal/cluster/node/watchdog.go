package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
)

// A timedLog is a log that knows for how long a write has been under way. A leader whose disk hangs
// keeps its lead, because Raft's heartbeats need no disk; so the process has to end.
type timedLog struct {
	*pebblekv.Log

	mu     sync.Mutex
	writes int       // under way
	since  time.Time // when one was last begun with none under way, or ended
}

func (l *timedLog) Write(fill func(b kv.Batch)) {
	l.begin()
	defer l.end()
	l.Log.Write(fill)
}

func (l *timedLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes++; l.writes == 1 {
		l.since = time.Now()
	}
}

func (l *timedLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes--
	l.since = time.Now()
}

// hangs returns for how long there has been a write under way and none has ended.
func (l *timedLog) hangs() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes == 0 {
		return 0
	}
	return time.Since(l.since)
}

const (
	hangMax   = 5 * time.Second
	hangEvery = time.Second
)

// watchDisk ends the process when a write of the log hangs.
func (n *Node) watchDisk(ctx context.Context) {
	tick := time.NewTicker(hangEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if n.timed.hangs() > hangMax {
			n.cfg.Fatal(fmt.Errorf("storage hangs: a write in %s has taken more than %v, so this node stops and another one may lead: check the disk and start again, which recovers everything confirmed", LogDir(n.cfg.Dir), hangMax))
			return
		}
	}
}
