// Package sqliteoutbox is an outbox in a SQLite database: the table into which a program writes messages in its own
// transactions, and the outbox.Box from which relays, in this process or in others, send them. It is
// an outbox.History too, from which they are sent again.
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	err = sqliteoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "mails", Key: id, Body: body})
//	...
//	err = tx.Commit()
//
// The table has the columns of PostgreSQL's. Triggers write what relays have to know, so that a program in any
// language writes to it with an INSERT:
//
//	INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('mails', '17', 'hello')
//
// Beyond what package outbox promises:
//
//   - SQLite has one writer at a time, so the order of rows is that of the commits, without further ado.
//   - A claim costs about the same with a thousand rows and with a million, also when they wait behind one another, or for
//     a queue of which nothing is wanted. The queues take turns.
//   - Relays hold the lock for writing as long as it takes to change the rows in hand, not while they read bodies or
//     wait for a queue. They wait for other writers, up to Options.Wait.
//   - What is to be replayed is noted a few thousand rows at a time, with pauses for others who write. It is read in
//     one go before, into memory: some 60 MB for a million rows that were sent; all that it returns, for a query.
//   - The SQL of a source, as SQLite knows it, cannot write. Its sent_at is text, 2006-01-02T15:04:05.000Z.
//   - The clock is that of the machine. When it is set back, leases end and delayed rows are due as much later.
//
// The database may be written to through any driver of database/sql, and should be in the mode WAL, so that relays
// and readers do not wait for each other. It must be on a local disk. How much survives a loss of power is decided
// by the pragma synchronous of the programs that write; Open uses FULL.
//
// It leaves to others when to Sweep. SQLite uses given-back room again, and does not shrink the file.
package sqliteoutbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/outbox"
)

// A Box is an outbox in a database. It may be used by any number of goroutines.
type Box struct {
	db      *sql.DB
	own     bool // it was opened by Open
	where   string
	wait    time.Duration
	table   string
	names   *strings.Replacer
	texts   sync.Map // of statements, with the names in them
	schema  string
	checked atomic.Bool

	// turn is full while somebody of this Box writes: its calls wait here, rather than in SQLite, which knows no
	// order.
	turn chan struct{}

	// seen is the number of the newest row at the last claim. Wait waits for another one.
	seen atomic.Int64
}

var _ outbox.History = (*Box)(nil)

// Options are of New and Open. The zero value works.
type Options struct {
	// Table is the name of the table: "outbox" when empty. It is in the main database: a transaction over attached
	// files is not one when the power fails.
	Table string

	// Wait is how long a call waits for others who write; 10 s when zero. The context of the call may end it
	// before, and the busy timeout of the connection comes on top.
	Wait time.Duration
}

const waitDefault = 10 * time.Second

// New returns the outbox in a database that is open already. It does nothing to it: see Migrate.
func New(db *sql.DB, o Options) (*Box, error) {
	n, err := namesOf(o.Table)
	if err != nil {
		return nil, fmt.Errorf("outbox in SQLite: %w", err)
	}
	names := n.replacer()
	return &Box{
		db: db, where: "the outbox " + n.table, wait: cmp.Or(o.Wait, waitDefault),
		table: n.table, names: names, schema: names.Replace(schemaSQL), turn: make(chan struct{}, 1),
	}, nil
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

// Close ends the use of a database that Open opened. One that New was given stays open.
func (b *Box) Close() error {
	if !b.own {
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

// write carries out change in a transaction that has the lock for writing from its beginning, which is when the
// clock is read.
func (b *Box) write(ctx context.Context, doing string, change func(c *sql.Conn, now int64) error) error {
	if err := b.check(ctx); err != nil {
		return b.explain(ctx, doing, err)
	}
	return b.explain(ctx, doing, b.writeUnchecked(ctx, change))
}

func (b *Box) writeUnchecked(ctx context.Context, change func(c *sql.Conn, now int64) error) (err error) {
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
	// The transaction is begun by hand, because what BeginTx does is up to the driver and to how the database was
	// opened. Its end does not heed the context: it is short, and whether it happened should be known.
	if err := b.patiently(ctx, c, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	ending := context.WithoutCancel(ctx)
	defer func() {
		if err == nil {
			return
		}
		if _, failed := c.ExecContext(ending, "ROLLBACK"); failed != nil {
			// SQLite has rolled back itself, as a rule. The connection is not used again in any case.
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
		if code(err) != busy || time.Now().After(until) {
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
