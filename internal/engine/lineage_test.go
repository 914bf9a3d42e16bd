package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// Lineages returns how many messages of a store descend from each first send. A move between queues
// keeps it.
func Lineages(store kv.Store) map[MessageID]int {
	found := make(map[MessageID]int)
	for k, v := range store.Scan([]byte{row.FamilySpace}, []byte{row.FamilySpace + 1}) {
		if row.Kind(k[row.SpacePrefixLen-1]) != row.KindMessage {
			continue
		}
		if m, _, ok := row.DecodeMeta(row.SeqOf(k), v); ok {
			if m.Replayed { // its lineage had ended before [REPLAY-1]
				m.Lineage = m.ID
			}
			found[m.Lineage]++
		}
	}
	return found
}
