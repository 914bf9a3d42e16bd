package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"tenaq/outbox"
)

const oldSent = `SELECT id FROM {{sent}} WHERE sent_at < {{clock}} - ? ORDER BY sent_at LIMIT ?`

// Sweep implements outbox.Box. Others who write wait for it, so limit should be a few hundred.
func (b *Box) Sweep(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	find := func(c conn) (ids []string, err error) {
		rows, err := c.QueryContext(ctx, b.sql(oldSent), millis(keep), max(0, limit))
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, rows.Err()
	}
	// As a rule there is nothing, and nobody has to wait.
	if err := b.check(ctx); err != nil {
		return 0, b.explain(ctx, "sweep", err)
	}
	if err := b.tidy(ctx); err != nil {
		return 0, b.explain(ctx, "sweep", err)
	}
	if ids, err := find(b.db); err != nil || len(ids) == 0 {
		return 0, b.explain(ctx, "sweep", err)
	}
	err = b.write(ctx, "sweep", func(c *sql.Conn, _ int64) error {
		ids, err := find(c)
		if err != nil {
			return err
		}
		n = len(ids)
		for _, statement := range []string{
			// and the trigger deletes the rest
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

// Parked implements outbox.Box. The oldest is the one that was parked first. Behind a row that is
// not parked any more it begins with the first again.
func (b *Box) Parked(
	ctx context.Context, after string, limit int,
) (all []outbox.ParkedRow, err error) {
	if err = b.check(ctx); err == nil {
		all, err = b.listParked(ctx, after, limit)
	}
	return all, b.explain(ctx, "list parked rows", err)
}

func (b *Box) listParked(
	ctx context.Context, after string, limit int,
) (all []outbox.ParkedRow, err error) {
	at, seq := int64(-1), int64(-1)
	err = b.db.QueryRowContext(ctx, b.sql(parkedPlace), after).Scan(&at, &seq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	rows, err := b.db.QueryContext(ctx, b.sql(parkedRows), at, seq, max(0, limit))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r outbox.ParkedRow
		var ms int64
		if err := scan(rows, &r.Row, &r.Reason, &ms); err != nil {
			return nil, err
		}
		r.At = time.UnixMilli(ms)
		all = append(all, r)
	}
	return all, rows.Err()
}

const (
	parkedAmong = `SELECT id, queue, stream FROM {{pending}} WHERE id IN (SELECT value FROM json_each(?)) AND parked_at IS NOT NULL ORDER BY seq`
	remove      = `DELETE FROM {{pending}} WHERE id = ?`
	renewed     = `INSERT INTO {{pending}} (id, queue, stream, head, bytes, due)
SELECT o.id, ?2, ?3, ?3 IS NULL OR NOT EXISTS (SELECT 1 FROM {{pending}} AS p WHERE p.stream = ?3 AND p.parked_at IS NULL),
	length(CAST(o.payload AS BLOB)) + ifnull(length(CAST(o.headers AS BLOB)), 0), ?4
FROM {{table}} AS o WHERE o.id = ?1`
)

// Release implements outbox.Box. Rows of one stream stay in their order among each other.
func (b *Box) Release(ctx context.Context, ids ...string) (n int, err error) {
	err = b.write(ctx, "release rows", func(c *sql.Conn, now int64) error {
		found, err := b.parkedAmong(ctx, c, ids)
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

type parkedID struct {
	id, queue string
	stream    sql.NullString
}

func (b *Box) parkedAmong(
	ctx context.Context, c *sql.Conn, ids []string,
) (found []parkedID, err error) {
	rows, err := c.QueryContext(ctx, b.sql(parkedAmong), text(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r parkedID
		if err := rows.Scan(&r.id, &r.queue, &r.stream); err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

const discard = `DELETE FROM {{table}} WHERE id IN
	(SELECT id FROM {{pending}} WHERE id IN (SELECT value FROM json_each(?)) AND parked_at IS NOT NULL)`

// Discard implements outbox.Box.
func (b *Box) Discard(ctx context.Context, ids ...string) (n int, err error) {
	err = b.write(ctx, "discard rows", func(c *sql.Conn, _ int64) error {
		result, err := c.ExecContext(ctx, b.sql(discard), text(ids))
		if err != nil {
			return err
		}
		found, err := result.RowsAffected()
		n = int(found)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
