package engine

import "tenaq/internal/kv"

// NoteInterrupted makes a store that is a copy of another one begin as after a stop that was not clean, so that what is in
// flight in it is given the visibility grace: nobody could delete it meanwhile. [CLOCK-10, DUR-32]
func NoteInterrupted(store RowReader, b kv.Batch) {
	value, ok := store.Get(nil, systemKey())
	if s, known := decodeSystem(value); ok && known && s.clean {
		s.clean = false
		b.Set(systemKey(), s.encode(nil))
	}
}
