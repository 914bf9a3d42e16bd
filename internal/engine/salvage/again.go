package salvage

import (
	"bytes"

	"tenaq/internal/engine/row"
)

// again keeps the answers to sends that can be read. Which of them came before a first attempt is
// in the state; if that is lost, every first attempt looks for an answer. [AGAIN-3]
func (w *spaceSalvage) again() {
	for k, v := range w.store.Scan(row.SpaceKey(w.space, row.KindAgain),
		row.SpaceKey(w.space, row.KindAgain+1)) {
		minute, seq, ok := row.AgainOf(k)
		r, latest := row.ReadAgain(v), int64(0)
		for a := (row.Again{}); r.Next(&a); {
			latest = max(latest, a.At)
		}
		if !ok || !r.Done() || w.fifo || seq == 0 || r.Base/row.DedupBucket != minute ||
			latest > r.Base+row.DedupBucket {
			w.delete(bytes.Clone(k))
			continue
		}
		if w.st.AgainTo == 0 {
			w.st.AgainFrom = minute
		}
		w.st.AgainTo, w.st.AgainLate = minute+1, r.Base
	}
	if w.old.NextSeq != 0 && w.st.AgainTo != 0 {
		w.st.AgainLate = min(w.old.AgainLate, w.st.AgainLate)
	}
}
