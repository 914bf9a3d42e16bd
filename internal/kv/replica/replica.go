// Package replica is the kv.Store of a leader: what it forces is an entry of a replicated log,
// which every node applies to a State of its own.
//
// A Store keeps what it has proposed and what is not applied yet in memory, over the State of its
// node. Readers see both as one. So the State never holds anything that is not committed, and a
// leader that is deposed has nothing to undo: it forgets its Store.
//
// Beyond the contract of package kv it guarantees:
//
//   - All batches that are applied between two calls of Force are one entry, so a turn is on all
//     nodes or on none.
//   - Entries are proposed in the order of Force, and each states the hash of the commit before: a
//     State that differs in one byte is noticed with the next entry.
//   - When an entry is lost, nothing more is proposed.
//
// It leaves to others:
//
//   - consensus: a Log decides what is committed, and says so once;
//   - which entries count: the code that applies them to a State compares their session and their
//     place in the chain, and calls Landed;
//   - how large a turn may be. A Log that bounds its entries needs a writer that bounds its turns.
package replica

import (
	"bytes"
	"iter"
	"sync"
	"sync/atomic"

	"tenaq/internal/kv"
)

// A Log takes entries in order. It hides the consensus library.
type Log interface {
	// Propose appends an entry. Calls come from one goroutine. Entries commit in that order: after
	// one that does not commit, none does.
	Propose(entry []byte) Ticket

	// Confirm returns nil when this node was the leader at some moment after the call.
	Confirm() error
}

// A Ticket is an entry that was proposed.
type Ticket interface {
	// Wait returns nil when the entry is committed and applied to the State of this node. Otherwise
	// the lead is lost, and whether the entry commits is unknown.
	Wait() error
}

// A State holds the rows that committed entries have written, in the order of keys and as package
// kv says of a Store. Get and Scan may be called from any goroutine.
type State interface {
	Get(dst, key []byte) (value []byte, ok bool)
	Scan(lo, hi []byte) iter.Seq2[[]byte, []byte]
	NewWrites() Writes
	Mark() Mark // of the last commit applied
}

// Writes collects the writes of one entry in the encoding of its State. Its methods are those of a
// kv.Batch; a range has keys.
type Writes interface {
	Set(key, value []byte)
	Delete(key []byte)
	DeleteOnce(key []byte)
	DeleteRange(lo, hi []byte)
	Bytes() []byte
}

// A Store is the kv.Store of a leader.
type Store struct {
	state   State
	log     Log
	session Session

	mark   Mark         // of the last entry proposed
	writes Writes       // of the next one; nil while there are none
	last   func() error // waits for the last entry

	lost atomic.Bool // the lead

	// mu is held to change what lies over the State, and shared while a Scan begins: what it sees
	// of the State then holds nothing that is not in what it sees over it.
	mu   sync.RWMutex
	over atomic.Pointer[overlay]
}

var _ kv.Store = (*Store)(nil)

// NewStore returns the store of a leader that has applied the first entry of its session to state.
func NewStore(state State, log Log, session Session) *Store {
	s := &Store{state: state, log: log, session: session, mark: state.Mark(),
		last: func() error { return nil }}
	s.over.Store(new(overlay))
	return s
}

// Landed says that the state has applied the commits of this session up to number, so they need not
// be kept in memory any more. Call it before the Ticket of that commit returns.
func (s *Store) Landed(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over.Store(s.over.Load().without(number))
}

// Confirm returns nil when this node was the leader at some moment after the call, so that what was
// read before is what no other leader has changed. Otherwise it returns ErrLost.
func (s *Store) Confirm() error {
	if s.lost.Load() || s.log.Confirm() != nil {
		s.lost.Store(true)
		return kv.ErrLost
	}
	return nil
}

// Bytes is how much memory the commits take that the state has not applied, about.
func (s *Store) Bytes() (n int) {
	for _, l := range s.over.Load().layers {
		n += l.bytes
	}
	return n
}

func (s *Store) Get(dst, key []byte) (value []byte, ok bool) {
	// Look in memory first: an entry that lands in between is in both.
	if row, ok := s.over.Load().get(key); ok {
		return append(dst, row.value...), row.there
	}
	return s.state.Get(dst, key)
}

