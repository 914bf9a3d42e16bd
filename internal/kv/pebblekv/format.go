package pebblekv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"
)

// Versions of what this package writes itself. A reader knows every version up to its own.
const (
	rowFormat     = 1 // of the rows as a whole, written into the genesis record
	chainFormat   = 2
	witnessFormat = 1
	positionForm  = 1
)

// The rows of the implementation. They begin with zero, where no caller writes.
var (
	genesisKey  = []byte{0, 'g'}
	chainPrefix = []byte{0, 'c'}
	chainEnd    = []byte{0, 'c' + 1}
	positionKey = []byte{0, 'r'}
	firstKey    = []byte{1} // where the rows of callers begin
)

// An ID names one store forever. It is made at random when the store is created.
type ID [16]byte

func (id ID) String() string { return fmt.Sprintf("%x", id[:]) }

// A mark names one state of a store: the number of the commit that led to it, and the hash of the
// chain of commits up to that one.
type mark struct {
	number uint64
	hash   uint64
}

var (
	errChecksum  = errors.New("checksum does not match")
	errMalformed = errors.New("not in the expected form")
)

// A newerError says that something was written in a format this program does not know.
type newerError struct {
	what       string
	have, know uint64
}

func (e *newerError) Error() string {
	return fmt.Sprintf("%s has format %d and this program knows formats up to %d", e.what, e.have,
		e.know)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends the checksum of b to b.
func seal(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// unseal returns b without its checksum.
func unseal(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, errMalformed
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errChecksum
	}
	return body, nil
}

const genesisMagic = "tenaq kv"

func encodeGenesis(id ID) []byte {
	b := []byte{rowFormat}
	b = append(b, genesisMagic...)
	b = append(b, id[:]...)
	return seal(b)
}

func decodeGenesis(b []byte) (ID, error) {
	body, err := unseal(b)
	if err != nil {
		return ID{}, err
	}
	if len(body) < 1+len(genesisMagic) || string(body[1:1+len(genesisMagic)]) != genesisMagic ||
		body[0] == 0 {
		return ID{}, errMalformed
	}
	if body[0] > rowFormat {
		return ID{}, &newerError{"the genesis record", uint64(body[0]), rowFormat}
	}
	if len(body) != 1+len(genesisMagic)+len(ID{}) {
		return ID{}, errMalformed
	}
	return ID(body[1+len(genesisMagic):]), nil
}

// appendChainKey appends the key of the row of a commit. The hash is part of it, so that a commit
// removes only the row of the very commit that it was made after: one of another store that bears
// the next number leaves two rows.
func appendChainKey(dst []byte, m mark) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, chainPrefix...), m.number)
	return binary.BigEndian.AppendUint64(dst, m.hash)
}

var chainValue = []byte{chainFormat}

func decodeChain(key, value []byte) (mark, error) {
	if len(value) == 0 || len(key) < len(chainPrefix)+8 {
		return mark{}, errMalformed
	}
	if value[0] > chainFormat {
		return mark{}, &newerError{"the commit chain", uint64(value[0]), chainFormat}
	}
	number, rest := binary.BigEndian.Uint64(key[len(chainPrefix):]), key[len(chainPrefix)+8:]
	switch {
	case value[0] == 1 && len(rest) == 0 && len(value) == 9:
		return mark{number, binary.BigEndian.Uint64(value[1:])}, nil
	case value[0] == 2 && len(rest) == 8 && len(value) == 1:
		return mark{number, binary.BigEndian.Uint64(rest)}, nil
	}
	return mark{}, errMalformed
}

// A chain computes the hashes of successive commits.
type chain struct {
	mark
	row     []byte // key of the row that states mark
	digest  xxhash.Digest
	scratch [16]byte
}

// genesisMark is the state of a store that holds its genesis record and nothing else.
func genesisMark(genesis []byte) mark { return mark{0, xxhash.Sum64(genesis)} }

// next returns the mark of the commit that follows, given the writes of its batch.
func (c *chain) next(writes []byte) mark {
	binary.BigEndian.PutUint64(c.scratch[:8], c.hash)
	binary.BigEndian.PutUint64(c.scratch[8:], c.number+1)
	c.digest.Reset()
	c.digest.Write(c.scratch[:])
	c.digest.Write(writes)
	return mark{c.number + 1, c.digest.Sum64()}
}

const (
	witnessMagic = "tenaqwit"
	slotSize     = 64 // bytes of a witness slot
	// from one slot to the next, so that no write of one touches the page of the other
	slotStride    = 4096
	witnessLength = slotStride + slotSize
)

// A slot is one statement of a witness.
type slot struct {
	id   ID
	turn uint64 // counts the writes of the witness; the slot with the larger one is the newer
	mark
}

func encodeSlot(s slot) []byte {
	b := make([]byte, 0, slotSize)
	b = append(b, witnessMagic...)
	b = append(b, witnessFormat, 0, 0, 0, 0, 0, 0, 0)
	b = append(b, s.id[:]...)
	b = binary.BigEndian.AppendUint64(b, s.turn)
	b = binary.BigEndian.AppendUint64(b, s.number)
	b = binary.BigEndian.AppendUint64(b, s.hash)
	b = append(b, 0, 0, 0, 0)
	return seal(b)
}

func decodeSlot(b []byte) (slot, error) {
	if len(b) != slotSize || string(b[:8]) != witnessMagic {
		return slot{}, errMalformed
	}
	body, err := unseal(b)
	if err != nil {
		return slot{}, err
	}
	if body[8] > witnessFormat {
		return slot{}, &newerError{"the witness", uint64(body[8]), witnessFormat}
	}
	return slot{
		id:   ID(body[16:32]),
		turn: binary.BigEndian.Uint64(body[32:]),
		mark: mark{binary.BigEndian.Uint64(body[40:]), binary.BigEndian.Uint64(body[48:])},
	}, nil
}
