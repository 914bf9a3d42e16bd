package engine

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Deduplication of sends, and of receive attempts on FIFO queues. For five minutes, or for as long
// as a tag says [EXT-29], the queue remembers the answer to a key that the client chose, and
// answers the same again. What became of the messages does not matter to a send [DEDUP-9,
// DEDUP-10], so the keys have rows of their own.
//
// The rows are filed in buckets by the time of their first use. A bucket covers a fifth of the
// window, which is a minute without the tag. When the window of its last millisecond is over, one
// range delete drops the whole bucket. A send would have to look for its key in up to six buckets,
// nearly always in vain. So each bucket that began while the queue was in memory has a filter that
// knows which keys it does not have. Buckets from before a restart are looked up. Minutes are soon
// over; those of a longer window are read into filters, a piece in each turn with a send.

const (
	dedupWindow = int64(sqslimits.DedupWindow / millisecond)

	// bucketsPerWindow is how many buckets a window has, besides the one in which it ends.
	bucketsPerWindow = dedupWindow / row.DedupBucket

	// bucketsMax bounds the buckets that changes of the window begin before the last one is full.
	bucketsMax = 64

	// learnMax bounds the rows that are read into filters in one turn.
	learnMax = 1024

	// filterBytesMax bounds the filters of a queue with the tag. Buckets beyond it are looked up.
	// Ids of a few minutes need no bound.
	filterBytesMax = 32 << 20
)

// dedupWindow is for how long the queue remembers a send; zero for a standard queue without a tag.
func (q *queue) dedupWindow() int64 {
	switch {
	case q.ext.DedupWindow > 0:
		return q.ext.DedupWindow
	case q.fifo():
		return dedupWindow
	}
	return 0
}

// bucketWidth is how many minutes the buckets of a window cover.
func bucketWidth(window int64) int64 {
	const all = bucketsPerWindow * row.DedupBucket
	return max((window+all-1)/all, 1)
}

// A dedupCache is what a queue keeps of its dedup rows in memory.
type dedupCache struct {
	written map[row.DedupHash]row.Dedup // in this turn
	filters []dedupFilter
	learned uint64 // the turn in which rows were read into filters
}

// A dedupFilter knows the keys of a bucket whose rows are before rest, all of them if rest is nil,
// and those that came while the queue was in memory.
type dedupFilter struct {
	bucket int64
	filter filter
	rest   []byte
}

// lacks reports whether the bucket is known not to have a key.
func (f *dedupFilter) lacks(h row.DedupHash) bool {
	switch {
	case f == nil || f.filter.mayHave(h):
		return false
	case f.rest == nil:
		return true
	}
	rest, begun := row.DedupHashOf(f.rest)
	return begun && bytes.Compare(h[:], rest[:]) < 0
}

func (c *dedupCache) endTurn() {
	if len(c.written) > 0 {
		clear(c.written)
	}
}

func (c *dedupCache) bytes() (n int) {
	for i := range c.filters {
		n += c.filters[i].filter.bytes()
	}
	return n
}

// of returns the filter of a bucket, nil when there is none.
func (c *dedupCache) of(bucket int64) *dedupFilter {
	for i := range c.filters {
		if c.filters[i].bucket == bucket {
			return &c.filters[i]
		}
	}
	return nil
}

// filterKey adds a key to the filter of its bucket, if there is one.
func (q *queue) filterKey(bucket int64, h row.DedupHash) {
	if f := q.dedup.of(bucket); f != nil && !f.filter.blind {
		f.filter.add(h)
		if q.ext.DedupWindow > 0 && q.dedup.bytes() > filterBytesMax {
			f.filter = filter{blind: true}
		}
	}
}

// learnDedup reads a piece of the buckets from before a restart into their filters.
func (e *Engine) learnDedup(q *queue) {
	if q.ext.DedupWindow == 0 || q.dedup.learned == e.turn {
		return
	}
	q.dedup.learned = e.turn
	left := min(e.cfg.Window, learnMax)
	for _, bucket := range q.st.Buckets {
		f := q.dedup.of(bucket)
		rows := row.DedupSpan(q.row.Space, bucket)
		if f == nil {
			q.dedup.filters = append(q.dedup.filters, dedupFilter{bucket: bucket, rest: rows.Lo})
			f = q.dedup.of(bucket)
			for h := range q.dedup.written { // the order does not matter to a filter
				q.filterKey(bucket, h)
			}
		}
		if f.rest == nil || f.filter.blind {
			continue
		}
		// Rows of the open batch are not among these. Their keys were added when they came, or with
		// the filter.
		for k := range e.rows.store.Scan(f.rest, rows.Hi) {
			if left == 0 {
				f.rest = slices.Clone(k)
				return
			}
			left--
			h, ok := row.DedupHashOf(k)
			if !ok {
				e.rows.damaged("dedup", k)
			}
			q.filterKey(bucket, h)
		}
		f.rest = nil
	}
}

// recallSend returns the answer to the first send with a key, within the window of the queue.
func (e *Engine) recallSend(q *queue, h row.DedupHash) (first row.Dedup, ok bool) {
	e.learnDedup(q)
	first, ok = e.recall(q, h, q.dedupWindow())
	return first, ok && first.At > q.st.Forgot
}

