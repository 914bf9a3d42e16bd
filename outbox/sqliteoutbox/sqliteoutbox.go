// Package sqliteoutbox is an outbox in a SQLite database: the table into which a program writes
// messages in its own transactions, and the outbox.Box from which relays send them, in this process
// or in others. It is also an outbox.History, for replays.
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	err = sqliteoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "mails", Key: id, Body: body})
//	...
//	err = tx.Commit()
//
// The table has the same columns as in PostgreSQL. Triggers write what relays need, so a program in
// any language writes to it with an INSERT:
//
//	INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('mails', '17', 'hello')
//
// Beyond the guarantees of package outbox:
//
//   - SQLite has one writer at a time, so the order of rows is that of the commits.
//   - Leasing rows costs about the same with a thousand rows and with a million, even if they wait
//     for one another or for a queue that accepts nothing. The queues take turns.
//   - Relays hold the write lock only while they change rows, not while they read bodies or wait
//     for a queue. They wait for other writers, for up to Config.Wait.
//   - A replay is staged a few thousand rows at a time, with pauses for other writers. First, the
//     ids of its rows are read into memory at once: about 60 MB for a million rows. The result of a
//     query is read into memory as a whole.
//   - The SQL of a source is that of SQLite and cannot write. Its sent_at is text,
//     2006-01-02T15:04:05.000Z.
//   - The clock is that of the machine. If it is set back, leases end later, and delayed rows are
//     due later.
//
// Programs may write to the database with any driver of database/sql. It should be in WAL mode, so
// that relays and readers do not wait for each other. It must be on a local disk. The pragma
// synchronous of the writing programs decides how much survives a power failure; with Config.Path
// it is FULL.
//
// It leaves to others when to Sweep. SQLite reuses free space and does not shrink the file.
package sqliteoutbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
)

// A Box is an outbox in a database. It is safe for concurrent use.
type Box struct {
	db      *sql.DB
	owned   bool // Close closes it
	where   string
	wait    time.Duration
	table   string
	names   *strings.Replacer
	texts   sync.Map // statements with the names filled in
	checked atomic.Bool

	// turn holds one token while a call of this Box writes. Its other calls wait here, in order,
	// and not in SQLite, which has no order.
	turn chan struct{}

	// seen is the number of the newest row at the last claim. Wait waits for another one.
	seen atomic.Int64
}

var (
	_ outbox.History = (*Box)(nil)
	_ outbox.Decider = (*Box)(nil)
)

// A Config says where the outbox is. DB or Path is required.
type Config struct {
	// DB is the database, opened with any driver of SQLite. The caller closes it.
	DB *sql.DB

	// Path is the file of the database, which must exist. New opens it with a driver without cgo
	// and switches it to WAL mode, which is permanent. Close closes it.
	Path string

	// Table is the name of the table, at most 40 letters, digits and underscores: "outbox" when
	// empty. It is in the main database, because a transaction over attached files is not atomic if
	// the power fails.
	Table string

	// Wait is how long a call waits for other writers: 10 s when zero. The context of the call may
	// end earlier. The busy timeout of a DB is added to it.
	Wait time.Duration
}

const waitDefault = 10 * time.Second

// New returns the outbox in one table. Call Migrate to create the tables.
func New(cfg Config) (*Box, error) {
	n, err := namesOf(cfg.Table)
	switch {
	case cfg.DB == nil && cfg.Path == "":
		return nil, errors.New("sqliteoutbox: Config has neither DB nor Path: set one of them to the database to which the program writes")
	case cfg.DB != nil && cfg.Path != "":
		return nil, errors.New("sqliteoutbox: Config has both DB and Path: leave one of them out")
	case err != nil:
		return nil, fmt.Errorf("sqliteoutbox: Config.Table: %w", err)
	}
	b := &Box{
		db: cfg.DB, where: "the outbox " + n.table, wait: cmp.Or(cfg.Wait, waitDefault),
		table: n.table, names: n.replacer(), turn: make(chan struct{}, 1),
	}
	if cfg.Path == "" {
		return b, nil
	}
	if err := b.open(cfg.Path); err != nil {
		return nil, err
	}
	return b, nil
}

// connections is the maximum number of connections to the file of Config.Path.
const connections = 4

// open opens an existing file and switches it to WAL mode.
func (b *Box) open(path string) (err error) {
	b.owned = true
	if b.where, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("open the outbox in %s: %w", path, err)
	}
	if _, err := os.Stat(b.where); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open the outbox in %s: there is no such file; name the database to which the program writes", b.where)
	}
	b.db, err = sqlitedb.Open(b.where,
		sqlitedb.Options{Wait: b.wait, Connections: connections, Lock: "immediate", Existing: true})
	if err != nil {
		return b.explain(context.Background(), "open the outbox", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.wait+time.Second)
	defer cancel()
	if err := sqlitedb.UseWAL(ctx, b.db); err != nil {
		_ = b.db.Close()
		return b.explain(ctx, "open the outbox", err)
	}
	return nil
}

// explain adds to an error the operation, the place, and what an operator can do about it.
func (b *Box) explain(ctx context.Context, doing string, err error) error {
	return sqlitedb.Explain(ctx, doing, b.where, err)
}

// sql fills the names of this outbox into a statement.
func (b *Box) sql(statement string) string {
	if s, ok := b.texts.Load(statement); ok {
		return s.(string)
	}
	s := b.names.Replace(statement)
	b.texts.Store(statement, s)
	return s
}

// Close closes the database of Config.Path. It does not close Config.DB.
func (b *Box) Close() error {
	if !b.owned {
		return nil
	}
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", b.where, err)
	}
	return nil
}

// DB returns the database, for transactions of the caller.
func (b *Box) DB() *sql.DB { return b.db }

// A conn is a connection or a database.
type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// clock is the time of SQLite in milliseconds since 1970, as in the triggers.
const clock = `CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)`

// write runs change in a transaction that holds the write lock from its beginning. It reads the
// clock under the lock.
func (b *Box) write(
	ctx context.Context, doing string, change func(c *sql.Conn, now int64) error,
) error {
	if err := b.check(ctx); err != nil {
		return b.explain(ctx, doing, err)
	}
	return b.explain(ctx, doing, b.writeUnchecked(ctx, change))
}

func (b *Box) writeUnchecked(
	ctx context.Context, change func(c *sql.Conn, now int64) error,
) (err error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// BEGIN is a statement, because the effect of BeginTx depends on the driver and on how the
	// database was opened. The end ignores the context: it is short, and its outcome should be
	// known.
	if err := b.patiently(ctx, c, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	ending := context.WithoutCancel(ctx)
	defer func() {
		if err == nil {
			return
		}
		if _, failed := c.ExecContext(ending, "ROLLBACK"); failed != nil {
			// Usually SQLite has rolled back by itself. Do not reuse the connection in any case.
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	var now int64
	if err := c.QueryRowContext(ctx, "SELECT "+clock).Scan(&now); err != nil {
		return err
	}
	if err := change(c, now); err != nil {
		return err
	}
	return b.patiently(ending, c, "COMMIT")
}

// patiently runs a statement, and retries while another writer holds the lock.
func (b *Box) patiently(ctx context.Context, c *sql.Conn, statement string) error {
	const step = 5 * time.Millisecond
	for until := time.Now().Add(b.wait); ; {
		_, err := c.ExecContext(ctx, statement)
		if !sqlitedb.IsBusy(err) || time.Now().After(until) {
			return err
		}
		if err := backoff.Sleep(ctx, step); err != nil {
			return err
		}
	}
}

// millis returns a duration in the unit of the tables, rounded up.
func millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}
