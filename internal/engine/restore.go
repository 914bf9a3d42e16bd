package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// NoteInterrupted makes a copy of a store start as after a stop that was not clean. Its messages in
// flight then get the visibility grace, because no consumer could delete them meanwhile.
// [CLOCK-10, DUR-32]
func NoteInterrupted(store row.Reader, b kv.Batch) {
	value, ok := store.Get(nil, row.SystemKey())
	if s, known := row.DecodeSystem(value); ok && known && s.Clean {
		s.Clean = false
		b.Set(row.SystemKey(), s.Encode(nil))
	}
}
