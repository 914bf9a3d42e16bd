package pgoutbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"tenaq/outbox"
)

var _ outbox.Finder = (*Box)(nil)

// Find implements outbox.Finder.
func (b *Box) Find(
	ctx context.Context, works, messages []string, limit int,
) (all []outbox.Found, err error) {
	micros := b.names.of("micros")
	err = b.query(ctx, func() { all = nil }, func(row pgx.Rows) error {
		var r record
		var sentAt *int64
		var to, messageID *string
		if err := row.Scan(append(r.columns(), &sentAt, &to, &messageID)...); err != nil {
			return err
		}
		full, err := r.row()
		if err != nil {
			return err
		}
		f := outbox.Found{Row: full, SentTo: value(to), MessageID: value(messageID),
			Reason: value(r.reason)}
		if sentAt != nil {
			f.SentAt = at(sentAt)
		}
		if r.parkedAt != nil {
			f.ParkedAt = at(r.parkedAt)
		}
		all = append(all, f)
		return nil
	}, `SELECT o.id::text, coalesce(p.seq, s.seq), coalesce(p.attempts, s.attempts), o.generation, p.stream, p.reason, o.aggregatetype, o.aggregateid,
			o.type, o.payload, o.group_id, o.dedup_id, o.headers::text, `+micros+`(p.parked_at), `+micros+`(o.deliver_after), `+micros+`(o.created_at),
			`+micros+`(s.sent_at), s.queue, s.message_id
		FROM `+b.names.in(b.names.table)+` o LEFT JOIN `+b.names.of("pending")+` p USING (id) LEFT JOIN `+b.names.of("sent")+` s USING (id)
		WHERE coalesce(nullif(o.dedup_id, ''), o.id::text) = ANY ($1::text[]) OR s.message_id = ANY ($2::text[])
		ORDER BY o.created_at, o.id LIMIT $3`, fit(works), fit(messages), max(0, limit))
	if err != nil {
		return nil, fmt.Errorf("find rows of the outbox: %w", err)
	}
	return all, nil
}

// fit returns what a row can have, and never nil.
func fit(of []string) []string { return append([]string{}, values(of)...) }
