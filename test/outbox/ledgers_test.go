package outbox_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"tenaq/outbox/pgoutbox"
	"tenaq/outbox/sqliteoutbox"
)

const shop = `
	CREATE TABLE shop_groups (name text PRIMARY KEY, n int NOT NULL);
	CREATE TABLE orders (id text PRIMARY KEY, name text NOT NULL, n int NOT NULL);`

// The number of an order is drawn last, so that two transactions of one group meet at the outbox
// first: its lock decides about the order, and the number shows how it did.
const number = `INSERT INTO shop_groups VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = shop_groups.n + 1 RETURNING n`

type postgres struct{ pool *pgxpool.Pool }

func openPostgres(t *testing.T, url string) ledger {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	box, err := pgoutbox.New(pgoutbox.Config{Pool: pool})
	must(t, err)
	must(t, box.Migrate(t.Context()))
	_, err = pool.Exec(t.Context(), shop, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	return &postgres{pool}
}

func (l *postgres) write(ctx context.Context, o order, to string, commit bool, pause time.Duration) error {
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := pgoutbox.Enqueue(ctx, tx, message(o, to)); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, number, o.Group+to).Scan(&o.N); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2, $3)", o.ID, o.Group, o.N); err != nil {
		return err
	}
	time.Sleep(pause)
	if !commit {
		return nil
	}
	return tx.Commit(ctx)
}

func (l *postgres) committed(ctx context.Context) ([]order, error) {
	rows, err := l.pool.Query(ctx, "SELECT id, name, n FROM orders")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o order, err error) {
		return o, row.Scan(&o.ID, &o.Group, &o.N)
	})
}

type sqlite struct{ db *sql.DB }

func openSQLite(t *testing.T, file string) ledger {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	must(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.ExecContext(t.Context(), shop)
	must(t, err)
	box, err := sqliteoutbox.New(sqliteoutbox.Config{DB: db})
	must(t, err)
	must(t, box.Migrate(t.Context()))
	return &sqlite{db}
}

func (l *sqlite) write(ctx context.Context, o order, to string, commit bool, pause time.Duration) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := sqliteoutbox.Enqueue(ctx, tx, message(o, to)); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, number, o.Group+to).Scan(&o.N); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ($1, $2, $3)", o.ID, o.Group, o.N); err != nil {
		return err
	}
	time.Sleep(pause)
	if !commit {
		return nil
	}
	return tx.Commit()
}

func (l *sqlite) committed(ctx context.Context) (orders []order, err error) {
	rows, err := l.db.QueryContext(ctx, "SELECT id, name, n FROM orders")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o order
		if err := rows.Scan(&o.ID, &o.Group, &o.N); err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	return orders, rows.Err()
}
