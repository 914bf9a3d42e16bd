// Package handle seals receipt handles. A receipt handle names one delivery of one message. Clients
// hold it, send it back, and must not be able to forge one.
//
// A sealed handle is the standard base64 text of these bytes, integers big endian:
//
//	bytes  0 -  2  version: 1 1 1, which makes every handle begin with AQEB as those of SQS do
//	bytes  3 - 18  incarnation of the queue
//	bytes 19 - 26  space
//	bytes 27 - 34  sequence number of the message
//	bytes 35 - 38  generation of the delivery
//	bytes 39 - 46  when the delivery was received, in Unix milliseconds; only if that is known
//	then 16 bytes  HMAC-SHA256 of all bytes before, cut to 16 bytes
//
// Handles of FIFO queues have no time, and neither have those that were issued before handles had
// times. The length tells the two forms apart, and the seal covers every byte of both.
//
// There is exactly one text for each delivery and key. So a retried receive is answered with the
// same handle, and a store of handles may compare them as strings.
//
// The seal proves that this server issued the handle. Whether the delivery is still current, and of
// which queue, is decided by the engine, which sees opened handles only. The fields are not
// encrypted.
package handle

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"slices"
	"sync"
)

// A Handle names one delivery of one message.
type Handle struct {
	Incarnation [16]byte // of the queue: a queue created again under its old name has another
	Space       uint64   // of the rows: a purge takes a new one
	Seq         uint64   // of the message
	Generation  uint32   // of the delivery: each receive of the message has its own
	Received    int64    // when that was, in Unix milliseconds; 0 if the handle does not say
}

// KeySize is the length of a sealing key in bytes.
const KeySize = 32

// Size and TimedSize are the lengths of sealed handles in characters, without and with a time. SQS
// allows 1024.
const (
	Size      = (fieldsLen + macLen + 2) / 3 * 4
	TimedSize = (fieldsLen + timeLen + macLen + 2) / 3 * 4
)

const (
	fieldsLen = len(version) + 16 + 8 + 8 + 4
	timeLen   = 8
	macLen    = 16

	version = "\x01\x01\x01"
)

// encoding is strict: the four bits that the last character has to spare must be zero, or sixteen
// texts would name each delivery. The decoder skips line breaks even so; Open rules them out by
// length.
var encoding = base64.StdEncoding.Strict()

// A Sealer seals and opens handles under one key. It may be used from any goroutine.
type Sealer struct {
	states sync.Pool // of *state
}

// A state is the memory that one call works in. Keyed HMAC states are worth keeping: setting one up
// costs two of the four SHA-256 blocks of a seal.
type state struct {
	mac    hash.Hash
	sum    [sha256.Size]byte
	sealed [TimedSize / 4 * 3]byte // longer than what is sealed: a forged text may lack the padding
	text   [TimedSize]byte
}

// New returns a Sealer for a key of KeySize bytes, of which it keeps a copy. A key of another
// length is a mistake in the program, and panics.
func New(key []byte) *Sealer {
	if len(key) != KeySize {
		panic("handle: the key must have 32 bytes")
	}
	key = bytes.Clone(key)
	s := new(Sealer)
	s.states.New = func() any { return &state{mac: hmac.New(sha256.New, key)} }
	return s
}

// AppendSeal appends the sealed text of h to dst.
func (s *Sealer) AppendSeal(dst []byte, h Handle) []byte {
	st := s.states.Get().(*state)
	defer s.states.Put(st)

	b := append(st.sealed[:0], version...)
	b = append(b, h.Incarnation[:]...)
	b = binary.BigEndian.AppendUint64(b, h.Space)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	b = binary.BigEndian.AppendUint32(b, h.Generation)
	if h.Received != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(h.Received))
	}
	b = append(b, st.seal(b)...)
	return encoding.AppendEncode(slices.Grow(dst, TimedSize), b)
}

// Open returns the handle whose sealed text this is. Any text that AppendSeal did not produce under
// the same key gives false. Nothing in the text is looked at before the seal is found to be right,
// and the comparison takes the same time wherever the seal is wrong.
func (s *Sealer) Open(text string) (Handle, bool) {
	end := fieldsLen
	switch len(text) {
	case Size:
	case TimedSize:
		end += timeLen
	default:
		return Handle{}, false
	}
	st := s.states.Get().(*state)
	defer s.states.Put(st)

	n, err := encoding.Decode(st.sealed[:], st.text[:copy(st.text[:], text)])
	if err != nil || n != end+macLen {
		return Handle{}, false
	}
	fields, mac := st.sealed[:end], st.sealed[end:n]
	if !hmac.Equal(mac, st.seal(fields)) || string(fields[:len(version)]) != version {
		return Handle{}, false
	}
	var h Handle
	b := fields[len(version):]
	copy(h.Incarnation[:], b)
	h.Space = binary.BigEndian.Uint64(b[16:])
	h.Seq = binary.BigEndian.Uint64(b[24:])
	h.Generation = binary.BigEndian.Uint32(b[32:])
	if end > fieldsLen {
		// which has another text
		if h.Received = int64(binary.BigEndian.Uint64(b[36:])); h.Received == 0 {
			return Handle{}, false
		}
	}
	return h, true
}

// seal returns the seal of fields; it is valid until the next call.
func (st *state) seal(fields []byte) []byte {
	st.mac.Reset()
	st.mac.Write(fields)
	return st.mac.Sum(st.sum[:0])[:macLen]
}
