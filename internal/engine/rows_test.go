package engine

import (
	"fmt"

	"tenaq/internal/kv"
)

// Rows returns the rows of a store as far as they do not depend on how the engine was run, to the byte. What may
// depend on it says where to begin looking, or what nothing reads any more:
//
//   - Low-water keys say before which place an index or the segments have no rows. They follow behind the first row,
//     as far as the window shows it, and in memory until something else is written.
//   - The counters have followed the deadlines up to a place. It moves on in memory alone while none passes.
//   - A group row may not know the last message of its group, after a restart and in a small window. It then is looked up.
//     And the message behind which none was ever in due is one of an earlier group of that name, while that is in memory.
//   - Every stop that is not a clean one has a number, which ends its grace in each queue; a power cut of the
//     variant's own ends the graces before it, all of which are over.
func Rows(store kv.Store) (rows []string) {
	for k, v := range store.Scan([]byte{1}, nil) {
		rows = append(rows, fmt.Sprintf("%x = %x", k, essence(k, v)))
	}
	return rows
}

// essence is the value of a row without what may depend on how the engine was run.
func essence(k, v []byte) []byte {
	if k[0] == familySystem {
		if s, ok := decodeSystem(v); ok {
			s.boot, s.graceFrom, s.graceUntil = 0, 0, 0
			return s.encode(nil)
		}
	}
	if k[0] != familySpace {
		return v
	}
	switch rowKind(k[spacePrefixLen-1]) {
	case kindState:
		if s, ok := decodeState(v); ok {
			s.segment, s.dueLow, s.originLow, s.headLow, s.elderLow = 0, pos{}, pos{}, [2]pos{}, pos{}
			s.settled, s.boot = pos{}, 0
			return s.encode(nil)
		}
	case kindSegment:
		if s, ok := decodeSegment(v); ok {
			s.first = 0
			return s.encode(nil)
		}
	case kindGroup:
		if g, ok := decodeGroupRow(v); ok {
			g.last, g.placed = line{}, 0
			return g.encode(nil)
		}
	}
	return v
}
