package pgoutbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// Enqueue writes messages into the table "outbox" as part of a transaction. They are sent if the
// transaction commits, and never if it rolls back. It is one statement and one round trip. After an
// error the transaction can only be rolled back.
//
// Messages of one group are sent in the order in which they are given, after those of transactions
// that committed earlier.
func Enqueue(ctx context.Context, tx pgx.Tx, messages ...outbox.Message) error {
	return Writer{}.Enqueue(ctx, tx, messages...)
}

// EnqueueSQL is Enqueue for a transaction of package database/sql, with any driver of PostgreSQL.
func EnqueueSQL(ctx context.Context, tx *sql.Tx, messages ...outbox.Message) error {
	return Writer{}.EnqueueSQL(ctx, tx, messages...)
}

// A Writer enqueues messages into another table, or with the trace of their context. The zero value
// does what the function Enqueue does.
type Writer struct {
	// Table is the name of the table, or its schema and name with a dot in between: "outbox" when
	// empty. Each part has at most 40 letters, digits and underscores.
	Table string

	// Trace, if set, adds headers to each message. A header that the message has itself wins.
	Trace outbox.Trace
}

// Enqueue writes messages as the function Enqueue does.
func (w Writer) Enqueue(ctx context.Context, tx pgx.Tx, messages ...outbox.Message) error {
	return w.write(ctx, messages, func(statement, rows string) error {
		_, err := tx.Exec(ctx, statement, rows)
		return err
	})
}

// EnqueueSQL writes messages as the function EnqueueSQL does.
func (w Writer) EnqueueSQL(ctx context.Context, tx *sql.Tx, messages ...outbox.Message) error {
	return w.write(ctx, messages, func(statement, rows string) error {
		_, err := tx.ExecContext(ctx, statement, rows)
		return err
	})
}

func (w Writer) write(
	ctx context.Context, messages []outbox.Message, exec func(statement, rows string) error,
) error {
	if len(messages) == 0 {
		return nil
	}
	n, err := namesOf(w.Table)
	if err != nil {
		return err
	}
	list, err := layout.Encode(ctx, w.Trace, messages)
	if err != nil {
		return err
	}
	if err := exec(n.insert(), list); err != nil {
		return fmt.Errorf("enqueue %d messages: %w", len(messages), err)
	}
	return nil
}

// insert is the statement that writes rows. It has one parameter, whatever the number of rows, so
// that it is prepared once.
func (n names) insert() string {
	return `INSERT INTO ` + n.in(n.table) + ` (` + layout.Columns + `)
		SELECT ` + layout.Columns + ` FROM json_to_recordset($1::text::json) AS m (id uuid, aggregatetype text, aggregateid text, type text,
			payload text, group_id text, dedup_id text, headers jsonb, deliver_after timestamptz, generation int)`
}
