package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/outbox"
)

// Messages are staged and removed in parts of this size, so that other writers can write in
// between.
const (
	stageRows  = 2000
	stageBytes = 4 << 20
)

// A staging is one attempt to stage a replay. The last attempt continues, because the processes of
// earlier ones may have ended. An earlier attempt finds out when it writes.
type staging struct {
	outbox.Replay
	attempt int64
	took    time.Duration // the last transaction
}

// StageReplay implements outbox.History. If another process is staging the replay, this call takes
// over, and both return the result.
func (b *Box) StageReplay(ctx context.Context, number int64) (r outbox.Replay, err error) {
	if err = b.check(ctx); err == nil {
		r, err = b.stage(ctx, number)
	}
	if err != nil {
		return outbox.Replay{}, b.explain(ctx, "stage a replay", err)
	}
	return r, nil
}

func (b *Box) stage(ctx context.Context, number int64) (outbox.Replay, error) {
	r, err := b.replay(ctx, b.db, number)
	if err != nil || r.State != outbox.Preparing {
		return r, err
	}
	s := &staging{Replay: r}
	err = b.fill(ctx, s)
	if errors.Is(err, outbox.ErrMoved) {
		return b.overtaken(ctx, r)
	}
	return s.Replay, err
}

// fill removes the rows of an earlier attempt and stages the messages of the source.
func (b *Box) fill(ctx context.Context, s *staging) error {
	if err := b.beginStaging(ctx, s); err != nil {
		return err
	}
	for left := true; left; {
		err := b.stageWrite(ctx, s, func(c *sql.Conn, _ int64) (err error) {
			left, err = b.unstage(ctx, c, s.Number)
			return err
		})
		if err != nil {
			return err
		}
	}
	all, err := b.gather(ctx, &s.Source)
	if err != nil {
		return err
	}
	for done := 0; s.State == outbox.Preparing; {
		n, bytes := 0, 0
		for done+n < len(all) && n < stageRows && bytes < stageBytes {
			bytes += len(all[done+n])
			n++
		}
		err := b.stageWrite(ctx, s, func(c *sql.Conn, now int64) error {
			if err := b.stagePart(ctx, c, s, all[done:done+n], done); err != nil ||
				done+n < len(all) {
				return err
			}
			r := s.Replay
			r.State, r.Found = outbox.Running, len(all)
			err := b.record(ctx, c, &r, now)
			if err == nil {
				s.Replay = r
			}
			return err
		})
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

const beginStaging = `UPDATE {{replays}} SET staging = staging + 1 WHERE number = ? AND version = ? RETURNING staging`

func (b *Box) beginStaging(ctx context.Context, s *staging) error {
	return b.writeUnchecked(ctx, func(c *sql.Conn, _ int64) error {
		err := c.QueryRowContext(ctx, b.sql(beginStaging), s.Number, s.Version).Scan(&s.attempt)
		if errors.Is(err, sql.ErrNoRows) {
			err = outbox.ErrMoved
		}
		return err
	})
}

const stillStaging = `SELECT count(*) FROM {{replays}} WHERE number = ? AND version = ? AND staging = ?`

// stageWrite runs a transaction of a staging, unless another attempt has begun. It first pauses for
// as long as the previous one took, because waiting writers only poll for the lock.
func (b *Box) stageWrite(
	ctx context.Context, s *staging, change func(c *sql.Conn, now int64) error,
) error {
	if err := backoff.Sleep(ctx, s.took); err != nil {
		return err
	}
	began := time.Now()
	defer func() { s.took = time.Since(began) }()
	return b.writeUnchecked(ctx, func(c *sql.Conn, now int64) error {
		began = time.Now()
		var still int
		if err := c.QueryRowContext(ctx, b.sql(stillStaging), s.Number, s.Version,
			s.attempt).Scan(&still); err != nil {
			return err
		}
		if still == 0 {
			return outbox.ErrMoved
		}
		return change(c, now)
	})
}

const stageRow = `INSERT INTO {{replay_rows}} (number, place, id, row) VALUES (?, ?, ?, ?)`

// stagePart writes ids, or rows of a query, after those that are done.
func (b *Box) stagePart(
	ctx context.Context, c *sql.Conn, s *staging, part []string, done int,
) error {
	insert, err := c.PrepareContext(ctx, b.sql(stageRow))
	if err != nil {
		return err
	}
	defer insert.Close()
	ofQuery := s.Source.Query != ""
	for i, one := range part {
		id, row := sql.NullString{String: one, Valid: !ofQuery}, sql.NullString{String: one,
			Valid: ofQuery}
		if _, err := insert.ExecContext(ctx, s.Number, done+i+1, id, row); err != nil {
			return err
		}
	}
	return nil
}

// overtaken waits for the result of the attempt that took over from this one.
func (b *Box) overtaken(ctx context.Context, before outbox.Replay) (outbox.Replay, error) {
	for until := time.Now().Add(b.wait); ; {
		r, err := b.replay(ctx, b.db, before.Number)
		switch {
		case err != nil || r.State != outbox.Preparing:
			return r, err
		case r.Version != before.Version || time.Now().After(until):
			return outbox.Replay{}, outbox.ErrMoved
		}
		if err := backoff.Sleep(ctx, lookMax); err != nil {
			return outbox.Replay{}, err
		}
	}
}

const unstage = `DELETE FROM {{replay_rows}} WHERE number = ?1 AND place < ?2 + (SELECT min(place) FROM {{replay_rows}} WHERE number = ?1)`

// unstage removes staged rows, and reports whether there may be more.
func (b *Box) unstage(ctx context.Context, c *sql.Conn, number int64) (left bool, err error) {
	result, err := c.ExecContext(ctx, b.sql(unstage), number, stageRows)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == stageRows, err
}

// untidy selects an ended replay that has staged rows. It steps from replay to replay, not over
// their rows.
const untidy = `WITH RECURSIVE q (number) AS (
	SELECT min(number) FROM {{replay_rows}}
	UNION ALL
	SELECT (SELECT min(r.number) FROM {{replay_rows}} AS r WHERE r.number > q.number) FROM q WHERE q.number IS NOT NULL
)
SELECT number FROM q WHERE number IS NOT NULL
	AND ifnull((SELECT record ->> 'state' FROM {{replays}} AS r WHERE r.number = q.number), 'done') IN ('done', 'cancelled') LIMIT 1`

// tidy removes the staged rows of ended replays. Usually there are none.
func (b *Box) tidy(ctx context.Context) error {
	for {
		var number int64
		err := b.db.QueryRowContext(ctx, b.sql(untidy)).Scan(&number)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		began := time.Now()
		err = b.writeUnchecked(ctx, func(c *sql.Conn, _ int64) error {
			_, err := b.unstage(ctx, c, number)
			return err
		})
		if err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}
