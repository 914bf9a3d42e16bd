package engine_test

import (
	"fmt"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/engine/row"
	"tenaq/internal/kv"
)

// actions returns the entries of an account, the latest first.
func (r *runner) actions(account string) (all []engine.Action) {
	r.t.Helper()
	op := &engine.ListActions{Account: account, Max: engine.ActionsPage}
	for {
		r.do(op)
		all = append(all, op.Actions...)
		if op.Before = op.Next; op.Next == 0 {
			return all
		}
	}
}

// A key that may do one thing, very often, pushes none of the few entries of others out of the
// action log, also after a restart. [TASK-16]
func TestFloodOfActions(t *testing.T) {
	store := kv.NewMemory()
	open := func() *runner {
		return newRunner(t, engine.Open(store, engine.Config{Region: "us-east-1", InFlightMax: 1000, Fault: func(s string) { t.Fatal(s) }}))
	}
	r := open()
	log := func(account, by string, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			r.do(&engine.LogAction{Account: account, By: by, Name: "SendMessage", About: "orders", Text: fmt.Sprint(i)})
		}
	}
	log("1", "ann", 0, 5)
	log("2", "ann", 0, 7) // of another account: not the same key
	log("1", "flood", 0, row.ActionsKept)
	r = open()
	log("1", "flood", row.ActionsKept, 2*row.ActionsKept+500)
	log("1", "bob", 0, 3)

	others := r.actions("2")
	if len(others) != 7 || others[0].Text != "6" || others[6].Text != "0" {
		t.Errorf("the other account has %d entries: %+v", len(others), others)
	}
	all := r.actions("1")
	count := make(map[string]int)
	for i, a := range all {
		count[a.By]++
		if i > 0 && a.Number >= all[i-1].Number {
			t.Fatalf("entry %d comes before %d", all[i-1].Number, a.Number)
		}
		if want := fmt.Sprint(2*row.ActionsKept + 500 - count[a.By]); a.By == "flood" && a.Text != want {
			t.Fatalf("the entry of the flood has %s, want %s: its oldest ones go first", a.Text, want)
		}
	}
	if count["ann"] != 5 || count["bob"] != 3 || len(all)+len(others) != row.ActionsKept {
		t.Errorf("of %d entries, ann has %d and bob %d", len(all)+len(others), count["ann"], count["bob"])
	}
	// two keys that both log much share the log
	log("1", "ann", 5, 2*row.ActionsKept)
	count = make(map[string]int)
	for _, a := range r.actions("1") {
		count[a.By]++
	}
	if count["bob"] != 3 || count["ann"] < row.ActionsKept/3 || count["flood"] < row.ActionsKept/3 {
		t.Errorf("after two floods the log has %v", count)
	}
}
