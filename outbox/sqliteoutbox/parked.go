package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
)

const oldSent = `SELECT id FROM {{sent}} WHERE sent_at < {{clock}} - ? ORDER BY sent_at LIMIT ?`

// Sweep implements outbox.Box. Other writers wait for it, so limit should be a few hundred.
func (b *Box) Sweep(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	find := func(c conn) ([]string, error) {
		return sqlitedb.All(ctx, c, sqlitedb.Column[string], b.sql(oldSent), millis(keep),
			max(0, limit))
	}
	// Usually there is nothing to sweep, and then no writer waits.
	if err = b.check(ctx); err == nil {
		err = b.tidy(ctx)
	}
	var ids []string
	if err == nil {
		ids, err = find(b.db)
	}
	if err != nil || len(ids) == 0 {
		return 0, b.explain(ctx, "sweep", err)
	}
	err = b.write(ctx, "sweep", func(c *sql.Conn, _ int64) error {
		ids, err := find(c)
		if err != nil {
			return err
		}
		n = len(ids)
		for _, statement := range []string{
			// The trigger deletes the rest.
			`DELETE FROM {{table}} WHERE id IN (SELECT value FROM json_each(?))`,
			`DELETE FROM {{sent}} WHERE id IN (SELECT value FROM json_each(?))`,
		} {
			if _, err := c.ExecContext(ctx, b.sql(statement), text(ids)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

const (
	parkedPlace = `SELECT parked_at, seq FROM {{pending}} WHERE id = ? AND parked_at IS NOT NULL`
	parkedRows  = `SELECT ` + columns + `, ifnull(p.reason, ''), p.parked_at
FROM {{pending}} AS p INDEXED BY {{parked}} CROSS JOIN {{table}} AS o ON o.id = p.id
WHERE p.parked_at IS NOT NULL AND (p.parked_at, p.seq) > (?, ?) ORDER BY p.parked_at, p.seq LIMIT ?`
)

// Parked implements outbox.Box. The oldest is the one that was parked first. After a row that is no
// longer parked, it starts again with the first one.
func (b *Box) Parked(
	ctx context.Context, after string, limit int,
) (all []outbox.ParkedRow, err error) {
	if err = b.check(ctx); err == nil {
		all, err = b.listParked(ctx, after, limit)
	}
	return all, b.explain(ctx, "list parked rows", err)
}

func (b *Box) listParked(ctx context.Context, after string, limit int) ([]outbox.ParkedRow, error) {
	at, seq := int64(-1), int64(-1)
	err := b.db.QueryRowContext(ctx, b.sql(parkedPlace), after).Scan(&at, &seq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return sqlitedb.All(ctx, b.db, func(rows *sql.Rows, r *outbox.ParkedRow) error {
		var ms int64
		err := scan(rows, &r.Row, &r.Reason, &ms)
		r.At = time.UnixMilli(ms)
		return err
	}, b.sql(parkedRows), at, seq, max(0, limit))
}

const (
	parkedAmong = `SELECT id, queue, stream, parked_at FROM {{pending}} WHERE id IN (SELECT value FROM json_each(?)) AND parked_at IS NOT NULL ORDER BY seq`
	remove      = `DELETE FROM {{pending}} WHERE id = ?`
	renewed     = `INSERT INTO {{pending}} (id, queue, stream, head, bytes, due)
SELECT o.id, ?2, ?3, ?3 IS NULL OR NOT EXISTS (SELECT 1 FROM {{pending}} AS p WHERE p.stream = ?3 AND p.parked_at IS NULL),
	length(CAST(o.payload AS BLOB)) + ifnull(length(CAST(o.headers AS BLOB)), 0), ?4
FROM {{table}} AS o WHERE o.id = ?1`
)

type parkedID struct {
	id, queue string
	stream    sql.NullString
	at        int64
}

// parkedAmong returns those of the rows that are parked. If times is not nil, a row is left out
// unless it was parked at the time of its id.
func (b *Box) parkedAmong(
	ctx context.Context, c *sql.Conn, ids []string, times map[string]int64,
) ([]parkedID, error) {
	found, err := sqlitedb.All(ctx, c, func(rows *sql.Rows, r *parkedID) error {
		return rows.Scan(&r.id, &r.queue, &r.stream, &r.at)
	}, b.sql(parkedAmong), text(ids))
	if times != nil {
		found = slices.DeleteFunc(found, func(r parkedID) bool { return r.at != times[r.id] })
	}
	return found, err
}

// Release implements outbox.Box. Rows of one stream keep their order.
func (b *Box) Release(ctx context.Context, ids ...string) (n int, err error) {
	return b.release(ctx, ids, nil)
}

// ReleaseSeen implements outbox.Decider.
func (b *Box) ReleaseSeen(ctx context.Context, rows ...outbox.Seen) (n int, err error) {
	ids, times := seen(rows)
	return b.release(ctx, ids, times)
}

// seen returns the ids of rows, and the milliseconds at which they were parked.
func seen(rows []outbox.Seen) (ids []string, times map[string]int64) {
	times = make(map[string]int64)
	for _, r := range rows {
		ids, times[r.ID] = append(ids, r.ID), r.At.UnixMilli()
	}
	return ids, times
}

func (b *Box) release(
	ctx context.Context, ids []string, times map[string]int64,
) (n int, err error) {
	err = b.write(ctx, "release rows", func(c *sql.Conn, now int64) error {
		found, err := b.parkedAmong(ctx, c, ids, times)
		if err != nil {
			return err
		}
		n = len(found)
		for _, r := range found {
			if _, err := c.ExecContext(ctx, b.sql(remove), r.id); err != nil {
				return err
			}
			if _, err := c.ExecContext(ctx, b.sql(renewed), r.id, r.queue, r.stream,
				now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

const discard = `DELETE FROM {{table}} WHERE id IN
	(SELECT id FROM {{pending}} WHERE id IN (SELECT value FROM json_each(?)) AND parked_at IS NOT NULL)`

// Discard implements outbox.Box.
func (b *Box) Discard(ctx context.Context, ids ...string) (n int, err error) {
	return b.discard(ctx, ids, nil)
}

// DiscardSeen implements outbox.Decider.
func (b *Box) DiscardSeen(ctx context.Context, rows ...outbox.Seen) (n int, err error) {
	ids, times := seen(rows)
	return b.discard(ctx, ids, times)
}

func (b *Box) discard(
	ctx context.Context, ids []string, times map[string]int64,
) (n int, err error) {
	err = b.write(ctx, "discard rows", func(c *sql.Conn, _ int64) error {
		found, err := b.parkedAmong(ctx, c, ids, times)
		if err != nil {
			return err
		}
		ids := make([]string, len(found))
		for i, r := range found {
			ids[i] = r.id
		}
		result, err := c.ExecContext(ctx, b.sql(discard), text(ids))
		if err != nil {
			return err
		}
		deleted, err := result.RowsAffected()
		n = int(deleted)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
