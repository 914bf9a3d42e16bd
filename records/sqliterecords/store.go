// Package sqliterecords keeps records in one SQLite file, for any number of processes on one
// machine. It needs no server and no C compiler.
//
//	store, err := sqliterecords.New(sqliterecords.Config{Path: "records.db"})
//
// Package records lists what every Store guarantees. This one also guarantees:
//
//   - An answered write has been forced to disk, so it survives the process and a power failure. A
//     process that is killed during a write leaves all of it or nothing, and no lock.
//   - Concurrent writes of one process share a transaction, and so one forced write. Each keeps its
//     own condition and its own outcome. If the transaction fails, all of it fails and none of its
//     writes is in the file. A write that only SQLite can refuse does not fail the others.
//   - A write whose context ends before its transaction has begun never takes effect. After that,
//     the call returns the error of the context, and the outcome is unknown.
//   - Writes wait for those of other processes for up to Config.Wait. Reads never wait.
//   - The clock is that of the machine. If it is set back, versions still rise. Until it has caught
//     up, records that were written before count as new and expire later.
//
// While the file is in use, there are two more files beside it, with -wal and -shm after its name.
// Copy, move and remove the three together while no process has them open, or copy the file at any
// time with VACUUM INTO. All three must be on a local disk, because a network file system lacks the
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
	"strings"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/records"
)

// A Store is an open file of records.
type Store struct {
	path  string
	clock func() time.Time

	// writer is the only connection of writerDB, for the transactions of line. A few others read.
	writer           *sql.Conn
	writerDB, reader *sql.DB
	statements
	line line
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

// find reads a row, or the zero value.
func find(ctx context.Context, q *sql.Stmt, key string) (r row, err error) {
	err = q.QueryRowContext(ctx, key).Scan(&r.value, &r.version, &r.written, &r.expires)
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
	r, err := find(ctx, s.get, key)
	if err != nil {
		return records.Record{}, s.explain(ctx, "get a record", err)
	}
	rec := r.record(key, s.now())
	if rec.Version == 0 {
		return records.Record{}, records.ErrNotFound
	}
	return rec, nil
}

// Put writes a record if it has the version that w names.
func (s *Store) Put(ctx context.Context, w records.Write) (records.Record, error) {
	if err := w.Check(); err != nil {
		return records.Record{}, err
	}
	// The call may return before the write. Nil would be NULL.
	w.Value = append([]byte{}, w.Value...)
	var rec records.Record
	err := s.write(ctx, "put a record", len(w.Value), func(t *turn) (err error) {
		rec, err = t.put(&w)
		return err
	})
	if err != nil {
		return records.Record{}, err
	}
	return rec, nil
}

// Delete removes a record if it has the version.
func (s *Store) Delete(ctx context.Context, key string, version records.Version) error {
	if err := records.CheckKey(key); err != nil {
		return err
	}
	return s.write(ctx, "delete a record", 0, func(t *turn) error {
		return t.delete(key, version)
	})
}

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
	rows, err := s.selectRows.QueryContext(ctx, max(prefix, after), after, now, limit)
	if err != nil {
		return nil, s.explain(ctx, "list records", err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var r row
		err := rows.Scan(&key, &r.value, &r.version, &r.written, &r.expires)
		if err != nil {
			return nil, s.explain(ctx, "list records", err)
		}
		if !strings.HasPrefix(key, prefix) {
			return found, nil
		}
		found = append(found, r.record(key, now))
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain(ctx, "list records", err)
	}
	return found, nil
}

// Sweep removes up to limit expired records, in one write for which other writers wait.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	var n int
	err := s.write(ctx, "sweep records", turnBytes, func(t *turn) (err error) {
		n, err = t.sweep(max(0, limit))
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// explain adds to an error the operation, the file, and what an operator can do about it.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	return sqlitedb.Explain(ctx, doing, s.path, err)
}

// Close waits for the writes in line and closes the file. The last process to close it removes the
// files beside it.
func (s *Store) Close() error {
	s.line.close()
	s.statements.close()
	if err := errors.Join(s.reader.Close(), s.writer.Close(), s.writerDB.Close()); err != nil {
		return fmt.Errorf("close records in %s: %w", s.path, err)
	}
	return nil
}
