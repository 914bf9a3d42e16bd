package pgoutbox

import (
	"fmt"
	"math"
	"strings"
	"time"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// A record has the columns of a row. In the last record of a claim, which is not a row, most are
// nil.
type record struct {
	id                                            *string
	seq                                           *int64
	attempts, generation                          *int32
	stream, reason                                *string
	queue, key, kind, body, group, dedup, headers *string
	parkedAt, deliverAfter, createdAt             *int64 // microseconds of the epoch
}

const recordColumns = `r.id::text, r.seq, r.attempts, r.generation, r.stream, r.reason, r.aggregatetype, r.aggregateid, r.type, r.payload,
	r.group_id, r.dedup_id, r.headers, r.parked_at, r.deliver_after, r.created_at`

// columns returns the targets for a scan of recordColumns.
func (r *record) columns() []any {
	return []any{&r.id, &r.seq, &r.attempts, &r.generation, &r.stream, &r.reason, &r.queue, &r.key,
		&r.kind, &r.body,
		&r.group, &r.dedup, &r.headers, &r.parkedAt, &r.deliverAfter, &r.createdAt}
}

func (r *record) row() (outbox.Row, error) {
	row := outbox.Row{
		Message: outbox.Message{
			ID: *r.id, Queue: value(r.queue), Key: value(r.key), Type: value(r.kind),
			Body:  value(r.body),
			Group: value(r.group), Dedup: value(r.dedup), Generation: int(value(r.generation)),
		},
		Stream: value(r.stream), Attempts: int(value(r.attempts)), CreatedAt: at(r.createdAt),
	}
	if r.deliverAfter != nil {
		row.After = at(r.deliverAfter)
	}
	if r.headers != nil {
		var err error
		if row.Headers, err = layout.Headers([]byte(*r.headers)); err != nil {
			return row, fmt.Errorf("headers of row %s: %w", *r.id, err)
		}
	}
	return row, nil
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func at(us *int64) time.Time { return time.UnixMicro(value(us)).UTC() }

// micros returns microseconds, rounded up. Its maximum keeps dates within the range of PostgreSQL.
func micros(d time.Duration) int64 {
	const most = math.MaxInt64 / int64(time.Microsecond) / 10
	return min(int64(d/time.Microsecond)+min(1, int64(d%time.Microsecond)), most)
}

// text replaces what PostgreSQL does not accept in a string.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
