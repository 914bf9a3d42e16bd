package engine

import (
	"fmt"

	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// Rows returns the rows of a store as far as they do not depend on how the engine was run, to the
// byte. Values that may depend on it say where to begin looking, or are no longer read:
//
//   - Low-water keys say before which place an index or the segments have no rows. They follow
//     behind the first row, as far as the window shows it, and in memory until something else is
//     written.
//   - The counters have followed the deadlines up to a place. It moves on in memory alone while
//     none passes.
//   - A group row may not know the last message of its group, after a restart and in a small
//     window. It then is looked up. And the message behind which none was ever in due is one of an
//     earlier group of that name, while that is in memory.
//   - How many answers to sends share a row depends on turns, and on the filters in memory.
//   - Every stop that is not a clean one has a number, which ends its grace in each queue; a power
//     cut of the variant's own ends the graces before it, all of which are over.
func Rows(store kv.Store) (rows []string) {
	for k, v := range store.Scan([]byte{1}, nil) {
		if minute, _, ok := row.AgainOf(k); ok && k[0] == row.FamilySpace && row.Kind(k[row.SpacePrefixLen-1]) == row.KindAgain {
			r := row.ReadAgain(v)
			for a := (row.Again{}); r.Next(&a); {
				rows = append(rows, fmt.Sprintf("%x of minute %d = %+v", k[:row.SpacePrefixLen], minute, a))
			}
			continue
		}
		rows = append(rows, fmt.Sprintf("%x = %x", k, essence(k, v)))
	}
	return rows
}

// essence is the value of a row without what may depend on how the engine was run.
func essence(k, v []byte) []byte {
	if k[0] == row.FamilySystem {
		if s, ok := row.DecodeSystem(v); ok {
			s.Boot, s.GraceFrom, s.GraceUntil = 0, 0, 0
			return s.Encode(nil)
		}
	}
	if k[0] != row.FamilySpace {
		return v
	}
	switch row.Kind(k[row.SpacePrefixLen-1]) {
	case row.KindState:
		if s, ok := row.DecodeState(v); ok {
			s.Segment, s.DueLow, s.OriginLow, s.HeadLow, s.ElderLow = 0, row.Pos{}, row.Pos{}, [2]row.Pos{}, row.Pos{}
			clear(s.LevelLow)
			s.Settled, s.Boot = row.Pos{}, 0
			return s.Encode(nil)
		}
	case row.KindSegment:
		if s, ok := row.DecodeSegment(v); ok {
			s.First = 0
			return s.Encode(nil)
		}
	case row.KindFair:
		if f, ok := row.DecodeFair(v); ok {
			f.TurnLow = row.Pos{}
			return f.Encode(nil)
		}
	case row.KindTenant:
		if t, ok := row.DecodeTenant(v); ok {
			t.Low, t.Front = row.Pos{}, 0
			return t.Encode(nil)
		}
	case row.KindGroup:
		if g, ok := row.DecodeGroup(v); ok {
			g.Last, g.Placed = row.Line{}, 0
			return g.Encode(nil)
		}
	}
	return v
}
