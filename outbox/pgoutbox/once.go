package pgoutbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// Enqueue writes messages in a transaction of its own. A program that writes other rows with them
// uses the function Enqueue in its own transaction.
func (b *Box) Enqueue(ctx context.Context, messages ...outbox.Message) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		return Writer{Table: b.table}.Enqueue(ctx, tx, messages...)
	})
}

const uniqueViolation = "23505"

// EnqueueOnce is Enqueue for a message with an ID. If the outbox already has a row with that ID, it
// writes nothing and returns the body, the group and the headers of that row. It needs only the
// right to INSERT if there is no such row.
func (b *Box) EnqueueOnce(
	ctx context.Context, m outbox.Message,
) (there *outbox.Message, err error) {
	for range 3 { // the row may be removed between the two statements
		if err = b.Enqueue(ctx, m); !pgdb.HasCode(err, uniqueViolation) {
			return nil, err
		}
		there = &outbox.Message{ID: m.ID}
		var headers string
		err = b.pool.QueryRow(ctx, `SELECT payload, coalesce(group_id, ''), coalesce(headers::text, '{}') FROM `+b.names.in(b.names.table)+
			` WHERE id = $1::text::uuid`, pgx.QueryExecModeExec, m.ID).Scan(&there.Body, &there.Group, &headers)
		if err == nil {
			there.Headers, err = layout.Headers([]byte(headers))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return there, err
		}
	}
	return nil, err
}
