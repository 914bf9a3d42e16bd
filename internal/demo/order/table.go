package order

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver of the orders' database
)

// A table is the database of the orders: a SQLite file that all workers write to, as they would to a server.
// Beside the orders it has the outbox of the mails.
type table struct{ db *sql.DB }

const schema = `
CREATE TABLE IF NOT EXISTS orders (
	key    TEXT PRIMARY KEY,
	charge TEXT NOT NULL,
	worker TEXT NOT NULL,
	fence  INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS outbox (
	key  TEXT PRIMARY KEY,
	text TEXT NOT NULL,
	sent BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE TABLE IF NOT EXISTS usual_orders (
	key    TEXT PRIMARY KEY,
	charge TEXT NOT NULL
);`

// openTable opens the file, and creates it where there is none. Wait is how long a call waits for other
// processes.
func openTable(path string, wait time.Duration) (*table, error) {
	location := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: url.Values{
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()), "journal_mode(WAL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", location.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	if _, err := db.Exec(schema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open the orders in %s: %w", path, err)
	}
	return &table{db}, nil
}

func (t *table) close() {
	if t != nil {
		_ = t.db.Close()
	}
}

// errStale is what the table answers to the holder of a claim that somebody else has taken over.
var errStale = errors.New("the order was written under a larger fence")

// A row is an order that is done.
type row struct {
	key, charge, worker string
	fence               uint64
}

// writeOrder is what the fence is for: the row of a later holder stays, whoever comes after it.
const writeOrder = `
INSERT INTO orders (key, charge, worker, fence) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET charge = excluded.charge, worker = excluded.worker, fence = excluded.fence`

const unlessStale = ` WHERE orders.fence <= excluded.fence`

// record writes an order and the mail about it, both or none. It returns errStale when a later holder has
// been here. When an earlier one has, the order is written again and the mail is not.
func (t *table) record(ctx context.Context, r row, fences bool) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	query := writeOrder
	if fences {
		query += unlessStale
	}
	done, err := tx.ExecContext(ctx, query, r.key, r.charge, r.worker, int64(r.fence))
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errStale)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO outbox (key, text) VALUES (?, ?) ON CONFLICT (key) DO NOTHING`,
		r.key, "thank you for "+r.key+", paid with "+r.charge); err != nil {
		return err
	}
	return tx.Commit()
}

// probe reports whether the file can be written to.
func (t *table) probe(ctx context.Context) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return tx.Rollback()
}

func (t *table) count(ctx context.Context) (n int, err error) {
	return n, t.db.QueryRowContext(ctx, `SELECT count(*) FROM orders`).Scan(&n)
}

func (t *table) rows(ctx context.Context) (list []row, err error) {
	found, err := t.db.QueryContext(ctx, `SELECT key, charge, worker, fence FROM orders ORDER BY key`)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var r row
		var fence int64
		if err := found.Scan(&r.key, &r.charge, &r.worker, &fence); err != nil {
			return nil, err
		}
		r.fence = uint64(fence)
		list = append(list, r)
	}
	return list, found.Err()
}
