package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// A lane holds the writes of one kind of row back until the batch ends, so that they stand together
// there: rows with neighbouring keys are cheaper to write than scattered ones. The writes of a lane
// keep their order, and no other code writes rows of its kind. A range that is deleted may cover
// them, so all lanes are drained before it. Only the order between different rows changes.
//
// The value of a row in a lane is not empty, and its key has keyLen bytes.
type lane struct {
	keyLen int
	bytes  []byte // of keys, each followed by its value or, for a removal, by nothing
	ends   []int  // where in bytes each write ends
}

// end ends a write, which stands behind all others in written.
func (l *lane) end(written []byte) {
	l.bytes = written
	l.ends = append(l.ends, len(written))
}

// drain moves the writes into a batch.
func (l *lane) drain(b kv.Batch) {
	from := 0
	for _, end := range l.ends {
		if k, v := l.bytes[from:from+l.keyLen], l.bytes[from+l.keyLen:end]; len(v) > 0 {
			b.Set(k, v)
		} else {
			b.Delete(k)
		}
		from = end
	}
	l.bytes, l.ends = l.bytes[:0], l.ends[:0]
}

// drain moves the writes of all lanes into the batch.
func (r *rows) drain() {
	r.due.drain(r.batch)
	r.deliveries.drain(r.batch)
}

// setDue writes a row of due, or of a level above 0, which has no lane.
func (r *rows) setDue(space uint64, level byte, p row.Pos, kind row.DueKind) {
	if level > 0 {
		r.set(row.DueOf(level).Key(space, p), []byte{byte(kind)})
		return
	}
	r.wrote = true
	r.due.end(append(row.DueRows.AppendKey(r.due.bytes, space, p), byte(kind)))
}

func (r *rows) deleteDue(space uint64, level byte, p row.Pos) {
	if level > 0 {
		r.delete(row.DueOf(level).Key(space, p))
		return
	}
	r.wrote = true
	r.due.end(row.DueRows.AppendKey(r.due.bytes, space, p))
}

func (r *rows) setDelivery(space, seq uint64, v *row.Delivery) {
	r.wrote = true
	r.deliveries.end(v.Encode(row.AppendSeqKey(r.deliveries.bytes, space, row.KindDelivery, seq)))
}

func (r *rows) deleteDelivery(space, seq uint64) {
	r.wrote = true
	r.deliveries.end(row.AppendSeqKey(r.deliveries.bytes, space, row.KindDelivery, seq))
}
