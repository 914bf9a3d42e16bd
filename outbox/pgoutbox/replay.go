package pgoutbox

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/work/backoff"
	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// clock is a table of one row with the time in the format of records.
const clock = `(SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at OFFSET 0) c`

const replayColumns = `r.number, r.version, r.record::text`

// BeginReplay implements outbox.History.
func (b *Box) BeginReplay(ctx context.Context, r outbox.Replay) (begun outbox.Replay, err error) {
	err = b.transact(ctx, func(tx pgx.Tx) error {
		record, err := recordOf(&r)
		if err != nil {
			return err
		}
		if err := b.begin(ctx, tx); err != nil {
			return err
		}
		begun, err = one(ctx, tx, `INSERT INTO `+b.names.of("replays")+` AS r (version, record)
			SELECT 1, $1::text::jsonb || jsonb_build_object('created', c.at, 'updated', c.at) FROM `+clock+` RETURNING `+replayColumns, record)
		return err
	})
	if err != nil {
		return outbox.Replay{}, fmt.Errorf("begin a replay: %w", err)
	}
	return begun, nil
}

// StepReplay implements outbox.History. It writes rows like programs do, and waits like they do.
func (b *Box) StepReplay(
	ctx context.Context, r outbox.Replay, messages []outbox.Message,
) (stepped outbox.Replay, err error) {
	list, err := layout.Encode(ctx, nil, messages)
	if err != nil {
		return outbox.Replay{}, fmt.Errorf("write rows of replay %d: %w", r.Number, err)
	}
	err = b.givingWay(ctx, func(tx pgx.Tx) error {
		if err := b.begin(ctx, tx); err != nil {
			return err
		}
		before, err := b.replay(ctx, tx, r.Number, "FOR UPDATE")
		switch {
		case err != nil:
			return err
		case before.Version != r.Version:
			return outbox.ErrMoved
		}
		if r.AtEnd() { // before the rows, because programs wait for their streams
			if _, err := tx.Exec(ctx, `DELETE FROM `+b.names.of("replay_rows")+` WHERE number = $1`, pgx.QueryExecModeExec, r.Number); err != nil {
				return err
			}
		}
		next := r
		if len(messages) > 0 {
			// Rows of several groups wait for programs one after the other, and make other programs
			// wait meanwhile. So the step gives up soon, before a deadlock, and starts again.
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '200ms'`, pgx.QueryExecModeExec); err != nil {
				return err
			}
			written, err := tx.Exec(ctx, b.names.insert()+` ON CONFLICT (id) DO NOTHING`, pgx.QueryExecModeExec, list)
			if err != nil {
				return err
			}
			next.Written += int(written.RowsAffected())
		}
		stepped, err = b.write(ctx, tx, next)
		return err
	})
	if err != nil {
		return outbox.Replay{}, fmt.Errorf("write rows of replay %d: %w", r.Number, err)
	}
	return stepped, nil
}

// How often a step gives way to programs, and the pause each time.
const (
	waysMax  = 20
	wayPause = 200 * time.Millisecond
)

// givingWay is transact with retries when a lock is not available, see StepReplay.
func (b *Box) givingWay(ctx context.Context, do func(pgx.Tx) error) error {
	for n := 1; ; n++ {
		err := b.transact(ctx, do)
		if !pgdb.HasCode(err, pgdb.LockNotAvailable) {
			return err
		}
		if n == waysMax {
			return fmt.Errorf("transactions that write to the same groups stay open: %w", err)
		}
		if err := backoff.Sleep(ctx, wayPause/2+rand.N(wayPause)); err != nil {
			return err
		}
	}
}

// Replay implements outbox.History.
func (b *Box) Replay(ctx context.Context, number int64) (r outbox.Replay, err error) {
	err = b.transact(ctx, func(tx pgx.Tx) error {
		r, err = b.replay(ctx, tx, number, "")
		return err
	})
	if err != nil {
		return outbox.Replay{}, fmt.Errorf("read replay %d: %w", number, err)
	}
	return r, nil
}

// Replays implements outbox.History.
func (b *Box) Replays(ctx context.Context, limit int) (newest []outbox.Replay, err error) {
	err = b.query(ctx, func() { newest = nil }, func(row pgx.Rows) error {
		r, err := replayOf(row)
		newest = append(newest, r)
		return err
	}, `SELECT `+replayColumns+` FROM `+b.names.of("replays")+` r ORDER BY r.number DESC LIMIT $1`, int64(max(limit, 0)))
	if err != nil {
		return nil, fmt.Errorf("list replays: %w", err)
	}
	return newest, nil
}

// begin begins each transaction that writes.
func (b *Box) begin(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT `+b.names.of("begin")+`()`, pgx.QueryExecModeExec)
	return err
}

// replay reads a replay. Lock is FOR UPDATE, or empty.
func (b *Box) replay(
	ctx context.Context, tx pgx.Tx, number int64, lock string,
) (outbox.Replay, error) {
	return one(ctx, tx, `SELECT `+replayColumns+` FROM `+b.names.of("replays")+` r WHERE r.number = $1 `+lock, number)
}

// write stores a replay that the transaction has locked.
func (b *Box) write(ctx context.Context, tx pgx.Tx, r outbox.Replay) (outbox.Replay, error) {
	record, err := recordOf(&r)
	if err != nil {
		return outbox.Replay{}, err
	}
	return one(ctx, tx, `UPDATE `+b.names.of("replays")+` r SET version = r.version + 1, record = $2::text::jsonb || jsonb_build_object('updated', c.at)
		FROM `+clock+` WHERE r.number = $1 RETURNING `+replayColumns, r.Number, record)
}

// one runs a statement that returns at most one replay.
func one(ctx context.Context, tx pgx.Tx, sql string, args ...any) (r outbox.Replay, err error) {
	found := false
	err = rowsOf(ctx, tx, func(row pgx.Rows) (err error) {
		found = true
		r, err = replayOf(row)
		return err
	}, sql, args...)
	if err == nil && !found {
		err = outbox.ErrNoReplay
	}
	return r, err
}

func replayOf(row pgx.Rows) (r outbox.Replay, err error) {
	var number, version int64
	var record []byte
	if err := row.Scan(&number, &version, &record); err != nil {
		return r, err
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return r, fmt.Errorf("the record of replay %d: %w", number, err)
	}
	r.Number, r.Version = number, version
	return r, nil
}

// zeros replaces zero bytes in JSON, which PostgreSQL cannot store.
var zeros = strings.NewReplacer(`\\`, `\\`, `\u0000`, `\ufffd`)

func recordOf(r *outbox.Replay) (string, error) {
	record, err := json.Marshal(r)
	return zeros.Replace(string(record)), err
}
