package sqliteoutbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
)

// The partial index has only leased rows, so reading all of it is cheap.
const renew = `UPDATE {{pending}} INDEXED BY {{leased}} SET lease_until = ? WHERE relay = ? AND lease_until > 0 RETURNING id`

// Renew implements outbox.Box. It also renews a lease that has ended if no relay took the row over.
func (b *Box) Renew(
	ctx context.Context, relay string, lease time.Duration,
) (ids []string, err error) {
	err = b.write(ctx, "renew leases", func(c *sql.Conn, now int64) (err error) {
		ids, err = sqlitedb.All(ctx, c, sqlitedb.Column[string], b.sql(renew),
			now+millis(lease)+1, relay)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// An entry is an outcome in the format of the statements.
type entry struct {
	ID      string `json:"id"`
	Failed  int    `json:"failed"`
	After   int64  `json:"after"`
	Reason  string `json:"reason"`
	SentTo  string `json:"sent_to"`
	Message string `json:"message"`
}

// Each takes the outcomes, the relay and the time. Each checks the relay of a row, so that a row
// which another relay has leased meanwhile does not change.
const (
	// An id exists already only if a program has inserted it there.
	settleSent = `INSERT OR REPLACE INTO {{sent}} (id, sent_at, queue, message_id, attempts, seq)
SELECT p.id, ?3, o.value ->> 'sent_to', o.value ->> 'message', p.attempts, p.seq
FROM json_each(?1) AS o CROSS JOIN {{pending}} AS p ON p.id = o.value ->> 'id' WHERE p.relay = ?2`

	settleGone = `DELETE FROM {{pending}} WHERE id IN (SELECT value ->> 'id' FROM json_each(?1)) AND relay = ?2`

	// A row that is given back at once keeps its due time.
	settleAgain = `UPDATE {{pending}} SET relay = NULL, lease_until = NULL, attempts = attempts + o.failed, reason = o.reason,
	due = CASE WHEN o.after > 0 THEN ?3 + o.after ELSE due END
FROM (SELECT value ->> 'id' AS id, value ->> 'failed' AS failed, value ->> 'after' AS after, value ->> 'reason' AS reason FROM json_each(?1)) AS o
WHERE {{pending}}.id = o.id AND relay = ?2`

	settleParked = `UPDATE {{pending}} SET relay = NULL, lease_until = NULL, reason = o.reason, parked_at = ?3
FROM (SELECT value ->> 'id' AS id, value ->> 'reason' AS reason FROM json_each(?1)) AS o
WHERE {{pending}}.id = o.id AND relay = ?2`
)

// Settle implements outbox.Box.
func (b *Box) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	var sent, again, parked []entry
	for _, o := range outcomes {
		e := entry{ID: o.ID, After: millis(o.After),
			Reason: strings.ReplaceAll(o.Reason, "\x00",
				""), SentTo: o.SentTo, Message: o.MessageID}
		switch o.Fate {
		case outbox.Sent:
			sent = append(sent, e)
		case outbox.Parked:
			parked = append(parked, e)
		case outbox.Failed:
			e.Failed = 1
			again = append(again, e)
		case outbox.Back:
			again = append(again, e)
		default:
			return fmt.Errorf("settle rows in %s: row %s has the unknown fate %d", b.where,
				o.ID, o.Fate)
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	return b.write(ctx, "settle rows", func(c *sql.Conn, now int64) error {
		for _, s := range []struct {
			statement string
			entries   []entry
		}{{settleSent, sent}, {settleGone, sent}, {settleAgain, again}, {settleParked, parked}} {
			if len(s.entries) == 0 {
				continue
			}
			list, err := json.Marshal(s.entries)
			if err != nil {
				return err
			}
			if _, err := c.ExecContext(ctx, b.sql(s.statement), string(list), relay,
				now); err != nil {
				return err
			}
		}
		return nil
	})
}

// newest returns the number of the newest row. Numbers are not reused.
func (b *Box) newest(ctx context.Context) (n int64, err error) {
	err = b.db.QueryRowContext(ctx,
		b.sql("SELECT seq FROM sqlite_sequence WHERE name = '{{name}}_pending'")).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// Wait polls one number, because SQLite does not notify of commits.
const (
	lookMin = 2 * time.Millisecond
	lookMax = 50 * time.Millisecond
)

// Wait implements outbox.Box. It returns when there is a newer row than at the last Claim.
func (b *Box) Wait(ctx context.Context, most time.Duration) error {
	if err := b.check(ctx); err != nil {
		return b.explain(ctx, "wait for rows", err)
	}
	until := time.Now().Add(most)
	for pause := lookMin; ; pause = min(2*pause, lookMax) {
		newest, err := b.newest(ctx)
		if err != nil {
			return b.explain(ctx, "wait for rows", err)
		}
		left := time.Until(until)
		if newest != b.seen.Load() || left <= 0 {
			return nil
		}
		if err := backoff.Sleep(ctx, min(pause, left)); err != nil {
			return err
		}
	}
}

// A row is due when its time and those of all earlier rows of its stream have come. So the rows
// behind one that is late, usually few, are counted separately.
const stats = `WITH
late (stream, seq) AS MATERIALIZED (SELECT stream, min(seq) FROM {{pending}} INDEXED BY {{streams}}
	WHERE stream IS NOT NULL AND parked_at IS NULL AND due > ?1 GROUP BY stream),
rows (pending, due, parked, oldest) AS (
	SELECT count(*) FILTER (WHERE parked_at IS NULL), count(*) FILTER (WHERE parked_at IS NULL AND due <= ?1),
		count(*) FILTER (WHERE parked_at IS NOT NULL), min(due) FILTER (WHERE parked_at IS NULL AND due <= ?1)
	FROM {{pending}}),
held (due) AS (SELECT count(*)
	FROM late AS l CROSS JOIN {{pending}} AS p INDEXED BY {{streams}} ON p.stream = l.stream AND p.seq > l.seq AND p.parked_at IS NULL AND p.due <= ?1)
SELECT rows.pending, rows.due - held.due, rows.parked, CASE WHEN held.due = 0 THEN rows.oldest ELSE (
	SELECT min(p.due) FROM {{pending}} AS p LEFT JOIN late AS l ON l.stream = p.stream
	WHERE p.parked_at IS NULL AND p.due <= ?1 AND (l.seq IS NULL OR p.seq < l.seq)) END
FROM rows, held`

// Stats implements outbox.Box. It reads all pending rows.
func (b *Box) Stats(ctx context.Context) (s outbox.Stats, err error) {
	if err = b.check(ctx); err == nil {
		s, err = b.count(ctx)
	}
	return s, b.explain(ctx, "count rows", err)
}

func (b *Box) count(ctx context.Context) (s outbox.Stats, err error) {
	var now int64
	if err := b.db.QueryRowContext(ctx, "SELECT "+clock).Scan(&now); err != nil {
		return s, err
	}
	var oldest sql.NullInt64
	err = b.db.QueryRowContext(ctx, b.sql(stats), now).Scan(&s.Pending, &s.Due, &s.Parked, &oldest)
	if oldest.Valid {
		s.Oldest = time.Duration(now-oldest.Int64) * time.Millisecond
	}
	return s, err
}
