package row

import "tenaq/internal/engine/key"

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
	Expires int64 // zero for never; then an expiry row stands at this time
	Value   []byte
}

func (r *Record) Encode(b []byte) []byte {
	c := Codec{B: b}
	r.parts(&c)
	return c.B
}

func (r *Record) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&r.Version)
	c.Int(&r.Written, &r.Expires)
	c.bytes(&r.Value)
}

func DecodeRecord(value []byte) (r Record, ok bool) {
	c := Codec{B: value, Reading: true}
	r.parts(&c)
	return r, c.Done()
}

// Records is the row about all records.
type Records struct {
	Last  uint64 // the latest version that a write was given
	Swept int64  // there is no expiry row before this time
}

func (r *Records) Encode(b []byte) []byte {
	c := Codec{B: b}
	r.parts(&c)
	return c.B
}

func (r *Records) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&r.Last)
	c.Int(&r.Swept)
}

func DecodeRecords(value []byte) (r Records, ok bool) {
	c := Codec{B: value, Reading: true}
	r.parts(&c)
	return r, c.Done()
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
