package engine

import "tenaq/internal/kv"

// Lineages returns how many messages of a store descend from each first send. A move between queues keeps it.
func Lineages(store kv.Store) map[MessageID]int {
	found := make(map[MessageID]int)
	for k, v := range store.Scan([]byte{familySpace}, []byte{familySpace + 1}) {
		if rowKind(k[spacePrefixLen-1]) != kindMessage {
			continue
		}
		if m, _, ok := decodeMeta(seqOf(k), v); ok {
			found[m.lineage]++
		}
	}
	return found
}
