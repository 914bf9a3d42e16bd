package row

import (
	"math/bits"

	"tenaq/internal/engine/key"
)

// The kinds of rows in FamilyRecord.
const (
	recordsKind = 0x01
	recordKind  = 0x02
	expiryKind  = 0x03
)

// Limits of a record, in bytes. They are those of package records.
const (
	RecordKeyMax   = 1024
	RecordValueMax = 256 << 10
)

// A Record is a value that programs keep under a key, and replace by compare-and-swap.
type Record struct {
	Version uint64 // of this write; larger than that of every earlier write of any record
	Written int64
	Expires int64 // zero for never
	Value   []byte

	// Exact is whether its expiry row stands at Expires, as earlier versions wrote all of them.
	Exact bool
}

// recordVersion is the version of the record row since expiry rows of long lives stand at multiples
// of a step.
const recordVersion = 2

// A record whose life is shorter than stepsInLife steps of stepMin has its expiry row at the
// millisecond.
const (
	stepsInLife = 4096
	stepMin     = 1024
)

// ExpiryAt returns where the expiry row of the record stands; zero if it does not expire. It stands
// at Expires, or a little later if the record lives for more than 70 minutes: at the next multiple
// of the largest power of two, in milliseconds, of which that life has at least 4,096. So a record
// that is written again soon and lives on for as long, as a claim is when it ends, keeps its expiry
// row.
func (r *Record) ExpiryAt() int64 {
	steps := uint64(max(r.Expires-r.Written, 0)) / stepsInLife
	if r.Exact || r.Expires == 0 || steps < stepMin {
		return r.Expires
	}
	step := int64(1) << (bits.Len64(steps) - 1)
	if past := r.Expires % step; past > 0 && r.Expires <= MaxTime-step {
		return r.Expires - past + step
	}
	return r.Expires
}

func (r *Record) Encode(b []byte) []byte { return encode(b, r, (*Record).parts) }

func (r *Record) parts(c *Codec) {
	version := byte(recordVersion)
	if r.Exact {
		version = Version
	}
	r.Exact = c.version(version, recordVersion) < recordVersion
	c.Uint(&r.Version)
	c.Int(&r.Written, &r.Expires)
	c.bytes(&r.Value)
}

func DecodeRecord(value []byte) (r Record, ok bool) {
	ok = decode(value, &r, (*Record).parts)
	return r, ok
}

// Records is the row about all records.
type Records struct {
	Last  uint64 // the latest version that a write was given
	Swept int64  // there is no expiry row before this time
}

func (r *Records) Encode(b []byte) []byte { return encode(b, r, (*Records).parts) }

func (r *Records) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&r.Last)
	c.Int(&r.Swept)
}

func DecodeRecords(value []byte) (r Records, ok bool) {
	ok = decode(value, &r, (*Records).parts)
	return r, ok
}

// A RecordName is what identifies a record.
type RecordName struct{ Account, Key string }

// RecordsKey is the key of the row about all records.
func RecordsKey() []byte { return []byte{FamilyRecord, recordsKind} }

// RecordKey is the key of a record. The name stands at its end as it is, so that records are in the
// order of the bytes of their names, and those with a common beginning are neighbors.
func RecordKey(n RecordName) []byte { return appendRecord(newRecordKey(recordKind, n), n) }

// ExpiryKey is the key of the row that stands for the expiry of a record.
func ExpiryKey(at int64, n RecordName) []byte {
	return appendRecord(key.AppendInt64(newRecordKey(expiryKind, n), at), n)
}

// newRecordKey returns the beginning of a key, with room for the rest.
func newRecordKey(kind byte, n RecordName) []byte {
	return append(make([]byte, 0, 2+8+len(n.Account)+2+len(n.Key)), FamilyRecord, kind)
}

func appendRecord(k []byte, n RecordName) []byte {
	return append(key.AppendString(k, n.Account), n.Key...)
}

// RecordOf reads the name of a record from its key.
func RecordOf(k []byte) (n RecordName, ok bool) {
	if len(k) < 2 || k[0] != FamilyRecord || k[1] != recordKind {
		return n, false
	}
	return recordOf(k[2:])
}

// ExpiryOf reads the time and the name from the key of an expiry row.
func ExpiryOf(k []byte) (at int64, n RecordName, ok bool) {
	if len(k) < 2 || k[0] != FamilyRecord || k[1] != expiryKind {
		return 0, n, false
	}
	at, rest, ok := key.Int64(k[2:])
	if !ok {
		return 0, n, false
	}
	n, ok = recordOf(rest)
	return at, n, ok
}

func recordOf(k []byte) (n RecordName, ok bool) {
	account, rest, ok := key.String(k)
	return RecordName{account, string(rest)}, ok && len(rest) > 0 && len(rest) <= RecordKeyMax
}

// RecordSpan covers all records.
func RecordSpan() Span { return Below([]byte{FamilyRecord, recordKind}) }

// ExpirySpan covers the expiry rows from a time on.
func ExpirySpan(from int64) Span {
	return Span{Lo: key.AppendInt64([]byte{FamilyRecord, expiryKind}, from),
		Hi: []byte{FamilyRecord, expiryKind + 1}}
}
