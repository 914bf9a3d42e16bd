package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
)

// A timedLog is a log that knows whether its writes get on. A leader whose disk hangs keeps its
// lead, because Raft's heartbeats need no disk; so the process has to end.
type timedLog struct {
	*pebblekv.Log

	mu    sync.Mutex
	begun int
	ended int
	seen  int // what ended was at the last look
	looks int // with writes under way of which none had ended since the look before
}

func (l *timedLog) Write(fill func(b kv.Batch)) {
	l.begin()
	defer l.end()
	l.Log.Write(fill)
}

func (l *timedLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
}

func (l *timedLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
}

const (
	hangMax   = 5 * time.Second
	hangEvery = time.Second
)

// look is called every hangEvery and reports whether no write has ended for hangMax although one is
// under way. It counts looks and does not ask the clock, which goes on while the process or its
// machine is stopped.
func (l *timedLog) look() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == l.begun || l.ended != l.seen {
		l.looks = 0
	}
	if l.seen = l.ended; l.ended < l.begun {
		l.looks++
	}
	return time.Duration(l.looks)*hangEvery > hangMax
}

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
		if n.timed.look() {
			n.cfg.Fatal(fmt.Errorf("storage hangs: a write in %s has taken more than %v, so this node stops and another one may lead: check the disk and start again, which recovers everything confirmed", LogDir(n.cfg.Dir), hangMax))
			return
		}
	}
}
