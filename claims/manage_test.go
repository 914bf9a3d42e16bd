package claims_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

func TestReopenAndSettle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{Owner: "worker"})
		person := newLedger(t, store, claims.Config{Owner: "alice"})
		for _, err := range []error{person.Reopen(ctx, "k", ""), person.Settle(ctx, "k", nil, "")} {
			if !errors.Is(err, claims.ErrNoEntry) {
				t.Errorf("of a key that is not there: error %v, want ErrNoEntry", err)
			}
		}
		must(t, acquire(t, l, "k").Fail(ctx, "no luck"))
		must(t, acquire(t, l, "k").Complete(ctx, []byte("wrong")))
		must(t, person.Reopen(ctx, "k", "the result was wrong"))
		if e := wantState(t, l, "k", claims.Released); e.Reason != "the result was wrong" || e.Owner != "alice" ||
			e.Attempts != 0 || e.Result != nil {
			t.Errorf("reopened: %+v", e)
		}
		c := acquire(t, l, "k")
		if c.Attempts() != 1 || c.TakenOver() != nil {
			t.Errorf("after a reopening: attempt %d, taken over %v", c.Attempts(), c.TakenOver())
		}
		must(t, person.Settle(ctx, "k", []byte("by hand"), "paid in cash"))
		done := refused(t, l, "k", claims.Done)
		if string(done.Result) != "by hand" || done.Reason != "paid in cash" || done.Owner != "alice" {
			t.Errorf("settled: %+v", done.Entry)
		}
		wantLost(t, "complete after a person settled it", c.Complete(ctx, []byte("by hand")))
	})
}

// A person decides about the current entry, not about an earlier one.
func TestReopenOfWhatChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{})
		c := acquire(t, l, "k")
		slow := newLedger(t, faulty(store, map[int]recordstest.Fault{2: {Delay: 2 * time.Second}}), claims.Config{})
		go func() {
			time.Sleep(time.Second)
			must(t, c.Complete(ctx, nil))
		}()
		if err := slow.Reopen(ctx, "k", "looks dead"); err == nil || !strings.Contains(err.Error(), "changed in the meantime") {
			t.Errorf("reopened what was completed meanwhile: error %v", err)
		}
		wantState(t, l, "k", claims.Completed)
	})
}

// A decision about an entry that was seen is about that one: a worker that claims the key after
// that keeps its claim.
func TestDecideOnWhatWasSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		must(t, acquire(t, l, "k").Fail(ctx, "no stock"))
		seen, err := l.Entry(ctx, "k")
		must(t, err)
		c := acquire(t, l, "k")
		for _, err := range []error{l.ReopenSeen(ctx, seen, "x"), l.SettleSeen(ctx, seen, nil, "x")} {
			if !errors.Is(err, claims.ErrChanged) {
				t.Errorf("decided about a claim that was not seen: error %v", err)
			}
		}
		must(t, c.Fail(ctx, "still none"))
		seen, err = l.Entry(ctx, "k")
		must(t, err)
		must(t, l.SettleSeen(ctx, seen, []byte("by hand"), "paid in cash"))
		wantState(t, l, "k", claims.Completed)
	})
}

func TestList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := recordstest.NewMemory()
		l := newLedger(t, store, claims.Config{})
		acquire(t, newLedger(t, store, claims.Config{Prefix: "other/"}), "a1")
		for i := range 5 {
			acquire(t, l, fmt.Sprintf("a%d", i))
		}
		acquire(t, l, "b0")
		keys := func(prefix, after string, limit int) (got string) {
			t.Helper()
			es, err := l.List(ctx, prefix, after, limit)
			must(t, err)
			for _, e := range es {
				got += e.Key + " "
			}
			return strings.TrimSpace(got)
		}
		for _, c := range []struct {
			prefix, after string
			limit         int
			want          string
		}{
			{"", "", 0, "a0 a1 a2 a3 a4 b0"},
			{"a", "", 3, "a0 a1 a2"},
			{"a", "a2", 3, "a3 a4"},
			{"", "a3", 0, "a4 b0"},
			{"c", "", 0, ""},
		} {
			if got := keys(c.prefix, c.after, c.limit); got != c.want {
				t.Errorf("List(%q, %q, %d) = %q, want %q", c.prefix, c.after, c.limit, got, c.want)
			}
		}
	})
}

func TestReasonIsCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLedger(t, recordstest.NewMemory(), claims.Config{})
		for name, c := range map[string]struct {
			reason string
			want   int
		}{
			"empty":      {"", 0},
			"short":      {"no luck", 7},
			"exact":      {strings.Repeat("x", 4096), 4096},
			"long":       {strings.Repeat("x", 5000), 4096},
			"characters": {"x" + strings.Repeat("日", 2000), 4096},
			"inside one": {strings.Repeat("日", 2000), 4095},
			"binary":     {strings.Repeat("\x80", 5000), -1},
			"html":       {strings.Repeat("<", 5000), 4096},
		} {
			must(t, acquire(t, l, name).Fail(t.Context(), c.reason))
			e := wantState(t, l, name, claims.Failed)
			if c.want >= 0 && (len(e.Reason) != c.want || !strings.HasPrefix(c.reason, e.Reason)) || !utf8.ValidString(e.Reason) {
				t.Errorf("%s: kept %d bytes (%.20q), want %d", name, len(e.Reason), e.Reason, c.want)
			}
		}
	})
}

// A program that does not know the form of an entry leaves it alone.
func TestStrangeEntriesAreRefused(t *testing.T) {
	for name, value := range map[string]string{
		"a later version": `{"v":2,"state":"held"}`,
		"no version":      `{"state":"completed"}`,
		"unknown state":   `{"v":1,"state":"paused"}`,
		"no state":        `{"v":1}`,
		"no JSON":         `hello`,
		"empty":           ``,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := t.Context()
				store := recordstest.NewMemory()
				l := newLedger(t, store, claims.Config{})
				before, err := store.Put(ctx, records.Write{Key: "claim/k", Value: []byte(value)})
				must(t, err)
				_, acquired := l.Acquire(ctx, "k")
				_, read := l.Entry(ctx, "k")
				for what, err := range map[string]error{
					"acquire": acquired, "entry": read,
					"reopen": l.Reopen(ctx, "k", ""), "settle": l.Settle(ctx, "k", nil, ""),
				} {
					if err == nil || errors.Is(err, claims.ErrNoEntry) {
						t.Errorf("%s: error %v", what, err)
					}
				}
				if after, err := store.Get(ctx, "claim/k"); err != nil || after.Version != before.Version {
					t.Errorf("it was changed: %+v, %v", after, err)
				}
			})
		})
	}
}

func TestEffectKey(t *testing.T) {
	for _, c := range []struct {
		generation int
		want       string
	}{{0, "order-17"}, {1, "order-17#1"}, {12, "order-17#12"}} {
		if got := claims.EffectKey("order-17", c.generation); got != c.want {
			t.Errorf("EffectKey(%d) = %q, want %q", c.generation, got, c.want)
		}
	}
}
