// Package sqliterecords keeps records in one SQLite file, for any number of processes on one
// machine. It needs no server and no C compiler.
//
//	store, err := sqliterecords.New(sqliterecords.Config{Path: "records.db"})
//
// Package records lists what every Store guarantees. This one also guarantees:
//
//   - An answered write has been forced to disk, so it survives the process and a power failure. A
//     process that is killed during a write leaves all of it or nothing, and no lock.
//   - Writes wait for each other, across processes, for up to Config.Wait. Reads never wait.
//   - The clock is that of the machine. If it is set back, versions still rise. Until it has caught
//     up, records that were written before count as new and expire later.
//
// While the file is in use, two more files lie beside it, with -wal and -shm after its name. Copy,
// move and remove the three together while no process has them open, or copy the file at any time
// with VACUUM INTO. All three must be on a local disk, because a network file system lacks the
// locks and the shared memory that the processes need.
//
// It leaves to others when to Sweep, and the size of the file: SQLite reuses free space and does
// not shrink the file.
package sqliterecords

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/records"
)

// A Store is an open file of records.
type Store struct {
	path  string
	clock func() time.Time

	// One connection writes, so that the writers of this process wait for each other in the pool. A
	// few others read.
	writer, reader *sql.DB
}

var _ records.Store = (*Store)(nil)

// A row is a record in the file. Times are in microseconds since 1970.
type row struct {
	value   []byte
	version int64 // zero for a row that does not exist
	written int64
	expires sql.NullInt64
}

// record returns the record at a time, or the zero value if there is none or it has expired.
func (r *row) record(key string, now int64) records.Record {
	if r.version == 0 || r.expires.Valid && r.expires.Int64 <= now {
		return records.Record{}
	}
	rec := records.Record{
		Key:     key,
		Value:   r.value,
		Version: records.Version(r.version),
		Age:     micros(max(0, now-r.written)),
	}
	if r.expires.Valid {
		rec.TTL = micros(r.expires.Int64 - now)
	}
	return rec
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func (s *Store) now() int64 { return s.clock().UnixMicro() }

// A querier is a transaction or a database.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

const selectRow = `SELECT value, version, written, expires FROM records WHERE key = ?`

// find returns a row, or the zero value.
func find(ctx context.Context, q querier, key string) (r row, err error) {
	err = q.QueryRowContext(ctx, selectRow, key).Scan(&r.value, &r.version, &r.written, &r.expires)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, nil
	}
	return r, err
}

// Get returns a record, or records.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (records.Record, error) {
	if err := records.CheckKey(key); err != nil {
		return records.Record{}, err
	}
	r, err := find(ctx, s.reader, key)
	if err != nil {
		return records.Record{}, s.explain(ctx, "get a record", err)
	}
	rec := r.record(key, s.now())
	if rec.Version == 0 {
		return records.Record{}, records.ErrNotFound
	}
	return rec, nil
}

const (
	selectFloor = `SELECT version FROM floor`
	raiseFloor  = `UPDATE floor SET version = max(version, ?)`

	replaceRow = `INSERT INTO records (key, value, version, written, expires) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
	value = excluded.value, version = excluded.version, written = excluded.written, expires = excluded.expires`
)

// Put writes a record if it has the version that w names.
func (s *Store) Put(ctx context.Context, w records.Write) (rec records.Record, err error) {
	if err := w.Check(); err != nil {
		return rec, err
	}
	err = s.write(ctx, "put a record", func(tx *sql.Tx, now int64) error {
		there, err := find(ctx, tx, w.Key)
		if err != nil {
			return err
		}
		if current := there.record(w.Key, now); current.Version != w.If {
			return &records.Conflict{Current: current}
		}
		var floor int64
		if err := tx.QueryRowContext(ctx, selectFloor).Scan(&floor); err != nil {
			return err
		}
		r := row{
			value: append([]byte{}, w.Value...), // nil would be NULL
			// The clock may have been set back since an earlier record of the key.
			version: max(now, there.version+1, floor+1),
			written: now,
		}
		if w.TTL > 0 {
			ttl := (w.TTL-1)/time.Microsecond + 1
			r.expires = sql.NullInt64{Int64: now + int64(ttl), Valid: true}
		}
		rec = r.record(w.Key, now)
		_, err = tx.ExecContext(ctx, replaceRow, w.Key, r.value, r.version, r.written, r.expires)
		return err
	})
	if err != nil {
		return records.Record{}, err
	}
	return rec, nil
}

