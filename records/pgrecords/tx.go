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

// This file writes records in transactions of the caller, in the same database.

// PutIn is Put within a transaction: a commit writes the record, and a rollback undoes everything.
// In between, every other write of the record waits for the end of the transaction, so end it soon.
// As with Put, the commit is answered when it is on disk.
//
// A conflict leaves the transaction usable, and may be with a write of the same transaction. After
// any other error, the transaction can only be rolled back. Under repeatable read and serializable,
// PostgreSQL answers serialization_failure (40001) if the record was written after the transaction
// took its snapshot: run the whole transaction again.
func (s *Store) PutIn(ctx context.Context, tx pgx.Tx, w records.Write) (records.Record, error) {
	return s.putIn(ctx, w, func(sql string, args ...any) scanner {
		return tx.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	})
}

// PutInSQL is PutIn for a transaction of package database/sql, with any driver of PostgreSQL.
func (s *Store) PutInSQL(ctx context.Context, tx *sql.Tx, w records.Write) (records.Record, error) {
	return s.putIn(ctx, w, func(sql string, args ...any) scanner {
		return tx.QueryRowContext(ctx, sql, args...)
	})
}

// A scanner is a row.
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
		err = fmt.Errorf("%w: the transaction must be in the database of the records, and its search_path must find their tables", err)
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
