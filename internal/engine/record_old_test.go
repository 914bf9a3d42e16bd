package engine

import (
	"slices"
	"testing"

	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// A store of a version whose expiry rows all stand at the millisecond loses no record that is still
// alive, and keeps none forever: each record keeps its row until it is written again. [REC-5]
func TestRecordsOfEarlierVersion(t *testing.T) {
	const life, minute = int64(15 * 24 * 3600_000), int64(60_000)
	r := &nameRig{T: t, store: &reading{Store: kv.NewMemory()}, now: testTime}
	r.open(0)
	put := func(key string, version uint64) {
		t.Helper()
		op := &PutRecord{Account: "1", Key: key, If: version, TTL: life}
		if err := r.engine.Apply(Command{Now: r.now, Op: op}); err != nil || op.Conflict {
			t.Fatal(key, op.Conflict, err)
		}
	}
	version := func(key string) uint64 {
		op := &GetRecord{Account: "1", Key: key}
		if err := r.engine.Apply(Command{Now: r.now, Op: op}); err != nil {
			t.Fatal(err)
		}
		return op.Record.Version
	}
	sweep := func(want int) {
		t.Helper()
		op := &SweepRecords{Max: 100}
		if err := r.engine.Apply(Command{Now: r.now, Op: op}); err != nil || op.Removed != want {
			t.Fatalf("%d records were removed, want %d; %v", op.Removed, want, err)
		}
		r.commit()
	}
	for _, key := range []string{"left", "again", "deleted"} {
		put(key, 0)
	}
	r.commit()
	b := r.store.NewBatch()
	for k := range r.store.Scan(row.ExpirySpan(0).Lo, row.ExpirySpan(0).Hi) {
		b.Delete(slices.Clone(k))
	}
	for k, v := range r.store.Scan(row.RecordSpan().Lo, row.RecordSpan().Hi) {
		stored, _ := row.DecodeRecord(v)
		name, _ := row.RecordOf(k)
		stored.Exact = true
		b.Set(slices.Clone(k), stored.Encode(nil))
		b.Set(row.ExpiryKey(stored.Expires, name), []byte{row.Version})
	}
	if wait := b.Force(); wait != nil {
		wait()
	}
	r.open(0)
	expires := r.now + life
	r.now += minute
	put("again", version("again"))
	del := &DeleteRecord{Account: "1", Key: "deleted", If: version("deleted")}
	if err := r.engine.Apply(Command{Now: r.now, Op: del}); err != nil || del.Conflict {
		t.Fatal(del, err)
	}
	r.commit()
	if rows := slices.Collect(keysOf(r.store, row.ExpirySpan(0))); len(rows) != 2 {
		t.Errorf("there are %d expiry rows for 2 records: %x", len(rows), rows)
	}
	r.now = expires
	sweep(1)
	if version("again") == 0 || version("left") != 0 {
		t.Error("the record that was written again is gone, or the other one is not")
	}
	r.now += 6 * minute
	sweep(1)
	if rows := slices.Collect(keysOf(r.store, row.Below([]byte{row.FamilyRecord}))); len(rows) != 1 {
		t.Errorf("beside the row about all records there are %x", rows)
	}
}

// keysOf yields the keys of a span.
func keysOf(store kv.Store, s row.Span) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range store.Scan(s.Lo, s.Hi) {
			if !yield(string(k)) {
				return
			}
		}
	}
}
