package engine

import (
	"bytes"

	"tenaq/internal/engine/row"
)

// ListRecords reads records whose keys begin with Prefix and come after the key After, in the order
// of the bytes of their keys. It reads at most Max records and, beside the first, Bytes of values.
type ListRecords struct {
	Account, Prefix, After string
	Max                    int
	Bytes                  int64

	// The answer. Next is the key to continue after, or empty at the end.
	Records []Record
	Next    string
}

func (op *ListRecords) apply(e *Engine, _ *Command) *Error {
	op.Records, op.Next = nil, ""
	span := row.Below(row.RecordKey(row.RecordName{Account: op.Account, Key: op.Prefix}))
	if op.After != "" && op.After >= op.Prefix {
		after := row.RecordKey(row.RecordName{Account: op.Account, Key: op.After})
		span.Lo = append(after, 0)
	}
	if bytes.Compare(span.Lo, span.Hi) >= 0 {
		return nil // After is behind everything that begins with Prefix
	}
	last, size, looks := "", int64(0), 0
	for k, v := range e.scan(span) {
		name, ok := row.RecordOf(k)
		if !ok {
			e.rows.damaged("record", k)
		}
		stored := decoded(&e.rows, "record", k, v, row.DecodeRecord)
		r := e.showRecord(name.Key, &stored)
		there := r.Version != 0
		if looks++; there && len(op.Records) == op.Max || looks > looksMax ||
			size > 0 && size+int64(len(v)) > op.Bytes {
			op.Next = last
			break
		}
		if last, size = name.Key, size+int64(len(v)); there {
			op.Records = append(op.Records, r)
		}
	}
	return nil
}

// SweepRecords removes up to Max expired records of all accounts. It is the broker's own. [REC-5]
type SweepRecords struct {
	Max int

	// The answer. More says that others have expired.
	Removed int
	More    bool
}

func (op *SweepRecords) apply(e *Engine, _ *Command) *Error {
	type expiry struct {
		at   int64
		name row.RecordName
	}
	var over []expiry
	op.More, e.records.next = false, row.MaxTime
	for k := range e.scan(row.ExpirySpan(e.records.Swept)) {
		at, name, ok := row.ExpiryOf(k)
		if !ok {
			e.rows.damaged("expiry", k)
		}
		if at > e.trusted() || len(over) == op.Max {
			e.records.next, op.More = at, at <= e.trusted()
			break
		}
		over = append(over, expiry{at, name})
	}
	for _, x := range over {
		e.writeRecord(x.name, &row.Record{Expires: x.at, Exact: true}, nil)
	}
	if op.Removed = len(over); op.Removed > 0 {
		// The rows before it are the tombstones of expired records.
		e.records.Swept, e.records.dirty = over[op.Removed-1].at, true
	}
	return nil
}

// NextExpiry returns when the next records are to be removed, or false if none expires.
func (e *Engine) NextExpiry() (at int64, ok bool) {
	return e.records.next, e.records.next != row.MaxTime
}
