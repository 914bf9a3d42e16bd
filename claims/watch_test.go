package claims

import (
	"fmt"
	"testing"

	"tenaq/records"
	"tenaq/records/recordstest"
)

// The keys that a ledger watches are bounded, and each is forgotten once answered.
func TestWatchIsBounded(t *testing.T) {
	l, err := New(Config{Store: recordstest.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * sightingsMax {
		e := Entry{Key: fmt.Sprint(i), State: Held, Lease: l.Lease(), Age: records.AgeUnknown, Version: records.Version(i + 1)}
		if _, err := l.judge(e, false, ""); err == nil {
			t.Fatal("gave way at first sight")
		}
	}
	if len(l.seen) != sightingsMax {
		t.Errorf("watches %d entries, want %d", len(l.seen), sightingsMax)
	}
	for i := range 2 * sightingsMax {
		_, _ = l.judge(Entry{Key: fmt.Sprint(i), State: []State{Completed, Parked}[i%2]}, false, "")
	}
	if len(l.seen) != 0 {
		t.Errorf("still watches %d entries that are answered", len(l.seen))
	}
	_, _ = l.judge(Entry{Key: "k", State: Held, Lease: l.Lease(), Age: records.AgeUnknown, Version: 1}, false, "")
	if _, err := l.Acquire(t.Context(), "k"); err != nil || len(l.seen) != 0 {
		t.Errorf("watches %d entries of claims of its own (error %v)", len(l.seen), err)
	}
}
