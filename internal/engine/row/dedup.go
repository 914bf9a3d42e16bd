package row

import (
	"crypto/sha256"

	"tenaq/internal/work/sqslimits"
)

// DedupBucket is how many milliseconds the rows of one range delete cover.
const DedupBucket = 60_000

// A DedupHash stands for a key: two keys with the same one are taken for the same.
type DedupHash [16]byte

// What is hashed. The length of the group keeps a group "a" with id "bc" and a group "ab" with id
// "c" apart.
const (
	HashQueue   = 'q' // deduplication id within a queue
	HashGroup   = 'g' // deduplication id within a group
	HashAttempt = 'r' // receive request attempt id
)

func HashOf(what byte, group, id string) (h DedupHash) {
	b := make([]byte, 0, 2+2*sqslimits.IDMax)
	b = append(b, what, byte(len(group)))
	b = append(b, group...)
	b = append(b, id...)
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}

// A Dedup is what was answered first: to a send the message, to a receive the deliveries.
type Dedup struct {
	At         int64
	ID         MessageID // of a send
	Sequence   Sequence
	Deliveries []Attempted // of a receive
}

func (d *Dedup) Encode(b Enc) []byte {
	b.byte(Version)
	if d.Deliveries == nil {
		b.byte(dedupSend)
		b.int(d.At)
		b.raw(d.ID[:])
		b.uint(uint64(d.Sequence))
		return b
	}
	b.byte(dedupReceive)
	b.int(d.At)
	b.uint(uint64(len(d.Deliveries)))
	for _, a := range d.Deliveries {
		b.uint(a.Seq)
		b.uint(uint64(a.Generation))
	}
	return b
}

// Attempted is a delivery of a receive attempt.
type Attempted struct {
	Seq        uint64
	Generation uint32
}

const (
	dedupSend    = 1
	dedupReceive = 2
)

func DecodeDedup(value []byte) (e Dedup, ok bool) {
	d := Dec{B: value}
	d.Version(Version)
	kind := d.byte()
	e.At = d.Int()
	switch kind {
	case dedupSend:
		e.ID = d.ID()
		e.Sequence = Sequence(d.Uint())
	case dedupReceive:
		n := d.Uint()
		if n == 0 {
			return e, false
		}
		for ; n > 0 && !d.Bad; n-- {
			e.Deliveries = append(e.Deliveries, Attempted{d.Uint(), uint32(d.Uint())})
		}
	default:
		return e, false
	}
	return e, d.Done()
}
