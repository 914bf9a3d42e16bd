package engine

import (
	"cmp"
	"math"
	"slices"
)

// A pos is a place in an index that is ordered by time: messages that belong to the same millisecond
// follow each other as they were sent. [ORD-1]
type pos struct {
	at  int64
	seq uint64
}

func (p pos) compare(q pos) int {
	return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.seq, q.seq))
}

func (p pos) less(q pos) bool { return p.compare(q) < 0 }

// next is the first place after p.
func (p pos) next() pos {
	if p.seq == lastAt(p.at).seq {
		return pos{p.at + 1, 0}
	}
	return pos{p.at, p.seq + 1}
}

// maxTime is later than any time.
const maxTime = math.MaxInt64

// lastAt is the last place of a millisecond.
func lastAt(at int64) pos { return pos{at, math.MaxUint64} }

// An entry is a row of an index that is ordered by pos.
type entry[T any] struct {
	pos
	value T
}

// A window is the front of an index in memory: every row from the low-water key up to, but not
// including, end; or to the end of the index when whole is set.
type window[T any] struct {
	entries []entry[T]
	head    int // entries before it have been removed
	end     pos
	whole   bool
}

func (w *window[T]) len() int          { return len(w.entries) - w.head }
func (w *window[T]) at(i int) entry[T] { return w.entries[w.head+i] }
func (w *window[T]) covers(p pos) bool { return w.whole || p.less(w.end) }

// search returns the index of the first entry at or after p.
func (w *window[T]) search(p pos) (i int, found bool) {
	live := w.entries[w.head:]
	return slices.BinarySearchFunc(live, p, func(e entry[T], p pos) int { return e.compare(p) })
}

// insert takes up an entry that was written to the index, if the window covers its place.
func (w *window[T]) insert(e entry[T]) {
	if !w.covers(e.pos) {
		return
	}
	if n := len(w.entries); w.len() == 0 || w.entries[n-1].less(e.pos) {
		w.entries = append(w.entries, e)
		return
	}
	i, found := w.search(e.pos)
	if found {
		broken("an index gets a second entry at %d, message %d", e.at, e.seq)
	}
	if i == 0 && w.head > 0 {
		w.head--
		w.entries[w.head] = e
		return
	}
	w.entries = slices.Insert(w.entries, w.head+i, e)
}

// remove drops the entry at p, if the window covers it.
func (w *window[T]) remove(p pos) {
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

// low returns the low-water key of the index, before which it has no rows, after the first one has been
// removed from where it says.
func (w *window[T]) low(removed pos) pos {
	switch {
	case w.len() > 0:
		return w.at(0).pos
	case w.whole:
		return removed
	default:
		return w.end
	}
}

// trim keeps the first limit entries.
func (w *window[T]) trim(limit int) {
	if w.len() > limit {
		w.end, w.whole = w.at(limit).pos, false
		clear(w.entries[w.head+limit:])
		w.entries = w.entries[:w.head+limit]
	}
	if w.head > limit || w.head > 64 && w.head > w.len() {
		w.entries = slices.Delete(w.entries, 0, w.head)
		w.head = 0
	}
}

// An index is a kind of rows that is ordered by pos within a space.
type index[T any] struct {
	name string
	kind rowKind
	sub  []byte // follows the kind in the key, when several indexes share it

	// read returns what the value of a row holds; false when it cannot be read.
	read func(value []byte) (T, bool)
}

func (x *index[T]) prefix(space uint64) []byte { return append(spaceKey(space, x.kind), x.sub...) }

func (x *index[T]) key(space uint64, p pos) []byte { return appendPos(x.prefix(space), p) }

// from covers the rows from p to the end of the index.
func (x *index[T]) from(space uint64, p pos) span {
	return span{lo: x.key(space, p), hi: nextKey(x.prefix(space))}
}

// decode reads a row.
func (x *index[T]) decode(e *Engine, k, v []byte) entry[T] {
	p := posOf(k[min(len(k), spacePrefixLen+len(x.sub)):])
	value, ok := x.read(v)
	if !ok || p.seq == 0 {
		e.rows.damaged(x.name, k)
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
		for k, v := range e.scan(x.from(q.row.space, w.end)) {
			next := x.decode(e, k, v)
			if last := len(w.entries) - 1; last >= w.head && !w.entries[last].less(next.pos) {
				broken("the index %s of queue %s goes from %d, message %d, to %d, message %d", x.name, q.name.Name,
					w.entries[last].at, w.entries[last].seq, next.at, next.seq)
			}
			w.entries = append(w.entries, next)
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

// between returns the first entries from lo to hi, at most limit of them. Where the window does not
// reach, it reads the rows without moving the window: what is receivable now stays in memory.
func (x *index[T]) between(e *Engine, q *queue, w *window[T], lo, hi pos, limit int) (entries []entry[T]) {
	for w.covers(lo) && len(entries) < limit {
		i, _ := w.search(lo)
		if !x.load(e, q, w, i) || hi.less(w.at(i).pos) {
			return entries
		}
		entries = append(entries, w.at(i))
		lo = w.at(i).next()
	}
	if len(entries) == limit {
		return entries
	}
	for k, v := range e.scan(x.from(q.row.space, lo)) {
		found := x.decode(e, k, v)
		if hi.less(found.pos) {
			break
		}
		if entries = append(entries, found); len(entries) == limit {
			break
		}
	}
	return entries
}
