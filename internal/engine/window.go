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

// A popList is a list from whose front entries are removed.
type popList[T any] struct {
	entries []T
	head    int // entries before it have been removed
}

func (l *popList[T]) len() int   { return len(l.entries) - l.head }
func (l *popList[T]) at(i int) T { return l.entries[l.head+i] }

// pop removes the first n entries.
func (l *popList[T]) pop(n int) {
	clear(l.entries[l.head : l.head+n])
	l.head += n
	if l.head == len(l.entries) {
		l.entries, l.head = l.entries[:0], 0
	}
}

// cut keeps the first n entries.
func (l *popList[T]) cut(n int) {
	clear(l.entries[l.head+n:])
	l.entries = l.entries[:l.head+n]
}

// compact gives the places of removed entries back when they are more than the others.
func (l *popList[T]) compact() {
	if l.head > 64 && l.head > l.len() {
		l.entries, l.head = slices.Delete(l.entries, 0, l.head), 0
	}
}

// A window is the front of an index of a queue in memory: every row from the low-water key up to,
// but not including, end; or to the end of the index when whole is set.
type window[T any] struct {
	index *row.Index[T]
	q     *queue
	low   *row.Pos // low-water key, in the state of the queue: the index has no rows before it

	popList[entry[T]]
	end   row.Pos
	whole bool
}

// windowOf returns a window on an index of which nothing has been read.
func windowOf[T any](index *row.Index[T], q *queue, low *row.Pos) window[T] {
	return window[T]{index: index, q: q, low: low, end: *low, whole: q.st.Live == 0}
}

func (w *window[T]) covers(p row.Pos) bool { return w.whole || p.Less(w.end) }

// search returns the index of the first entry at or after p.
func (w *window[T]) search(p row.Pos) (i int, found bool) {
	live := w.entries[w.head:]
	return slices.BinarySearchFunc(live, p, func(e entry[T], p row.Pos) int { return e.Compare(p) })
}

// insert takes up a row that was written to the index, if the window covers its place.
func (w *window[T]) insert(p row.Pos, value T) {
	if w.q.stDirty = true; p.Less(*w.low) {
		*w.low = p
	}
	if !w.covers(p) {
		return
	}
	e := entry[T]{p, value}
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

// remove drops the row at p, which was removed from the index, if the window covers its place.
func (w *window[T]) remove(p row.Pos) {
	i, found := w.search(p)
	switch {
	case !found:
	case i > 0:
		w.entries = slices.Delete(w.entries, w.head+i, w.head+i+1)
	default:
		w.pop(1)
	}
	w.q.stDirty = true
	switch {
	case w.len() > 0:
		*w.low = w.at(0).Pos
	case w.whole:
		*w.low = p
	default:
		*w.low = w.end
	}
}

// trim keeps the first limit entries.
func (w *window[T]) trim(limit int) {
	if w.len() > limit {
		w.end, w.whole = w.at(limit).Pos, false
		w.cut(limit)
	}
	w.compact()
}

// entryOf returns a row of an index as a window has it.
func entryOf[T any](e *Engine, x *row.Index[T], k, v []byte) entry[T] {
	p, value, ok := x.Decode(k, v)
	if !ok {
		e.rows.damaged(x.Name, k)
	}
	return entry[T]{p, value}
}

// load makes sure that entry i of the window is there, unless the index ends before it.
func (w *window[T]) load(e *Engine, i int) bool {
	for w.len() <= i {
		if w.whole {
			return false
		}
		n := max(e.cfg.Window, 1)
		for k, v := range e.scan(w.index.From(w.q.row.Space, w.end)) {
			next := entryOf(e, w.index, k, v)
			if last := len(w.entries) - 1; last >= w.head && !w.entries[last].Less(next.Pos) {
				broken("the index %s of queue %s goes from %d, message %d, to %d, message %d",
					w.index.Name, w.q.name.Name,
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

// between returns the first entries from lo to hi, at most limit of them. Behind the window it
// reads rows without moving the window, so that what is available now stays in memory.
func (w *window[T]) between(e *Engine, lo, hi row.Pos, limit int) (entries []entry[T]) {
	for w.covers(lo) && len(entries) < limit {
		i, _ := w.search(lo)
		if !w.load(e, i) || hi.Less(w.at(i).Pos) {
			return entries
		}
		entries = append(entries, w.at(i))
		lo = w.at(i).Next()
	}
	if len(entries) == limit {
		return entries
	}
	for k, v := range e.scan(w.index.From(w.q.row.Space, lo)) {
		found := entryOf(e, w.index, k, v)
		if hi.Less(found.Pos) {
			break
		}
		if entries = append(entries, found); len(entries) == limit {
			break
		}
	}
	return entries
}
