package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// Enqueue writes messages in a transaction of its own. A program that writes other rows with them
// uses the function Enqueue in its own transaction.
func (b *Box) Enqueue(ctx context.Context, messages ...outbox.Message) error {
	return b.transact(ctx, func(tx *sql.Tx) error {
		return Writer{Table: b.table}.Enqueue(ctx, tx, messages...)
	})
}

// EnqueueOnce is Enqueue for a message with an ID. If the outbox already has a row with that ID, it
// writes nothing and returns the body, the group and the headers of that row.
func (b *Box) EnqueueOnce(
	ctx context.Context, m outbox.Message,
) (there *outbox.Message, err error) {
	err = b.transact(ctx, func(tx *sql.Tx) error {
		row := outbox.Message{ID: m.ID}
		var headers string
		err := tx.QueryRowContext(ctx, b.names.Replace(`SELECT payload, coalesce(group_id, ''), coalesce(CAST(headers AS TEXT), '{}') FROM {{table}} WHERE id = ?`), m.ID).
			Scan(&row.Body, &row.Group, &headers)
		if errors.Is(err, sql.ErrNoRows) {
			return Writer{Table: b.table}.Enqueue(ctx, tx, m)
		}
		if err == nil {
			row.Headers, err = layout.Headers([]byte(headers))
		}
		there = &row
		return err
	})
	return there, err
}

// transact runs do in a transaction that holds the write lock from its beginning.
func (b *Box) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it does nothing after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
