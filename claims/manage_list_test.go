package claims_test

import (
	"strings"
	"testing"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// One entry that cannot be read hides no other, and nothing is guessed about it.
func TestListShowsTheUnreadable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{})
		acquire(t, l, "a")
		strange := map[string]string{
			"b": `{"v":2,"state":"held","owner":"somebody","attempts":3,"memo":"bWVtbw=="}`,
			"c": `hello`,
			"d": `{"v":1,"state":"unreadable"}`,
		}
		for key, value := range strange {
			_, err := store.Put(ctx, records.Write{Key: "claim/" + key, Value: []byte(value)})
			must(t, err)
		}
		must(t, acquire(t, l, "e").Complete(ctx, []byte("done")))

		entries, err := l.List(ctx, "", "", 0)
		if err != nil || len(entries) != 5 {
			t.Fatalf("list: %d entries, error %v, want 5", len(entries), err)
		}
		for i, want := range []claims.State{claims.Held, claims.Unreadable, claims.Unreadable, claims.Unreadable, claims.Completed} {
			e := entries[i]
			if key := string("abcde"[i]); e.Key != key || e.State != want || e.Version == 0 {
				t.Errorf("entry %d: key %q, state %q, version %d, want %q, %q and a version", i, e.Key, e.State, e.Version, key, want)
			}
			if want != claims.Unreadable {
				continue
			}
			if e.Owner != "" || e.Attempts != 0 || e.Memo != nil || e.Fence != 0 {
				t.Errorf("entry %q: %+v, want nothing of what it may say", e.Key, e)
			}
			if !strings.Contains(e.Reason, "claim/"+e.Key) {
				t.Errorf("entry %q: reason %q, want one that names the record", e.Key, e.Reason)
			}
		}
	})
}
