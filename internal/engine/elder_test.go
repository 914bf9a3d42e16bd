package engine

import (
	"testing"

	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// In a store from before there were elder rows, what a move task had brought counts from its move,
// and nothing else differs: not when it is received, deleted, dead-lettered or moved on, nor when
// it expires. [METRIC-9]
func TestStoreWithoutElders(t *testing.T) {
	store := kv.NewMemory()
	cfg := Config{Region: "r", InFlightMax: 100, Window: 4, Fault: func(s string) { t.Fatal(s) }}
	now, seed := testTime, byte(0)
	e := Open(store, cfg)
	apply := func(op Op) {
		t.Helper()
		for {
			seed++
			err := e.Apply(Command{Now: now, Seed: [16]byte{seed}, Op: op})
			if err == nil {
				return
			}
			if err != ErrAgain {
				t.Fatal(err)
			}
			e.Commit()
		}
	}
	q, dead := QueueName{Account: "1", Name: "q"}, QueueName{Account: "1", Name: "dead"}
	text := func(s string) Text { return Text{Value: s, Set: true} }
	receive := func(name QueueName, n int64) (handles []Handle) {
		t.Helper()
		op := &ReceiveMessage{Queue: name, Max: Int{Value: n, Set: true}, Visibility: Int{Value: 0, Set: true}}
		apply(op)
		for _, m := range op.Messages {
			handles = append(handles, Handle{Text: "h", Valid: true, Incarnation: op.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation})
		}
		return handles
	}
	move := func() {
		t.Helper()
		apply(&StartMessageMoveTask{Account: "1", Source: text("arn:aws:sqs:r:1:dead")})
		apply(&MoveStep{})
		apply(&MoveStep{})
	}
	want := func(name QueueName, live, age int64) {
		t.Helper()
		op := &Survey{Max: 10}
		apply(op)
		for _, g := range op.Gauges {
			if got := g.Visible + g.InFlight + g.Delayed; g.Queue == name && (got != live || g.Age != age) {
				t.Errorf("%s has %d messages and the age %d ms, want %d and %d", name.Name, got, g.Age, live, age)
			}
		}
	}
	apply(&CreateQueue{Queue: dead, NameSet: true})
	apply(&CreateQueue{Queue: q, NameSet: true, Attributes: map[string]string{
		"MessageRetentionPeriod": "60", "RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:r:1:dead","maxReceiveCount":"1"}`,
	}})
	for range 5 {
		apply(&SendMessage{Queue: q, Draft: NewDraft(Entry{Body: text("b")})})
	}
	receive(q, 5)
	receive(q, 5)
	now += 1000
	move()
	first := receive(q, 2) // two have a delivery row, three are fresh
	want(q, 5, 1000)
	if wait := e.Commit(); wait != nil {
		wait()
	}

	// Remove the new rows.
	b := store.NewBatch()
	for k, v := range store.Scan([]byte{row.FamilySpace}, []byte{row.FamilySpace + 1}) {
		switch row.Kind(k[row.SpacePrefixLen-1]) {
		case row.KindElder:
			b.Delete(k)
		case row.KindDelivery:
			d, ok := row.DecodeDelivery(v)
			if !ok {
				t.Fatalf("delivery row %x cannot be read", k)
			}
			d.Elder = false
			b.Set(k, d.Encode(nil))
		case row.KindState:
			st, _ := row.DecodeState(v)
			st.ElderLow = row.Pos{}
			b.Set(k, st.Encode(nil))
		}
	}
	b.Force()()
	e = Open(store, cfg)
	now += 10
	want(q, 5, 10)
	apply(&DeleteMessage{Queue: q, Handle: first[0]})
	handles := receive(q, 1) // fresh; the second one is dead-lettered by the next receive
	apply(&DeleteMessage{Queue: q, Handle: handles[0]})
	receive(q, 10)
	want(q, 2, 10)
	want(dead, 1, 1010) // the move knows it
	now += 7
	move()
	want(q, 3, 1017)
	now += 59_983
	want(q, 1, 61_000)
	now += 17
	want(q, 0, 0)
	e.Commit()()
	for k := range store.Scan([]byte{row.FamilySpace}, []byte{row.FamilySpace + 1}) {
		if row.Kind(k[row.SpacePrefixLen-1]) == row.KindElder {
			t.Errorf("the row %x is left", k)
		}
	}
}
