package pgrecords

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/work/pgdb"
	"tenaq/records"
)

// For writes that become part of a transaction of the caller's, in the same database.

// PutIn is Put within a transaction: the record is written when that is committed, and nothing has
// happened when it is rolled back. Until then every other write of the record waits for the end of
// the transaction, so let that come soon. The commit is answered when it is on disk, like that of
// Put.
//
// A conflict leaves the transaction as it was, and may be about something that the transaction has
// written itself. After any other error it can only be rolled back. Under repeatable read and
// serializable PostgreSQL answers serialization_failure (40001) when the record was written after
// the transaction had begun to look: run it again, as a whole.
func (s *Store) PutIn(ctx context.Context, tx pgx.Tx, w records.Write) (records.Record, error) {
	return s.putIn(ctx, w, func(sql string, args ...any) scanner {
		return tx.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	})
}

// PutInSQL is PutIn for a transaction of package database/sql, through any driver of PostgreSQL.
func (s *Store) PutInSQL(ctx context.Context, tx *sql.Tx, w records.Write) (records.Record, error) {
	return s.putIn(ctx, w, func(sql string, args ...any) scanner {
		return tx.QueryRowContext(ctx, sql, args...)
	})
}

// A scanner is the only row of an answer.
type scanner interface{ Scan(into ...any) error }

func (s *Store) putIn(
	ctx context.Context, w records.Write, query func(sql string, args ...any) scanner,
) (records.Record, error) {
	if err := w.Check(); err != nil {
		return records.Record{}, err
	}
	if err := s.schema.Check(ctx); err != nil {
		return records.Record{}, err
	}
	var done bool
	var r row
	statement, args := s.put(w)
	err := query(statement, args...).Scan(&done, &r.value, &r.version, &r.age, &r.ttl)
	if pgdb.HasCode(err, pgdb.UndefinedFunction) {
		err = fmt.Errorf("%w: the transaction has to be in the database of the records, and to find their tables", err)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) { // no row: there is no such record
		return records.Record{}, named(err, "put record", w.Key)
	}
	written, err := r.outcome(w.Key, done)
	if err == nil {
		written.Value = slices.Clone(w.Value)
	}
	return written, err
}
