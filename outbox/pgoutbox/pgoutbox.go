// Package pgoutbox keeps an outbox in PostgreSQL, 13 or later.
//
// Programs write to the table in any language and with any statement. In their transaction, a
// trigger notes new rows for the relays. Relays keep no position in the table, so they do not miss
// a transaction that commits late.
//
// An insert into a stream (a queue and a group) waits until other transactions that wrote to the
// stream end; other inserts never wait. The order is that of the commits, under every isolation
// level. A role that writes needs only USAGE on the schema and INSERT on the table. Rows do not
// change after they are written. To take back a row that was not sent, delete it.
//
// All times are by the clock of the server. Relays use read committed, even if the default of the
// database differs, so they cause no serialization failures in programs. An answered write of a
// relay is on disk: synchronous_commit is on for it, or remote_apply if that is the setting. That
// relies on the default fsync = on and, after a failover, on synchronous replication. A standby in
// recovery is refused.
//
// The pool may go through PgBouncer or another pooler in transaction mode: no statement is prepared
// under a name, and nothing is set that outlives a transaction. Only LISTEN does not work through a
// pooler. A relay then notices new rows at its next poll.
//
// The tables belong to the role that migrates them. Other roles need USAGE on the schema, and:
//
//   - to relay: SELECT and DELETE on the table; SELECT, INSERT, UPDATE and DELETE on the tables
//     that end in _pending and _sent; SELECT and UPDATE on _turns and _waiting; USAGE on _seq;
//     SELECT on _rows and _meta
//   - to replay: the same, and INSERT on the table; SELECT, INSERT and UPDATE on _replays; SELECT,
//     INSERT and DELETE on _replay_rows. The SQL of a source runs with these rights.
//
// Like every queue in PostgreSQL, an outbox slows down while a transaction anywhere in the database
// stays open for hours, because vacuum cannot remove rows that were sent meanwhile.
package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
)

// A Box is an outbox in one table.
type Box struct {
	pool   *pgxpool.Pool
	owned  bool   // Close closes the pool
	table  string // Config.Table
	names  names
	schema pgdb.Schema

	explicit atomic.Bool // the database has another isolation by default than read committed

	mu     sync.Mutex
	behind string    // the stream after which the next claim starts, so that streams take turns
	ear    *listener // an idle connection that listens
	closed bool
}

var (
	_ outbox.History = (*Box)(nil)
	_ outbox.Decider = (*Box)(nil)
)

// A Config says where the outbox is. Pool or URL is required.
type Config struct {
	// Pool is a pool of connections to the database. The caller closes it.
	Pool *pgxpool.Pool

	// URL is the address of the database, or the keywords and environment variables that psql
	// knows. New opens a pool for it, which Close closes. Of several hosts, it uses the one that
	// accepts writes.
	URL string

	// Table is the name of the table, or its schema and name with a dot in between: "outbox" when
	// empty. Each part has at most 40 letters, digits and underscores. The schema must exist.
	// Without a schema, the search_path of the connection decides, and must be the same for all
	// relays. The names of all other objects of the outbox begin with that of the table.
	Table string
}

// New returns the outbox in one table. It does not use the database: call Migrate to create the
// tables. Close the box when you no longer need it, because Wait keeps a connection of its own.
func New(cfg Config) (*Box, error) {
	n, err := namesOf(cfg.Table)
	switch {
	case cfg.Pool == nil && cfg.URL == "":
		return nil, errors.New("pgoutbox: Config has neither Pool nor URL: set one of them to the database to which the program writes")
	case cfg.Pool != nil && cfg.URL != "":
		return nil, errors.New("pgoutbox: Config has both Pool and URL: leave one of them out")
	case err != nil:
		return nil, fmt.Errorf("pgoutbox: Config.Table: %w", err)
	}
	b := &Box{pool: cfg.Pool, table: cfg.Table, names: n}
	if cfg.URL != "" {
		b.owned = true
		if b.pool, err = pgdb.Connect(cfg.URL); err != nil {
			return nil, fmt.Errorf("pgoutbox: Config.URL: %w", err)
		}
	}
	b.schema = pgdb.Schema{Pool: b.pool, Table: n.of("meta"), Version: schemaVersion,
		Unfit: outbox.ErrSchema}
	return b, nil
}

// Close closes the connection that Wait keeps, and the pool of Config.URL.
func (b *Box) Close() error {
	b.mu.Lock()
	ear := b.ear
	b.ear, b.closed = nil, true
	b.mu.Unlock()
	if ear != nil {
		ear.close()
	}
	if b.owned {
		b.pool.Close()
	}
	return nil
}

