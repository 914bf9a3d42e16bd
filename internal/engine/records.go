package engine

import (
	"fmt"

	"tenaq/internal/engine/row"
)

// Records are values that programs keep beside the queues, such as claims. A write is conditional
// on the version of the record, and takes a version that is larger than all earlier ones of any
// record. So versions rise over deletes and expiry as well, and are fencing tokens. [REC-1, REC-2]

// A Record is a record as it is now.
type Record struct {
	Key     string
	Value   []byte
	Version uint64 // zero if there is no record
	Age     int64  // milliseconds since it was written
	TTL     int64  // milliseconds until it expires; zero for never
	Cut     bool   // the value is left out
}

// cut leaves out a value of more than most bytes. Zero is no limit.
func (r *Record) cut(most int) {
	if most > 0 && len(r.Value) > most {
		r.Value, r.Cut = nil, true
	}
}

// records is what the engine keeps in memory about records.
type records struct {
	row.Records
	dirty bool // the row has to be written
	// what was written in this turn and lately, because a claim ends soon after it began; nil for
	// removed records
	recent      map[row.RecordName]*row.Record
	recentBytes int // about how many bytes they have
	names       recordNames
	next        int64 // no expiry row stands before; row.MaxTime if there is none
}

// recordBytes is about how many bytes a record in memory has beside its key and its value.
const recordBytes = 128

// Bounds of the records in memory between two turns.
const (
	recentMax      = 4096
	recentBytesMax = 2 << 20
)

// endTurn forgets the records in memory when they are many.
func (r *records) endTurn() {
	if len(r.recent) > recentMax || r.recentBytes > recentBytesMax {
		clear(r.recent)
		r.recentBytes = 0
	}
}

func (e *Engine) loadRecords() {
	r := &e.records
	r.Records, _ = read(&e.rows, "records", row.RecordsKey(), row.DecodeRecords)
	r.recent, r.next = make(map[row.RecordName]*row.Record), row.MaxTime
	r.names = recordNames{rest: row.RecordSpan().Lo, most: recordNamesBytes}
	span := row.ExpirySpan(r.Swept)
	for k := range e.rows.store.Scan(span.Lo, span.Hi) {
		at, _, ok := row.ExpiryOf(k)
		if ok {
			r.next = at
			break
		}
		e.rows.damaged("expiry", k)
	}
}

// saveRecords writes the row about all records.
func (e *Engine) saveRecords() {
	if e.records.dirty {
		e.rows.set(row.RecordsKey(), e.records.Encode(e.rows.scratch()))
		e.records.dirty = false
	}
}

// recordOf returns a record, even if it has expired; nil if there is none.
func (e *Engine) recordOf(n row.RecordName) *row.Record {
	if r, ok := e.records.recent[n]; ok {
		return r
	}
	if e.learnNames(); e.records.names.lack(n) {
		return nil
	}
	if r, ok := read(&e.rows, "record", row.RecordKey(n), row.DecodeRecord); ok {
		return &r
	}
	return nil
}

// showRecord returns a record as it is now: none if it has expired. While expiry is paused, no
// record expires. [REC-4]
func (e *Engine) showRecord(key string, r *row.Record) Record {
	if r == nil || r.Expires != 0 && r.Expires <= e.trusted() {
		return Record{}
	}
	shown := Record{Key: key, Value: r.Value, Version: r.Version, Age: e.now - r.Written}
	if r.Expires != 0 {
		shown.TTL = max(1, r.Expires-e.now)
	}
	return shown
}

// writeRecord puts a record in the place of another one. Either may be nil.
func (e *Engine) writeRecord(n row.RecordName, old, r *row.Record) {
	was, is := int64(0), int64(0)
	if old != nil {
		was = old.ExpiryAt()
	}
	if r == nil {
		e.rows.delete(row.RecordKey(n))
	} else {
		is = r.ExpiryAt()
		e.rows.set(row.RecordKey(n), r.Encode(e.rows.scratch()))
		if old == nil {
			e.noteName(n)
		}
	}
	if was != is && was != 0 {
		e.rows.delete(row.ExpiryKey(was, n))
	}
	if was != is && is != 0 {
		e.rows.set(row.ExpiryKey(is, n), []byte{row.Version})
		e.records.next = min(e.records.next, is)
	}
	e.records.recent[n] = r
	e.records.recentBytes += len(n.Account) + len(n.Key) + recordBytes
	if r != nil {
		e.records.recentBytes += len(r.Value)
	}
}

