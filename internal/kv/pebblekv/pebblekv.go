package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"tenaq/internal/kv"
)

// A Store is a kv.Store in a directory.
type Store struct {
	db      *pebble.DB
	witness *witness
	lock    io.Closer
	aside   aside
	id      ID
	dir     string // of Pebble, for messages
	fatal   func(err error)
	ofNode  bool        // of a cluster, which has what this one may lose
	failed  atomic.Bool // fatal has been called

	chain  chain         // of the writer
	number atomic.Uint64 // of the last commit, for readers
}

var _ kv.Store = (*Store)(nil)

// ID returns the identity that the store was created with.
func (s *Store) ID() ID { return s.id }

// CommitNumber returns the number of the last batch applied, in the whole life of the store.
func (s *Store) CommitNumber() uint64 { return s.number.Load() }

// fail reports a fault and does not return.
func (s *Store) fail(what string, err error) {
	s.failed.Store(true)
	s.fatal(newFault(s.dir, what, err, s.ofNode))
	panic("pebblekv: Fatal returned")
}

func (s *Store) Get(dst, key []byte) (value []byte, ok bool) {
	v, closer, err := s.db.Get(key)
	if err == pebble.ErrNotFound {
		return dst, false
	}
	if err != nil {
		s.fail("read a row", err)
	}
	dst = append(dst, v...)
	if err := closer.Close(); err != nil {
		s.fail("read a row", err)
	}
	return dst, true
}

func (s *Store) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if bytes.Compare(lo, firstKey) < 0 {
			lo = firstKey
		}
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			return
		}
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
		if err != nil {
			s.fail("scan rows", err)
		}
		// Closed also when the body of the loop panics: a leaked iterator pins its tables.
		defer func() {
			if err := it.Close(); err != nil {
				s.fail("scan rows", err)
			}
		}()
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				s.fail("scan rows", err)
			}
			if !yield(it.Key(), value) {
				return
			}
		}
	}
}

// Close forces what was applied, states it in the witness and releases the directory. All wait
// functions must have returned, and no Scan may be under way.
func (s *Store) Close() error {
	if err := errors.Join(s.closeFiles(), s.lock.Close()); err != nil {
		return fmt.Errorf("close store %s: %w", s.dir, err)
	}
	return nil
}

// closeFiles is Close, and keeps the lock.
func (s *Store) closeFiles() error {
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		s.fail("force the last commits", err)
	}
	s.witness.confirm(s.chain.mark)
	if err := s.witness.close(); err != nil {
		s.fail("write the witness", err)
	}
	s.aside.pace.closing.Store(true)
	return s.db.Close()
}

// discard is the default logger.
func discard(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// last returns the last key of callers in lo <= key < hi.
func (s *Store) last(lo, hi []byte) (key []byte, ok bool) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		s.fail("look for the last row", err)
	}
	if ok = it.Last(); ok {
		key = bytes.Clone(it.Key())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		s.fail("look for the last row", err)
	}
	return key, ok
}