// Claim implements outbox.Box. It takes about the same number of rows of each queue and stream, and
// starts with the streams at which the last claim of this box ended.
func (b *Box) Claim(
	ctx context.Context, c outbox.Claim,
) (rows []outbox.Row, next time.Duration, err error) {
	b.mu.Lock()
	behind := b.behind
	b.mu.Unlock()
	except := c.Except
	if except == nil {
		except = []string{} // nil would be NULL
	}
	type placed struct {
		outbox.Row
		seq int64
	}
	var found []placed
	err = b.call(ctx, func() { found = nil }, func(row pgx.Rows) error {
		var r record
		if err := row.Scan(r.columns()...); err != nil {
			return err
		}
		if r.id != nil {
			full, err := r.row()
			found = append(found, placed{full, *r.seq})
			return err
		}
		behind, next = *r.stream, outbox.NextMax
		if r.seq != nil {
			next = min(next, time.Duration(*r.seq)*time.Microsecond)
		}
		return nil
	}, `SELECT `+recordColumns+` FROM `+b.names.of("claim")+`($1, $2, $3, $4, $5, $6, $7) r`,
		c.Relay, micros(c.Lease), int32(min(max(c.Rows, 0),
			rowsMax)), int64(c.Bytes), int32(min(max(c.Stream, 1), rowsMax)), except, behind)
	if err != nil {
		return nil, 0, fmt.Errorf("claim rows of the outbox: %w", err)
	}
	b.mu.Lock()
	b.behind = behind
	b.mu.Unlock()
	slices.SortFunc(found, func(x, y placed) int { return int(min(max(x.seq-y.seq, -1), 1)) })
	for _, f := range found {
		rows = append(rows, f.Row)
	}
	return rows, next, nil
}

// rowsMax is the maximum number of rows of one claim.
const rowsMax = 1_000_000

// Renew implements outbox.Box. A lease that has ended is not renewed.
func (b *Box) Renew(
	ctx context.Context, relay string, lease time.Duration,
) (ids []string, err error) {
	err = b.call(ctx, func() { ids = nil }, func(row pgx.Rows) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT r::text FROM `+b.names.of("renew")+`($1, $2) r`, relay, micros(lease))
	if err != nil {
		return nil, fmt.Errorf("renew leases of the outbox: %w", err)
	}
	return ids, nil
}

// Settle implements outbox.Box.
func (b *Box) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	// Those that were sent are last, and have values only in the arrays that they need.
	n := len(outcomes)
	ids, queues, messageIDs := make([]string, 0, n), make([]string, 0, n), make([]string, 0, n)
	fates, afters, reasons := []int32{}, []int64{}, []*string{}
	for _, sent := range []bool{false, true} {
		for _, o := range outcomes {
			if (o.Fate == outbox.Sent) != sent {
				continue
			}
			ids = append(ids, o.ID)
			queues = append(queues, text(o.SentTo))
			messageIDs = append(messageIDs, text(o.MessageID))
			if sent {
				continue
			}
			var reason *string
			if o.Reason != "" {
				given := text(o.Reason)
				reason = &given
			}
			fates, afters = append(fates, int32(o.Fate)), append(afters, micros(o.After))
			reasons = append(reasons, reason)
		}
	}
	err := b.call(ctx, func() {}, func(pgx.Rows) error { return nil },
		`SELECT `+b.names.of("settle")+`($1, $2::text[]::uuid[], $3, $4, $5, $6, $7)`, relay, ids, fates, afters, reasons, queues, messageIDs)
	if err != nil {
		return fmt.Errorf("settle %d rows of the outbox: %w", n, err)
	}
	return nil
}

var errClosed = errors.New("the outbox is closed")

// transact calls do in a transaction, and repeats both after a deadlock.
func (b *Box) transact(ctx context.Context, do func(pgx.Tx) error) error {
	if err := b.schema.Check(ctx); err != nil {
		return err
	}
	err := pgdb.Retried(func() error {
		return pgx.BeginTxFunc(ctx, b.pool, pgdb.ReadCommitted, do)
	})
	if pgdb.HasCode(err, pgdb.FeatureNotSupported, pgdb.ReadOnlyTransaction) &&
		!errors.Is(err, outbox.ErrSource) {
		return fmt.Errorf("%w (%w)", pgdb.ErrStandby, err)
	}
	return err
}

// call is query for a function that refuses to run under another isolation than read committed. The
// statement is a transaction by itself, in one round trip, unless the defaults of the database do
// not allow that.
func (b *Box) call(
	ctx context.Context, begin func(), each func(pgx.Rows) error, sql string, args ...any,
) error {
	if !b.explicit.Load() {
		if err := b.schema.Check(ctx); err != nil {
			return err
		}
		err := pgdb.Retried(func() error {
			begin()
			return rowsOf(ctx, b.pool, each, sql, args...)
		})
		switch {
		case pgdb.HasCode(err, otherIsolation):
			b.explicit.Store(true)
		case !pgdb.HasCode(err, pgdb.ReadOnlyTransaction):
			return err
		}
	}
	return b.query(ctx, begin, each, sql, args...)
}

// otherIsolation is the error code that relay.sql raises under another isolation than read
// committed.
const otherIsolation = "TNQ02"

// query runs one statement in a transaction of its own and calls each for its rows. It calls begin
// before each run, because the rows of a run that was not committed are void.
func (b *Box) query(
	ctx context.Context, begin func(), each func(pgx.Rows) error, sql string, args ...any,
) error {
	return b.transact(ctx, func(tx pgx.Tx) error {
		begin()
		return rowsOf(ctx, tx, each, sql, args...)
	})
}

// A querier is a transaction or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// rowsOf runs one statement and calls each for its rows.
func rowsOf(
	ctx context.Context, on querier, each func(pgx.Rows) error, sql string, args ...any,
) error {
	rows, err := on.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
