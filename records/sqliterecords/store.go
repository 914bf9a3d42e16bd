// Package sqliterecords keeps records in one SQLite file, for any number of processes on one
// machine. It needs no server and no C compiler.
//
//	store, err := sqliterecords.New(sqliterecords.Config{Path: "records.db"})
//
// Open creates the file where there is none, and brings an older one up to date. What the methods
// of a Store promise is in package records; beyond that:
//
//   - An answer to a write is on the disk, by fsync: it outlives the process and the machine's
//     power. A process that is killed in the midst of a write leaves all of it or nothing, and no
//     lock.
//   - Writes wait for each other, across processes, up to Config.Wait. Reads wait for nobody.
//   - The clock is the machine's. When it is set back, versions rise all the same, and records that
//     were written before count as new, and expire as much later, until it has caught up.
//
// Beside the file lie two more while it is in use, with -wal and -shm behind its name. They belong
// to it: copy, move and remove the three together and while nobody has them open, or copy the one
// file with VACUUM INTO at any time. All must be on a local disk: a network file system does not
// have the locks and the shared memory that processes need between them.
//
// It leaves to others when to Sweep, and how long the file may grow: SQLite uses given-back room
// again, and does not shrink the file.
package sqliterecords

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/records"
)

// A Store is an open file of records.
type Store struct {
	path  string
	clock func() time.Time

	// One connection writes, so that the writers of this process wait for each other in the pool,
	// and a few read beside it.
	writer, reader *sql.DB
}

var _ records.Store = (*Store)(nil)

// A row is a record as it is in the file. Times are in microseconds since 1970.
type row struct {
	value   []byte
	version int64 // of a row that does not exist, zero
	written int64
	expires sql.NullInt64
}

// record is what the row is at a time: nothing, if that is behind its expiry.
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

// A querier is a transaction, or a connection of its own.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

const selectRow = `SELECT value, version, written, expires FROM records WHERE key = ?`

// find reads a row; one that does not exist has version zero.
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
			value: append([]byte{}, w.Value...), // not nil, which would be NULL
			// The clock may have been set back since the key had a record, or since it last had
			// one.
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

// Keys with a prefix are neighbours and the prefix is the first of them, so that a lower bound is
// enough; where they end is seen when it is reached.
const selectRows = `SELECT key, value, version, written, expires FROM records
WHERE key >= ? AND key <> ? AND (expires IS NULL OR expires > ?) ORDER BY key LIMIT ?`

// List returns records in the order of their keys.
func (s *Store) List(
	ctx context.Context, prefix, after string, limit int,
) ([]records.Record, error) {
	for _, bound := range []string{prefix, after} {
		if bound == "" {
			continue
		}
		if err := records.CheckKey(bound); err != nil {
			return nil, err
		}
	}
	if limit < 1 || limit > records.ListMax {
		limit = records.ListMax
	}
	now := s.now()
	rows, err := s.reader.QueryContext(ctx, selectRows, max(prefix, after), after, now, limit)
	if err != nil {
		return nil, s.explain(ctx, "list records", err)
	}
	defer rows.Close()
	var found []records.Record
	for rows.Next() {
		var key string
		var r row
		if err := rows.Scan(&key, &r.value, &r.version, &r.written, &r.expires); err != nil {
			return nil, s.explain(ctx, "list records", err)
		}
		if !strings.HasPrefix(key, prefix) {
			break
		}
		found = append(found, r.record(key, now))
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain(ctx, "list records", err)
	}
	return found, nil
}

const deleteExpired = `DELETE FROM records WHERE key IN
	(SELECT key FROM records WHERE expires <= ? ORDER BY expires LIMIT ?) RETURNING version`

// Sweep gives back the room of up to limit expired records, in one write for which others wait.
func (s *Store) Sweep(ctx context.Context, limit int) (n int, err error) {
	err = s.write(ctx, "sweep records", func(tx *sql.Tx, now int64) error {
		rows, err := tx.QueryContext(ctx, deleteExpired, now, max(0, limit))
		if err != nil {
			return err
		}
		defer rows.Close()
		var largest int64
		for rows.Next() {
			var version int64
			if err := rows.Scan(&version); err != nil {
				return err
			}
			largest = max(largest, version)
			n++
		}
		if err := rows.Err(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, raiseFloor, largest)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// write carries out change in a transaction that has the lock for writing from its beginning, which
// is when the clock is read: what is written later has the later time, unless the clock is set
// back.
func (s *Store) write(
	ctx context.Context, doing string, change func(tx *sql.Tx, now int64) error,
) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(ctx, doing, err)
	}
	if err := change(tx, s.now()); err != nil {
		_ = tx.Rollback() // what went wrong is in err
		var conflict *records.Conflict
		if errors.As(err, &conflict) {
			return err
		}
		return s.explain(ctx, doing, err)
	}
	if err := tx.Commit(); err != nil {
		return s.explain(ctx, doing, err)
	}
	return nil
}

// explain adds to an error what was being done, where, and what an operator can do about it.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	return sqlitedb.Explain(ctx, doing, s.path, err)
}

// Close ends the use of the file. The last process to do so removes what lies beside it.
func (s *Store) Close() error {
	if err := errors.Join(s.reader.Close(), s.writer.Close()); err != nil {
		return fmt.Errorf("close records in %s: %w", s.path, err)
	}
	return nil
}
