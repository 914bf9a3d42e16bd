// Package sqliteoutbox is an outbox in a SQLite database: the table into which a program writes
// messages in its own transactions, and the outbox.Box from which relays, in this process or in
// others, send them. It is an outbox.History too, from which they are sent again.
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	err = sqliteoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "mails", Key: id, Body: body})
//	...
//	err = tx.Commit()
//
// The table has the columns of PostgreSQL's. Triggers write what relays have to know, so that a
// program in any language writes to it with an INSERT:
//
//	INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('mails', '17', 'hello')
//
// Beyond what package outbox promises:
//
//   - SQLite has one writer at a time, so the order of rows is that of the commits, without further
//     ado.
//   - A claim costs about the same with a thousand rows and with a million, also when they wait
//     behind one another, or for a queue of which nothing is wanted. The queues take turns.
//   - Relays hold the lock for writing as long as it takes to change the rows in hand, not while
//     they read bodies or wait for a queue. They wait for other writers, up to Options.Wait.
//   - What is to be replayed is noted a few thousand rows at a time, with pauses for others who
//     write. It is read in one go before, into memory: some 60 MB for a million rows that were
//     sent; all that it returns, for a query.
//   - The SQL of a source, as SQLite knows it, cannot write. Its sent_at is text,
//     2006-01-02T15:04:05.000Z.
//   - The clock is that of the machine. When it is set back, leases end and delayed rows are due as
//     much later.
//
// The database may be written to through any driver of database/sql, and should be in WAL mode, so
// that relays and readers do not wait for each other. It must be on a local disk. How much survives
// a loss of power is decided by the pragma synchronous of the programs that write; with Config.Path
// it is FULL.
//
// It leaves to others when to Sweep. SQLite uses given-back room again, and does not shrink the
// file.
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

// A Box is an outbox in a database. It may be used by any number of goroutines.
type Box struct {
	db      *sql.DB
	owned   bool // Close closes it
	where   string
	wait    time.Duration
	table   string
	names   *strings.Replacer
	texts   sync.Map // of statements, with the names in them
	checked atomic.Bool

	// turn is full while somebody of this Box writes: its calls wait here, rather than in SQLite,
	// which knows no order.
	turn chan struct{}

	// seen is the number of the newest row at the last claim. Wait waits for another one.
	seen atomic.Int64
}

var _ outbox.History = (*Box)(nil)

// A Config says where the outbox is. Either DB or Path is required.
type Config struct {
	// DB is the database, opened with any driver of SQLite. It remains the caller's to close.
	DB *sql.DB

	// Path is the file of the database, which must exist. New opens it with a driver without cgo
	// and switches it to WAL mode, which is permanent. Close closes it.
	Path string

	// Table is the name of the table, at most 40 letters, digits and underscores: "outbox" when
	// empty. It is in the main database, because a transaction over attached files is not atomic
	// when the power fails.
	Table string

	// Wait is how long a call waits for other writers: 10 s when zero. The context of the call may
	// end it earlier. The busy timeout of a DB comes on top.
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

// connections is how many connections a Box has to the file of Config.Path at most.
const connections = 4

// open opens the file of a database, which exists, and switches it to WAL mode.
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

// explain adds to an error what was being done, where, and what an operator can do about it.
func (b *Box) explain(ctx context.Context, doing string, err error) error {
	return sqlitedb.Explain(ctx, doing, b.where, err)
}

// sql is a statement with the names of this outbox in it.
func (b *Box) sql(statement string) string {
	if s, ok := b.texts.Load(statement); ok {
		return s.(string)
	}
	s := b.names.Replace(statement)
	b.texts.Store(statement, s)
	return s
}

// Close closes the database of Config.Path. One that Config.DB named stays open.
func (b *Box) Close() error {
	if !b.owned {
		return nil
	}
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", b.where, err)
	}
	return nil
}

// DB is the database, to write to it in transactions of one's own.
func (b *Box) DB() *sql.DB { return b.db }

// A conn is a connection, or all of them.
type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// clock is the time of SQLite in milliseconds since 1970. It is the one that the triggers use.
const clock = `CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)`

// write carries out change in a transaction that has the lock for writing from its beginning, which
// is when the clock is read.
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
	// The transaction is begun by hand, because what BeginTx does is up to the driver and to how
	// the database was opened. Its end does not heed the context: it is short, and whether it
	// happened should be known.
	if err := b.patiently(ctx, c, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	ending := context.WithoutCancel(ctx)
	defer func() {
		if err == nil {
			return
		}
		if _, failed := c.ExecContext(ending, "ROLLBACK"); failed != nil {
			// SQLite has rolled back itself, as a rule. The connection is not used again in any
			// case.
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

// patiently runs a statement until nobody is in its way.
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

// millis is a time as the tables have it, rounded up.
func millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}