// matches reports whether a record has the version that it should have, and returns the current one
// otherwise. Zero stands for no record.
func (e *Engine) matches(key string, r *row.Record, version uint64) (current Record, ok bool) {
	if current = e.showRecord(key, r); current.Version != version {
		return current, false
	}
	return Record{}, true
}

func checkRecord(key string) *Error {
	switch n := len(key); {
	case n == 0:
		return errMissing("Key")
	case n > row.RecordKeyMax:
		return invalid(fmt.Sprintf("The key of a record has at most %d bytes, and this one has %d.",
			row.RecordKeyMax, n))
	}
	return nil
}

// GetRecord reads a record.
type GetRecord struct {
	Account, Key string

	Record Record // the answer
}

// Class is that of receives, because a worker waits for it.
func (*GetRecord) Class() Class { return ClassReceive }

func (op *GetRecord) apply(e *Engine, _ *Command) *Error {
	if err := checkRecord(op.Key); err != nil {
		return err
	}
	op.Record = e.showRecord(op.Key, e.recordOf(row.RecordName{Account: op.Account, Key: op.Key}))
	return nil
}

// PutRecord writes a record if the current one has the version If. Zero means that there must be no
// record.
type PutRecord struct {
	Account, Key string
	Value        []byte // never changed from now on, because other answers may share it
	If           uint64
	TTL          int64 // milliseconds; zero for never
	ShowMax      int   // a longer value of a conflict is left out; zero for none

	// Message, unless nil, is deleted in the same step if the record is written. [REC-15]
	Message *DeleteMessage

	// The answer: the record that was written, or the current one in case of a conflict. Refused
	// says why the message was not deleted although the record was written.
	Record   Record
	Conflict bool
	Refused  *Error
}

// Class is that of sends for a new record. A write of an existing one goes with the visibility
// changes: if a holder cannot renew or complete its claim, others repeat its work. [REC-9]
func (op *PutRecord) Class() Class {
	if op.If == 0 {
		return ClassSend
	}
	return ClassVisibility
}

// Size is about how many bytes the operation writes.
func (op *PutRecord) Size() int64 { return int64(len(op.Key) + len(op.Value)) }

func (op *PutRecord) apply(e *Engine, _ *Command) *Error {
	if err := checkRecord(op.Key); err != nil {
		return err
	}
	switch n := len(op.Value); {
	case n > row.RecordValueMax:
		return invalid(fmt.Sprintf(
			"The value of a record has at most %d bytes, and this one has %d.", row.RecordValueMax, n))
	case op.TTL < 0:
		return invalid("The lifetime of a record must not be negative.")
	}
	name := row.RecordName{Account: op.Account, Key: op.Key}
	old := e.recordOf(name)
	current, ok := e.matches(op.Key, old, op.If)
	if op.Record, op.Conflict = current, !ok; op.Conflict {
		op.Record.cut(op.ShowMax)
		return nil
	}
	if op.Message != nil && op.Message.again(e) {
		return ErrAgain
	}
	r := &row.Record{Version: e.records.version(e.now), Written: e.now, Value: op.Value}
	if op.TTL > 0 {
		r.Expires = e.now + min(op.TTL, row.MaxTime-e.now)
	}
	if op.Message != nil { // first, because it looks for what it needs before it writes
		op.Refused = op.Message.carryOut(e)
	}
	e.writeRecord(name, old, r)
	op.Record = e.showRecord(op.Key, r)
	return nil
}

// version returns the version of the next write: the time in microseconds, or one more than the
// last version if that is larger. [REC-2]
func (r *records) version(now int64) uint64 {
	r.Last, r.dirty = max(uint64(now)*1000, r.Last+1), true
	return r.Last
}

// DeleteRecord removes a record if it has the version If. Zero is the version of no record, so it
// is always a conflict.
type DeleteRecord struct {
	Account, Key string
	If           uint64
	ShowMax      int // a longer value of a conflict is left out; zero for none

	// The answer: the current record in case of a conflict.
	Record   Record
	Conflict bool
}

// Class is that of deletes.
func (*DeleteRecord) Class() Class { return ClassDelete }

func (op *DeleteRecord) apply(e *Engine, _ *Command) *Error {
	if err := checkRecord(op.Key); err != nil {
		return err
	}
	name := row.RecordName{Account: op.Account, Key: op.Key}
	old := e.recordOf(name)
	current, ok := e.matches(op.Key, old, op.If)
	if op.Record, op.Conflict = current, !ok || op.If == 0; !op.Conflict {
		e.writeRecord(name, old, nil)
	}
	op.Record.cut(op.ShowMax)
	return nil
}
