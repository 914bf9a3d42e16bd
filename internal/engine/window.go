package engine

import (
	"slices"

	"tenaq/internal/engine/row"
)

// An entry is a row of an index that is ordered by pos.
type entry[T any] struct {
	row.Pos
	value T
}

// A window is the front of an index in memory: every row from the low-water key up to, but not
// including, end; or to the end of the index when whole is set.
type window[T any] struct {
	entries []entry[T]
	head    int // entries before it have been removed
	end     row.Pos
	whole   bool
}

func (w *window[T]) len() int              { return len(w.entries) - w.head }
func (w *window[T]) at(i int) entry[T]     { return w.entries[w.head+i] }
func (w *window[T]) covers(p row.Pos) bool { return w.whole || p.Less(w.end) }

// search returns the index of the first entry at or after p.
func (w *window[T]) search(p row.Pos) (i int, found bool) {
	live := w.entries[w.head:]
	return slices.BinarySearchFunc(live, p, func(e entry[T], p row.Pos) int { return e.Compare(p) })
}

// insert takes up an entry that was written to the index, if the window covers its place.
func (w *window[T]) insert(e entry[T]) {
	if !w.covers(e.Pos) {
		return
	}
	if n := len(w.entries); w.len() == 0 || w.entries[n-1].Less(e.Pos) {
		w.entries = append(w.entries, e)
		return
	}
	i, found := w.search(e.Pos)
	if found {
		broken("an index gets a second entry at %d, message %d", e.At, e.Seq)
	}
	if i == 0 && w.head > 0 {
		w.head--
		w.entries[w.head] = e
		return
	}
	w.entries = slices.Insert(w.entries, w.head+i, e)
}

// remove drops the entry at p, if the window covers it.
func (w *window[T]) remove(p row.Pos) {
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

// low returns the low-water key of the index, before which it has no rows, after the first one has
// been removed from where it says.
func (w *window[T]) low(removed row.Pos) row.Pos {
	switch {
	case w.len() > 0:
		return w.at(0).Pos
	case w.whole:
		return removed
	default:
		return w.end
	}
}

// trim keeps the first limit entries.
func (w *window[T]) trim(limit int) {
	if w.len() > limit {
		w.end, w.whole = w.at(limit).Pos, false
		clear(w.entries[w.head+limit:])
		w.entries = w.entries[:w.head+limit]
	}
	if w.head > limit || w.head > 64 && w.head > w.len() {
		w.entries = slices.Delete(w.entries, 0, w.head)
		w.head = 0
	}
}

// An index is read through a window.
type index[T any] struct{ row.Index[T] }

var (
	dueIndex    = index[row.DueKind]{row.DueRows}
	originIndex = index[struct{}]{row.OriginRows}
	elderIndex  = index[struct{}]{row.ElderRows}
	headIndexes = [...]index[string]{{row.HeadRows[row.HeadFresh]}, {row.HeadRows[row.HeadPlaced]}}
)

// entry returns a row of the index as a window has it.
func (x *index[T]) entry(e *Engine, k, v []byte) entry[T] {
	p, value, ok := x.Decode(k, v)
	if !ok {
		e.rows.damaged(x.Name, k)
	}
	return entry[T]{p, value}
}

// load makes sure that entry i of the window is there, unless the index ends before it.
func (x *index[T]) load(e *Engine, q *queue, w *window[T], i int) bool {
	for w.len() <= i {
		if w.whole {
			return false
		}
		n := max(e.cfg.Window, 1)
		for k, v := range e.scan(x.From(q.row.Space, w.end)) {
			next := x.entry(e, k, v)
			if last := len(w.entries) - 1; last >= w.head && !w.entries[last].Less(next.Pos) {
				broken("the index %s of queue %s goes from %d, message %d, to %d, message %d",
					x.Name, q.name.Name,
					w.entries[last].At, w.entries[last].Seq, next.At, next.Seq)
			}
			w.entries = append(w.entries, next)
			if n--; n == 0 {
				break
			}
		}
		if n > 0 {
			w.whole = true
		} else {
			w.end = w.entries[len(w.entries)-1].Next()
		}
	}
	return true
}

// between returns the first entries from lo to hi, at most limit of them. Where the window does not
// reach, it reads the rows without moving the window: what is receivable now stays in memory.
func (x *index[T]) between(
	e *Engine, q *queue, w *window[T], lo, hi row.Pos, limit int,
) (entries []entry[T]) {
	for w.covers(lo) && len(entries) < limit {
		i, _ := w.search(lo)
		if !x.load(e, q, w, i) || hi.Less(w.at(i).Pos) {
			return entries
		}
		entries = append(entries, w.at(i))
		lo = w.at(i).Next()
	}
	if len(entries) == limit {
		return entries
	}
	for k, v := range e.scan(x.From(q.row.Space, lo)) {
		found := x.entry(e, k, v)
		if hi.Less(found.Pos) {
			break
		}
		if entries = append(entries, found); len(entries) == limit {
			break
		}
	}
	return entries
}
