package pgoutbox

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/outbox"
)

// sweepMax is the maximum number of rows that one transaction of Sweep removes.
const sweepMax = 1000

// Stats implements outbox.Box. It reads all pending rows.
func (b *Box) Stats(ctx context.Context) (s outbox.Stats, err error) {
	var oldest int64
	err = b.query(ctx, func() {}, func(row pgx.Rows) error {
		return row.Scan(&s.Pending, &s.Due, &oldest, &s.Parked)
	},
		`SELECT pending, due, oldest, parked FROM `+b.names.of("stats")+`()`)
	if err != nil {
		return outbox.Stats{}, fmt.Errorf("count the rows of the outbox: %w", err)
	}
	s.Oldest = time.Duration(oldest) * time.Microsecond
	return s, nil
}

// Sweep implements outbox.Box. It removes up to a thousand rows per transaction, and may have
// removed some when it returns an error.
func (b *Box) Sweep(ctx context.Context, keep time.Duration, limit int) (swept int, err error) {
	for swept < limit {
		most, n := min(limit-swept, sweepMax), 0
		err := b.call(ctx, func() {}, func(row pgx.Rows) error { return row.Scan(&n) },
			`SELECT `+b.names.of("sweep")+`($1, $2)`, micros(max(keep, 0)), int64(most))
		if err != nil {
			return swept, fmt.Errorf("sweep the outbox: %w", err)
		}
		if swept += n; n < most {
			break
		}
	}
	return swept, nil
}

// Parked implements outbox.Box. The oldest is the one that was parked first. After a row that is no
// longer parked, it returns nothing.
func (b *Box) Parked(
	ctx context.Context, after string, limit int,
) (parked []outbox.ParkedRow, err error) {
	if after != "" && !uuid.MatchString(after) {
		return nil, nil
	}
	where := `true`
	args := []any{max(limit, 0)}
	if after != "" {
		where = `(p.parked_at, p.seq) > (SELECT a.parked_at, a.seq FROM ` + b.names.of("pending") + ` a WHERE a.id = $2::text::uuid AND a.state = 'parked')`
		args = append(args, after)
	}
	err = b.query(ctx, func() { parked = nil }, func(row pgx.Rows) error {
		var r record
		if err := row.Scan(r.columns()...); err != nil {
			return err
		}
		full, err := r.row()
		parked = append(parked, outbox.ParkedRow{Row: full, Reason: value(r.reason),
			At: at(r.parkedAt)})
		return err
	}, `SELECT `+recordColumns+` FROM (
			SELECT p.id, p.parked_at, p.seq FROM `+b.names.of("pending")+` p WHERE p.state = 'parked' AND `+where+`
			ORDER BY p.parked_at, p.seq LIMIT $1) p
		CROSS JOIN LATERAL (SELECT * FROM `+b.names.of("rows")+` r WHERE r.id = p.id OFFSET 0) r ORDER BY p.parked_at, p.seq`, args...)
	if err != nil {
		return nil, fmt.Errorf("list parked rows of the outbox: %w", err)
	}
	return parked, nil
}

// Release implements outbox.Box. It waits for transactions that write to the same streams.
func (b *Box) Release(ctx context.Context, ids ...string) (int, error) {
	return b.decide(ctx, "release", ids)
}

// Discard implements outbox.Box.
func (b *Box) Discard(ctx context.Context, ids ...string) (int, error) {
	return b.decide(ctx, "discard", ids)
}

func (b *Box) decide(ctx context.Context, what string, ids []string) (n int, err error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return !uuid.MatchString(id)
	})
	if len(ids) == 0 {
		return 0, nil
	}
	err = b.call(ctx, func() {}, func(row pgx.Rows) error { return row.Scan(&n) },
		`SELECT `+b.names.of(what)+`($1::text[]::uuid[])`, ids)
	if err != nil {
		return 0, fmt.Errorf("%s parked rows of the outbox: %w", what, err)
	}
	return n, nil
}

// ReleaseSeen implements outbox.Decider. It waits for transactions that write to the same streams.
func (b *Box) ReleaseSeen(ctx context.Context, rows ...outbox.Seen) (int, error) {
	return b.decideSeen(ctx, "release", rows)
}

// DiscardSeen implements outbox.Decider.
func (b *Box) DiscardSeen(ctx context.Context, rows ...outbox.Seen) (int, error) {
	return b.decideSeen(ctx, "discard", rows)
}

// decideSeen locks the rows that are parked since the given times, so that they stay as they are
// until they are released or discarded. A deadlock with Release, which locks in another order, is
// resolved by PostgreSQL, and the call repeated.
func (b *Box) decideSeen(ctx context.Context, what string, rows []outbox.Seen) (n int, err error) {
	var ids []string
	var times []int64
	for _, r := range rows {
		if uuid.MatchString(r.ID) {
			ids, times = append(ids, r.ID), append(times, r.At.UnixMicro())
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	err = b.transact(ctx, func(tx pgx.Tx) error {
		found := []string{}
		n = 0
		err := rowsOf(ctx, tx, func(row pgx.Rows) error {
			var id string
			err := row.Scan(&id)
			found = append(found, id)
			return err
		}, `SELECT p.id::text FROM `+b.names.of("pending")+` p, unnest($1::text[]::uuid[], $2::bigint[]) AS a (id, at)
			WHERE p.id = a.id AND p.state = 'parked' AND `+b.names.of("micros")+`(p.parked_at) = a.at ORDER BY p.id FOR UPDATE OF p`, ids, times)
		if err != nil || len(found) == 0 {
			return err
		}
		return rowsOf(ctx, tx, func(row pgx.Rows) error { return row.Scan(&n) },
			`SELECT `+b.names.of(what)+`($1::text[]::uuid[])`, found)
	})
	if err != nil {
		return 0, fmt.Errorf("%s parked rows of the outbox: %w", what, err)
	}
	return n, nil
}

// uuid is the form of the id of a row.
var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
