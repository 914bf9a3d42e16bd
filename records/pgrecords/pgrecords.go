// Package pgrecords keeps records in PostgreSQL, 12 or later, for all processes that reach it.
//
// Every method is one statement and one round trip. A Put or Delete that must wait for another of
// the same key waits in the server. Age, TTL and versions are by the clock of the server, and
// versions rise even when that clock is set back.
//
// An answered write is on disk: its transaction runs with synchronous_commit = on, or remote_apply
// if that is the setting, even if the database, the role or the pool sets less. That relies on the
// default fsync = on and, after a failover, on synchronous replication.
//
// The pool may go through PgBouncer or another pooler in transaction mode: no statement is prepared
// under a name, and nothing is set that outlives a transaction. If the default isolation of the
// database is stricter than read committed, statements that PostgreSQL refuses to serialize run
// again. A standby in recovery is refused.
//
// The tables belong to the role that migrates them. Another role needs USAGE on their schema,
// SELECT, INSERT, UPDATE and DELETE on the table, and SELECT and UPDATE on the table that ends in
// _meta.
//
// A deleted record leaves a row with its version but without a value until Sweep removes it. So
// call Sweep now and then, even if nothing expires.
package pgrecords

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/internal/work/pgdb"
	"tenaq/records"
)

// A Store keeps records in one table.
type Store struct {
	pool   *pgxpool.Pool
	owned  bool // Close closes the pool
	names  names
	schema pgdb.Schema
}

var _ records.Store = (*Store)(nil)

// A Config says where the records are. Pool or URL is required.
type Config struct {
	// Pool is a pool of connections to the database. The caller closes it.
	Pool *pgxpool.Pool

	// URL is the address of the database, or the keywords and environment variables that psql
	// knows. New opens a pool for it, which Close closes. Of several hosts, it uses the one that
	// accepts writes.
	URL string

	// Table is the name of the table, or its schema and name with a dot in between: "tenaq_records"
	// when empty. Each part has at most 50 letters, digits and underscores. The schema must exist.
	// Without a schema, the search_path of the connection decides, and must be the same for all
	// processes. The names of all other objects of the store begin with that of the table.
	Table string
}

// New returns a store over one table. It does not use the database: call Migrate to create the
// tables.
func New(cfg Config) (*Store, error) {
	n, err := namesOf(cfg.Table)
	switch {
	case cfg.Pool == nil && cfg.URL == "":
		return nil, errors.New("pgrecords: Config has neither Pool nor URL: set one of them to the database of the records")
	case cfg.Pool != nil && cfg.URL != "":
		return nil, errors.New("pgrecords: Config has both Pool and URL: leave one of them out")
	case err != nil:
		return nil, fmt.Errorf("pgrecords: Config.Table: %w", err)
	}
	s := &Store{pool: cfg.Pool, names: n}
	if cfg.URL != "" {
		s.owned = true
		if s.pool, err = pgdb.Connect(cfg.URL); err != nil {
			return nil, fmt.Errorf("pgrecords: Config.URL: %w", err)
		}
	}
	s.schema = pgdb.Schema{Pool: s.pool, Table: n.of("_meta"), Version: schemaVersion,
		Unfit: errSchema}
	return s, nil
}

// Close closes the pool of Config.URL. It does not close Config.Pool.
func (s *Store) Close() error {
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// Get returns a record, or records.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (records.Record, error) {
	if err := records.CheckKey(key); err != nil {
		return records.Record{}, err
	}
	var standby bool
	var r row
	err := s.query(ctx, func() { standby, r = false, row{} }, func(row pgx.Rows) error {
		return row.Scan(&standby, &r.value, &r.version, &r.age, &r.ttl)
	}, `SELECT pg_is_in_recovery(), `+columns("r.")+`, `+s.times()+`
		FROM (SELECT `+s.names.of("_now")+`() AS at OFFSET 0) c
		LEFT JOIN `+s.names.of("")+` r ON r.key = $1 AND (r.expires IS NULL OR r.expires > c.at)`, key)
	switch {
	case err != nil:
		return records.Record{}, fmt.Errorf("get record %q: %w", key, err)
	case standby:
		return records.Record{}, fmt.Errorf("get record %q: %w", key, pgdb.ErrStandby)
	case r.version == nil:
		return records.Record{}, records.ErrNotFound
	}
	return r.record(key), nil
}

