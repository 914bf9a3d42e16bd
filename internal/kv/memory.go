package kv

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"tenaq/internal/kv/tree"
)

// Memory is a Store without a disk, for tests and for servers that may forget. It is also the
// strict one: it panics on every misuse of a batch that another Store would have to trust its
// caller about, above all of DeleteOnce. Get and Scan take no lock.
//
// Crash shows what a disk would have kept: Memory remembers the state after each batch until a wait
// function confirms it.
type Memory struct {
	now atomic.Pointer[memoryState]

	mu          sync.Mutex
	confirmed   *memoryState   // what a wait function has promised
	unconfirmed []*memoryState // the states after it, one for each batch, oldest first
	closed      bool
}

// A memoryState is what the store holds after some batch. It never changes.
type memoryState struct {
	batch uint64 // how many batches led here
	rows  tree.Tree[memoryRow]
	spent tree.Tree[struct{}] // keys that DeleteOnce removed, which may not be set again
}

type memoryRow struct {
	value []byte
	sets  int // since the row last did not exist
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return newMemory(&memoryState{})
}

func newMemory(s *memoryState) *Memory {
	m := &Memory{confirmed: s}
	m.now.Store(s)
	return m
}

// Crash returns what a machine that lost power now would find: everything that a wait function has
// confirmed, and keep of the batches applied since, oldest first. A keep beyond Unconfirmed means
// all of them. The store itself is not changed, so that one history can crash in many ways.
func (m *Memory) Crash(keep int) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.confirmed
	if keep = min(keep, len(m.unconfirmed)); keep > 0 {
		s = m.unconfirmed[keep-1]
	}
	return newMemory(s)
}

// Unconfirmed says how many batches were applied after the last one that a wait function confirmed.
func (m *Memory) Unconfirmed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.unconfirmed)
}

func (m *Memory) Get(dst, key []byte) (value []byte, ok bool) {
	row, ok := m.now.Load().rows.Get(key)
	if !ok {
		return dst, false
	}
	return append(dst, row.value...), true
}

func (m *Memory) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		// The slices are copies in buffers that every step overwrites, so that a caller that keeps
		// one past its step notices here and not on the first compaction of a real store.
		var k, v []byte
		rows := m.now.Load().rows.From(lo)
		for key, row, ok := rows.Next(); ok; key, row, ok = rows.Next() {
			if hi != nil && bytes.Compare(key, hi) >= 0 {
				break
			}
			k, v = append(k[:0], key...), append(v[:0], row.value...)
			if !yield(k, v) {
				break
			}
		}
		clear(k)
		clear(v)
	}
}

func (m *Memory) NewBatch() Batch { return &memoryBatch{store: m} }

// Close makes further batches panic. Reading stays possible.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// apply makes s the state that readers see.
func (m *Memory) apply(s *memoryState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		panic("kv: batch applied after Close")
	}
	m.unconfirmed = append(m.unconfirmed, s)
	m.now.Store(s)
}

// confirm promises that s survives a crash.
func (m *Memory) confirm(s *memoryState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.batch <= m.confirmed.batch {
		return // wait functions may run in any order
	}
	m.unconfirmed = slices.Delete(m.unconfirmed, 0, int(s.batch-m.confirmed.batch))
	m.confirmed = s
}

type memoryBatch struct {
	store *Memory
	ops   []memoryOp
	size  int
	done  bool
}

type memoryOp struct {
	kind  byte // 's', 'd', '1' (DeleteOnce) or 'r'
	key   []byte
	value []byte // of 's'; the upper bound of 'r'
}

func (b *memoryBatch) Set(key, value []byte)     { b.add('s', key, value, "") }
func (b *memoryBatch) Delete(key []byte)         { b.add('d', key, nil, "") }
func (b *memoryBatch) DeleteOnce(key []byte)     { b.add('1', key, nil, "") }
func (b *memoryBatch) DeleteRange(lo, hi []byte) { b.add('r', lo, hi, "") }
func (b *memoryBatch) Len() int                  { return b.size }

func (b *memoryBatch) SetJoined(key, head []byte, tail string) { b.add('s', key, head, tail) }

func (b *memoryBatch) add(kind byte, key, value []byte, tail string) {
	if b.done {
		panic("kv: batch used after Apply or Force")
	}
	CheckKey(key)
	if kind == 'r' {
		CheckKey(value)
	}
	both := append(append(make([]byte, 0, len(key)+len(value)+len(tail)), key...), value...)
	both = append(both, tail...)
	b.ops = append(b.ops, memoryOp{kind: kind, key: both[:len(key):len(key)],
		value: both[len(key):]})
	b.size += len(both) + 4
}

// CheckKey panics when key is not one that a caller of a Store may write: it is empty, or its first
// byte is zero.
func CheckKey(key []byte) {
	if len(key) == 0 || key[0] == 0 {
		panic(fmt.Sprintf("kv: key %q is empty or begins with zero", key))
	}
}

func (b *memoryBatch) Apply() { b.apply() }

func (b *memoryBatch) Force() (wait func() error) {
	s := b.apply()
	return func() error {
		b.store.confirm(s)
		return nil
	}
}

func (b *memoryBatch) apply() *memoryState {
	if b.done {
		panic("kv: batch applied twice")
	}
	b.done = true
	was := b.store.now.Load()
	if len(b.ops) == 0 {
		return was
	}
	s := &memoryState{batch: was.batch + 1, rows: was.rows, spent: was.spent}
	for _, op := range b.ops {
		s.do(op)
	}
	b.ops = nil
	b.store.apply(s)
	return s
}

// do carries out one write on a state that no reader sees yet.
func (s *memoryState) do(op memoryOp) {
	switch op.kind {
	case 's':
		if _, ok := s.spent.Get(op.key); ok {
			panic(fmt.Sprintf("kv: row %x set again after DeleteOnce", op.key))
		}
		row, _ := s.rows.Get(op.key)
		s.rows = s.rows.With(op.key, memoryRow{op.value, row.sets + 1})
	case 'd':
		s.rows = s.rows.Without(op.key)
	case '1':
		if row, _ := s.rows.Get(op.key); row.sets != 1 {
			panic(fmt.Sprintf("kv: DeleteOnce of row %x, which was set %d times since it last did not exist", op.key, row.sets))
		}
		s.rows = s.rows.Without(op.key)
		s.spent = s.spent.With(op.key, struct{}{})
	case 'r':
		// A range removal separates what comes after it from everything before, DeleteOnce
		// included.
		s.rows = s.rows.WithoutRange(op.key, op.value)
		s.spent = s.spent.WithoutRange(op.key, op.value)
	}
}
