package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tenaq/internal/kv/replica"
)

// A State is the rows of one replicated group on one node, in the folder "state" of Options.Dir. It
// has no log of its own, because the log of the group has all that it is missing: after a crash it
// holds a prefix of what was applied, and Position says which. What a Flush has waited for is in
// that prefix.
//
// It has the chain of a Store. The genesis holds the ID that all replicas of the group share, so
// equal marks mean equal rows.
type State struct {
	options  Options
	id       ID
	ofNode   bool // as that of a Store
	gate     gate // of store: a copy may replace it while it is read
	store    *Store
	position atomic.Pointer[Position]

	checkpoints atomic.Int64 // that were made
}

var _ replica.State = (*State)(nil)

// A Position says how far a State has got in the log of its group.
type Position struct {
	Index   uint64          // of the last entry applied
	Term    uint64          // in which the present session began
	Session replica.Session // the present one
	Mark    replica.Mark    // of the last commit
}

// OpenState opens the state in o.Dir, or creates one if the directory holds none. The ID is that of
// the group. Errors are those of Open, and ErrDamaged for the state of another group. AcceptLoss is
// ignored: what a state lacks, the log has.
func OpenState(o Options, id ID) (*State, error) {
	s, err := openState(o, id, true)
	if err != nil {
		return nil, ofNode(err)
	}
	return s, nil
}

func openState(o Options, id ID, ofNode bool) (*State, error) {
	if o.Dir == "" || o.Fatal == nil || id == (ID{}) {
		panic("pebblekv: a State without Dir, Fatal or ID")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	s := &State{options: o, id: id, ofNode: ofNode}
	if err := s.open(); err != nil {
		return nil, classify(s.dir(stateName), err)
	}
	return s, nil
}

const stateName = "state"

// dir returns a folder of the state.
func (s *State) dir(name string) string { return s.options.FS.PathJoin(s.options.Dir, name) }

func (s *State) open() (err error) {
	fs := s.options.FS
	s.store = &Store{dir: s.dir(stateName), fatal: s.options.Fatal, id: s.id,
		ofNode: s.ofNode}
	o := &opening{Options: s.options, store: s.store, noLog: true}
	defer func() {
		if err != nil {
			o.undo()
		}
	}()
	if err := s.undoReplace(); err != nil {
		return errnoError(s.store.dir, err)
	}
	if err := makeDir(fs, s.store.dir); err != nil {
		return errnoError(s.store.dir, err)
	}
	lock, err := o.takeLock()
	if err != nil {
		return err
	}
	s.store.lock = lock
	for _, step := range []func() error{
		o.look, func() error {
			return o.openPebble(lock)
		}, o.readGenesis, o.readChain, s.readPosition,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	o.disk.release(s.store.dir)
	_ = fs.RemoveAll(s.store.aside.dir) // a checkpoint that was cut short
	for _, name := range []string{copyName, replacedName} {
		_ = fs.RemoveAll(s.dir(name)) // a copy that was cut short
	}
	return nil
}

// readPosition reads the position; before the first entry there is none.
func (s *State) readPosition() error {
	p := Position{Mark: replica.Mark{Number: s.store.chain.number, Hash: s.store.chain.hash}}
	if value, ok := s.store.Get(nil, positionKey); ok {
		if err := p.decode(value); err != nil {
			return fmt.Errorf("position in the log: %w", err)
		}
	}
	s.position.Store(&p)
	return nil
}

const positionSize = 1 + 8 + 8 + 16

// encode returns the row of a position, without the mark, which the chain states.
func (p *Position) encode() []byte {
	b := append(make([]byte, 0, positionSize), positionForm)
	b = binary.BigEndian.AppendUint64(b, p.Index)
	b = binary.BigEndian.AppendUint64(b, p.Term)
	return append(b, p.Session[:]...)
}

func (p *Position) decode(b []byte) error {
	switch {
	case len(b) == 0 || b[0] == 0:
		return errMalformed
	case b[0] > positionForm:
		return &newerError{"the position in the log", uint64(b[0]), positionForm}
	case len(b) != positionSize:
		return errMalformed
	}
	p.Index, p.Term = binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])
	p.Session = replica.Session(b[17:])
	return nil
}

// ID returns the identity of the group.
func (s *State) ID() ID { return s.id }

// Position returns how far the state has got.
func (s *State) Position() Position { return *s.position.Load() }

// Mark returns the mark of the last commit applied.
func (s *State) Mark() replica.Mark { return s.Position().Mark }

