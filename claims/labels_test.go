package claims_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// A witness is a store that shows what was written last.
type witness struct {
	*recordstest.Memory
	last records.Write
}

func (w *witness) Put(ctx context.Context, write records.Write) (records.Record, error) {
	w.last = write
	return w.Memory.Put(ctx, write)
}

// Each write of a claim labels its state and the time at which the claim is due.
func TestLabels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &witness{Memory: recordstest.NewMemory()}
		l := newLedger(t, store, claims.Config{Owner: "host/7", Lease: time.Minute})
		ctx := t.Context()
		now := func(after time.Duration) string {
			return time.Now().Add(after).UTC().Format("2006-01-02T15:04:05.000Z")
		}
		want := func(due time.Time, pairs ...string) {
			t.Helper()
			labels := store.last.Labels
			for i := 0; i < len(pairs); i += 2 {
				if labels[pairs[i]] != pairs[i+1] {
					t.Errorf("the label %s is %q, want %q", pairs[i], labels[pairs[i]], pairs[i+1])
				}
			}
			if !store.last.Due.Equal(due) {
				t.Errorf("%s is due at %v, want %v", labels["State"], store.last.Due, due)
			}
		}
		c, err := l.AcquireWith(ctx, "order-17", claims.Note{Message: "m-1"})
		must(t, err)
		want(time.Now().Add(time.Minute), "State", "held", "Owner", "host/7", "Attempts", "1", "Message", "m-1", "Written", now(0), "LeaseEnd", now(time.Minute), "Result", "")
		time.Sleep(10 * time.Second)
		must(t, c.Renew(ctx))
		want(time.Now().Add(time.Minute), "State", "held", "LeaseEnd", now(time.Minute))
		must(t, c.Fail(ctx, strings.Repeat("no ", 2000)+"\xff"))
		want(time.Now(), "State", "failed", "LeaseEnd", "", "Reason", strings.Repeat("no ", 342)[:1024])
		c = acquire(t, l, "order-17")
		must(t, c.Complete(ctx, []byte(`{"charge": "ch_1"}`)))
		want(time.Time{}, "State", "completed", "Result", `{"charge": "ch_1"}`, "LeaseEnd", "", "Attempts", "2")
		must(t, l.Settle(ctx, "order-17", []byte{0xff}, "by hand"))
		want(time.Time{}, "State", "completed", "Result", "", "Reason", "by hand")
		c = acquire(t, l, "large")
		must(t, c.Complete(ctx, []byte(strings.Repeat("ü", claims.ResultMax/2))))
		want(time.Time{}, "Result", strings.Repeat("ü", 2048))
		c = acquire(t, l, "exhausted")
		must(t, c.Exhaust(ctx, "three times"))
		want(time.Time{}, "State", "exhausted")
	})
}

// Due finds unfinished work that no worker holds, the oldest first, and nothing else.
func TestDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		ctx := t.Context()
		l := newLedger(t, store, claims.Config{Lease: time.Minute})
		other := newLedger(t, store, claims.Config{Prefix: "other/", Lease: time.Minute})
		parking := newLedger(t, store, claims.Config{Lease: time.Minute, Lost: func(context.Context, claims.Entry) (claims.Decision, error) {
			return claims.Park("no idea"), nil
		}})
		want := func(until time.Time, want ...string) {
			t.Helper()
			entries, err := l.Due(ctx, until, 100)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.Key+" "+string(e.State))
			}
			if !slices.Equal(got, want) {
				t.Errorf("due are %q, want %q", got, want)
			}
		}
		acquire(t, parking, "parked")
		acquire(t, other, "lost")
		acquire(t, l, "lost")
		time.Sleep(30 * time.Second)
		must(t, acquire(t, l, "failed").Fail(ctx, "no"))
		must(t, acquire(t, l, "done").Complete(ctx, nil))
		must(t, acquire(t, l, "exhausted").Exhaust(ctx, "no"))
		must(t, acquire(t, l, "failed and done").Fail(ctx, "no"))
		want(time.Now(), "failed failed", "failed and done failed")
		must(t, acquire(t, l, "failed and done").Complete(ctx, nil))
		time.Sleep(45 * time.Second)
		refused(t, parking, "parked", claims.NeedsPerson)
		must(t, acquire(t, l, "released").Release(ctx))
		held := acquire(t, l, "held")
		want(time.Now().Add(-20*time.Second), "failed failed")
		want(time.Now(), "failed failed", "lost held", "parked parked", "released released")
		must(t, held.Renew(ctx))

		entries, err := l.Due(ctx, time.Now(), 2)
		if err != nil || len(entries) != 2 {
			t.Fatalf("due are %v, %v", entries, err)
		}
		if idle := entries[0].Idle(time.Now()); idle != 45*time.Second {
			t.Errorf("failed work has been idle for %v", idle)
		}
		if idle := entries[1].Idle(time.Now()); idle != 15*time.Second {
			t.Errorf("lost work has been idle for %v", idle)
		}
		clockless := newLedger(t, &recordstest.Faulty{Store: store, NoClock: true}, claims.Config{})
		if e, err := clockless.Entry(ctx, "lost"); err != nil || e.Idle(time.Now()) != 15*time.Second {
			t.Errorf("without a clock it has been idle for %v, %v", e.Idle(time.Now()), err)
		}
		if _, err := clockless.Due(ctx, time.Now(), 1); !errors.Is(err, records.ErrNoIndex) {
			t.Errorf("a store without an index answers %v", err)
		}
	})
}
