package engine

import (
	"fmt"
	"iter"

	"tenaq/internal/engine/row"
	"tenaq/internal/invariant"
	"tenaq/internal/kv"
)

// rows is the engine's view of the store during a turn: the store as readers see it, and the open
// batch that no reader sees yet.
//
// A point read goes to the store, past the open batch. That is correct because the engine looks
// into memory first, and every row that this turn has written is still there: queues, states,
// segments, deliveries, groups, dedup rows and active tasks. A scan cannot look into memory, so
// Engine.scan first makes the open batch visible. A batch must not become visible in the middle of
// a command, because a crash could then keep half of it. So a command makes all its scans before
// its first write.
type rows struct {
	store kv.Store
	batch kv.Batch
	fault func(string)

	wrote   bool   // since the last boundary
	applied bool   // part of this turn is visible and has not been forced yet
	visible int    // how many bytes that part has
	applies uint64 // how many batches have become visible; from 1
	value   []byte
	key     []byte

	due, deliveries lane
}

func newRows(store kv.Store, fault func(string)) rows {
	return rows{store: store, batch: store.NewBatch(), fault: fault, applies: 1,
		due: lane{keyLen: row.PosKeyLen}, deliveries: lane{keyLen: row.SeqKeyLen}}
}

// scratch returns an empty buffer for encoding one value; the batch copies what it is given.
func (r *rows) scratch() []byte {
	if r.value == nil {
		r.value = make([]byte, 0, 4<<10)
	}
	return r.value[:0]
}

// seqKey returns a row.SeqKey, which is valid until the next call.
func (r *rows) seqKey(space uint64, kind row.Kind, seq uint64) []byte {
	r.key = row.AppendSeqKey(r.key[:0], space, kind, seq)
	return r.key
}

// boundary marks a point between two changes, at which the batch may become visible.
func (r *rows) boundary() { r.wrote = false }

func (r *rows) get(key []byte) ([]byte, bool) { return r.store.Get(nil, key) }

func (r *rows) set(key, value []byte) { r.wrote = true; r.batch.Set(key, value) }
func (r *rows) delete(key []byte)     { r.wrote = true; r.batch.Delete(key) }
func (r *rows) deleteOnce(key []byte) { r.wrote = true; r.batch.DeleteOnce(key) }
func (r *rows) dirty() bool           { return r.applied || r.len() > 0 }

func (r *rows) setJoined(key, head []byte, tail string) {
	r.wrote = true
	r.batch.SetJoined(key, head, tail)
}

func (r *rows) deleteRange(s row.Span) {
	r.wrote = true
	r.drain() // the range may cover rows of lanes
	r.batch.DeleteRange(s.Lo, s.Hi)
}

// len returns about how many bytes the writes have that are not visible yet.
func (r *rows) len() int { return r.batch.Len() + len(r.due.bytes) + len(r.deliveries.bytes) }

func (r *rows) apply() {
	r.drain()
	if n := r.batch.Len(); n > 0 {
		r.visible += n
		r.batch.Apply()
		r.batch, r.applied = r.store.NewBatch(), true
		r.applies++
	}
	r.wrote = false
}

func (r *rows) force() (wait func() error) {
	r.drain()
	wait = r.batch.Force()
	r.batch, r.applied, r.wrote = r.store.NewBatch(), false, false
	r.visible = 0
	r.applies++
	return wait
}

// damaged reports a row that does not decode. A store that returns other bytes than it was given
// cannot be trusted.
func (r *rows) damaged(kind string, key []byte) {
	r.fault(fmt.Sprintf("the store holds a %s row that cannot be read (key %x): if a newer version of this program "+
		"has used the data directory, start that one; else keep the directory, restore a backup or copy what is intact with tenaq salvage, and report this", kind, key))
	panic("unreachable: the fault function returned")
}

// decoded returns what a row holds.
func decoded[T any](
	r *rows, kind string, k, value []byte, decode func([]byte) (T, bool),
) (v T) {
	v, ok := decode(value)
	if !ok {
		r.damaged(kind, k)
	}
	return v
}

// read returns what the row of a key holds; false when there is no such row.
func read[T any](r *rows, kind string, k []byte, decode func([]byte) (T, bool)) (v T, ok bool) {
	value, ok := r.get(k)
	if ok {
		v = decoded(r, kind, k, value, decode)
	}
	return v, ok
}

// scan yields the rows of a span, those written earlier in this turn included.
func (e *Engine) scan(s row.Span) iter.Seq2[[]byte, []byte] {
	if e.rows.wrote {
		invariant.Fail("a scan of %x after the first write of its command", s.Lo)
	}
	e.flush()
	return e.rows.store.Scan(s.Lo, s.Hi)
}
