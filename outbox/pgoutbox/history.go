package pgoutbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// Look implements outbox.History. SQL of the user runs in a transaction that cannot write. The
// transaction begins as one that can write, so that a standby refuses it.
func (b *Box) Look(
	ctx context.Context, source outbox.Source, few int,
) (count int, first []outbox.Past, err error) {
	limit := int64(max(few, 0))
	count, err = b.walk(ctx, &source, &limit, func() { first = nil }, func(p outbox.Past) error {
		first = append(first, p)
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return count, first, nil
}

// Walk implements outbox.History, in one transaction.
func (b *Box) Walk(ctx context.Context, source outbox.Source, each func(outbox.Past) error) error {
	begun, again := false, false
	_, err := b.walk(ctx, &source, nil, func() { again = begun }, func(p outbox.Past) error {
		if again {
			return errInterrupted
		}
		begun = true
		return each(p)
	})
	return err
}

// errInterrupted is the error of a Walk that PostgreSQL ended after it had begun.
var errInterrupted = errors.New("PostgreSQL interrupted the reading; start again")

// walk calls each for the first rows of a source, or for all without a limit. It calls begin before
// each run.
func (b *Box) walk(
	ctx context.Context, source *outbox.Source, limit *int64,
	begin func(), each func(outbox.Past) error,
) (count int, err error) {
	s := b.selection(source)
	err = b.transact(ctx, func(tx pgx.Tx) error {
		begin()
		if _, err := tx.Exec(ctx, `SET TRANSACTION READ ONLY`); err != nil {
			return err
		}
		if err := s.check(ctx, tx); err != nil {
			return err
		}
		return s.blame(rowsOf(ctx, tx, func(row pgx.Rows) error {
			p, is, err := s.past(row, &count)
			if err != nil || !is {
				return err
			}
			return each(p)
		}, s.look, append(s.args, limit)...))
	})
	if err != nil {
		return 0, fmt.Errorf("read the source of a replay: %w", err)
	}
	return count, nil
}

// StageReplay implements outbox.History, in one transaction.
func (b *Box) StageReplay(ctx context.Context, number int64) (r outbox.Replay, err error) {
	err = b.transact(ctx, func(tx pgx.Tx) error {
		r, err = b.replay(ctx, tx, number, "")
		if err != nil || r.State != outbox.Preparing {
			return err
		}
		s := b.selection(&r.Source)
		if err := s.check(ctx, tx); err != nil {
			return err
		}
		if err := b.begin(ctx, tx); err != nil {
			return err
		}
		// The replay is not locked meanwhile, so that it can be cancelled. If another process
		// stages the same replay, this waits for it, and then finds that it was overtaken.
		noted, err := tx.Exec(ctx, s.stage+` ON CONFLICT DO NOTHING`, append([]any{pgx.QueryExecModeExec}, append(s.args, number)...)...)
		if err != nil {
			return s.blame(err)
		}
		now, err := b.replay(ctx, tx, number, "FOR UPDATE")
		switch {
		case err != nil:
			return err
		case now.Version != r.Version && now.State == outbox.Preparing:
			return outbox.ErrMoved
		case now.Version != r.Version:
			r = now
			return errOvertaken
		}
		r.State, r.Found = outbox.Running, int(noted.RowsAffected())
		r, err = b.write(ctx, tx, r)
		return err
	})
	switch {
	case errors.Is(err, errOvertaken):
		return r, nil
	case err != nil:
		return outbox.Replay{}, fmt.Errorf("stage replay %d: %w", number, err)
	}
	return r, nil
}

// errOvertaken rolls back the staging of a replay that another process has staged meanwhile.
var errOvertaken = errors.New("the replay is no longer being prepared")

// Staged implements outbox.History.
func (b *Box) Staged(
	ctx context.Context, number, place int64, limit int,
) (staged []outbox.Staged, err error) {
	err = b.query(ctx, func() { staged = nil }, func(row pgx.Rows) error {
		var s outbox.Staged
		var r record
		var fromQuery *string
		if err := row.Scan(append([]any{&s.Place, &fromQuery}, r.columns()...)...); err != nil {
			return err
		}
		var err error
		switch {
		case fromQuery != nil:
			s.Message, err = layout.Decode([]byte(*fromQuery))
		case r.queue == nil:
			s.ID, s.Gone = *r.id, true
		default:
			var full outbox.Row
			full, err = r.row()
			s.Message = full.Message
		}
		staged = append(staged, s)
		return err
	}, `SELECT r.place, r.from_query, `+recordColumns+` FROM `+b.names.of("staged")+`($1, $2, $3) r`, number, place, int64(max(limit, 0)))
	if err != nil {
		return nil, fmt.Errorf("read the messages of replay %d: %w", number, err)
	}
	return staged, nil
}
