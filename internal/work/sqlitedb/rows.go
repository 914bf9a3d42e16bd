package sqlitedb

import (
	"context"
	"database/sql"
)

// A Querier is a database, a connection or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each runs a query and calls scan for each of its rows.
func Each(
	ctx context.Context, q Querier, scan func(*sql.Rows) error, query string, args ...any,
) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// All runs a query and returns what scan makes of its rows.
func All[T any](
	ctx context.Context, q Querier, scan func(*sql.Rows, *T) error, query string, args ...any,
) (all []T, err error) {
	err = Each(ctx, q, func(rows *sql.Rows) error {
		var one T
		err := scan(rows, &one)
		all = append(all, one)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Column scans the only column of a row, for All.
func Column[T any](rows *sql.Rows, value *T) error { return rows.Scan(value) }
