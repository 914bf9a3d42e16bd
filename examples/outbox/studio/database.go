package studio

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"tenaq/claims/pgclaims"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/outbox/sqliteoutbox"
	"tenaq/records"
	"tenaq/records/pgrecords"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

// A Studio is the database: the jobs, and the outbox.
type Studio struct {
	DB      *sql.DB
	Box     outbox.Box
	Records records.Store
	Enqueue func(context.Context, *sql.Tx, ...outbox.Message) error
	ends    []func() error

	// Shared: the records are in this database, so that a claim can be completed in the transaction
	// that marks the job as done.
	Shared bool
}

// A box that makes its tables.
type box interface {
	outbox.Box
	Migrate(context.Context) error
}

// Open opens the studio and creates missing tables.
func Open(ctx context.Context, address string) (*Studio, error) {
	s := &Studio{}
	var b box
	var err error
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		b, err = s.openFiles(path)
	} else {
		b, err = s.openServer(ctx, address)
	}
	if err == nil {
		err = b.Migrate(ctx)
	}
	if err == nil {
		_, err = s.DB.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS jobs (job_id TEXT PRIMARY KEY, video_id TEXT NOT NULL,
			status TEXT NOT NULL, generation INTEGER NOT NULL DEFAULT 0, fence BIGINT NOT NULL DEFAULT 0)`)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("open the studio: %w", err)
	}
	s.Box = b
	return s, nil
}

func (s *Studio) openFiles(path string) (b box, err error) {
	location := url.URL{Scheme: "file", OmitHost: true, Path: path,
		RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"}
	if s.DB, err = sql.Open("sqlite", location.String()); err != nil {
		return nil, err
	}
	s.Enqueue, s.ends = sqliteoutbox.Enqueue, append(s.ends, s.DB.Close)
	store, err := sqliterecords.New(sqliterecords.Config{Path: filepath.Join(filepath.Dir(path),
		"records.db")})
	if err != nil {
		return nil, err
	}
	s.Records, s.ends = store, append(s.ends, store.Close)
	return sqliteoutbox.New(sqliteoutbox.Config{DB: s.DB})
}

func (s *Studio) openServer(ctx context.Context, address string) (b box, err error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	s.DB, s.Shared, s.Enqueue = stdlib.OpenDBFromPool(pool), true, pgoutbox.EnqueueSQL
	s.ends = append(s.ends, func() error { pool.Close(); return nil }, s.DB.Close)
	store, err := pgrecords.New(pgrecords.Config{Pool: pool})
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.Records = store
	pg, err := pgoutbox.New(pgoutbox.Config{Pool: pool})
	if err == nil {
		s.ends = append(s.ends, pg.Close)
	}
	return pg, err
}

// Close closes everything, in the reverse order of opening.
func (s *Studio) Close() {
	for i := len(s.ends) - 1; i >= 0; i-- {
		_ = s.ends[i]()
	}
}

// within runs work in a transaction.
func (s *Studio) within(ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after a commit
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Upload writes a job and the message about it, both or none.
func (s *Studio) Upload(ctx context.Context, j Job, m outbox.Message) (isNew bool, err error) {
	err = s.within(ctx, func(tx *sql.Tx) error {
		inserted, err := tx.ExecContext(ctx, `INSERT INTO jobs (job_id, video_id, status) VALUES ($1, $2, 'pending')
			ON CONFLICT (job_id) DO NOTHING`, j.ID, j.Video)
		if err != nil {
			return err
		}
		if n, err := inserted.RowsAffected(); err != nil || n == 0 {
			return err
		}
		isNew = true
		return s.Enqueue(ctx, tx, m)
	})
	return isNew, err
}

// errStale is for a handler whose claim was taken over: a later holder has done its work.
var errStale = errors.New("the job was done by a later holder of its claim, or in a later generation")

// Done marks a job as done. It refuses a worker that has lost its claim if a later holder was here
// already: that one has a larger fence, or a later generation. Fences of two generations cannot be
// compared.
func (s *Studio) Done(ctx context.Context, j Job, m *worker.Message) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		updated, err := tx.ExecContext(ctx, `UPDATE jobs SET status = 'done', generation = $1, fence = $2
			WHERE job_id = $3 AND (generation < $1 OR generation = $1 AND fence <= $2)`, m.Generation, int64(m.Fence()), j.ID)
		if err != nil {
			return err
		}
		if n, err := updated.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errStale)
		}
		if s.Shared { // the worker finds the claim completed
			return pgclaims.CompleteSQL(ctx, tx, m.Claim(), nil)
		}
		return nil
	})
}
