package claims_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
)

const (
	lease = 30 * time.Second
	safe  = 27 * time.Second // how long after a write its holder may rely on it
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func newLedger(t testing.TB, store records.Store, cfg claims.Config) *claims.Ledger {
	t.Helper()
	if cfg.Lease == 0 {
		cfg.Lease = lease
	}
	cfg.Store = store
	l, err := claims.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func acquire(t testing.TB, l *claims.Ledger, key string) *claims.Claim {
	t.Helper()
	c, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatalf("acquire %s: %v", key, err)
	}
	return c
}

// refused acquires a key and wants to be refused for that reason.
func refused(t testing.TB, l *claims.Ledger, key string, why claims.Refusal) *claims.Refused {
	t.Helper()
	c, err := l.Acquire(t.Context(), key)
	r, ok := errors.AsType[*claims.Refused](err)
	if !ok || r.Why != why || !errors.Is(err, why) {
		t.Fatalf("acquire %s: claim %v, error %v, want it refused as %q", key, c, err, why)
	}
	return r
}

func wantState(t testing.TB, l *claims.Ledger, key string, want claims.State) claims.Entry {
	t.Helper()
	e, err := l.Entry(context.Background(), key)
	if err != nil || e.State != want {
		t.Fatalf("entry of %s: state %q, error %v, want %s", key, e.State, err, want)
	}
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantLost(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, claims.ErrLost) {
		t.Errorf("%s: error %v, want ErrLost", what, err)
	}
}

// faulty is one process's way to a store that other processes share, with faults by the number of
// the call.
func faulty(store records.Store, faults map[int]recordstest.Fault) *recordstest.Faulty {
	return &recordstest.Faulty{Store: store, Fault: recordstest.Script(faults)}
}
