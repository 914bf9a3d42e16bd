package timeline

import (
	"context"
	"fmt"
	"testing"

	"tenaq/claims"
	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// A counted store counts how often each key is read.
type counted struct {
	records.Store
	reads map[string]int
}

func (s *counted) Get(ctx context.Context, key string) (records.Record, error) {
	s.reads[key]++
	return s.Store.Get(ctx, key)
}

// A trace reads the same key again whenever it learns of a higher generation. Each record is read
// once all the same, because each read is a request. [TRACE-3]
func TestReadOnce(t *testing.T) {
	store := &counted{recordstest.NewMemory(), make(map[string]int)}
	ledger, err := claims.New(claims.Config{Store: store.Store, Prefix: "claim/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, generation := range []int{0, 3, GenerationsMax - 1} {
		if _, err := ledger.Acquire(t.Context(), claims.EffectKey("order-7", generation)); err != nil {
			t.Fatal(err)
		}
	}
	r := &Records{Store: store, Ledger: "claim/"}
	for _, tt := range []struct {
		least, reads int // of one queue and the ledger
		found        string
		more         bool
	}{
		{0, 2, "[0]", false},
		{0, 2, "[0]", false},
		{1, 2, "[0]", false},
		{2, 3, "[0]", false},
		{3, 5, "[0 3]", false},
		{GenerationsMax - 1, GenerationsMax, "[0 3 15]", true},
		{GenerationsMax - 1, GenerationsMax, "[0 3 15]", true},
	} {
		more, err := r.Read(t.Context(), "order-7", tt.least, []string{"jobs"})
		if err != nil {
			t.Fatal(err)
		}
		var found []int
		for _, c := range r.Claims {
			found = append(found, c.Generation)
		}
		if got := fmt.Sprint(found); got != tt.found || more != tt.more || len(store.reads) != 2*tt.reads {
			t.Errorf("up to %d: found %s, more %v, %d records read; want %s, %v, %d", tt.least, got,
				more, len(store.reads), tt.found, tt.more, 2*tt.reads)
		}
	}
	for key, n := range store.reads {
		if n != 1 {
			t.Errorf("%s was read %d times", key, n)
		}
	}
	if key := producer.Prefix + "jobs/order-7"; store.reads[key] != 1 {
		t.Errorf("%s was not read", key)
	}
}
