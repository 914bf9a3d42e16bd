package pgoutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// A selection is the SQL of a source. The SQL of the user is in parentheses that it cannot leave:
// it is first tried alone, where a closing parenthesis would be an error, and it is sent as one
// statement, which two statements cannot be.
type selection struct {
	// look returns the number of all rows in front of each of the first ones, or one row of nulls
	// if there are none. Its last parameter is the limit. stage inserts all rows for the replay
	// whose number is the last parameter. Because there is always a parameter, each is sent as one
	// statement.
	look, stage string
	args        []any // before that one

	past func(row pgx.Rows, count *int) (p outbox.Past, is bool, err error) // of look

	sql   string // of the user
	alone string // a statement that fails if sql is not a single condition or query
}

// selection returns the SQL of a source.
func (b *Box) selection(s *outbox.Source) selection {
	if s.Query != "" {
		return b.made(trimmed(s.Query))
	}
	return b.window(s, trimmed(s.Where))
}

// trimmed returns SQL without a semicolon at its end. A text of blanks and semicolons stays, to be
// refused.
func trimmed(sql string) string { return cmp.Or(strings.TrimRight(sql, "; \t\r\n"), sql) }

// made selects the rows of a query. It keeps them as json, because jsonb would reformat a body that
// is a document.
func (b *Box) made(sql string) selection {
	rows := `SELECT to_json(tenaq_row) AS row, row_number() OVER () AS place FROM (` + sql + "\n) tenaq_row"
	return selection{
		look: `WITH found AS MATERIALIZED (` + rows + `)
			SELECT c.n, f.row::text FROM (SELECT count(*) AS n FROM found) c
			LEFT JOIN LATERAL (SELECT * FROM found ORDER BY place LIMIT $1) f ON true ORDER BY f.place`,
		stage: `INSERT INTO ` + b.names.of("replay_rows") + ` (number, place, row) SELECT $1, f.place, f.row FROM (` + rows + `) f`,
		past: func(row pgx.Rows, count *int) (p outbox.Past, is bool, err error) {
			var object *string
			if err := row.Scan(count, &object); err != nil || object == nil {
				return p, false, err
			}
			p.Message, err = layout.Decode([]byte(*object))
			return p, true, err
		},
		sql:   sql,
		alone: sql,
	}
}

// window selects the rows that were sent within a time. The condition of the user is evaluated only
// for rows that meet all others, because it may fail for other rows. OFFSET 0 keeps the planner
// from moving it.
func (b *Box) window(s *outbox.Source, where string) selection {
	table := b.names.in(b.names.table)
	rows := `SELECT o.*, s.sent_at, s.queue AS sent_to, s.message_id, s AS tenaq_sent FROM ` + b.names.of("sent") + ` s JOIN ` + table + ` o USING (id)`
	// The columns of the user cannot hide tenaq_sent.
	found := `SELECT (r.tenaq_sent).* FROM (` + rows + ` WHERE s.sent_at >= $1 AND s.sent_at < $2
		AND ($3::text[] IS NULL OR o.aggregatetype = ANY ($3)) AND ($4::text[] IS NULL OR o.type = ANY ($4))
		AND ($5::text[] IS NULL OR o.aggregateid = ANY ($5)) OFFSET 0) r`
	alone := ""
	if where != "" {
		found += ` WHERE (` + where + "\n)"
		alone = `SELECT FROM (` + rows + `) r WHERE ` + where
	}
	const order = `ORDER BY f.seq NULLS FIRST, f.sent_at, f.id`
	micros := b.names.of("micros")
	return selection{
		// This reads the order of all rows, and the content of the first ones.
		look: `WITH found AS MATERIALIZED (` + found + `)
			SELECT c.n, f.id::text, f.seq, f.attempts, o.generation, NULL::text, NULL::text, o.aggregatetype, o.aggregateid, o.type, o.payload,
				o.group_id, o.dedup_id, o.headers::text, NULL::bigint, ` + micros + `(o.deliver_after), ` + micros + `(o.created_at),
				` + micros + `(f.sent_at), f.queue, f.message_id
			FROM (SELECT count(*) AS n FROM found) c
			LEFT JOIN LATERAL (SELECT * FROM found f ` + order + ` LIMIT $6) f ON true
			LEFT JOIN LATERAL (SELECT * FROM ` + table + ` o WHERE o.id = f.id OFFSET 0) o ON true ` + order,
		stage: `INSERT INTO ` + b.names.of("replay_rows") + ` (number, place, id)
			SELECT $6, row_number() OVER (` + order + `), f.id FROM (` + found + `) f`,
		args: []any{micro(s.From), micro(s.To), values(s.Queues), values(s.Types), values(s.Keys)},
		past: func(row pgx.Rows, count *int) (p outbox.Past, is bool, err error) {
			var r record
			var sentAt *int64
			var to, messageID *string
			scanned := append(append([]any{count}, r.columns()...), &sentAt, &to, &messageID)
			if err := row.Scan(scanned...); err != nil || r.id == nil {
				return p, false, err
			}
			full, err := r.row()
			return outbox.Past{Message: full.Message, SentAt: at(sentAt), SentTo: value(to),
				MessageID: value(messageID)}, true, err
		},
		sql:   where,
		alone: alone,
	}
}

// micro rounds a bound of a time up to microseconds, the resolution of PostgreSQL.
func micro(t time.Time) time.Time { return t.Add(time.Microsecond - 1).Truncate(time.Microsecond) }

// values returns the values of a filter that a row can have; nil means no filter.
func values(of []string) []string {
	if len(of) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return unfit(s) })
}

// unfit reports whether PostgreSQL cannot store a text.
func unfit(s string) bool { return !utf8.ValidString(s) || strings.ContainsRune(s, 0) }

// check tries the SQL of the user without running it.
func (s *selection) check(ctx context.Context, tx pgx.Tx) error {
	switch {
	case s.alone == "":
		return nil
	case unfit(s.sql):
		return fmt.Errorf("%w: its SQL is not UTF-8 or has a zero byte", outbox.ErrSource)
	}
	statement, err := tx.Prepare(ctx, "", s.alone)
	switch {
	case err != nil:
		return s.blame(err)
	case len(statement.ParamOIDs) > 0:
		return fmt.Errorf("%w: its SQL has a parameter: write the value itself", outbox.ErrSource)
	}
	return nil
}

// elsewhere are classes of errors that SQL does not cause: the connection, other transactions, the
// resources and the operators of the server, and the machine.
var elsewhere = []string{"08", "40", "53", "55", "57", "58"}

// blame makes an error an outbox.ErrSource if the SQL of the user is its cause.
func (s *selection) blame(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if s.sql == "" || !ok || e.SeverityUnlocalized != "ERROR" ||
		slices.Contains(elsewhere, e.Code[:2]) {
		return err
	}
	if e.Hint != "" {
		return fmt.Errorf("%w: %w, hint: %s", outbox.ErrSource, err, e.Hint)
	}
	return fmt.Errorf("%w: %w", outbox.ErrSource, err)
}
