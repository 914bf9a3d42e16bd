package sqliteoutbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
)

// window selects the rows that were sent within a time. The condition of a source applies to it.
// Two columns have names that no condition uses by accident.
const window = `SELECT o.*, strftime('%Y-%m-%dT%H:%M:%fZ', s.sent_at / 1000.0, 'unixepoch') AS sent_at, s.queue AS sent_to,
	s.message_id AS message_id, s.seq AS "seq of tenaq", s.sent_at AS "time of tenaq"
FROM {{sent}} AS s INDEXED BY {{sent_at}} CROSS JOIN {{table}} AS o ON o.id = s.id
WHERE s.sent_at >= ?1 AND s.sent_at < ?2
	AND (?3 = '[]' OR o.aggregatetype IN (SELECT value FROM json_each(?3)))
	AND (?4 = '[]' OR o.type IN (SELECT value FROM json_each(?4)))
	AND (?5 = '[]' OR o.aggregateid IN (SELECT value FROM json_each(?5)))`

// Rows that were sent without a number precede all rows with one.
const (
	windowCount = `SELECT count(*) FROM (` + window + `) AS r WHERE (%s
)`
	windowIDs = `SELECT r.id FROM (` + window + `) AS r WHERE (%s
) ORDER BY r."seq of tenaq", r."time of tenaq", r.id`
	windowFirst = `SELECT ` + messageColumns + `, w.at, w.queue, w.message FROM (
	SELECT r.id AS id, r."seq of tenaq" AS seq, r."time of tenaq" AS at, ifnull(r.sent_to, '') AS queue, ifnull(r.message_id, '') AS message
	FROM (` + window + `) AS r WHERE (%s
) ORDER BY r."seq of tenaq", r."time of tenaq", r.id LIMIT ?6
) AS w CROSS JOIN {{table}} AS o ON o.id = w.id ORDER BY w.seq, w.at, w.id`
)

// within returns a statement about a window with the condition of the source, and its parameters.
func (b *Box) within(statement string, s *outbox.Source) (string, []any) {
	before, behind, _ := strings.Cut(b.sql(statement), "(%s\n)")
	where := "1"
	if s.Where != "" {
		where = s.Where
	}
	return before + "(" + where + "\n)" + behind, []any{milliOf(s.From), milliOf(s.To),
		text(s.Queues), text(s.Types), text(s.Keys)}
}

// milliOf returns a time in the unit of the tables, rounded up.
func milliOf(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// Look implements outbox.History. It reads in a transaction that cannot write.
func (b *Box) Look(
	ctx context.Context, s outbox.Source, few int,
) (count int, first []outbox.Past, err error) {
	keep := func(p outbox.Past) error {
		first = append(first, p)
		return nil
	}
	if err = b.check(ctx); err == nil {
		err = b.reading(ctx, func(c *sql.Conn) (err error) {
			if s.Query != "" {
				count, err = walkQuery(ctx, c, s.Query, max(0, few), keep)
				return err
			}
			if count, err = b.countWindow(ctx, c, &s); err == nil {
				err = b.walkWindow(ctx, c, &s, max(0, few), keep)
			}
			return err
		})
	}
	if err != nil {
		return 0, nil, b.explain(ctx, "read the source of a replay", err)
	}
	return count, first, nil
}

// Walk implements outbox.History. It reads in a transaction that cannot write.
func (b *Box) Walk(ctx context.Context, s outbox.Source, each func(outbox.Past) error) error {
	err := b.check(ctx)
	if err == nil {
		err = b.reading(ctx, func(c *sql.Conn) error {
			if s.Query != "" {
				_, err := walkQuery(ctx, c, s.Query, noLimit, each)
				return err
			}
			return b.walkWindow(ctx, c, &s, noLimit, each)
		})
	}
	return b.explain(ctx, "read the source of a replay", err)
}

// noLimit is a LIMIT without effect in SQLite.
const noLimit = -1

func (b *Box) countWindow(
	ctx context.Context, c *sql.Conn, s *outbox.Source,
) (count int, err error) {
	if err := oneExpression(s.Where); err != nil {
		return 0, err
	}
	statement, args := b.within(windowCount, s)
	err = c.QueryRowContext(ctx, statement, args...).Scan(&count)
	return count, blame(err)
}

// walkWindow calls each for the first rows of a window.
func (b *Box) walkWindow(
	ctx context.Context, c *sql.Conn, s *outbox.Source, limit int, each func(outbox.Past) error,
) error {
	if err := oneExpression(s.Where); err != nil {
		return err
	}
	statement, args := b.within(windowFirst, s)
	return eachOf(ctx, c, func(rows *sql.Rows) error {
		var p outbox.Past
		var ms int64
		if err := scanMessage(rows, &p.Message, &ms, &p.SentTo, &p.MessageID); err != nil {
			return err
		}
		p.SentAt = time.UnixMilli(ms)
		return each(p)
	}, statement, append(args, limit)...)
}

// reading calls do with a connection that cannot write, in a transaction, so that it reads the
// state of one moment.
func (b *Box) reading(ctx context.Context, do func(c *sql.Conn) error) error {
	c, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var before int // the connection may be one that never writes
	if err := c.QueryRowContext(ctx, "PRAGMA query_only").Scan(&before); err != nil {
		return err
	}
	undo := []string{"PRAGMA query_only = " + strconv.Itoa(before)}
	defer func() {
		for _, statement := range undo {
			if _, err := c.ExecContext(context.WithoutCancel(ctx), statement); err != nil {
				// Do not reuse the connection in this state.
				_ = c.Raw(func(any) error { return driver.ErrBadConn })
				return
			}
		}
	}()
	for _, statement := range []string{"PRAGMA query_only = ON", "BEGIN"} {
		if _, err := c.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	undo = append([]string{"ROLLBACK"}, undo...)
	return do(c)
}

// eachOf is sqlitedb.Each for the SQL of a source. It blames the source for errors of the
// statement, but not for those of scan.
func eachOf(
	ctx context.Context, c *sql.Conn, scan func(*sql.Rows) error, query string, args ...any,
) error {
	var own error
	err := sqlitedb.Each(ctx, c, func(rows *sql.Rows) error {
		own = scan(rows)
		return own
	}, query, args...)
	if own != nil {
		return own
	}
	return blame(err)
}

// blame makes an error of a statement an outbox.ErrSource, unless the SQL is not its cause.
func blame(err error) error {
	if !sqlitedb.IsStatement(err) {
		return err
	}
	return fmt.Errorf("%w: %w", outbox.ErrSource, err)
}

// gather reads the messages of a source: the ids of sent rows in the order of their streams, or the
// rows of a query.
func (b *Box) gather(ctx context.Context, s *outbox.Source) (all []string, err error) {
	err = b.reading(ctx, func(c *sql.Conn) error {
		if s.Query != "" {
			return query(ctx, c, s.Query, func(row []byte) error {
				all = append(all, string(row))
				return nil
			})
		}
		if err := oneExpression(s.Where); err != nil {
			return err
		}
		statement, args := b.within(windowIDs, s)
		return eachOf(ctx, c, func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			all = append(all, id)
			return err
		}, statement, args...)
	})
	return all, err
}
