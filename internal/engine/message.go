package engine

import "tenaq/internal/engine/row"

// A message is what the engine knows about one message in memory: its metadata, its place in due if
// it has one, or both. Content is never here.
type message struct {
	row.Meta
	row.Delivery
	hasMeta, hasDelivery bool // which of the two rows has been read or written

	// gone says that the rows were removed in this turn. The record stays until the turn ends,
	// since the store still shows the rows until then.
	gone bool
}

// decodeMeta reads a message row that a scan has found.
func (e *Engine) decodeMeta(k, v []byte) row.Meta {
	m, _, ok := row.DecodeMeta(row.SeqOf(k), v)
	if !ok || m.Seq == 0 {
		e.rows.damaged("message", k)
	}
	return m
}
