package sqliteoutbox

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// Enqueue writes messages into the table "outbox", as part of a transaction: they are sent when
// that is committed, and not when it is rolled back. It is one statement. After an error the
// transaction can only be rolled back.
//
// Messages of one group are sent in the order in which they are given, and after those of
// transactions that committed before.
func Enqueue(ctx context.Context, tx *sql.Tx, messages ...outbox.Message) error {
	return Writer{}.Enqueue(ctx, tx, messages...)
}

// A Writer enqueues messages in another way than Enqueue does. Its zero value does the same.
type Writer struct {
	// Table is the name of the table: "outbox" when empty.
	Table string

	// Trace, if set, adds headers to each message that it does not have itself.
	Trace outbox.Trace
}

// insert takes all rows in one parameter, so that it is prepared once whatever their number.
const insert = insertRows + ` ORDER BY key`

// insertRows reads the rows of the parameter.
const insertRows = `INSERT INTO {{table}} (` + layout.Columns + `)
SELECT value ->> 'id', value ->> 'aggregatetype', value ->> 'aggregateid', value ->> 'type', value ->> 'payload', value ->> 'group_id',
	value ->> 'dedup_id', value ->> 'headers', value ->> 'deliver_after', value ->> 'generation'
FROM json_each(?)`

// Enqueue is the function of that name.
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

// inserts are the statements by the names of tables, of which a program has one or two.
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