// Put writes a record if it has the version that w names; else the error is a *records.Conflict.
func (s *Store) Put(ctx context.Context, w records.Write) (records.Record, error) {
	if err := w.Check(); err != nil {
		return records.Record{}, err
	}
	sql, args := s.put(w)
	r, err := s.change(ctx, w.Key, sql, args...)
	if err != nil {
		return records.Record{}, named(err, "put record", w.Key)
	}
	r.Value = slices.Clone(w.Value)
	return r, nil
}

// put returns the statement that carries out a write.
func (s *Store) put(w records.Write) (sql string, args []any) {
	var lifetime *int64
	if w.TTL > 0 {
		us := int64((w.TTL-1)/time.Microsecond) + 1
		lifetime = &us
	}
	bytes := w.Value
	if bytes == nil {
		bytes = []byte{} // nil would be NULL
	}
	return `SELECT done, ` + columns("") + `, age, ttl FROM ` + s.names.of("_put") + `($1, $2, $3, $4)`,
		[]any{w.Key, bytes, number(w.If), lifetime}
}

// Delete removes a record if it has the version; else the error is a *records.Conflict.
func (s *Store) Delete(ctx context.Context, key string, version records.Version) error {
	if err := records.CheckKey(key); err != nil {
		return err
	}
	_, err := s.change(ctx, key, `SELECT done, `+columns("")+`, age, ttl FROM `+s.names.of("_delete")+`($1, $2)`, key, number(version))
	return named(err, "delete record", key)
}

// List returns up to limit records whose keys begin with prefix and come behind after, in order.
func (s *Store) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	limit, err := records.CheckList(limit, prefix, after)
	if err != nil {
		return nil, err
	}
	var standby bool
	var list []records.Record
	err = s.query(ctx, func() { list = nil }, func(rows pgx.Rows) error {
		var key string
		var r row
		if err := rows.Scan(&standby, &key, &r.value, &r.version, &r.age, &r.ttl); err != nil {
			return err
		}
		list = append(list, r.record(key))
		return nil
	}, `SELECT pg_is_in_recovery(), r.key, `+columns("r.")+`, `+s.times()+`
		FROM (SELECT `+s.names.of("_now")+`() AS at OFFSET 0) c
		JOIN `+s.names.of("")+` r ON r.expires IS NULL OR r.expires > c.at
		WHERE r.key >= $1 AND ($2::text IS NULL OR r.key < $2) AND r.key > $3
		ORDER BY r.key LIMIT $4`, prefix, behind(prefix), after, int64(limit))
	if err == nil && standby {
		err = pgdb.ErrStandby
	}
	if err != nil {
		return nil, fmt.Errorf("list records %q: %w", prefix, err)
	}
	return list, nil
}

// Sweep removes the rows of up to limit expired or deleted records.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	var n int
	err := s.query(ctx, func() {}, func(row pgx.Rows) error { return row.Scan(&n) },
		`SELECT `+s.names.of("_sweep")+`($1)`, int64(min(max(limit, 0), math.MaxInt32)))
	if err != nil {
		return 0, fmt.Errorf("sweep records: %w", err)
	}
	return n, nil
}

// times returns the columns age and ttl of a record r at the time c.at, in microseconds.
func (s *Store) times() string {
	micros := s.names.of("_micros")
	return micros + `(c.at - r.written), ` + micros + `(r.expires - c.at)`
}

