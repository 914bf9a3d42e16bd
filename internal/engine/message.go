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

// metas yields the messages with lo <= seq < hi, each with its content if that is inline, which is
// valid until the next step.
func (e *Engine) metas(q *queue, lo, hi uint64) iter.Seq2[row.Meta, []byte] {
	return func(yield func(row.Meta, []byte) bool) {
		for k, v := range e.scan(row.SeqSpan(q.row.Space, row.KindMessage, lo, hi)) {
			if !yield(e.decodeMessage(k, v)) {
				return
			}
		}
	}
}

// decodeMessage reads a message row, which holds the content too if that is inline.
func (e *Engine) decodeMessage(k, v []byte) (m row.Meta, inline []byte) {
	m, inline, ok := row.DecodeMeta(row.SeqOf(k), v)
	if !ok || m.Seq == 0 {
		e.rows.damaged("message", k)
	}
	return m, inline
}
