package sqliterecords

import (
	"context"
	"database/sql"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/records"
)

// A turn is one transaction. It applies the writes of a group, one after the other. Each of them
// changes records with at most one statement, which changes nothing if it fails.
type turn struct {
	*Store

	floor  int64 // the largest version of all records that were deleted
	known  bool  // floor includes that of the file
	raised bool  // floor may be above that of the file
}

// The statements of reads and writes. They are compiled once for each connection, because that
// takes longer than to run them.
type statements struct {
	compiled                            []*sql.Stmt // all of them
	begin, commit, rollback             *sql.Stmt
	get                                 *sql.Stmt
	findRow, insertRow, updateRow       *sql.Stmt
	replaceRow, deleteRow, deleteSwept  *sql.Stmt
	selectFloor, raiseFloor, selectRows *sql.Stmt
}

const (
	selectRow = `SELECT value, version, written, expires FROM records WHERE key = ?`
	ifCurrent = ` AND version = ? AND (expires IS NULL OR expires > ?)`
	insert    = `INSERT INTO records (value, version, written, expires, key) VALUES (?, ?, ?, ?, ?)`
)

// A preparer is a database or a connection.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// A preparation is a statement to compile.
type preparation struct {
	on   preparer
	stmt **sql.Stmt
	text string
}

// prepareTurns compiles what it takes to create the tables.
func (s *Store) prepareTurns(ctx context.Context) error {
	return s.prepareAll(ctx, []preparation{
		{s.writer, &s.begin, "BEGIN IMMEDIATE"},
		{s.writer, &s.commit, "COMMIT"},
		{s.writer, &s.rollback, "ROLLBACK"},
	})
}

// prepareRows compiles what uses the tables.
func (s *Store) prepareRows(ctx context.Context) error {
	return s.prepareAll(ctx, []preparation{
		{s.reader, &s.get, selectRow},
		// Keys with a prefix are neighbours, and the prefix is the first of them. So a lower bound
		// is enough: List stops at the first key without the prefix.
		{s.reader, &s.selectRows, `SELECT key, value, version, written, expires FROM records
			WHERE key >= ? AND key <> ? AND (expires IS NULL OR expires > ?) ORDER BY key LIMIT ?`},
		{s.writer, &s.findRow, selectRow},
		{s.writer, &s.insertRow, insert + ` ON CONFLICT (key) DO NOTHING`},
		{s.writer, &s.updateRow, `UPDATE records SET value = ?, version = ?, written = ?, expires = ?
			WHERE key = ?` + ifCurrent},
		{s.writer, &s.replaceRow, insert + ` ON CONFLICT (key) DO UPDATE SET value = excluded.value,
			version = excluded.version, written = excluded.written, expires = excluded.expires`},
		{s.writer, &s.deleteRow, `DELETE FROM records WHERE key = ?` + ifCurrent},
		{s.writer, &s.deleteSwept, `DELETE FROM records WHERE key IN
			(SELECT key FROM records WHERE expires <= ? ORDER BY expires LIMIT ?) RETURNING version`},
		{s.writer, &s.selectFloor, `SELECT version FROM floor`},
		{s.writer, &s.raiseFloor, `UPDATE floor SET version = max(version, ?)`},
	})
}

func (s *Store) prepareAll(ctx context.Context, all []preparation) error {
	return sqlitedb.Patiently(ctx, func() (err error) {
		for _, p := range all {
			if *p.stmt, err = p.on.PrepareContext(ctx, p.text); err != nil {
				return err
			}
			s.compiled = append(s.compiled, *p.stmt)
		}
		return nil
	})
}

// change runs a statement, and reports whether it changed a row.
func (t *turn) change(stmt *sql.Stmt, args ...any) (bool, error) {
	result, err := stmt.Exec(args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// args are the arguments of statements that write a row.
func (r *row) args(key string, more ...any) []any {
	return append([]any{r.value, r.version, r.written, r.expires, key}, more...)
}

// put writes a record, or returns a *records.Conflict. It reads the record only if the usual
// statement changes nothing.
func (t *turn) put(w *records.Write) (rec records.Record, err error) {
	now := t.now()
	r := row{value: w.Value, written: now}
	if w.TTL > 0 {
		ttl := (w.TTL-1)/time.Microsecond + 1
		r.expires = sql.NullInt64{Int64: now + int64(ttl), Valid: true}
	}
	var done bool
	if w.If == 0 {
		if r.version, err = t.above(now, 0); err == nil {
			done, err = t.change(t.insertRow, r.args(w.Key)...)
		}
	} else {
		// The clock may have been set back since that version.
		r.version = max(now, int64(w.If)+1)
		done, err = t.change(t.updateRow, r.args(w.Key, int64(w.If), now)...)
	}
	switch {
	case err != nil:
		return rec, err
	case done:
		return r.record(w.Key, now), nil
	}
	there, err := find(context.Background(), t.findRow, w.Key)
	if err != nil {
		return rec, err
	}
	if current := there.record(w.Key, now); current.Version != w.If {
		return rec, &records.Conflict{Current: current}
	}
	// There is a record, and it has expired.
	if r.version, err = t.above(now, there.version); err != nil {
		return rec, err
	}
	if _, err := t.change(t.replaceRow, r.args(w.Key)...); err != nil {
		return rec, err
	}
	return r.record(w.Key, now), nil
}

// above returns a version for a key without a record: larger than that of its expired record, if
// there is one, and than those of all deleted records, even if the clock was set back.
func (t *turn) above(now, expired int64) (int64, error) {
	if !t.known {
		var floor int64
		if err := t.selectFloor.QueryRow().Scan(&floor); err != nil {
			return 0, err
		}
		t.floor, t.known = max(t.floor, floor), true
	}
	return max(now, expired+1, t.floor+1), nil
}

// raise notes that a record with a version is deleted.
func (t *turn) raise(version int64) { t.floor, t.raised = max(t.floor, version), true }

// delete removes a record, or returns a *records.Conflict.
func (t *turn) delete(key string, version records.Version) error {
	now := t.now()
	done, err := t.change(t.deleteRow, key, int64(version), now)
	if err != nil {
		return err
	}
	if done && version != 0 {
		t.raise(int64(version))
		return nil
	}
	there, err := find(context.Background(), t.findRow, key)
	if err != nil {
		return err
	}
	return &records.Conflict{Current: there.record(key, now)}
}

// sweep removes up to limit expired records.
func (t *turn) sweep(limit int) (n int, err error) {
	rows, err := t.deleteSwept.Query(t.now(), limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		var version int64
		if err := rows.Scan(&version); err != nil {
			return 0, err
		}
		t.raise(version)
	}
	return n, rows.Err()
}

// end commits the transaction, if all went well, and rolls it back otherwise.
func (t *turn) end(err error) error {
	if err == nil && t.raised {
		_, err = t.change(t.raiseFloor, t.floor)
	}
	if err == nil {
		_, err = t.commit.Exec()
	}
	if err != nil {
		_, _ = t.rollback.Exec() // err says what went wrong, and SQLite may have done so by itself
	}
	return err
}

// close closes the statements. SQLite keeps a connection open until then.
func (s *statements) close() {
	for _, stmt := range s.compiled {
		_ = stmt.Close() // it holds nothing that could be lost
	}
}
