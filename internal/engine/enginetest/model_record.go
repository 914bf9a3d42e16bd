package enginetest

import (
	"maps"
	"slices"
	"strings"

	"tenaq/internal/engine"
)

// A recordName is what a model keeps a record under.
type recordName struct{ account, key string }

type modelRecord struct {
	value            string
	version          uint64
	written, expires int64 // expires is zero for never
}

// removal is when the record is removed, unlike when it expires: a life of more than 70 minutes has
// a 4,096th of itself more, at most. [REC-5]
func (r modelRecord) removal() int64 {
	step := int64(1)
	for 2*step*4096 <= r.expires-r.written {
		step *= 2
	}
	if step < 1024 {
		return r.expires
	}
	return (r.expires + step - 1) / step * step
}

// time is what records expire by: it does not advance while expiry is paused.
func (m *Model) time() int64 {
	if m.hold {
		return max(m.heldFrom, 1)
	}
	return m.now
}

// record returns a record as it is now.
func (m *Model) record(n recordName) (shown engine.Record) {
	r, ok := m.records[n]
	if !ok || r.expires != 0 && r.expires <= m.time() {
		return shown
	}
	shown = engine.Record{Key: n.key, Value: []byte(r.value), Version: r.version,
		Age: m.now - r.written}
	if r.expires != 0 {
		shown.TTL = max(1, r.expires-m.now)
	}
	return shown
}

func (m *Model) putRecord(op *engine.PutRecord) {
	n := recordName{op.Account, op.Key}
	op.Record, op.Conflict = m.record(n), false
	if op.Record.Version != op.If {
		op.Conflict = true
		return
	}
	m.version = max(m.version+1, uint64(m.now)*1000)
	r := modelRecord{value: string(op.Value), version: m.version, written: m.now}
	if op.TTL > 0 {
		r.expires = m.now + op.TTL
	}
	m.records[n] = r
	op.Record = m.record(n)
	op.Refused = nil
	if op.Message != nil { // [REC-15]
		op.Refused = m.onQueue(Request{Command: engine.Command{Op: op.Message}})
	}
}

func (m *Model) deleteRecord(op *engine.DeleteRecord) {
	n := recordName{op.Account, op.Key}
	op.Record = m.record(n)
	if op.Conflict = op.If == 0 || op.Record.Version != op.If; !op.Conflict {
		op.Record = engine.Record{}
		delete(m.records, n)
	}
}

// listRecords looks at all records for each page.
func (m *Model) listRecords(op *engine.ListRecords) {
	op.Records, op.Next = nil, ""
	names := slices.SortedFunc(maps.Keys(m.records), func(a, b recordName) int {
		return strings.Compare(a.key, b.key)
	})
	for _, n := range names {
		r := m.record(n)
		switch {
		case n.account != op.Account || !strings.HasPrefix(n.key, op.Prefix) || n.key <= op.After,
			r.Version == 0:
		case len(op.Records) == op.Max:
			op.Next = op.Records[op.Max-1].Key
			return
		default:
			op.Records = append(op.Records, r)
		}
	}
}

func (m *Model) sweepRecords(op *engine.SweepRecords) {
	op.Removed, op.More = 0, false
	maps.DeleteFunc(m.records, func(_ recordName, r modelRecord) bool {
		over := r.expires != 0 && r.removal() <= m.time()
		if over {
			op.Removed++
		}
		return over
	})
}
