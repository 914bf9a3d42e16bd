// Package raftlog keeps the Raft log and the votes of one group in the log of its node. It is the
// raft.LogStore and the raft.StableStore of package group.
//
// What it guarantees:
//
//   - Everything is on disk when a method that writes returns. Groups of one node that write at the
//     same time share the forced write.
//   - A node whose log has lost what it had promised does not start: the log has a witness. So no
//     node votes with a shorter log.
//   - An entry that comes back is the one that was stored, or an error.
//
// It leaves the meaning of entries to package group, and faults of the disk to the Fatal function
// of the log.
//
// # Rows
//
// All integers are big endian.
//
//	key                            value
//	01, group (4), index (8)       version 1 (1), term (8), type (1), data
//	02, group (4), key             version 1 (1), value
package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/hashicorp/raft"

	"tenaq/internal/kv"
)

// A Log is the log of a node, which all its groups share. A pebblekv.Log is one.
type Log interface {
	Write(fill func(b kv.Batch))
	Get(dst, key []byte) (value []byte, ok bool)
	Scan(lo, hi []byte) iter.Seq2[[]byte, []byte]
	Last(lo, hi []byte) (key []byte, ok bool)
}

const (
	familyEntry  = 0x01
	familyStable = 0x02
	rowFormat    = 1
)

// A Store is the part of a log that belongs to one group. Its methods may be called from any
// goroutine.
type Store struct {
	log   Log
	group uint32

	mu          sync.Mutex
	first, last uint64 // index of the oldest and the newest entry; zero when there is none
}

var (
	_ raft.LogStore    = (*Store)(nil)
	_ raft.StableStore = (*Store)(nil)

	_ raft.MonotonicLogStore = (*Store)(nil)
)

// ErrMalformed says that a row of the log is not in the expected form, or of a newer program.
var ErrMalformed = errors.New("the row of the log cannot be read")

// Open returns the store of a group.
func Open(log Log, group uint32) *Store {
	s := &Store{log: log, group: group}
	lo, hi := s.span()
	for key := range log.Scan(lo, hi) {
		s.first = indexOf(key)
		break
	}
	if key, ok := log.Last(lo, hi); ok {
		s.last = indexOf(key)
	}
	return s
}

// span returns where the entries of the group lie.
func (s *Store) span() (lo, hi []byte) {
	lo = binary.BigEndian.AppendUint32([]byte{familyEntry}, s.group)
	if s.group == 1<<32-1 {
		return lo, []byte{familyEntry + 1}
	}
	return lo, binary.BigEndian.AppendUint32([]byte{familyEntry}, s.group+1)
}

func (s *Store) entryKey(index uint64) []byte {
	key := binary.BigEndian.AppendUint32([]byte{familyEntry}, s.group)
	return binary.BigEndian.AppendUint64(key, index)
}

func indexOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// FirstIndex returns the index of the oldest entry, 0 when there is none.
func (s *Store) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, nil
}

// LastIndex returns the index of the newest entry, 0 when there is none.
func (s *Store) LastIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, nil
}

// GetLog reads an entry, or returns raft.ErrLogNotFound.
func (s *Store) GetLog(index uint64, entry *raft.Log) error {
	value, ok := s.log.Get(nil, s.entryKey(index))
	if !ok {
		return raft.ErrLogNotFound
	}
	if len(value) < 10 || value[0] != rowFormat {
		return fmt.Errorf("entry %d of group %d: %w", index, s.group, ErrMalformed)
	}
	*entry = raft.Log{Index: index, Term: binary.BigEndian.Uint64(value[1:]),
		Type: raft.LogType(value[9]), Data: value[10:]}
	return nil
}

// StoreLog stores one entry.
func (s *Store) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries in one forced write.
func (s *Store) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		if len(e.Extensions) > 0 {
			return fmt.Errorf("entry %d of group %d has extensions, which are not stored", e.Index,
				s.group)
		}
	}
	s.log.Write(func(b kv.Batch) {
		var value []byte
		for _, e := range entries {
			value = binary.BigEndian.AppendUint64(append(value[:0], rowFormat), e.Term)
			value = append(append(value, byte(e.Type)), e.Data...)
			b.Set(s.entryKey(e.Index), value)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if s.first == 0 || e.Index < s.first {
			s.first = e.Index
		}
		s.last = max(s.last, e.Index)
	}
	return nil
}

// DeleteRange removes the entries from low to high, both included: the oldest ones, or the newest.
// Raft also asks for it when there is none.
func (s *Store) DeleteRange(low, high uint64) error {
	if low > high {
		return nil
	}
	s.log.Write(func(b kv.Batch) {
		_, end := s.span()
		if high < 1<<64-1 {
			end = s.entryKey(high + 1)
		}
		b.DeleteRange(s.entryKey(low), end)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		return nil
	}
	if low <= s.first {
		s.first = high + 1
	}
	if high >= s.last {
		s.last = low - 1
	}
	if s.first > s.last {
		s.first, s.last = 0, 0
	}
	return nil
}

// IsMonotonic makes Raft remove the whole log when a copy of the rows takes its place. Otherwise
// entries that were never committed could stay in front of a gap.
func (s *Store) IsMonotonic() bool { return true }

func (s *Store) stableKey(key []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{familyStable}, s.group), key...)
}

// Set stores a value durably.
func (s *Store) Set(key, value []byte) error {
	s.log.Write(func(b kv.Batch) {
		b.Set(s.stableKey(key), append([]byte{rowFormat}, value...))
	})
	return nil
}

// Get returns a value, empty when there is none.
func (s *Store) Get(key []byte) ([]byte, error) {
	value, ok := s.log.Get(nil, s.stableKey(key))
	if !ok {
		return nil, nil
	}
	if len(value) == 0 || value[0] != rowFormat {
		return nil, fmt.Errorf("%q of group %d: %w", key, s.group, ErrMalformed)
	}
	return value[1:], nil
}

// SetUint64 stores a number durably.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns a number, 0 when there is none.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil || len(value) == 0 {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%q of group %d: %w", key, s.group, ErrMalformed)
	}
	return binary.BigEndian.Uint64(value), nil
}
