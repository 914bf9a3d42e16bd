package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// NoteInterrupted makes a store that is a copy of another one begin as after a stop that was not
// clean, so that what is in flight in it is given the visibility grace: no consumer could delete it
// meanwhile. [CLOCK-10, DUR-32]
func NoteInterrupted(store row.Reader, b kv.Batch) {
	value, ok := store.Get(nil, row.SystemKey())
	if s, known := row.DecodeSystem(value); ok && known && s.Clean {
		s.Clean = false
		b.Set(row.SystemKey(), s.Encode(nil))
	}
}
