package pebblekv

import (
	"iter"
	"sync"

	"tenaq/internal/kv"
)

// A Log is a Store that several goroutines write: the logs of all groups of a node. What they force
// at the same time reaches the disk together.
type Log struct {
	store *Store
	mu    sync.Mutex // a Store has one writer at a time
}

// OpenLog opens the log in o.Dir as Open opens a store. AcceptLoss is ignored: a node that has lost
// what it had promised must not vote.
func OpenLog(o Options) (*Log, error) {
	o.AcceptLoss = 0
	s, err := open(o, true)
	if err != nil {
		return nil, ofNode(err)
	}
	return &Log{store: s}, nil
}

// ID returns the identity that the log was created with.
func (l *Log) ID() ID { return l.store.id }

// Write fills a batch and returns when it is on disk.
func (l *Log) Write(fill func(b kv.Batch)) {
	l.mu.Lock()
	b := l.store.NewBatch()
	fill(b)
	wait := b.Force()
	l.mu.Unlock()
	_ = wait() // a Store has one machine
}

// Get is that of a kv.Store.
func (l *Log) Get(dst, key []byte) (value []byte, ok bool) { return l.store.Get(dst, key) }

// Scan is that of a kv.Store.
func (l *Log) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] { return l.store.Scan(lo, hi) }

// Last returns the last key in lo <= key < hi.
func (l *Log) Last(lo, hi []byte) (key []byte, ok bool) { return l.store.last(lo, hi) }

// Close closes the store. No Write may be under way.
func (l *Log) Close() error { return l.store.Close() }