const deleteRow = `DELETE FROM records WHERE key = ?`

// Delete removes a record if it has the version.
func (s *Store) Delete(ctx context.Context, key string, version records.Version) error {
	if err := records.CheckKey(key); err != nil {
		return err
	}
	return s.write(ctx, "delete a record", func(tx *sql.Tx, now int64) error {
		there, err := find(ctx, tx, key)
		if err != nil {
			return err
		}
		if current := there.record(key, now); current.Version == 0 || current.Version != version {
			return &records.Conflict{Current: current}
		}
		if _, err := tx.ExecContext(ctx, deleteRow, key); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, raiseFloor, there.version)
		return err
	})
}

// Keys with a prefix are neighbours, and the prefix is the first of them. So a lower bound is
// enough: List stops at the first key without the prefix.
const selectRows = `SELECT key, value, version, written, expires FROM records
WHERE key >= ? AND key <> ? AND (expires IS NULL OR expires > ?) ORDER BY key LIMIT ?`

// List returns records in the order of their keys.
func (s *Store) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	limit, err := records.CheckList(limit, prefix, after)
	if err != nil {
		return nil, err
	}
	now := s.now()
	var found []records.Record
	err = sqlitedb.Each(ctx, s.reader, func(rows *sql.Rows) error {
		var key string
		var r row
		err := rows.Scan(&key, &r.value, &r.version, &r.written, &r.expires)
		if err == nil && !strings.HasPrefix(key, prefix) {
			return errBehind
		}
		found = append(found, r.record(key, now))
		return err
	}, selectRows, max(prefix, after), after, now, limit)
	if err != nil && err != errBehind {
		return nil, s.explain(ctx, "list records", err)
	}
	return found, nil
}

// errBehind ends a List at the first key without the prefix.
var errBehind = errors.New("the key does not have the prefix")

const deleteExpired = `DELETE FROM records WHERE key IN
	(SELECT key FROM records WHERE expires <= ? ORDER BY expires LIMIT ?) RETURNING version`

// Sweep removes up to limit expired records, in one write for which other writers wait.
func (s *Store) Sweep(ctx context.Context, limit int) (n int, err error) {
	err = s.write(ctx, "sweep records", func(tx *sql.Tx, now int64) error {
		versions, err := sqlitedb.All(ctx, tx, sqlitedb.Column[int64], deleteExpired, now,
			max(0, limit))
		if err != nil || len(versions) == 0 {
			return err
		}
		n = len(versions)
		_, err = tx.ExecContext(ctx, raiseFloor, slices.Max(versions))
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// write runs change in a transaction that holds the write lock from its beginning. It reads the
// clock under the lock, so later writes have later times, unless the clock is set back.
func (s *Store) write(
	ctx context.Context, doing string, change func(tx *sql.Tx, now int64) error,
) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(ctx, doing, err)
	}
	if err := change(tx, s.now()); err != nil {
		_ = tx.Rollback() // err says what went wrong
		if _, conflict := errors.AsType[*records.Conflict](err); conflict {
			return err
		}
		return s.explain(ctx, doing, err)
	}
	if err := tx.Commit(); err != nil {
		return s.explain(ctx, doing, err)
	}
	return nil
}

// explain adds to an error the operation, the file, and what an operator can do about it.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	return sqlitedb.Explain(ctx, doing, s.path, err)
}

// Close closes the file. The last process to close it removes the files beside it.
func (s *Store) Close() error {
	if err := errors.Join(s.reader.Close(), s.writer.Close()); err != nil {
		return fmt.Errorf("close records in %s: %w", s.path, err)
	}
	return nil
}