func (s *State) Get(dst, key []byte) (value []byte, ok bool) {
	s.gate.enter()
	defer s.gate.leave()
	return s.store.Get(dst, key)
}

func (s *State) Scan(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		s.gate.enter()
		defer s.gate.leave()
		s.store.Scan(lo, hi)(yield)
	}
}

// Lacks is the error that the state lacks an entry of the log of its group that it had.
func (s *State) Lacks(index uint64) error {
	return &openError{kind: ErrDamaged, advice: adviceNode, dir: s.dir(stateName),
		cause: fmt.Errorf("it ends at entry %d of the log of its group, and had entry %d",
			s.Position().Index, index)}
}

// NewWrites returns the writes of an entry, as Pebble encodes a batch.
func (s *State) NewWrites() replica.Writes {
	return &writes{batch{store: s.store, b: s.store.db.NewBatch()}}
}

// writes are a batch that is encoded and not applied.
type writes struct{ batch }

func (w *writes) Bytes() []byte { return w.b.Repr()[batchrepr.HeaderLen:] }

// Apply applies the writes of the entry with which the state gets to p, and notes that it has. The
// mark of an entry that is no commit stays what it was, and it has no writes. Apply does not force
// anything. One goroutine calls it. The error says that the writes cannot be read; nothing is
// applied then.
func (s *State) Apply(p Position, writes []byte) error {
	b := s.store.db.NewBatch()
	count, err := countWrites(writes)
	if err != nil {
		return err
	}
	repr := make([]byte, batchrepr.HeaderLen, batchrepr.HeaderLen+len(writes)+128)
	batchrepr.SetCount(repr, count)
	err = b.SetRepr(append(repr, writes...))
	if last := s.store.chain.mark; p.Mark != (replica.Mark{Number: last.number, Hash: last.hash}) {
		m := mark{p.Mark.Number, p.Mark.Hash}
		err = errors.Join(err, b.SingleDelete(s.store.chain.row, nil))
		s.store.chain.mark, s.store.chain.row = m, appendChainKey(nil, m)
		err = errors.Join(err, b.Set(s.store.chain.row, chainValue, nil))
	}
	err = errors.Join(err, b.Set(positionKey, p.encode(), nil))
	if err == nil {
		err = guard(func() error { return s.store.db.Apply(b, pebble.NoSync) })
	}
	if err = errors.Join(err, b.Close()); err != nil {
		s.store.fail("apply an entry of the log", err)
	}
	s.store.number.Store(p.Mark.Number)
	s.position.Store(&p)
	return nil
}

// countWrites returns how many writes there are, none of which may be to a row of this package.
func countWrites(encoded []byte) (count uint32, err error) {
	err = guardOpen(func() error {
		for r := batchrepr.Reader(encoded); ; count++ {
			kind, key, value, ok, err := r.Next()
			if err != nil || !ok {
				return err
			}
			switch kind {
			case pebble.InternalKeyKindRangeDelete:
				if bytes.Compare(value, firstKey) < 0 {
					return errMalformed
				}
			case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete,
				pebble.InternalKeyKindSingleDelete:
			default:
				return errMalformed
			}
			if bytes.Compare(key, firstKey) < 0 {
				return errMalformed
			}
		}
	})
	return count, err
}

// Flush begins to make what has been applied durable. The wait function returns when it is.
func (s *State) Flush() (wait func()) {
	var done <-chan struct{}
	err := guard(func() (err error) {
		done, err = s.store.db.AsyncFlush()
		return err
	})
	if err != nil {
		s.store.fail("flush the state", err)
	}
	return func() { <-done }
}

// Checkpoint makes a checkpoint that holds everything applied before, as Store.Checkpoint does. It
// becomes a store through Renew. There may be several at a time: a backup, and copies for others.
func (s *State) Checkpoint() (*Checkpoint, error) {
	s.gate.enter()
	defer s.gate.leave()
	m, at := s.Mark(), s.store.aside
	c := &Checkpoint{Dir: at.PathJoin(at.dir, strconv.FormatInt(s.checkpoints.Add(1), 10)),
		ID: s.id, Commit: m.Number, fs: at.raw,
		Witness: witnessBytes(slot{id: s.id, turn: 1, mark: mark{m.Number, m.Hash}})}
	s.Flush()()
	return s.store.writeCheckpoint(c)
}

// Close releases the directory. What was not flushed is lost, and the log has it.
func (s *State) Close() error {
	if err := errors.Join(s.store.db.Close(), s.store.lock.Close()); err != nil {
		return fmt.Errorf("close state %s: %w", s.store.dir, err)
	}
	return nil
}
