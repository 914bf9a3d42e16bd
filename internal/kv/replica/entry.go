package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// entryFormat is the version of entries that this program writes.
const entryFormat = 1

// Kinds of entries. Kind 3, a part of a turn, is reserved.
const (
	Turn  byte = 1 // the writes of one turn
	Begin byte = 2 // the first entry of a session, which writes nothing
)

// HeaderSize is how many bytes of an entry precede its writes.
const HeaderSize = 42

// A Session names one term of a leader. It is random, and new each time a node takes the lead.
type Session [16]byte

// A Mark names one state of the rows: how many commits led to it, and the hash of their chain.
type Mark struct{ Number, Hash uint64 }

// Next returns the mark of the commit that follows, given its writes.
func (m Mark) Next(writes []byte) Mark {
	var before [16]byte
	binary.BigEndian.PutUint64(before[:8], m.Hash)
	binary.BigEndian.PutUint64(before[8:], m.Number+1)
	var digest xxhash.Digest
	digest.Reset()
	digest.Write(before[:])
	digest.Write(writes)
	return Mark{m.Number + 1, digest.Sum64()}
}

// An Entry is what a leader proposes, all integers big endian:
//
//	offset  size  field
//	     0     1  version, 1
//	     1     1  kind
//	     2    16  session
//	    18     8  commit number
//	    26     8  hash of the commit before
//	    34     8  hash of this commit: XXH64 of the hash before, the number and the writes
//	    42        the writes, as the state encodes them
//
// An entry of kind Begin states the mark that its leader found: both hashes are the hash of that
// mark.
type Entry struct {
	Kind    byte
	Session Session
	Before  uint64 // hash of the commit before
	Mark    Mark   // of this commit
	Writes  []byte
}

// A NewerError says that an entry was written by a newer program.
type NewerError struct{ Version byte }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the log has an entry of format %d and this program knows formats up to %d: "+
		"run the version that wrote it, or a later one", e.Version, entryFormat)
}

// ErrMalformed says that an entry is too short or of an unknown kind.
var ErrMalformed = errors.New("the entry is not in the expected form")

// appendHeader appends everything of an entry but its writes.
func (e *Entry) appendHeader(b []byte) []byte {
	b = append(b, entryFormat, e.Kind)
	b = append(b, e.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, e.Mark.Number)
	b = binary.BigEndian.AppendUint64(b, e.Before)
	return binary.BigEndian.AppendUint64(b, e.Mark.Hash)
}

// Encode returns the bytes of an entry.
func (e *Entry) Encode() []byte {
	return append(e.appendHeader(make([]byte, 0, HeaderSize+len(e.Writes))), e.Writes...)
}

// Decode reads an entry, whose writes lie in b. It does not check that the entry follows another
// one: see Follows.
func Decode(b []byte) (Entry, error) {
	switch {
	case len(b) == 0:
		return Entry{}, ErrMalformed
	case b[0] > entryFormat:
		return Entry{}, &NewerError{b[0]}
	case b[0] == 0 || len(b) < HeaderSize || b[1] != Turn && b[1] != Begin:
		return Entry{}, ErrMalformed
	}
	return Entry{
		Kind:    b[1],
		Session: Session(b[2:18]),
		Before:  binary.BigEndian.Uint64(b[26:]),
		Mark:    Mark{binary.BigEndian.Uint64(b[18:]), binary.BigEndian.Uint64(b[34:])},
		Writes:  b[HeaderSize:],
	}, nil
}

// FirstEntry returns the first entry of a session whose leader has the rows of m.
func FirstEntry(session Session, m Mark) *Entry {
	return &Entry{Kind: Begin, Session: session, Before: m.Hash, Mark: m}
}

// Follows reports whether the entry may be applied to rows with the mark m: a turn must be the next
// commit of the chain, and a session must begin with the very same rows.
func (e *Entry) Follows(m Mark) bool {
	if e.Kind == Begin {
		return e.Mark == m && e.Before == m.Hash && len(e.Writes) == 0
	}
	return e.Before == m.Hash && e.Mark == m.Next(e.Writes)
}
