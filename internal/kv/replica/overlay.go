package replica

import (
	"bytes"
	"slices"

	"tenaq/internal/kv/tree"
)

// An overlay is what lies over a state: one layer for each entry that the state has not applied,
// the oldest first, and one for the entry that is being filled. It never changes.
type overlay struct{ layers []layer }

// A layer is what one entry writes.
type layer struct {
	number uint64         // of the commit
	rows   tree.Tree[row] // set or removed
	ranges []span         // removed from everything below; the rows of this layer stay
	bytes  int
}

// A row is what an entry leaves under a key: a value, or nothing.
type row struct {
	value []byte
	there bool
}

type span struct{ lo, hi []byte }

func (l *layer) removes(key []byte) bool {
	return slices.ContainsFunc(l.ranges, func(s span) bool {
		return bytes.Compare(s.lo, key) <= 0 && bytes.Compare(key, s.hi) < 0
	})
}

// do adds one write.
func (l *layer) do(o op) {
	switch o.kind {
	case opSet:
		l.rows = l.rows.With(o.key, row{o.value, true})
	case opDelete, opDeleteOnce:
		l.rows = l.rows.With(o.key, row{})
	case opDeleteRange:
		l.rows = l.rows.WithoutRange(o.key, o.value)
		l.ranges = append(slices.Clip(l.ranges), span{o.key, o.value})
	}
	l.bytes += len(o.key) + len(o.value)
}

// open returns the layer of a commit, to which writes can be added.
func (o *overlay) open(number uint64) layer {
	if n := len(o.layers); n > 0 && o.layers[n-1].number == number {
		return o.layers[n-1]
	}
	return layer{number: number}
}

// with returns the overlay with the newest layer being l.
func (o *overlay) with(l layer) *overlay {
	below := o.layers
	if n := len(below); n > 0 && below[n-1].number == l.number {
		below = below[:n-1]
	}
	return &overlay{append(slices.Clip(below), l)}
}

// without returns the overlay without the layers up to number.
func (o *overlay) without(number uint64) *overlay {
	i := 0
	for i < len(o.layers) && o.layers[i].number <= number {
		i++
	}
	return &overlay{o.layers[i:]}
}

// get returns what the newest layer that knows of a key leaves there; ok is false when none does.
func (o *overlay) get(key []byte) (r row, ok bool) {
	for i := len(o.layers) - 1; i >= 0; i-- {
		l := &o.layers[i]
		if r, ok := l.rows.Get(key); ok {
			return r, true
		}
		if l.removes(key) {
			return row{}, true
		}
	}
	return row{}, false
}

// removes reports whether a range removal of some layer covers a key of the state.
func (o *overlay) removes(key []byte) bool {
	for i := range o.layers {
		if o.layers[i].removes(key) {
			return true
		}
	}
	return false
}

// from returns the rows of all layers in lo <= key < hi. A nil hi is no bound.
func (o *overlay) from(lo, hi []byte) *rows {
	r := &rows{overlay: o, hi: hi, heads: make([]head, len(o.layers))}
	for i := range o.layers {
		r.heads[i].cursor = o.layers[i].rows.From(lo)
		r.heads[i].next()
	}
	r.next()
	return r
}

// rows steps through the keys that any layer knows of, in order.
type rows struct {
	overlay *overlay
	hi      []byte
	heads   []head // of the layers

	key []byte
	row row
	ok  bool
}

// A head is the next row of a layer.
type head struct {
	cursor tree.Cursor[row]
	key    []byte
	row    row
	ok     bool
}

func (h *head) next() { h.key, h.row, h.ok = h.cursor.Next() }

func (r *rows) next() {
	first := -1
	for i, h := range r.heads {
		if h.ok && (first < 0 || bytes.Compare(h.key, r.heads[first].key) < 0) {
			first = i
		}
	}
	if r.ok = first >= 0; !r.ok {
		return
	}
	r.key = r.heads[first].key
	if r.ok = r.hi == nil || bytes.Compare(r.key, r.hi) < 0; !r.ok {
		return
	}
	r.row, _ = r.overlay.get(r.key)
	for i := first; i < len(r.heads); i++ {
		if h := &r.heads[i]; h.ok && bytes.Equal(h.key, r.key) {
			h.next()
		}
	}
}

// yield passes on the row, if it is there, and steps to the next one.
func (r *rows) yield(yield func(key, value []byte) bool) bool {
	key, row := r.key, r.row
	r.next()
	return !row.there || yield(key, row.value)
}
