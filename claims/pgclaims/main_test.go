package pgclaims_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/internal/testing/pgtest"
	"tenaq/records"
	"tenaq/records/pgrecords"
	"tenaq/records/recordstest"
)

const lease = 30 * time.Second

// schema is the business of the tests. Nothing keeps an order from being there twice but what is
// tested.
const schema = `CREATE TABLE orders (id text NOT NULL, receipt text, fence bigint NOT NULL)`

// A rig is a database with orders and records.
type rig struct {
	testing.TB
	url   string
	pool  *pgxpool.Pool
	store *pgrecords.Store

	mu   sync.Mutex
	skew time.Duration
}

func newRig(t testing.TB) *rig { return rigOn(t, pgtest.URL(t)) }

func rigOn(t testing.TB, url string) *rig {
	t.Helper()
	r := &rig{TB: t, url: url}
	r.pool = r.open(20)
	r.store = over(t, r.pool)
	must(t, r.store.Migrate(t.Context()))
	r.exec(schema)
	return r
}

// open opens a pool of at most this number of connections.
func (r *rig) open(most int32) *pgxpool.Pool {
	r.Helper()
	cfg, err := pgxpool.ParseConfig(r.url)
	must(r, err)
	cfg.MaxConns = most
	pool, err := pgxpool.NewWithConfig(r.Context(), cfg)
	must(r, err)
	r.Cleanup(pool.Close)
	return pool
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	_, err := r.pool.Exec(r.Context(), sql, args...)
	must(r, err)
}

func (r *rig) ledger(cfg claims.Config) *claims.Ledger {
	r.Helper()
	if cfg.Lease == 0 {
		cfg.Lease = lease
	}
	cfg.Store = r.store
	l, err := claims.New(cfg)
	must(r, err)
	return l
}

// advance moves the clock that leases end by.
func (r *rig) advance(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skew += by
	_, err := r.pool.Exec(context.Background(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION tenaq_records_now() RETURNS timestamptz
		LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp() + interval ''%d ms'''`, r.skew.Milliseconds()))
	if err != nil {
		r.Errorf("advance the clock: %v", err)
	}
}

func (r *rig) begin(level pgx.TxIsoLevel) pgx.Tx {
	r.Helper()
	tx, err := r.pool.BeginTx(r.Context(), pgx.TxOptions{IsoLevel: level})
	must(r, err)
	r.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// order is the work of a claim. Its result names the fence.
func order(ctx context.Context, tx pgx.Tx, c *claims.Claim) ([]byte, error) {
	_, err := tx.Exec(ctx, "INSERT INTO orders (id, fence) VALUES ($1, $2)", c.Key(), int64(c.Fence()))
	return resultOf(c), err
}

func resultOf(c *claims.Claim) []byte { return fmt.Appendf(nil, "fence %d", c.Fence()) }

// inTx has the work done in a transaction of InTx.
func inTx(ctx context.Context, db pgclaims.Beginner, c *claims.Claim) error {
	return pgclaims.InTx(ctx, db, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) { return order(ctx, tx, c) })
}

// fences returns those under which an order was written and committed.
func (r *rig) fences(id string) []uint64 {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), "SELECT fence FROM orders WHERE id = $1", id)
	must(r, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	must(r, err)
	var fences []uint64
	for _, f := range found {
		fences = append(fences, uint64(f))
	}
	return fences
}

// wantDone wants one order, completed in the same commit under a fence.
func (r *rig) wantDone(key string, fence uint64) {
	r.Helper()
	e, err := r.ledger(claims.Config{}).Entry(r.Context(), key)
	must(r, err)
	if e.State != claims.Completed || e.Fence != fence || string(e.Result) != fmt.Sprintf("fence %d", fence) {
		r.Errorf("%s is %s under fence %d with %q, want completed under %d", key, e.State, e.Fence, e.Result, fence)
	}
	if got := r.fences(key); !slices.Equal(got, []uint64{fence}) {
		r.Errorf("orders of %s under fences %d, want one under %d", key, got, fence)
	}
}

// wantNothing wants no order, and a claim that is held or as the state says.
func (r *rig) wantNothing(key string, state claims.State) {
	r.Helper()
	e, err := r.ledger(claims.Config{}).Entry(r.Context(), key)
	if err != nil || e.State != state {
		r.Errorf("%s is %s (error %v), want %s", key, e.State, err, state)
	}
	if got := r.fences(key); len(got) != 0 {
		r.Errorf("orders of %s under fences %d, want none", key, got)
	}
}

// blocked waits until a statement waits for another transaction.
func (r *rig) blocked() {
	r.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		var n int
		must(r, r.pool.QueryRow(r.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND wait_event_type = 'Lock'`).Scan(&n))
		if n > 0 {
			return
		}
	}
	r.Fatal("nothing waits")
}

// A sick store answers with errors whether or not it has done something.
type sick struct {
	*pgrecords.Store
	ill atomic.Bool
}

func (s *sick) Put(ctx context.Context, w records.Write) (records.Record, error) {
	r, err := s.Store.Put(ctx, w)
	if s.ill.Load() {
		return records.Record{}, recordstest.ErrInjected
	}
	return r, err
}

func (s *sick) Delete(ctx context.Context, key string, version records.Version) error {
	if s.ill.Load() {
		return recordstest.ErrInjected
	}
	return s.Store.Delete(ctx, key, version)
}

func acquire(t testing.TB, l *claims.Ledger, key string) *claims.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatalf("acquire %s: %v", key, err)
	}
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantIs wants an error of that kind, and says what is wrong otherwise.
func wantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func wantText(t testing.TB, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want one with %q", what, err, want)
	}
}

// over returns a store over a pool.
func over(t testing.TB, pool *pgxpool.Pool) *pgrecords.Store {
	t.Helper()
	store, err := pgrecords.New(pgrecords.Config{Pool: pool})
	must(t, err)
	return store
}
