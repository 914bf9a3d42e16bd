package pgrecords

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// schemaVersion is the schema that this code works with. A later one that this code could not work with
// has a larger number; the SQL brings any older one up to it.
const schemaVersion = 1

//go:embed schema.sql
var schemaSQL string

// names are the tables and functions of one store, quoted for use in SQL.
type names struct{ table, meta, index, now, micros, begin, put, delete, sweep string }

// word is what a part of a table's name may be: short enough for what is made from it to be told apart
// within the 63 bytes that PostgreSQL looks at.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,49}$`)

func namesOf(table string) (names, error) {
	parts := strings.Split(table, ".")
	for _, part := range parts {
		if len(parts) > 2 || !word.MatchString(part) {
			return names{}, fmt.Errorf("%q cannot be the table of records: give a name, or a schema and a name, of up to 50 letters, digits and underscores", table)
		}
	}
	last := len(parts) - 1
	with := func(suffix string) string {
		id := append(pgx.Identifier(nil), parts...)
		id[last] += suffix
		return id.Sanitize()
	}
	return names{
		table:  with(""),
		meta:   with("_meta"),
		index:  pgx.Identifier{parts[last] + "_expires"}.Sanitize(),
		now:    with("_now"),
		micros: with("_micros"),
		begin:  with("_begin"),
		put:    with("_put"),
		delete: with("_delete"),
		sweep:  with("_sweep"),
	}, nil
}

// sql is the schema under these names.
func (n names) sql() string {
	return strings.NewReplacer(
		"{{table}}", n.table, "{{meta}}", n.meta, "{{index}}", n.index, "{{now}}", n.now, "{{micros}}", n.micros,
		"{{begin}}", n.begin, "{{put}}", n.put, "{{delete}}", n.delete, "{{sweep}}", n.sweep,
		"{{schema}}", strconv.Itoa(schemaVersion),
	).Replace(schemaSQL)
}

// Schema returns the SQL that makes the tables and functions of this store, or brings older ones up to
// date, for those who apply such things themselves: in one transaction (psql -1 -v ON_ERROR_STOP=1), as
// often as they like.
func (s *Store) Schema() string { return s.names.sql() }

// Migrate applies Schema if it has to. Any number of processes may call it at once.
func (s *Store) Migrate(ctx context.Context) error {
	found, err := s.schema(ctx)
	if err == nil && found < schemaVersion {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, s.Schema(), pgx.QueryExecModeSimpleProtocol)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("migrate the records in %s: %w", s.names.table, err)
	}
	return nil
}

// schema returns the schema that is there, zero for none. One that is too new is an error.
func (s *Store) schema(ctx context.Context) (found int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT schema FROM "+s.names.meta, pgx.QueryExecModeExec).Scan(&found)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || hasCode(err, undefinedTable):
		return 0, nil
	case err != nil:
		return 0, err
	case found > schemaVersion:
		return found, fmt.Errorf("the tables have schema %d, which is newer than %d, the newest that this program knows; run a newer version of the program",
			found, schemaVersion)
	}
	return found, nil
}

// check makes sure, once, that the schema is the one that the rest works with.
func (s *Store) check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	found, err := s.schema(ctx)
	if err == nil && found < schemaVersion {
		err = fmt.Errorf("the tables have schema %d and this program needs %d; call Migrate, or apply what Schema returns", found, schemaVersion)
	}
	s.checked.Store(err == nil)
	return err
}

// Error codes of PostgreSQL.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	undefinedTable       = "42P01"
	undefinedFunction    = "42883"
)

func hasCode(err error, codes ...string) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}
