package engine

import (
	"encoding/binary"
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Deduplication of sends and of receive attempts on FIFO queues. For five minutes the queue
// remembers the answer to a key that the client chose, and answers the same again. What became of
// the messages does not matter to a send [DEDUP-9, DEDUP-10], so the keys have rows of their own.
//
// The rows are filed by the minute of their first use. When the window of the last millisecond of a
// minute is over, one range delete drops the whole minute. A send would have to look for its key in
// up to six minutes, nearly always in vain. So each minute that began while the queue was in memory
// has a filter that knows which keys it does not have. Minutes from before a restart are looked up
// until they are over.

const dedupWindow = int64(sqslimits.DedupWindow / millisecond)

// A dedupCache is what a queue keeps of its dedup rows in memory.
type dedupCache struct {
	written map[row.DedupHash]row.Dedup // in this turn
	filters []dedupFilter               // of buckets that began while the queue was in memory
}

type dedupFilter struct {
	bucket int64
	filter filter
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
func (c *dedupCache) of(bucket int64) *filter {
	for i := range c.filters {
		if c.filters[i].bucket == bucket {
			return &c.filters[i].filter
		}
	}
	return nil
}

// recall returns the answer that a key got within its window.
func (e *Engine) recall(q *queue, h row.DedupHash) (found row.Dedup, ok bool) {
	if found, ok = q.dedup.written[h]; ok {
		return found, e.trusted() < found.At+dedupWindow
	}
	for _, bucket := range slices.Backward(q.st.Buckets) {
		if f := q.dedup.of(bucket); f != nil && !f.mayHave(h) {
			continue
		}
		k := row.DedupKey(q.row.Space, bucket, h)
		if found, ok = read(&e.rows, "dedup", k, row.DecodeDedup); !ok {
			continue
		}
		return found, e.trusted() < found.At+dedupWindow // older ones are over as well
	}
	return found, false
}

// memorise notes the answer to a key that was not recalled, or to a receive attempt whose messages
// have changed since.
func (e *Engine) memorise(q *queue, h row.DedupHash, answer row.Dedup) {
	bucket := answer.At / row.DedupBucket
	if n := len(q.st.Buckets); n == 0 || q.st.Buckets[n-1] < bucket {
		q.st.Buckets, q.stDirty = append(slices.Clone(q.st.Buckets), bucket), true
		q.dedup.filters = append(q.dedup.filters, dedupFilter{bucket: bucket})
	}
	if f := q.dedup.of(bucket); f != nil {
		f.add(h)
	}
	if q.dedup.written == nil {
		q.dedup.written = make(map[row.DedupHash]row.Dedup)
	}
	q.dedup.written[h] = answer
	e.rows.set(row.DedupKey(q.row.Space, bucket, h), answer.Encode(e.rows.scratch()))
}

// forgetDedup drops the buckets in which every window is over.
func (e *Engine) forgetDedup(q *queue) {
	over := 0
	for over < len(q.st.Buckets) && e.trusted() >= (q.st.Buckets[over]+1)*row.DedupBucket+
		dedupWindow {
		e.rows.deleteRange(row.DedupSpan(q.row.Space, q.st.Buckets[over]))
		over++
	}
	if over == 0 {
		return
	}
	q.st.Buckets, q.stDirty = slices.Clone(q.st.Buckets[over:]), true
	q.dedup.filters = slices.DeleteFunc(q.dedup.filters, func(f dedupFilter) bool {
		return !slices.Contains(q.st.Buckets, f.bucket)
	})
}

// A filter recognizes nearly every key that was never added to it. It grows by layers, each four
// times the size of the one before.
type filter struct {
	layers [][]uint64
	room   int // keys that the last layer can still take
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
