package engine

import (
	"fmt"
	"testing"

	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// A reading store counts the rows that are read one by one.
type reading struct {
	kv.Store
	gets int
}

func (s *reading) Get(dst, key []byte) ([]byte, bool) {
	s.gets++
	return s.Store.Get(dst, key)
}

// A nameRig writes records, some in each turn.
type nameRig struct {
	*testing.T
	store  *reading
	engine *Engine
	now    int64
}

func (r *nameRig) open(window int) {
	r.engine = Open(r.store, Config{Region: "r", Window: window, Fault: func(s string) { r.Fatal(s) }})
}

// put creates a record that is not there, or not, as the answer must say.
func (r *nameRig) put(key string, conflict bool) {
	r.Helper()
	op := &PutRecord{Account: "1", Key: key}
	if err := r.engine.Apply(Command{Now: r.now, Op: op}); err != nil || op.Conflict != conflict {
		r.Fatalf("create %s: conflict %v, %v, want %v", key, op.Conflict, err, conflict)
	}
}

func (r *nameRig) commit() {
	if wait := r.engine.Commit(); wait != nil {
		wait()
	}
}

// A record that was never there is not looked for, and one that is there is found: in the same
// turn, later, and after a restart, while the names of the rows are read piece by piece.
func TestRecordNames(t *testing.T) {
	r := &nameRig{T: t, store: &reading{Store: kv.NewMemory()}, now: testTime}
	r.open(4)
	r.commit()
	r.put("first", false) // reads what there is, which is nothing
	r.commit()
	r.store.gets = 0
	for i := range 40 {
		r.put(fmt.Sprint("k", i), false)
		r.put(fmt.Sprint("k", i), true)
		if i%3 == 0 {
			r.commit()
		}
	}
	if r.store.gets > 0 {
		t.Errorf("%d rows were read for names that are new", r.store.gets)
	}
	r.commit()
	r.open(4)
	for i := range 40 {
		r.put(fmt.Sprint("k", 39-i), true)
		r.put(fmt.Sprint("a", i), false) // before what is read piece by piece
		r.put(fmt.Sprint("z", i), false)
		if i%2 == 0 {
			r.commit()
		}
	}
	r.commit()
	r.store.gets = 0
	for i := range 40 {
		r.put(fmt.Sprint("new", i), false)
	}
	if r.store.gets > 1 {
		t.Errorf("%d rows were read for names that are new, after a restart", r.store.gets)
	}
	for _, format := range []string{"k%d", "a%d", "z%d", "new%d"} {
		for i := range 40 {
			r.put(fmt.Sprintf(format, i), true)
		}
	}
}

// A filter that is full of names of removed records begins again, and knows what the same turn has
// written before. One that could not hold twice the records there are gives up, and every name is
// looked up.
func TestRecordNamesFull(t *testing.T) {
	r := &nameRig{T: t, store: &reading{Store: kv.NewMemory()}, now: testTime}
	r.open(0)
	names := &r.engine.records.names
	names.most = 8 * filterFirst
	const alive = 100
	begun := 0
	for i := range 20_000 {
		before := names.read
		r.put(fmt.Sprint("k", i), false)
		if names.read < before {
			begun++
		}
		if i%7 == 0 {
			r.commit()
		}
		if i < alive {
			continue
		}
		r.put(fmt.Sprint("k", i-i%alive), true)
		old := row.RecordName{Account: "1", Key: fmt.Sprint("k", i-alive)}
		op := &DeleteRecord{Account: "1", Key: old.Key, If: r.engine.recordOf(old).Version}
		if err := r.engine.Apply(Command{Now: r.now, Op: op}); err != nil || op.Conflict {
			t.Fatal(op, err)
		}
	}
	if begun == 0 || names.filter.blind {
		t.Errorf("began again %d times, and gave up: %v", begun, names.filter.blind)
	}
	for i := range 10_000 {
		r.put(fmt.Sprint("more", i), false)
		if i%500 == 0 {
			r.commit()
		}
	}
	if !names.filter.blind {
		t.Error("a filter of 6,553 names is in use for 10,000 records")
	}
	for i := range 10_000 {
		r.put(fmt.Sprint("more", i), true)
	}
	r.put("other", false)
}
