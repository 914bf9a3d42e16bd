package engine

import (
	"iter"

	"tenaq/internal/engine/row"
)

// A message is a message in memory: its metadata, its place in due if it has one, or both. Its
// content is not in memory.
type message struct {
	row.Meta
	row.Delivery
	hasMeta, hasDelivery bool // which of the two rows has been read or written

	story *row.Story // in queue.told, if it was read or written in this turn

	// gone says that the rows were removed in this turn. The message stays in memory until the turn
	// ends, because the store shows the rows until then.
	gone bool

	// inside says of a message of a standard queue that was never handed out that others before it
	// may stay fresh when it is removed.
	inside  bool
	held    *row.Hold // which group it holds, as of the turn heldIn; noHold for none
	heldIn  uint64
	back    row.Slot // of the dead letter in its place of whose slot it enters; zero for none
	remains *remains // what its outcome keeps, from prepareEnd until the message is removed
}

// metas yields the messages with lo <= seq < hi.
func (e *Engine) metas(q *queue, lo, hi uint64) iter.Seq[row.Meta] {
	return func(yield func(row.Meta) bool) {
		for k, v := range e.scan(row.SeqSpan(q.row.Space, row.KindMessage, lo, hi)) {
			if !yield(e.decodeMeta(k, v)) {
				return
			}
		}
	}
}

// decodeMeta reads a message row.
func (e *Engine) decodeMeta(k, v []byte) row.Meta {
	m, _, ok := row.DecodeMeta(row.SeqOf(k), v)
	if !ok || m.Seq == 0 {
		e.rows.damaged("message", k)
	}
	return m
}
