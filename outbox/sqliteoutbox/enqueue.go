package sqliteoutbox

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// Enqueue writes messages into the table "outbox" as part of a transaction. They are sent if the
// transaction commits, and never if it rolls back. It is one statement. After an error the
// transaction can only be rolled back.
//
// Messages of one group are sent in the order in which they are given, after those of transactions
// that committed earlier.
func Enqueue(ctx context.Context, tx *sql.Tx, messages ...outbox.Message) error {
	return Writer{}.Enqueue(ctx, tx, messages...)
}

// A Writer enqueues messages into another table, or with the trace of their context. The zero value
// does what the function Enqueue does.
type Writer struct {
	// Table is the name of the table: "outbox" when empty.
	Table string

	// Trace, if set, adds headers to each message. A header that the message has itself wins.
	Trace outbox.Trace
}

// insert takes all rows in one parameter, so that it is prepared once for any number of rows.
const insert = insertRows + ` ORDER BY key`

// insertRows reads the rows of the parameter.
const insertRows = `INSERT INTO {{table}} (` + layout.Columns + `)
SELECT value ->> 'id', value ->> 'aggregatetype', value ->> 'aggregateid', value ->> 'type', value ->> 'payload', value ->> 'group_id',
	value ->> 'dedup_id', value ->> 'headers', value ->> 'deliver_after', value ->> 'generation'
FROM json_each(?)`

// Enqueue writes messages as the function Enqueue does.
func (w Writer) Enqueue(ctx context.Context, tx *sql.Tx, messages ...outbox.Message) error {
	if len(messages) == 0 {
		return nil
	}
	statement, err := insertInto(w.Table)
	if err != nil {
		return err
	}
	rows, err := layout.Encode(ctx, w.Trace, messages)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, statement, rows); err != nil {
		return fmt.Errorf("enqueue %d messages: %w", len(messages), err)
	}
	return nil
}

// inserts caches statements by the names of tables, of which a program has one or two.
var inserts sync.Map

func insertInto(table string) (statement string, err error) {
	if s, ok := inserts.Load(table); ok {
		return s.(string), nil
	}
	n, err := namesOf(table)
	if err != nil {
		return "", err
	}
	statement = n.replacer().Replace(insert)
	inserts.Store(table, statement)
	return statement, nil
}
