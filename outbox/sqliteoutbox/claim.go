package sqliteoutbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// A head is the first row of a stream, or a row without one.
type head struct {
	seq    int64
	stream sql.NullString
	bytes  int
	more   int // rows of its stream may follow
}

// A picking is a claim in progress.
type picking struct {
	outbox.Claim
	except string // as JSON
	now    int64
	heads  []head  // picked heads of streams
	picked []int64 // numbers of rows
	bytes  int
}

// take picks a row if there is room for it.
func (p *picking) take(seq int64, bytes int) bool {
	if len(p.picked) >= p.Rows || len(p.picked) > 0 && p.bytes+bytes > p.Bytes {
		return false
	}
	p.picked = append(p.picked, seq)
	p.bytes += bytes
	return true
}

// Claim implements outbox.Box. It takes heads first, of all queues in turns, then the rows behind
// them.
func (b *Box) Claim(
	ctx context.Context, c outbox.Claim,
) (rows []outbox.Row, next time.Duration, err error) {
	p := &picking{Claim: c, except: text(c.Except)}
	if next, err = b.look(ctx, p.except); err != nil || next > 0 {
		return nil, next, b.explain(ctx, "claim rows", err)
	}
	err = b.write(ctx, "claim rows", func(conn *sql.Conn, now int64) error {
		p.now = now
		if err := b.pick(ctx, conn, p); err != nil {
			return err
		}
		// The lease does not end before it would by a finer clock.
		if _, err := conn.ExecContext(ctx, b.sql(lease), c.Relay, now+millis(c.Lease)+1,
			text(p.picked)); err != nil {
			return err
		}
		var err error
		next, err = b.next(ctx, conn, p.except)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	// Bodies are read outside of the transaction, because they may be large and block other
	// writers.
	if rows, err = b.read(ctx, p.picked); err != nil {
		_ = b.write(context.WithoutCancel(ctx), "give rows back",
			func(conn *sql.Conn, _ int64) error {
				_, err := conn.ExecContext(ctx, b.sql(unlease), c.Relay, text(p.picked))
				return err
			})
		return nil, 0, b.explain(ctx, "claim rows", err)
	}
	return rows, next, nil
}

const (
	lease   = `UPDATE {{pending}} SET relay = ?, lease_until = ? WHERE seq IN (SELECT value FROM json_each(?))`
	unlease = `UPDATE {{pending}} SET relay = NULL, lease_until = NULL WHERE relay = ? AND seq IN (SELECT value FROM json_each(?))`
)

// text returns a parameter for json_each.
func text[T any](values []T) string {
	if len(values) == 0 {
		return "[]"
	}
	s, err := json.Marshal(values)
	if err != nil {
		panic(err) // impossible for numbers and strings
	}
	return string(s)
}

// look notes the newest row, for Wait, and returns the time until a row can be claimed.
func (b *Box) look(ctx context.Context, except string) (next time.Duration, err error) {
	if err := b.check(ctx); err != nil {
		return 0, err
	}
	newest, err := b.newest(ctx)
	if err != nil {
		return 0, err
	}
	b.seen.Store(newest)
	return b.next(ctx, b.db, except)
}

// queues selects the queues with heads that are not leased, and when the first of each is due. It
// steps from queue to queue, not over their rows.
const queues = `WITH RECURSIVE q (queue) AS (
	SELECT min(queue) FROM {{pending}} INDEXED BY {{free}} WHERE head = 1 AND relay IS NULL AND parked_at IS NULL
	UNION ALL
	SELECT (SELECT min(p.queue) FROM {{pending}} AS p INDEXED BY {{free}}
		WHERE p.head = 1 AND p.relay IS NULL AND p.parked_at IS NULL AND p.queue > q.queue) FROM q WHERE q.queue IS NOT NULL
)
SELECT queue, due FROM (
	SELECT queue, (SELECT min(p.due) FROM {{pending}} AS p INDEXED BY {{free}}
		WHERE p.head = 1 AND p.relay IS NULL AND p.parked_at IS NULL AND p.queue = q.queue) AS due FROM q
	WHERE queue IS NOT NULL AND queue NOT IN (SELECT value FROM json_each(?1))
)`

// ended selects the heads whose leases have ended.
const ended = `SELECT seq, stream, bytes FROM {{pending}} INDEXED BY {{leased}}
WHERE relay IS NOT NULL AND lease_until <= ? AND head = 1 AND queue NOT IN (SELECT value FROM json_each(?)) ORDER BY lease_until LIMIT ?`

// soonest selects the milliseconds until a head that is not leased is due.
const soonest = `SELECT CASE
	WHEN EXISTS (SELECT 1 FROM {{pending}} INDEXED BY {{leased}}
		WHERE relay IS NOT NULL AND lease_until <= {{clock}} AND head = 1 AND queue NOT IN (SELECT value FROM json_each(?1))) THEN 0
	ELSE (SELECT min(due) - {{clock}} FROM (` + queues + `))
END`

func (b *Box) next(ctx context.Context, c conn, except string) (time.Duration, error) {
	var ms sql.NullInt64
	if err := c.QueryRowContext(ctx, b.sql(soonest), except).Scan(&ms); err != nil {
		return 0, err
	}
	if most := int64(outbox.NextMax / time.Millisecond); !ms.Valid || ms.Int64 > most {
		ms.Int64 = most
	}
	return time.Duration(ms.Int64) * time.Millisecond, nil
}

// pick decides what to claim. Rows whose leases have ended come first, because they waited longest.
func (b *Box) pick(ctx context.Context, c *sql.Conn, p *picking) error {
	stale, err := heads(ctx, c, b.sql(ended), p.now, p.except, p.Rows)
	if err != nil {
		return err
	}
	p.takeAll(stale)
	due, err := b.dueQueues(ctx, c, p)
	if err != nil {
		return err
	}
	if err := b.pickHeads(ctx, c, p, due); err != nil {
		return err
	}
	return b.pickFollowers(ctx, c, p)
}

// takeAll takes heads, and reports whether there was room for all.
func (p *picking) takeAll(all []head) bool {
	for _, h := range all {
		if !p.take(h.seq, h.bytes) {
			return false
		}
		if h.stream.Valid {
			p.heads = append(p.heads, h)
		}
	}
	return true
}

// heads returns the heads that a query finds.
func heads(ctx context.Context, c *sql.Conn, query string, args ...any) ([]head, error) {
	return sqlitedb.All(ctx, c, func(rows *sql.Rows, h *head) error {
		return rows.Scan(&h.seq, &h.stream, &h.bytes)
	}, query, args...)
}

func (b *Box) dueQueues(ctx context.Context, c *sql.Conn, p *picking) (due []string, err error) {
	return sqlitedb.All(ctx, c, func(rows *sql.Rows, queue *string) error {
		var at int64
		return rows.Scan(queue, &at)
	}, b.sql(queues+" WHERE due <= ?2 ORDER BY due"), p.except, p.now)
}

const dueHeads = `SELECT seq, stream, bytes FROM {{pending}} INDEXED BY {{free}}
WHERE head = 1 AND relay IS NULL AND parked_at IS NULL AND queue = ? AND due <= ? ORDER BY due, seq LIMIT ? OFFSET ?`

// pickHeads shares the room equally among the queues, and shares again what is left.
func (b *Box) pickHeads(ctx context.Context, c *sql.Conn, p *picking, due []string) error {
	taken := make(map[string]int)
	for len(due) > 0 && len(p.picked) < p.Rows {
		share := (p.Rows - len(p.picked) + len(due) - 1) / len(due)
		var more []string
		for _, queue := range due {
			found, err := heads(ctx, c, b.sql(dueHeads), queue, p.now, share, taken[queue])
			if err != nil {
				return err
			}
			if !p.takeAll(found) {
				return nil
			}
			if taken[queue] += share; len(found) == share {
				more = append(more, queue)
			}
		}
		due = more
	}
	return nil
}

// A row that is leased or not yet due ends what can follow.
const followers = `SELECT seq, bytes, due <= ?1 AND (relay IS NULL OR lease_until <= ?1) FROM {{pending}} INDEXED BY {{streams}}
WHERE stream = ?2 AND seq > ?3 AND parked_at IS NULL ORDER BY seq LIMIT ?4`

// pickFollowers shares the rest of the room among the streams.
func (b *Box) pickFollowers(ctx context.Context, c *sql.Conn, p *picking) error {
	if len(p.heads) == 0 || p.Stream < 2 || len(p.picked) >= p.Rows {
		return nil
	}
	s, err := c.PrepareContext(ctx, b.sql(followers))
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range p.heads {
		p.heads[i].more = p.Stream - 1
	}
	for streams := p.heads; len(streams) > 0; {
		var longer []head
		for i, h := range streams {
			left := len(streams) - i
			share := min(h.more, (p.Rows-len(p.picked)+left-1)/left)
			if share <= 0 {
				return nil
			}
			found, err := p.follow(ctx, s, &h, share)
			if err != nil {
				return err
			}
			if found == share && h.more > 0 {
				longer = append(longer, h)
			}
		}
		streams = longer
	}
	return nil
}

// follow takes rows after h, the last row taken of its stream, and returns their number.
func (p *picking) follow(ctx context.Context, s *sql.Stmt, h *head, most int) (n int, err error) {
	rows, err := s.QueryContext(ctx, p.now, h.stream.String, h.seq, most)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var bytes int
		var free bool
		if err := rows.Scan(&seq, &bytes, &free); err != nil {
			return 0, err
		}
		if !free || !p.take(seq, bytes) {
			break
		}
		h.seq, h.more, n = seq, h.more-1, n+1
	}
	return n, rows.Err()
}

// messageColumns are the columns of the table o that make a message. A row that was written by hand
// may lack any.
const messageColumns = `o.id, o.aggregatetype, o.aggregateid, o.type, o.payload, ifnull(o.group_id, ''), ifnull(o.dedup_id, ''),
ifnull(o.headers, ''), ifnull(o.deliver_after, ''), CAST(round((julianday(o.deliver_after) - 2440587.5) * 86400000.0) AS INTEGER),
ifnull(o.generation, 0)`

// columns are the columns of a row, from the tables o and p.
const columns = messageColumns + `, CAST(round((julianday(o.created_at) - 2440587.5) * 86400000.0) AS INTEGER), ifnull(p.stream, ''), p.attempts`

// scan reads columns, and further ones.
func scan(rows *sql.Rows, r *outbox.Row, more ...any) error {
	var created sql.NullInt64
	if err := scanMessage(rows, &r.Message,
		append([]any{&created, &r.Stream, &r.Attempts}, more...)...); err != nil {
		return err
	}
	if created.Valid {
		r.CreatedAt = time.UnixMilli(created.Int64)
	}
	return nil
}

// scanMessage reads messageColumns, and further ones.
func scanMessage(rows *sql.Rows, m *outbox.Message, more ...any) error {
	var headers, after string
	var afterMS sql.NullInt64
	dst := []any{&m.ID, &m.Queue, &m.Key, &m.Type, &m.Body, &m.Group, &m.Dedup, &headers, &after,
		&afterMS, &m.Generation}
	if err := rows.Scan(append(dst, more...)...); err != nil {
		return err
	}
	if t, err := time.Parse(time.RFC3339Nano, after); err == nil {
		m.After = t
	} else if afterMS.Valid {
		m.After = time.UnixMilli(afterMS.Int64)
	}
	if headers != "" && headers != "{}" {
		m.Headers, _ = layout.Headers([]byte(headers)) // the table takes objects only
	}
	return nil
}

const content = `SELECT ` + columns + ` FROM json_each(?) AS j CROSS JOIN {{pending}} AS p ON p.seq = j.value CROSS JOIN {{table}} AS o ON o.id = p.id
ORDER BY j.key`

// read returns rows by their numbers.
func (b *Box) read(ctx context.Context, seqs []int64) ([]outbox.Row, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	return sqlitedb.All(ctx, b.db, func(rows *sql.Rows, r *outbox.Row) error {
		return scan(rows, r)
	}, b.sql(content), text(seqs))
}