// columns returns the columns value and version. The value is base64, because the text format of
// bytes is a setting of PostgreSQL.
func columns(r string) string { return "encode(" + r + "value, 'base64'), " + r + "version" }

// A value is read from base64, or from NULL as nil.
type value []byte

func (v *value) Scan(src any) (err error) {
	*v = nil
	switch text := src.(type) {
	case string:
		*v, err = base64.StdEncoding.DecodeString(text)
	case []byte: // as some drivers of database/sql have text
		*v, err = base64.StdEncoding.AppendDecode(nil, text)
	}
	return err
}

// A row has the columns of a record. All are nil if there is no record; ttl is nil if it never
// expires.
type row struct {
	value             value
	version, age, ttl *int64
}

func (r *row) record(key string) records.Record {
	rec := records.Record{Key: key, Value: r.value, Version: records.Version(*r.version)}
	rec.Age = max(0, time.Duration(*r.age)*time.Microsecond) // negative after a clock was set back
	if r.ttl != nil {
		rec.TTL = saturate(*r.ttl)
	}
	return rec
}

// saturate converts microseconds to a duration. Rounding up may exceed the longest one.
func saturate(us int64) time.Duration {
	if us > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// change runs a function. It returns a row with done if it has written, a row without done if there
// is another record, and no row if there is no record.
func (s *Store) change(ctx context.Context, key, sql string, args ...any) (records.Record, error) {
	var done bool
	var r row
	err := s.query(ctx, func() { done, r = false, row{} }, func(row pgx.Rows) error {
		return row.Scan(&done, &r.value, &r.version, &r.age, &r.ttl)
	}, sql, args...)
	if err != nil {
		return records.Record{}, err
	}
	return r.outcome(key, done)
}

// outcome returns the result of a change that returned the row.
func (r *row) outcome(key string, done bool) (records.Record, error) {
	switch {
	case r.version == nil:
		return records.Record{}, &records.Conflict{}
	case !done:
		return records.Record{}, &records.Conflict{Current: r.record(key)}
	}
	return r.record(key), nil
}

// refusedMax is how often a statement runs that PostgreSQL refuses to serialize. A refused
// statement has written nothing. One statement wins each time, so only many writers of one key
// reach the limit.
const refusedMax = 100

// query runs one statement and calls each for its rows. It calls begin before each run, because the
// rows of a refused statement are void.
func (s *Store) query(
	ctx context.Context, begin func(), each func(pgx.Rows) error, sql string, args ...any,
) error {
	if err := s.schema.Check(ctx); err != nil {
		return err
	}
	args = append([]any{pgx.QueryExecModeExec}, args...)
	for n := 1; ; n++ {
		begin()
		rows, err := s.pool.Query(ctx, sql, args...)
		if err == nil {
			for err == nil && rows.Next() {
				err = each(rows)
			}
			rows.Close()
			err = cmp.Or(rows.Err(), err)
		}
		if n == refusedMax || !pgdb.HasCode(err, pgdb.SerializationFailure, pgdb.DeadlockDetected) {
			return err
		}
	}
}

// number converts a version. No record has one beyond the range of int64, and none has -1.
func number(v records.Version) int64 {
	if v > math.MaxInt64 {
		return -1
	}
	return int64(v)
}

// behind returns the least string after all that begin with prefix, in the order of bytes, which is
// also that of code points; nil if there is none.
func behind(prefix string) *string {
	for prefix != "" {
		last, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		if last == utf8.MaxRune {
			continue
		}
		last++
		if !utf8.ValidRune(last) {
			last = 0xE000 // after the surrogates
		}
		prefix += string(last)
		return &prefix
	}
	return nil
}

// named adds the operation to an error, except to a conflict.
func named(err error, doing, key string) error {
	if _, conflict := errors.AsType[*records.Conflict](err); err == nil || conflict {
		return err
	}
	return fmt.Errorf("%s %q: %w", doing, key, err)
}
