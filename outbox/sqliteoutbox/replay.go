package sqliteoutbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// BeginReplay implements outbox.History.
func (b *Box) BeginReplay(ctx context.Context, r outbox.Replay) (outbox.Replay, error) {
	err := b.write(ctx, "begin a replay", func(c *sql.Conn, now int64) error {
		r.Created = time.UnixMilli(now).UTC()
		r.Version, r.Updated = 1, r.Created
		record, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return c.QueryRowContext(ctx, b.sql(`INSERT INTO {{replays}} (version, record) VALUES (?, ?) RETURNING number`), r.Version, string(record)).Scan(&r.Number)
	})
	if err != nil {
		return outbox.Replay{}, err
	}
	return r, nil
}

const (
	oneReplay  = `SELECT number, version, record FROM {{replays}} WHERE number = ?`
	newestOnes = `SELECT number, version, record FROM {{replays}} ORDER BY number DESC LIMIT ?`
)

// Replay implements outbox.History.
func (b *Box) Replay(ctx context.Context, number int64) (r outbox.Replay, err error) {
	if err = b.check(ctx); err == nil {
		r, err = b.replay(ctx, b.db, number)
	}
	return r, b.explain(ctx, "read a replay", err)
}

func (b *Box) replay(ctx context.Context, c conn, number int64) (outbox.Replay, error) {
	r, err := scanReplay(c.QueryRowContext(ctx, b.sql(oneReplay), number))
	if errors.Is(err, sql.ErrNoRows) {
		err = outbox.ErrNoReplay
	}
	return r, err
}

func scanReplay(row interface{ Scan(...any) error }) (r outbox.Replay, err error) {
	var record string
	if err := row.Scan(&r.Number, &r.Version, &record); err != nil {
		return outbox.Replay{}, err
	}
	if err := json.Unmarshal([]byte(record), &r); err != nil {
		return outbox.Replay{}, fmt.Errorf("the record of replay %d: %w", r.Number, err)
	}
	return r, nil
}

// Replays implements outbox.History.
func (b *Box) Replays(ctx context.Context, limit int) (newest []outbox.Replay, err error) {
	if err = b.check(ctx); err == nil {
		newest, err = sqlitedb.All(ctx, b.db, func(rows *sql.Rows, r *outbox.Replay) (err error) {
			*r, err = scanReplay(rows)
			return err
		}, b.sql(newestOnes), max(0, limit))
	}
	return newest, b.explain(ctx, "list replays", err)
}

// insertNew is insert for rows whose ids may exist already, which the trigger would refuse.
const insertNew = insertRows + `
WHERE NOT EXISTS (SELECT 1 FROM {{pending}} AS p WHERE p.id = value ->> 'id') AND NOT EXISTS (SELECT 1 FROM {{sent}} AS s WHERE s.id = value ->> 'id')
ORDER BY key ON CONFLICT (id) DO NOTHING`

// StepReplay implements outbox.History. At the end of a replay, it removes the first staged rows in
// its transaction and the others after it. If the process dies in between, Sweep removes the rest.
func (b *Box) StepReplay(
	ctx context.Context, r outbox.Replay, messages []outbox.Message,
) (outbox.Replay, error) {
	rows, err := layout.Encode(ctx, nil, messages)
	if err != nil {
		return outbox.Replay{}, fmt.Errorf("write rows of replay %d: %w", r.Number, err)
	}
	left := false
	err = b.write(ctx, "write rows of a replay", func(c *sql.Conn, now int64) error {
		switch found, err := b.replay(ctx, c, r.Number); {
		case err != nil:
			return err
		case found.Version != r.Version:
			return outbox.ErrMoved
		}
		result, err := c.ExecContext(ctx, b.sql(insertNew), rows)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		r.Written += int(n)
		if err := b.record(ctx, c, &r, now); err != nil || !r.AtEnd() {
			return err
		}
		left, err = b.unstage(ctx, c, r.Number)
		return err
	})
	if err != nil {
		return outbox.Replay{}, err
	}
	if left {
		_ = b.tidy(ctx) // the step is stored; Sweep tries again
	}
	return r, nil
}

// record stores a replay. The caller has checked its version in the same transaction.
func (b *Box) record(ctx context.Context, c *sql.Conn, r *outbox.Replay, now int64) error {
	r.Version, r.Updated = r.Version+1, time.UnixMilli(now).UTC()
	record, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, b.sql(`UPDATE {{replays}} SET version = ?, record = ? WHERE number = ?`), r.Version, string(record), r.Number)
	return err
}

const (
	stagedPlaces = `SELECT place, ifnull(id, ''), row FROM {{replay_rows}} WHERE number = ? AND place > ? ORDER BY place LIMIT ?`
	messagesOf   = `SELECT ` + messageColumns + ` FROM json_each(?) AS j CROSS JOIN {{table}} AS o ON o.id = j.value`
)

// Staged implements outbox.History.
func (b *Box) Staged(
	ctx context.Context, number, place int64, limit int,
) (staged []outbox.Staged, err error) {
	if err = b.check(ctx); err == nil {
		staged, err = b.listStaged(ctx, number, place, limit)
	}
	if err == nil && len(staged) == 0 {
		_, err = b.replay(ctx, b.db, number)
	}
	if err != nil {
		return nil, b.explain(ctx, "read what a replay sends", err)
	}
	return staged, nil
}

func (b *Box) listStaged(
	ctx context.Context, number, place int64, limit int,
) (staged []outbox.Staged, err error) {
	var ids []string
	staged, err = sqlitedb.All(ctx, b.db, func(rows *sql.Rows, s *outbox.Staged) (err error) {
		var row sql.NullString
		if err := rows.Scan(&s.Place, &s.ID, &row); err != nil {
			return err
		}
		if !row.Valid {
			s.Gone = true // until it is found
			ids = append(ids, s.ID)
			return nil
		}
		if s.Message, err = layout.Decode([]byte(row.String)); err != nil {
			return fmt.Errorf("row %d: %w", s.Place, err)
		}
		return nil
	}, b.sql(stagedPlaces), number, place, max(0, limit))
	if err != nil || len(ids) == 0 {
		return staged, err
	}
	found := make(map[string]outbox.Message, len(ids))
	err = sqlitedb.Each(ctx, b.db, func(rows *sql.Rows) error {
		var m outbox.Message
		err := scanMessage(rows, &m)
		found[m.ID] = m
		return err
	}, b.sql(messagesOf), text(ids))
	for i, s := range staged {
		if m, ok := found[s.ID]; ok && s.Gone {
			staged[i].Message, staged[i].Gone = m, false
		}
	}
	return staged, err
}
