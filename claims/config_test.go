package claims_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// Ledgers with different prefixes share a store without meeting, and a key may be anything but
// empty.
func TestKeysAndPrefixes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := recordstest.NewMemory()
		a := newLedger(t, store, claims.Config{Prefix: "a/"})
		b := newLedger(t, store, claims.Config{Prefix: "b/"})
		for _, key := range []string{"k", "a/b#c d\n", "日本", strings.Repeat("x", records.KeyMax-2)} {
			must(t, acquire(t, a, key).Complete(t.Context(), nil))
			acquire(t, b, key)
		}
		began := time.Now()
		defer func() {
			if waited := time.Since(began); waited != 0 {
				t.Errorf("tried again for %v what can never work", waited)
			}
		}()
		for _, key := range []string{"", "a\x00", "\xff", strings.Repeat("x", records.KeyMax-1)} {
			if _, err := a.Acquire(t.Context(), key); err == nil {
				t.Errorf("claimed the key %.10q of %d bytes", key, len(key))
			}
		}
	})
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		cfg claims.Config
		ok  bool
	}{
		"zero":              {claims.Config{}, true},
		"shortest":          {claims.Config{Lease: time.Second, Retention: 2 * time.Second}, true},
		"lease too short":   {claims.Config{Lease: time.Second - 1}, false},
		"negative lease":    {claims.Config{Lease: -time.Minute}, false},
		"retention too":     {claims.Config{Retention: time.Minute}, false},
		"negative too":      {claims.Config{Retention: -time.Minute}, false},
		"prefix not UTF-8":  {claims.Config{Prefix: "\xff"}, false},
		"prefix with zeros": {claims.Config{Prefix: "a\x00"}, false},
	} {
		c.cfg.Store = recordstest.NewMemory()
		l, err := claims.New(c.cfg)
		if (err == nil) != c.ok {
			t.Errorf("%s: error %v, want success: %t", name, err, c.ok)
		}
		if name == "zero" && (l.Lease() != time.Minute || l.Retention() != 15*24*time.Hour) {
			t.Errorf("lease %v and retention %v without a configuration", l.Lease(), l.Retention())
		}
	}
}

// A ledger without a store is refused at once: a nil pointer is what a failed Open leaves behind.
func TestNoStore(t *testing.T) {
	for name, store := range map[string]records.Store{"nil": nil, "nil pointer": (*recordstest.Memory)(nil)} {
		if l, err := claims.New(claims.Config{Store: store}); err == nil || l != nil {
			t.Errorf("%s: ledger %v, error %v", name, l, err)
		}
	}
}

// Every write restarts the retention. An entry that awaits a person never expires.
func TestRetention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := recordstest.NewMemory()
		park := func(context.Context, claims.Entry) (claims.Decision, error) { return claims.Park("who knows"), nil }
		l := newLedger(t, store, claims.Config{Retention: 2 * time.Hour, Lost: park})
		ttl := func(what string, want time.Duration) {
			t.Helper()
			if r, err := store.Get(ctx, "claim/k"); err != nil || r.TTL != want {
				t.Errorf("%s: kept for %v (error %v), want %v", what, r.TTL, err, want)
			}
		}
		c := acquire(t, l, "k")
		ttl("held", 2*time.Hour)
		time.Sleep(time.Second)
		must(t, c.Renew(ctx))
		ttl("renewed", 2*time.Hour)
		time.Sleep(lease)
		refused(t, l, "k", claims.NeedsPerson)
		ttl("parked", 0)
		time.Sleep(1000 * time.Hour)
		refused(t, l, "k", claims.NeedsPerson)
		must(t, l.Reopen(ctx, "k", "nothing was done"))
		ttl("reopened", 2*time.Hour)
		must(t, acquire(t, l, "k").Complete(ctx, nil))
		ttl("completed", 2*time.Hour)
		time.Sleep(2*time.Hour - 1)
		refused(t, l, "k", claims.Done)
		time.Sleep(time.Nanosecond)
		acquire(t, l, "k")
	})
}
