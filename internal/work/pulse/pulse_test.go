package pulse

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/records/recordstest"
)

// The counts of a worker can be read soon afterwards, despite failures in between, and are
// forgotten when no more arrive.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordstest.Faulty{Store: recordstest.NewMemory(), Fault: recordstest.Script(map[int]recordstest.Fault{
			1: {How: recordstest.After}, 2: {How: recordstest.Before},
		})}
		ctx, stop := context.WithCancel(t.Context())
		w := NewWriter(store, "orders", "w1")
		go w.Run(ctx)
		w.Done()
		w.Done()
		w.Failed()
		want := func(after time.Duration, wanted ...Counts) {
			t.Helper()
			time.Sleep(after)
			all, err := Read(t.Context(), store, "orders")
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != len(wanted) || len(wanted) > 0 && all["w1"] != wanted[0] {
				t.Errorf("got %v, want %v", all, wanted)
			}
		}
		want(4*Every, Counts{2, 1})
		w.Done()
		want(2*Every, Counts{3, 1})
		want(Kept)
		w.Done() // after its record has expired
		want(3*Every, Counts{4, 1})
		stop()
		synctest.Wait()
	})
}
