package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"tenaq/claims/pgclaims"
	"tenaq/records"
	"tenaq/records/pgrecords"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

// Books are the database of the orders, and of the mails that wait to be sent.
type Books struct {
	db    *sql.DB
	Close func()

	// shared: the ledger keeps its records in this database, so that a claim can be completed in
	// the transaction that writes the order.
	shared bool
}

// Open opens the records and the books.
func Open(ctx context.Context, address string) (store records.Store, b *Books, err error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		location := url.URL{Scheme: "file", OmitHost: true,
			Path:     filepath.Join(filepath.Dir(path), "orders.db"),
			RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"}
		db, err := sql.Open("sqlite", location.String())
		if err != nil {
			return nil, nil, err
		}
		b = &Books{db: db, Close: func() { _ = db.Close() }}
		store, err = sqliterecords.New(sqliterecords.Config{Path: path})
		return b.prepare(ctx, store, err)
	}
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	b = &Books{db: db, Close: func() { _ = db.Close(); pool.Close() }, shared: true}
	r, err := pgrecords.New(pgrecords.Config{Pool: pool})
	if err == nil {
		err = r.Migrate(ctx)
	}
	return b.prepare(ctx, r, err)
}

// prepare makes the tables.
func (b *Books) prepare(
	ctx context.Context, store records.Store, err error,
) (records.Store, *Books, error) {
	for _, table := range []string{
		`CREATE TABLE IF NOT EXISTS orders (key TEXT PRIMARY KEY, charge TEXT NOT NULL, fence BIGINT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS outbox (key TEXT PRIMARY KEY, mail TEXT NOT NULL, sent BOOLEAN NOT NULL DEFAULT FALSE)`,
	} {
		if err == nil {
			_, err = b.db.ExecContext(ctx, table)
		}
	}
	if err != nil {
		b.Close()
		return nil, nil, fmt.Errorf("open the books: %w", err)
	}
	return store, b, nil
}

// ErrStale is for a handler whose claim was taken over: a later holder has done its work.
var ErrStale = errors.New("the order was written by a later holder of its claim")

// write writes an order and the mail about it, or neither. It refuses the row of a handler that has
// lost its claim to one that has written already: that one has the larger fence.
func (b *Books) write(ctx context.Context, m *worker.Message, charge string) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after a commit
	done, err := tx.ExecContext(ctx, `INSERT INTO orders (key, charge, fence) VALUES ($1, $2, $3)
		ON CONFLICT (key) DO UPDATE SET charge = excluded.charge, fence = excluded.fence WHERE orders.fence <= excluded.fence`,
		m.EffectKey(), charge, int64(m.Fence()))
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrStale)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO outbox (key, mail) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`,
		m.EffectKey(), "thank you for "+m.Key+", paid with "+charge); err != nil {
		return err
	}
	if b.shared { // the worker finds the claim completed
		if err := pgclaims.CompleteSQL(ctx, tx, m.Claim(), []byte(charge)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// mails returns some of the mails that wait in the outbox, by their keys.
func (b *Books) mails(ctx context.Context) (map[string]string, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT key, mail FROM outbox WHERE NOT sent ORDER BY key LIMIT 100`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	waiting := make(map[string]string)
	for rows.Next() {
		var key, mail string
		if err := rows.Scan(&key, &mail); err != nil {
			return nil, err
		}
		waiting[key] = mail
	}
	return waiting, rows.Err()
}

// mailed notes that a mail was sent.
func (b *Books) mailed(ctx context.Context, key string) error {
	_, err := b.db.ExecContext(ctx, `UPDATE outbox SET sent = TRUE WHERE key = $1`, key)
	return err
}

// A Row is an order that was written.
type Row struct {
	Key, Charge string
	Fence       uint64
}

// Rows returns all orders.
func (b *Books) Rows(ctx context.Context) (all []Row, err error) {
	rows, err := b.db.QueryContext(ctx, `SELECT key, charge, fence FROM orders ORDER BY key`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		var fence int64
		if err := rows.Scan(&r.Key, &r.Charge, &fence); err != nil {
			return nil, err
		}
		r.Fence = uint64(fence)
		all = append(all, r)
	}
	return all, rows.Err()
}
