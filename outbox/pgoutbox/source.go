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
)

// A selection is the SQL of a source. What comes from the user stands in parentheses that it cannot leave: it is
// tried alone first, where they would be an error, and it is sent as one statement, which two cannot be.
type selection struct {
	from    string // and where: the rows
	args    []any
	columns string // of past
	order   string // that of a replay; empty where the rows have one of their own
	past    func(pgx.Rows) (outbox.Past, error)

	stage string // INSERT, but for the rows; its last parameter, behind args, is the number of the replay

	sql   string // of the user
	alone string // a statement that is wrong whenever sql is not what it is to be
}

// selection returns the SQL of a source.
func (b *Box) selection(s *outbox.Source) selection {
	if s.Query != "" {
		return b.made(trimmed(s.Query))
	}
	return b.window(s, trimmed(s.Where))
}

// trimmed is SQL without the semicolon that people end it with. Where there is nothing else it stays, to be
// refused: a condition of blanks is none that somebody meant.
func trimmed(sql string) string { return cmp.Or(strings.TrimRight(sql, "; \t\r\n"), sql) }

// made selects what a query makes up. It is kept as JSON and not as jsonb, which would write a body that is a
// document in another way.
func (b *Box) made(sql string) selection {
	rows := "(" + sql + "\n) tenaq_row"
	return selection{
		from:    rows,
		columns: "to_json(tenaq_row)::text",
		past: func(row pgx.Rows) (p outbox.Past, err error) {
			var object []byte
			if err := row.Scan(&object); err != nil {
				return p, err
			}
			p.Message, err = outbox.ParseRow(object)
			return p, err
		},
		stage: `INSERT INTO ` + b.names.of("replay_rows") + ` (number, place, row)
			SELECT $1, row_number() OVER (), to_json(tenaq_row) FROM ` + rows,
		sql:   sql,
		alone: sql,
	}
}

// window selects what was sent within a time. The condition of the user is looked at for rows that all others
// let through and for no other row, since it may fail for one: hence OFFSET 0, over which no condition is moved.
func (b *Box) window(s *outbox.Source, where string) selection {
	const sent = `(r.tenaq_sent)` // under a name that no column of the user has
	rows := `SELECT o.*, s.sent_at, s.queue AS sent_to, s.message_id, s AS tenaq_sent
		FROM ` + b.names.of("sent") + ` s JOIN ` + b.names.in(b.names.table) + ` o USING (id)`
	w := selection{
		from: `(` + rows + ` WHERE s.sent_at >= $1 AND s.sent_at < $2 AND ($3::text[] IS NULL OR o.aggregatetype = ANY ($3))
			AND ($4::text[] IS NULL OR o.type = ANY ($4)) AND ($5::text[] IS NULL OR o.aggregateid = ANY ($5)) OFFSET 0) r`,
		args: []any{micro(s.From), micro(s.To), values(s.Queues), values(s.Types), values(s.Keys)},
		columns: strings.NewReplacer("micros", b.names.of("micros"), "sent.", sent+".").Replace(
			`r.id::text, sent.seq, sent.attempts, r.generation, NULL::text, NULL::text, r.aggregatetype, r.aggregateid, r.type, r.payload,
			r.group_id, r.dedup_id, r.headers::text, NULL::bigint, micros(r.deliver_after), micros(r.created_at),
			micros(sent.sent_at), sent.queue, sent.message_id`),
		order: ` ORDER BY ` + sent + `.seq NULLS FIRST, ` + sent + `.sent_at, ` + sent + `.id`,
		past: func(row pgx.Rows) (p outbox.Past, err error) {
			var r record
			var sentAt *int64
			if err := row.Scan(append(r.columns(), &sentAt, &p.SentTo, &p.MessageID)...); err != nil {
				return p, err
			}
			full, err := r.row()
			p.Message, p.SentAt = full.Message, at(sentAt)
			return p, err
		},
		sql: where,
	}
	if where != "" {
		w.from += ` WHERE (` + where + "\n)"
		w.alone = `SELECT FROM (` + rows + `) r WHERE ` + where
	}
	w.stage = `INSERT INTO ` + b.names.of("replay_rows") + ` (number, place, id)
		SELECT $6, row_number() OVER (` + w.order + `), ` + sent + `.id FROM ` + w.from
	return w
}

// micro is a bound of a time as PostgreSQL has it, which knows microseconds only.
func micro(t time.Time) time.Time { return t.Add(time.Microsecond - 1).Truncate(time.Microsecond) }

// values are those of a filter that a row can have; nil is no filter.
func values(of []string) []string {
	if len(of) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return unfit(s) })
}

// unfit reports whether PostgreSQL can have nothing to do with a text.
func unfit(s string) bool { return !utf8.ValidString(s) || strings.ContainsRune(s, 0) }

// check tries what comes from the user without running it.
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
		return fmt.Errorf("%w: its SQL has a parameter, and there is nothing to put in: write the value itself", outbox.ErrSource)
	}
	return nil
}

// elsewhere are classes of errors that are nobody's SQL's fault: the connection, other transactions, the
// resources and the operators of the server, and the machine.
var elsewhere = []string{"08", "40", "53", "55", "57", "58"}

// blame finds out whether an error is the fault of the user's SQL.
func (s *selection) blame(err error) error {
	var e *pgconn.PgError
	if s.sql == "" || !errors.As(err, &e) || e.SeverityUnlocalized != "ERROR" || slices.Contains(elsewhere, e.Code[:2]) {
		return err
	}
	if e.Hint != "" {
		return fmt.Errorf("%w: %w, hint: %s", outbox.ErrSource, err, e.Hint)
	}
	return fmt.Errorf("%w: %w", outbox.ErrSource, err)
}
