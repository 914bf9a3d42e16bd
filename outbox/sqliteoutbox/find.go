package sqliteoutbox

import (
	"context"
	"database/sql"
	"time"

	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
)

var _ outbox.Finder = (*Box)(nil)

const foundRows = `SELECT ` + messageColumns + `, CAST(round((julianday(o.created_at) - 2440587.5) * 86400000.0) AS INTEGER), ifnull(p.stream, ''),
	coalesce(p.attempts, s.attempts, 0), ifnull(p.reason, ''), p.parked_at, s.sent_at, ifnull(s.queue, ''), ifnull(s.message_id, '')
FROM {{table}} AS o LEFT JOIN {{pending}} AS p ON p.id = o.id LEFT JOIN {{sent}} AS s ON s.id = o.id
WHERE o.id IN (SELECT value FROM json_each(?1)) AND ifnull(o.dedup_id, '') = ''
	OR o.dedup_id <> '' AND o.dedup_id IN (SELECT value FROM json_each(?1))
	OR s.message_id IN (SELECT value FROM json_each(?2))
ORDER BY julianday(o.created_at), o.id LIMIT ?3`

// Find implements outbox.Finder.
func (b *Box) Find(
	ctx context.Context, works, messages []string, limit int,
) (all []outbox.Found, err error) {
	if err = b.check(ctx); err == nil {
		all, err = sqlitedb.All(ctx, b.db, func(rows *sql.Rows, f *outbox.Found) error {
			var parked, sent sql.NullInt64
			err := scan(rows, &f.Row, &f.Reason, &parked, &sent, &f.SentTo, &f.MessageID)
			f.ParkedAt, f.SentAt = timeOf(parked), timeOf(sent)
			return err
		}, b.sql(foundRows), text(works), text(messages), max(0, limit))
	}
	return all, b.explain(ctx, "find rows", err)
}

func timeOf(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64)
}
