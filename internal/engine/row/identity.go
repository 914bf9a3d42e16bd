package row

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// A message id carries the place of the message when it got the id, so that it is found without an
// index of ids and without a row for each send. [ID-8]
//
// An id is a UUID of version 4. Of its 122 free bits, 58 are random, and 64 are the space and the
// number of the message, masked by a keyed function of the random ones. So ids look random, and
// tell nothing about queues and numbers to a reader without the key. Every id, also one that was
// made elsewhere, names some place: a lookup there compares the message with the id.

// How many bits of a place are in an id.
const (
	placeSeqBits   = 38
	placeSpaceBits = 64 - placeSeqBits
)

// A Place is where a message is.
type Place struct{ Space, Seq uint64 }

// An IDKey makes the message ids of a store, and reads the places in them.
type IDKey [16]byte

// New returns the id of the message at a place. Its random bits are those of random, a UUID of
// version 4. If the numbers of the place are too large for an id, it returns random and false.
func (key *IDKey) New(random MessageID, at Place) (id MessageID, ok bool) {
	if at.Space >= 1<<placeSpaceBits || at.Seq >= 1<<placeSeqBits {
		return random, false
	}
	hi := binary.BigEndian.Uint64(random[:8]) &^ 3
	masked := (at.Space<<placeSeqBits | at.Seq) ^ key.mask(hi)
	binary.BigEndian.PutUint64(id[:8], hi|masked>>62)
	binary.BigEndian.PutUint64(id[8:], 1<<63|masked&(1<<62-1))
	return id, true
}

// Place returns the place that an id carries.
func (key *IDKey) Place(id MessageID) Place {
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	place := (hi<<62 | lo&(1<<62-1)) ^ key.mask(hi&^3)
	return Place{Space: place >> placeSeqBits, Seq: place & (1<<placeSeqBits - 1)}
}

// mask is the keyed function of the first half of an id without its last two bits.
func (key *IDKey) mask(hi uint64) uint64 {
	var room [len(key) + 8]byte
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(append(room[:0], key[:]...), hi))
	return binary.BigEndian.Uint64(sum[:])
}

// MovedIDs returns the ids under which moved has the place of a message: its own and that of its
// lineage, unless they carry the place. Only messages that are Away have any.
func (m *Meta) MovedIDs(ids *IDKey, space uint64) (list []MessageID) {
	for _, id := range []MessageID{m.ID, m.Lineage} {
		if m.Away && ids.Place(id) != (Place{space, m.Seq}) && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// MovedKey is the key of the row that says where the message with an id, or of a lineage, is now.
func MovedKey(id MessageID) []byte { return append([]byte{FamilyMoved}, id[:]...) }

func EncodeMoved(b []byte, at Place) []byte {
	c := Codec{B: b}
	c.Version(Version)
	c.Uint(&at.Space, &at.Seq)
	return c.B
}

// DecodeMoved reads a row of moved.
func DecodeMoved(k, v []byte) (id MessageID, at Place, ok bool) {
	c := Codec{B: v, Reading: true}
	c.Version(Version)
	c.Uint(&at.Space, &at.Seq)
	if len(k) != 1+len(id) || k[0] != FamilyMoved {
		return id, at, false
	}
	copy(id[:], k[1:])
	return id, at, c.Done() && at.Space != 0 && at.Seq != 0
}

// OwnerKey is the key of the row that names the queue of a space.
func OwnerKey(space uint64) []byte { return SpaceKey(space, KindOwner) }

func EncodeOwner(b []byte, name QueueName) []byte { return encode(b, &name, (*QueueName).parts) }

func DecodeOwner(value []byte) (name QueueName, ok bool) {
	ok = decode(value, &name, (*QueueName).parts)
	return name, ok
}
