package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"tenaq/internal/work/sqslimits"
)

// Deduplication of sends and of receive attempts on FIFO queues. Both remember for five minutes what was
// answered to a text that the client chose, and answer the same again. What has become of the messages
// meanwhile does not matter to a send [DEDUP-9, DEDUP-10], so the rows are apart from the messages.
//
// They are filed by the minute of their first use and thrown away a whole minute at a time, by one range
// delete, when the window of its last millisecond is over. A send would have to look for its key in up to
// six minutes, nearly always in vain, so each minute that began while the queue was in memory has a filter
// that knows which keys it has not. The minutes of before a restart are looked up until they are over.

const (
	dedupWindow = int64(sqslimits.DedupWindow / millisecond)
	dedupBucket = 60_000
)

// A dedupHash stands for a key: two keys with the same one are taken for the same.
type dedupHash [16]byte

// What is hashed. The length of the group keeps a group "a" with id "bc" and a group "ab" with id "c" apart.
const (
	hashQueue   = 'q' // deduplication id within a queue
	hashGroup   = 'g' // deduplication id within a group
	hashAttempt = 'r' // receive request attempt id
)

func hashOf(what byte, group, id string) (h dedupHash) {
	b := make([]byte, 0, 2+2*sqslimits.IDMax)
	b = append(b, what, byte(len(group)))
	b = append(b, group...)
	b = append(b, id...)
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}

// A dedupEntry is what was answered first: to a send the message, to a receive the deliveries.
type dedupEntry struct {
	at         int64
	id         MessageID // of a send
	sequence   Sequence
	deliveries []attempted // of a receive
}

// attempted is a delivery of a receive attempt.
type attempted struct {
	seq        uint64
	generation uint32
}

const (
	dedupSend    = 1
	dedupReceive = 2
)

func (d *dedupEntry) encode(b enc) []byte {
	b.byte(rowVersion)
	if d.deliveries == nil {
		b.byte(dedupSend)
		b.int(d.at)
		b.raw(d.id[:])
		b.uint(uint64(d.sequence))
		return b
	}
	b.byte(dedupReceive)
	b.int(d.at)
	b.uint(uint64(len(d.deliveries)))
	for _, a := range d.deliveries {
		b.uint(a.seq)
		b.uint(uint64(a.generation))
	}
	return b
}

func decodeDedup(value []byte) (e dedupEntry, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
	kind := d.byte()
	e.at = d.int()
	switch kind {
	case dedupSend:
		e.id = d.id()
		e.sequence = Sequence(d.uint())
	case dedupReceive:
		n := d.uint()
		if n == 0 {
			return e, false
		}
		for ; n > 0 && !d.bad; n-- {
			e.deliveries = append(e.deliveries, attempted{d.uint(), uint32(d.uint())})
		}
	default:
		return e, false
	}
	return e, d.done()
}

// A dedupCache is what a queue keeps of its dedup rows in memory.
type dedupCache struct {
	written map[dedupHash]dedupEntry // in this turn
	filters []dedupFilter            // of buckets that began while the queue was in memory
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

// recall returns what was answered to a key inside its window.
func (e *Engine) recall(q *queue, h dedupHash) (found dedupEntry, ok bool) {
	if found, ok = q.dedup.written[h]; ok {
		return found, e.trusted() < found.at+dedupWindow
	}
	for _, bucket := range slices.Backward(q.st.buckets) {
		if f := q.dedup.of(bucket); f != nil && !f.mayHave(h) {
			continue
		}
		k := dedupKey(q.row.space, bucket, h)
		value, ok := e.rows.get(k)
		if !ok {
			continue
		}
		if found, ok = decodeDedup(value); !ok {
			e.rows.damaged("dedup", k)
		}
		return found, e.trusted() < found.at+dedupWindow // older ones are over as well
	}
	return found, false
}

// memorise notes what is answered to a key that was not recalled, or to a receive attempt whose messages
// are no longer as the earlier receive left them.
func (e *Engine) memorise(q *queue, h dedupHash, answer dedupEntry) {
	bucket := answer.at / dedupBucket
	if n := len(q.st.buckets); n == 0 || q.st.buckets[n-1] < bucket {
		q.st.buckets, q.stDirty = append(slices.Clone(q.st.buckets), bucket), true
		q.dedup.filters = append(q.dedup.filters, dedupFilter{bucket: bucket})
	}
	if f := q.dedup.of(bucket); f != nil {
		f.add(h)
	}
	if q.dedup.written == nil {
		q.dedup.written = make(map[dedupHash]dedupEntry)
	}
	q.dedup.written[h] = answer
	e.rows.set(dedupKey(q.row.space, bucket, h), answer.encode(e.rows.scratch()))
}

// forgetDedup throws away the buckets of which every window is over.
func (e *Engine) forgetDedup(q *queue) {
	over := 0
	for over < len(q.st.buckets) && e.trusted() >= (q.st.buckets[over]+1)*dedupBucket+dedupWindow {
		e.rows.deleteRange(dedupSpan(q.row.space, q.st.buckets[over]))
		over++
	}
	if over == 0 {
		return
	}
	q.st.buckets, q.stDirty = slices.Clone(q.st.buckets[over:]), true
	q.dedup.filters = slices.DeleteFunc(q.dedup.filters, func(f dedupFilter) bool {
		return !slices.Contains(q.st.buckets, f.bucket)
	})
}

// A filter tells of a key that was never added to it that it was not, nearly always. It grows by adding
// layers, each four times the size of the one before.
type filter struct {
	layers [][]uint64
	room   int // keys that the last layer can still take
}

const (
	filterFirst  = 1 << 10 // words of the first layer
	filterHashes = 6
	filterBits   = 10 // per key; with six hashes one key in a hundred is not told apart
)

func (f *filter) bytes() (n int) {
	for _, words := range f.layers {
		n += 8 * len(words)
	}
	return n
}

func (f *filter) add(h dedupHash) {
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

func (f *filter) mayHave(h dedupHash) bool {
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

// filterHash yields the bits of a key in a layer of that many words. The key is a hash already; its two
// halves are combined as Kirsch and Mitzenmacher have shown to be enough.
func filterHash(h dedupHash, words int) func(yield func(uint64) bool) {
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
