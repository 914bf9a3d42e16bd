// Package pgdb holds what every store in PostgreSQL needs: it connects, checks the version of the
// tables, and classifies errors.
package pgdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Error codes of PostgreSQL. Source: https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	DeadlockDetected     = "40P01"
	FeatureNotSupported  = "0A000"
	LockNotAvailable     = "55P03"
	ReadOnlyTransaction  = "25006"
	SerializationFailure = "40001"
	UndefinedColumn      = "42703"
	UndefinedFunction    = "42883"
	UndefinedTable       = "42P01"
)

// HasCode reports whether PostgreSQL answered with one of the codes.
func HasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, e.Code)
}

// ErrStandby is the error of a call that reached a server in recovery.
var ErrStandby = errors.New("the server is a standby and may be behind; connect to the primary, for one with target_session_attrs=read-write")

// Connect returns a pool of connections to a database, by its URL, or by the keywords and
// environment variables that psql knows. Of several hosts it uses the one that accepts writes. It
// does not wait for a connection.
func Connect(url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if cfg.ConnConfig.ValidateConnect == nil && len(cfg.ConnConfig.Fallbacks) > 0 {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// A Schema knows the version of the tables of a store, which is in a table of one row.
type Schema struct {
	Pool    *pgxpool.Pool
	Table   string // the table with the version, quoted for SQL
	Version int    // the version that this program works with
	Unfit   error  // says that the tables are missing or have another version, and what to do

	checked atomic.Bool
}

// Find returns the version of the tables, or zero if there are none. It returns an error for a
// version that is newer than this program.
func (s *Schema) Find(ctx context.Context) (version int, err error) {
	err = s.Pool.QueryRow(ctx, "SELECT schema FROM "+s.Table, pgx.QueryExecModeExec).Scan(&version)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || HasCode(err, UndefinedTable, UndefinedColumn):
		return 0, nil
	case err != nil:
		return 0, err
	case version > s.Version:
		return version, fmt.Errorf("%w: they have schema %d, which is newer than %d, the newest that this program knows; run a newer version of the program",
			s.Unfit, version, s.Version)
	}
	return version, nil
}

// Check returns an error unless the tables have the version that this program works with. It asks
// the database until they do.
func (s *Schema) Check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	found, err := s.Find(ctx)
	if err == nil && found < s.Version {
		err = fmt.Errorf("%w (the tables have schema %d and this program needs %d)", s.Unfit, found,
			s.Version)
	}
	s.checked.Store(err == nil)
	return err
}

// Migrate applies sql in one transaction if the tables are older than this program. Any number of
// processes may call it at once.
func (s *Schema) Migrate(ctx context.Context, sql string) error {
	found, err := s.Find(ctx)
	if err != nil || found == s.Version {
		return err
	}
	return Retried(func() error {
		return pgx.BeginTxFunc(ctx, s.Pool, ReadCommitted, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			return err
		})
	})
}

// ReadCommitted is a transaction that can write, whatever the defaults of the database are.
var ReadCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// deadlocksMax is how often Retried makes a call.
const deadlocksMax = 10

// Retried makes a call, and makes it again when PostgreSQL ends it because of a deadlock.
func Retried(call func() error) error {
	for n := 1; ; n++ {
		if err := call(); n == deadlocksMax || !HasCode(err, DeadlockDetected) {
			return err
		}
	}
}
