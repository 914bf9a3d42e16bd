package engine

import (
	"math/bits"

	"tenaq/internal/engine/row"
)

// Types of rows that commands and answers share with the store.
type (
	QueueName = row.QueueName
	MessageID = row.MessageID
	Sequence  = row.Sequence
	Tag       = row.Tag
	Redrive   = row.Redrive
	Content   = row.Content
	Attribute = row.Attribute
	Story     = row.Story
	Attempt   = row.Attempt
	Ending    = row.Ending
)

// ParseMessageID reads the text of a message id.
func ParseMessageID(text string) (id MessageID, ok bool) { return row.ParseMessageID(text) }

// identity derives the i-th random-looking UUID (version 4) of a command from its seed. The first
// is the seed itself. The others are mixed from it, so they differ without more randomness.
func identity(seed [16]byte, i int) (id MessageID) {
	id = seed
	if i > 0 {
		hi, lo := mix(seed[:8], uint64(i)), mix(seed[8:], uint64(i)*0x9e3779b97f4a7c15)
		for j := range 8 {
			id[j], id[8+j] = byte(hi>>(8*j)), byte(lo>>(8*j))
		}
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// mix is the finaliser of splitmix64 over eight bytes and a salt: it spreads every input bit over
// the whole output.
func mix(b []byte, salt uint64) uint64 {
	var v uint64
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	v += bits.RotateLeft64(salt, 31) + salt
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// An Int is a number that a request may leave out.
type Int struct {
	Value int64
	Set   bool
}

// or returns the value, or def when there is none.
func (i Int) or(def int64) int64 {
	if i.Set {
		return i.Value
	}
	return def
}

// A Text is a string that a request may leave out.
type Text struct {
	Value string
	Set   bool
}

// A Handle is a receipt handle whose seal was checked. It names one delivery of one message. If the
// seal is wrong, Valid is false and only Text is set.
type Handle struct {
	Text        string
	Valid       bool
	Incarnation [16]byte
	Space, Seq  uint64
	Generation  uint32
	Received    int64 // time of the delivery in Unix milliseconds; 0 if the handle does not have it
}