// recall returns the answer that a key got within a window.
func (e *Engine) recall(q *queue, h row.DedupHash, window int64) (found row.Dedup, ok bool) {
	if found, ok = q.dedup.written[h]; ok {
		return found, e.trusted() < found.At+window
	}
	for _, bucket := range slices.Backward(q.st.Buckets) {
		if q.dedup.of(bucket).lacks(h) {
			continue
		}
		k := row.DedupKey(q.row.Space, bucket, h)
		if found, ok = read(&e.rows, "dedup", k, row.DecodeDedup); !ok {
			continue
		}
		return found, e.trusted() < found.At+window // older ones are over as well
	}
	return found, false
}

// memorise notes the answer to a key that was not recalled, or to a receive attempt whose messages
// have changed since.
func (e *Engine) memorise(q *queue, h row.DedupHash, answer row.Dedup) {
	n := len(q.st.Buckets)
	if n == 0 || answer.At >= q.st.BucketEnd(n-1) {
		q.st.Buckets = append(slices.Clone(q.st.Buckets), answer.At/row.DedupBucket)
		q.st.Wide, q.stDirty = bucketWidth(q.dedupWindow())-1, true
		q.dedup.filters = append(q.dedup.filters, dedupFilter{bucket: q.st.Buckets[n]})
		n++
	}
	bucket := q.st.Buckets[n-1]
	q.filterKey(bucket, h)
	if q.dedup.written == nil {
		q.dedup.written = make(map[row.DedupHash]row.Dedup)
	}
	q.dedup.written[h] = answer
	e.rows.set(row.DedupKey(q.row.Space, bucket, h), answer.Encode(e.rows.scratch()))
}

// forgetDedup drops the buckets in which every window is over.
func (e *Engine) forgetDedup(q *queue) {
	window, over := q.dedupWindow(), 0
	if q.st.Forgot != 0 && e.trusted() >= q.st.Forgot+window {
		q.st.Forgot, q.stDirty = 0, true
	}
	for over < len(q.st.Buckets) && e.trusted() >= q.st.BucketEnd(over)+window {
		e.rows.deleteRange(row.DedupSpan(q.row.Space, q.st.Buckets[over]))
		over++
	}
	if over == 0 {
		return
	}
	// The keys of this turn go with their buckets, or a longer window would find them again.
	dropped := q.st.BucketEnd(over - 1)
	maps.DeleteFunc(q.dedup.written, func(_ row.DedupHash, d row.Dedup) bool {
		return d.At < dropped
	})
	if q.st.Buckets, q.stDirty = slices.Clone(q.st.Buckets[over:]), true; len(q.st.Buckets) == 0 {
		q.st.Wide = 0
	}
	q.dedup.filters = slices.DeleteFunc(q.dedup.filters, func(f dedupFilter) bool {
		return !slices.Contains(q.st.Buckets, f.bucket)
	})
}

// rewindow follows a change of the window. What is remembered has the new window from its first
// send on, and what is forgotten stays forgotten, even if its row is still there. [EXT-34]
func (e *Engine) rewindow(q *queue, old int64) {
	n, window := len(q.st.Buckets), q.dedupWindow()
	if n == 0 || window == old {
		return
	}
	q.stDirty = true
	if window > old {
		q.st.Forgot = max(q.st.Forgot, e.trusted()-max(old, 1))
		return
	}
	// The last bucket ends with this minute, or its rows would be kept for a fifth of the longer
	// window.
	if n < bucketsMax {
		begun := e.now/row.DedupBucket - q.st.Buckets[n-1]
		q.st.Wide = min(q.st.Wide, max(bucketWidth(window)-1, begun))
	}
}

// A filter recognizes nearly every key that was never added to it. It grows by layers, each four
// times the size of the one before.
type filter struct {
	layers [][]uint64
	room   int  // keys that the last layer can still take
	blind  bool // it would be too large, and recognizes nothing
}

const (
	filterFirst  = 1 << 10 // words of the first layer
	filterHashes = 6
	filterBits   = 10 // per key; with six hashes it fails for one new key in a hundred
)

func (f *filter) bytes() (n int) {
	for _, words := range f.layers {
		n += 8 * len(words)
	}
	return n
}

func (f *filter) add(h row.DedupHash) {
	if f.room == 0 {
		size := filterFirst << (2 * len(f.layers))
		f.layers = append(f.layers, make([]uint64, size))
		f.room = size * 64 / filterBits
	}
	f.room--
	words := f.layers[len(f.layers)-1]
	for bit := range filterHash(h, len(words)) {
		words[bit/64] |= 1 << (bit % 64)
	}
}

func (f *filter) mayHave(h row.DedupHash) bool {
	if f.blind {
		return true
	}
	for _, words := range f.layers {
		all := true
		for bit := range filterHash(h, len(words)) {
			if words[bit/64]&(1<<(bit%64)) == 0 {
				all = false
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}

// filterHash yields the bits of a key in a layer of that many words. The key is a hash already. As
// Kirsch and Mitzenmacher have shown, combining its two halves is enough.
func filterHash(h row.DedupHash, words int) func(yield func(uint64) bool) {
	a, b := binary.LittleEndian.Uint64(h[:8]), binary.LittleEndian.Uint64(h[8:])|1
	mask := uint64(words)*64 - 1
	return func(yield func(uint64) bool) {
		for range filterHashes {
			if !yield(a & mask) {
				return
			}
			a += b
		}
	}
}
