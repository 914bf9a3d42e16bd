package pgoutbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

func TestContract(t *testing.T) { contract(t, pgtest.URL(t)) }

// contract runs the suite in one database. Each case has a schema of its own, because a database
// for each takes longer than most cases.
func contract(t *testing.T, url string) {
	var n atomic.Int64
	fresh := func(t testing.TB) outboxtest.Harness {
		schema := fmt.Sprintf("case%d", n.Add(1))
		exec(t, url, "BEGIN READ WRITE; CREATE SCHEMA "+schema+"; COMMIT")
		return harness(t, url+"&search_path="+schema)
	}
	outboxtest.Run(t, fresh)
	outboxtest.RunHistory(t, fresh)
}

// The settings of a database make no difference.
func TestContractSerializable(t *testing.T) {
	if testing.Short() {
		t.Skip("the same once more, which takes a while")
	}
	url := pgtest.URL(t)
	exec(t, url, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
		EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
		EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
		EXECUTE format('ALTER DATABASE %I SET intervalstyle = iso_8601', current_database());
		EXECUTE format('ALTER DATABASE %I SET timezone = "Asia/Kathmandu"', current_database());
	END $$`)
	contract(t, url)
}

// harness is an outbox in an empty database.
func harness(t testing.TB, url string) outboxtest.Harness {
	pool := connect(t, url)
	begin := func(ctx context.Context) (pgx.Tx, error) {
		return pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadWrite})
	}
	end := func(ctx context.Context, tx pgx.Tx, commit bool) error {
		if commit {
			return tx.Commit(ctx)
		}
		return tx.Rollback(ctx)
	}
	over(t, url, Config{})
	return outboxtest.Harness{
		Table: "outbox",
		Open:  func(t testing.TB) outbox.Box { return over(t, url, Config{}) },
		Enqueue: func(ctx context.Context, commit bool, messages ...outbox.Message) error {
			tx, err := begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(ctx)
			if err := Enqueue(ctx, tx, messages...); err != nil {
				return err
			}
			return end(ctx, tx, commit)
		},
		Begin: func(ctx context.Context) (func(...outbox.Message) error, func(bool) error, error) {
			tx, err := begin(ctx)
			if err != nil {
				return nil, nil, err
			}
			t.Cleanup(func() { tx.Rollback(context.Background()) }) // or the pool never closes
			return func(messages ...outbox.Message) error { return Enqueue(ctx, tx, messages...) },
				func(commit bool) error { return end(ctx, tx, commit) }, nil
		},
	}
}

// connect returns a pool that ends with the test.
func connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// over returns a box whose tables are there, until the test ends.
func over(t testing.TB, url string, cfg Config) *Box {
	t.Helper()
	cfg.Pool = connect(t, url)
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// exec runs SQL in a database, as a program beside the box would.
func exec(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}
