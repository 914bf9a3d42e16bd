package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Enqueue writes messages into the table "outbox" of PostgreSQL, as part of a transaction: they are sent when
// that is committed, and not when it is rolled back. It is one statement and one round trip. After an error
// the transaction can only be rolled back.
//
// Messages of one group are sent in the order in which they are given, and after those of transactions that
// committed before.
func Enqueue(ctx context.Context, tx pgx.Tx, messages ...Message) error {
	return Writer{}.Enqueue(ctx, tx, messages...)
}

// EnqueueSQL is Enqueue for a transaction of package database/sql, through any driver of PostgreSQL.
func EnqueueSQL(ctx context.Context, tx *sql.Tx, messages ...Message) error {
	return Writer{}.EnqueueSQL(ctx, tx, messages...)
}

// A Writer enqueues messages in another way than Enqueue does. Its zero value does the same.
type Writer struct {
	// Table is the name of the table, or its schema and name with a dot in between: "outbox" when empty.
	Table string

	// Trace, if set, adds headers to each message that it does not have itself.
	Trace Trace
}

// Enqueue is the function of that name.
func (w Writer) Enqueue(ctx context.Context, tx pgx.Tx, messages ...Message) error {
	return w.write(ctx, messages, func(statement, rows string) error {
		_, err := tx.Exec(ctx, statement, rows)
		return err
	})
}

// EnqueueSQL is the function of that name.
func (w Writer) EnqueueSQL(ctx context.Context, tx *sql.Tx, messages ...Message) error {
	return w.write(ctx, messages, func(statement, rows string) error {
		_, err := tx.ExecContext(ctx, statement, rows)
		return err
	})
}

func (w Writer) write(ctx context.Context, messages []Message, exec func(statement, rows string) error) error {
	if len(messages) == 0 {
		return nil
	}
	table, err := TableName(w.Table)
	if err != nil {
		return err
	}
	rows, err := Rows(ctx, w.Trace, messages)
	if err != nil {
		return err
	}
	// One parameter, whatever the number of rows, so that the statement is prepared once.
	err = exec(`INSERT INTO `+table+` (`+columns+`)
		SELECT `+columns+` FROM json_to_recordset($1::json) AS m (id uuid, aggregatetype text, aggregateid text, type text,
			payload text, group_id text, dedup_id text, headers jsonb, deliver_after timestamptz, generation int)`, rows)
	if err != nil {
		return fmt.Errorf("enqueue %d messages: %w", len(messages), err)
	}
	return nil
}

// columns are those of a row that whoever writes it may set.
const columns = "id, aggregatetype, aggregateid, type, payload, group_id, dedup_id, headers, deliver_after, generation"

// word is what a part of a table's name may be: short enough for what is made from it to be told apart within
// the 63 bytes that PostgreSQL looks at.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)

// TableName is the name of a table of an outbox as SQL has it, in quotes. It is "outbox" when empty; else a
// name, or a schema and a name, of letters, digits and underscores.
func TableName(table string) (quoted string, err error) {
	if table == "" {
		table = "outbox"
	}
	parts := strings.Split(table, ".")
	for _, part := range parts {
		if len(parts) > 2 || !word.MatchString(part) {
			return "", fmt.Errorf("%q cannot be the table of an outbox: give a name, or a schema and a name, of up to 40 letters, digits and underscores", table)
		}
	}
	return pgx.Identifier(parts).Sanitize(), nil
}

// Rows are messages as a JSON array of rows, for the databases to read. Those of one stream keep their order;
// the streams are sorted, so that two transactions which write to the same ones do not wait for each other.
func Rows(ctx context.Context, trace Trace, messages []Message) (string, error) {
	messages = slices.Clone(messages)
	var more map[string]string
	if trace != nil {
		more = trace(ctx)
	}
	for i := range messages {
		m := &messages[i]
		if len(more) > 0 {
			headers := maps.Clone(more)
			maps.Copy(headers, m.Headers)
			m.Headers = headers
		}
		if m.ID == "" {
			m.ID = NewID()
		}
		if err := m.Check(); err != nil {
			return "", fmt.Errorf("message %d of %d for the outbox: %w", i+1, len(messages), err)
		}
	}
	slices.SortStableFunc(messages, func(a, b Message) int { return strings.Compare(a.stream(), b.stream()) })
	rows := make([]map[string]any, len(messages))
	for i, m := range messages {
		row := map[string]any{"id": m.ID, "aggregatetype": m.Queue, "aggregateid": m.Key, "type": m.Type, "payload": m.Body}
		set := func(column string, is bool, value any) {
			if is {
				row[column] = value
			}
		}
		set("group_id", m.Group != "", m.Group)
		set("dedup_id", m.Dedup != "", m.Dedup)
		set("headers", len(m.Headers) > 0, m.Headers)
		set("deliver_after", !m.After.IsZero(), m.After.UTC().Format(time.RFC3339Nano))
		set("generation", m.Generation != 0, m.Generation)
		rows[i] = row
	}
	text, err := json.Marshal(rows)
	return string(text), err
}

// NewID returns a UUID of version 7, which begins with the time: rows that are written together lie together.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[6:]) // which never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
