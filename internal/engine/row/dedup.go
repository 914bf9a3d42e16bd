package row

import (
	"crypto/sha256"

	"tenaq/internal/work/sqslimits"
)

// DedupBucket is how many milliseconds the rows of one range delete cover.
const DedupBucket = 60_000

// A DedupHash stands for a key: two keys with the same one are taken for the same.
type DedupHash [16]byte

// The kinds of hashed text. The length of the group distinguishes a group "a" with id "bc" from a
// group "ab" with id "c".
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

func (d *Dedup) Encode(b []byte) []byte { return encode(b, d, (*Dedup).parts) }

func (d *Dedup) parts(c *Codec) {
	c.Version(Version)
	kind := byte(dedupSend)
	if d.Deliveries != nil {
		kind = dedupReceive
	}
	c.Byte(&kind)
	c.Int(&d.At)
	switch kind {
	case dedupSend:
		c.ID((*[16]byte)(&d.ID))
		c.Uint((*uint64)(&d.Sequence))
	case dedupReceive:
		list(c, &d.Deliveries, func(a *Attempted) { c.Uint(&a.Seq); c.uint32(&a.Generation) })
	}
	if kind < dedupSend || kind > dedupReceive || kind == dedupReceive && d.Deliveries == nil {
		c.fail()
	}
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

func DecodeDedup(value []byte) (d Dedup, ok bool) {
	ok = decode(value, &d, (*Dedup).parts)
	return d, ok
}
