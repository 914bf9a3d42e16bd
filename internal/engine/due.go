package engine

import (
	"cmp"
	"math"
	"slices"
)

// A duePos is a place in the due index: messages that are, or become, receivable at the same
// millisecond follow each other as they were sent. [ORD-1]
type duePos struct {
	at  int64
	seq uint64
}

func (p duePos) compare(q duePos) int {
	return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.seq, q.seq))
}

func (p duePos) less(q duePos) bool { return p.compare(q) < 0 }

// next is the first place after p.
func (p duePos) next() duePos {
	if p.seq == lastAt(p.at).seq {
		return duePos{p.at + 1, 0}
	}
	return duePos{p.at, p.seq + 1}
}

// lastAt is the last place of a millisecond.
func lastAt(at int64) duePos { return duePos{at, math.MaxUint64} }

// A dueKind says why a message stands in due, and so which counter it belongs to until its time comes.
type dueKind byte

const (
	dueDelayed  dueKind = 1 // sent with a delay
	dueInFlight dueKind = 2 // received and hidden
	dueReturned dueKind = 3 // given back: receivable since its time
)

func (k dueKind) known() bool { return k >= dueDelayed && k <= dueReturned }

type dueEntry struct {
	duePos
	kind dueKind
}

// A dueWindow is the front of a queue's due index in memory: every row from the low-water key up to,
// but not including, end; or to the end of the index when whole is set.
type dueWindow struct {
	entries []dueEntry
	head    int // entries before it have been removed
	end     duePos
	whole   bool
}

func (w *dueWindow) len() int             { return len(w.entries) - w.head }
func (w *dueWindow) at(i int) *dueEntry   { return &w.entries[w.head+i] }
func (w *dueWindow) covers(p duePos) bool { return w.whole || p.less(w.end) }

// search returns the index of the first entry at or after p.
func (w *dueWindow) search(p duePos) (i int, found bool) {
	live := w.entries[w.head:]
	return slices.BinarySearchFunc(live, p, func(e dueEntry, p duePos) int { return e.compare(p) })
}

// insert takes up an entry that was written to the index, if the window covers its place.
func (w *dueWindow) insert(e dueEntry) {
	if !w.covers(e.duePos) {
		return
	}
	if n := len(w.entries); w.len() == 0 || w.entries[n-1].less(e.duePos) {
		w.entries = append(w.entries, e)
		return
	}
	i, _ := w.search(e.duePos)
	if i == 0 && w.head > 0 {
		w.head--
		w.entries[w.head] = e
		return
	}
	w.entries = slices.Insert(w.entries, w.head+i, e)
}

// remove drops the entry at p, if the window covers it.
func (w *dueWindow) remove(p duePos) {
	i, found := w.search(p)
	switch {
	case !found:
		return
	case i == 0:
		w.head++
		if w.head == len(w.entries) {
			w.entries, w.head = w.entries[:0], 0
		}
	default:
		w.entries = slices.Delete(w.entries, w.head+i, w.head+i+1)
	}
}

// trim keeps the first limit entries.
func (w *dueWindow) trim(limit int) {
	if w.len() > limit {
		w.end, w.whole = w.at(limit).duePos, false
		w.entries = w.entries[:w.head+limit]
	}
	if w.head > limit || w.head > 64 && w.head > w.len() {
		w.entries = slices.Delete(w.entries, 0, w.head)
		w.head = 0
	}
}

// loadDue makes sure that entry i of the due window is there, unless the index ends before it.
func (e *Engine) loadDue(q *queue, i int) bool {
	w := &q.due
	for w.len() <= i {
		if w.whole {
			return false
		}
		n := max(e.cfg.Window, 1)
		for k, v := range e.scan(dueSpan(q.row.space, w.end)) {
			w.entries = append(w.entries, e.decodeDue(k, v))
			if n--; n == 0 {
				break
			}
		}
		if n > 0 {
			w.whole = true
		} else {
			w.end = w.entries[len(w.entries)-1].next()
		}
	}
	return true
}

func (e *Engine) decodeDue(k, v []byte) dueEntry {
	p := duePosOf(k)
	if len(v) != 1 || !dueKind(v[0]).known() || p.seq == 0 {
		e.rows.damaged("due", k)
	}
	return dueEntry{p, dueKind(v[0])}
}
