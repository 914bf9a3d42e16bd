package verify

import "tenaq/internal/engine/row"

// records looks at the records of programs, and compares those that expire with the index of that.
func (a *run) records() {
	var all row.Records
	for k, v := range a.rows(row.Below(row.RecordsKey())) {
		var ok bool
		if all, ok = row.DecodeRecords(v); !ok || len(k) != len(row.RecordsKey()) {
			a.damagedRow(row.QueueName{}, k, "records", v)
			continue
		}
		a.canonical(row.QueueName{}, k, v, all.Encode(nil))
		a.past(row.QueueName{}, k, "the last expiry that was swept", all.Swept)
	}
	r := relation{
		audit: a, name: "expiry",
		owners: row.RecordSpan(),
		rows:   row.Span{Lo: row.RecordSpan().Hi, Hi: row.ExpirySpan(0).Hi},
		wants: func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			name, ok := row.RecordOf(k)
			stored, known := row.DecodeRecord(v)
			return row.ExpiryKey(stored.ExpiryAt(), name), []byte{row.Version},
				ok && known && stored.Expires != 0
		},
		owner: func(k, _ []byte) ([]byte, bool) {
			_, name, ok := row.ExpiryOf(k)
			return row.RecordKey(name), ok
		},
	}
	for k, v := range a.rows(r.owners) {
		_, ok := row.RecordOf(k)
		stored, known := row.DecodeRecord(v)
		if !ok || !known {
			a.damagedRow(row.QueueName{}, k, "record", v)
			continue
		}
		a.canonical(row.QueueName{}, k, v, stored.Encode(nil))
		a.past(row.QueueName{}, k, "the write of the record", stored.Written)
		switch n := len(stored.Value); {
		case stored.Version == 0 || stored.Version > all.Last:
			a.report(row.QueueName{}, k, "it has version %d, and the last one given is %d",
				stored.Version, all.Last)
		case stored.Expires != 0 && stored.Expires <= stored.Written:
			a.report(row.QueueName{}, k, "it was written at %d and expires at %d", stored.Written,
				stored.Expires)
		case n > row.RecordValueMax:
			a.report(row.QueueName{}, k, "its value has %d bytes, and %d are allowed", n,
				row.RecordValueMax)
		}
		r.expect(r.wants(k, v))
	}
	r.all(func(k, v []byte) {
		at, _, ok := row.ExpiryOf(k)
		switch {
		case !ok:
			a.damagedRow(row.QueueName{}, k, "expiry", v)
		case at < all.Swept:
			a.report(row.QueueName{}, k, "it is at %d, and %d is where reading begins", at,
				all.Swept)
		}
	})
	r.settle()
	a.gaps(row.QueueName{}, row.Span{Lo: []byte{row.FamilyRecord}, Hi: row.RecordsKey()},
		row.Span{Lo: row.ExpirySpan(0).Hi, Hi: []byte{row.FamilyRecord + 1}})
}