func (s *Store) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		s.mu.RLock()
		beginning := true
		begun := func() {
			if beginning {
				beginning = false
				s.mu.RUnlock()
			}
		}
		defer begun()
		o := s.over.Load()
		rows := o.from(lo, hi)
		for k, v := range s.state.Scan(lo, hi) {
			begun()
			for rows.ok && bytes.Compare(rows.key, k) < 0 {
				if !rows.yield(yield) {
					return
				}
			}
			if rows.ok && bytes.Equal(rows.key, k) {
				if !rows.yield(yield) {
					return
				}
				continue
			}
			if !o.removes(k) && !yield(k, v) {
				return
			}
		}
		begun()
		for rows.ok {
			if !rows.yield(yield) {
				return
			}
		}
	}
}

// Close forgets what was not forced. The state stays open.
func (s *Store) Close() error {
	s.lost.Store(true)
	return nil
}

func (s *Store) NewBatch() kv.Batch { return &batch{store: s} }

// apply makes writes visible, and part of the next entry.
func (s *Store) apply(ops []op) {
	if len(ops) == 0 {
		return
	}
	if s.writes == nil {
		s.writes = s.state.NewWrites()
	}
	l := s.over.Load().open(s.mark.Number + 1)
	for _, op := range ops {
		op.encode(s.writes)
		l.do(op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over.Store(s.over.Load().with(l))
}

// force proposes what was applied since the last call.
func (s *Store) force() (wait func() error) {
	if s.writes == nil {
		return s.last
	}
	writes := s.writes.Bytes()
	e := &Entry{Kind: Turn, Session: s.session, Before: s.mark.Hash, Mark: s.mark.Next(writes),
		Writes: writes}
	s.writes, s.mark = nil, e.Mark
	if s.lost.Load() {
		s.last = func() error { return kv.ErrLost }
		return s.last
	}
	ticket := s.log.Propose(e.Encode())
	s.last = sync.OnceValue(func() error {
		if ticket.Wait() != nil {
			s.lost.Store(true)
			return kv.ErrLost
		}
		return nil
	})
	return s.last
}

// A batch keeps its writes until they are applied: only then is their place in the order known.
type batch struct {
	store *Store
	ops   []op
	free  []byte // room for keys and values
	size  int
	done  bool
}

// An op is one write.
type op struct {
	kind       opKind
	key, value []byte // the value of a set, the upper bound of a range
}

type opKind byte

const (
	opSet opKind = iota
	opDelete
	opDeleteOnce
	opDeleteRange
)

func (o op) encode(w Writes) {
	switch o.kind {
	case opSet:
		w.Set(o.key, o.value)
	case opDelete:
		w.Delete(o.key)
	case opDeleteOnce:
		w.DeleteOnce(o.key)
	case opDeleteRange:
		w.DeleteRange(o.key, o.value)
	}
}

func (b *batch) Set(key, value []byte) { b.add(opSet, key, value, "") }
func (b *batch) Delete(key []byte)     { b.add(opDelete, key, nil, "") }
func (b *batch) DeleteOnce(key []byte) { b.add(opDeleteOnce, key, nil, "") }
func (b *batch) Len() int              { return b.size }

func (b *batch) SetJoined(key, head []byte, tail string) { b.add(opSet, key, head, tail) }

func (b *batch) DeleteRange(lo, hi []byte) {
	kv.CheckKey(lo)
	kv.CheckKey(hi)
	if bytes.Compare(lo, hi) < 0 {
		b.add(opDeleteRange, lo, hi, "")
	}
}

func (b *batch) add(kind opKind, key, value []byte, tail string) {
	if b.done {
		panic("replica: batch used after Apply or Force")
	}
	kv.CheckKey(key)
	b.ops = append(b.ops, op{kind, b.copy(key, ""), b.copy(value, tail)})
	b.size += len(key) + len(value) + len(tail) + 4
}

// copy returns a copy of p and tail that stays where it is.
func (b *batch) copy(p []byte, tail string) []byte {
	if n := len(p) + len(tail); n > cap(b.free)-len(b.free) {
		b.free = make([]byte, 0, max(4<<10, n))
	}
	at := len(b.free)
	b.free = append(append(b.free, p...), tail...)
	return b.free[at:len(b.free):len(b.free)]
}

func (b *batch) Apply() {
	if b.done {
		panic("replica: batch applied twice")
	}
	b.done = true
	b.store.apply(b.ops)
	b.ops = nil
}

func (b *batch) Force() (wait func() error) {
	b.Apply()
	return b.store.force()
}
