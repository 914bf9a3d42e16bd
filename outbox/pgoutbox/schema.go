package pgoutbox

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

	"tenaq/outbox"
)

// schemaVersion is the schema that this code works with. A later one that this code could not work with has a
// larger number; the SQL brings any older one up to it.
const schemaVersion = 2

// The tables and what programs that write depend on, and the functions that relays call.
var (
	//go:embed schema.sql
	schemaSQL string

	//go:embed relay.sql
	relaySQL string
)

// planned are settings of functions whose statements must go by indexes, however small the tables were when
// their plans were made, and whatever the planner thinks of the effort.
const planned = `SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET jit = off
	SET enable_seqscan = off SET enable_bitmapscan = off`

// names are what a box is made of, quoted for use in SQL.
type names struct{ schema, table string } // no schema: the search_path decides

func namesOf(table string) (names, error) {
	quoted, err := outbox.TableName(table)
	if err != nil {
		return names{}, err
	}
	if schema, table, ok := strings.Cut(quoted, "."); ok {
		return names{schema: schema, table: table}, nil
	}
	return names{table: quoted}, nil
}

// in is a name within the schema of the box.
func (n names) in(name string) string {
	if n.schema == "" {
		return name
	}
	return n.schema + "." + name
}

// of is the name of what belongs to the table.
func (n names) of(part string) string { return n.in(n.with(part)) }

// with is that name without the schema.
func (n names) with(part string) string { return strings.TrimSuffix(n.table, `"`) + "_" + part + `"` }

var placeholder = regexp.MustCompile(`\{\{\w+\}\}`)

// sql is the schema under these names.
func (n names) sql() string { return n.fill(schemaSQL + relaySQL) }

// fill puts the names in.
func (n names) fill(sql string) string {
	return placeholder.ReplaceAllStringFunc(sql, func(what string) string {
		switch what = strings.Trim(what, "{}"); what {
		case "where":
			return n.in(n.table)
		case "in":
			return strings.Trim(n.schema, `"`)
		case "table":
			return n.table
		case "version":
			return strconv.Itoa(schemaVersion)
		case "planned":
			return planned
		}
		return n.with(what)
	})
}

// Schema returns the SQL that makes the tables, triggers and functions of this box, or brings older ones up to
// date, for those who apply such things themselves: in one transaction (psql -1 -v ON_ERROR_STOP=1), as often
// as they like. Programs that write need not be stopped for it, and relays of the version before go on until
// they are started anew. Who replays needs rights that a relay does not; the package comment lists them.
func (b *Box) Schema() string { return b.names.sql() }

// Migrate applies Schema if it has to. Any number of processes may call it at once.
func (b *Box) Migrate(ctx context.Context) error {
	found, err := b.schema(ctx)
	if err == nil && found < schemaVersion {
		err = retried(func() error {
			return pgx.BeginTxFunc(ctx, b.pool, readCommitted, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, b.Schema(), pgx.QueryExecModeSimpleProtocol)
				return err
			})
		})
	}
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == foreignTable {
		err = &outbox.ForeignTable{Table: b.names.in(b.names.table), Why: refusal.Detail}
	}
	if err != nil {
		return fmt.Errorf("migrate the outbox %s: %w", b.names.in(b.names.table), err)
	}
	return nil
}

// schema returns the schema that is there, zero for none. One that is too new is an error.
func (b *Box) schema(ctx context.Context) (found int, err error) {
	err = b.pool.QueryRow(ctx, "SELECT schema FROM "+b.names.of("meta"), pgx.QueryExecModeExec).Scan(&found)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || hasCode(err, undefinedTable, undefinedColumn):
		return 0, nil
	case err != nil:
		return 0, err
	case found > schemaVersion:
		return found, fmt.Errorf("%w: they have schema %d, which is newer than %d, the newest that this program knows; run a newer version of the program",
			outbox.ErrSchema, found, schemaVersion)
	}
	return found, nil
}

// check makes sure, once, that the schema is the one that the rest works with.
func (b *Box) check(ctx context.Context) error {
	if b.checked.Load() {
		return nil
	}
	found, err := b.schema(ctx)
	if err == nil && found < schemaVersion {
		err = fmt.Errorf("%w (the tables have schema %d and this program needs %d)", outbox.ErrSchema, found, schemaVersion)
	}
	b.checked.Store(err == nil)
	return err
}

// Error codes of PostgreSQL.
const (
	deadlockDetected    = "40P01"
	featureNotSupported = "0A000"
	foreignTable        = "TNQ01" // of schema.sql
	lockNotAvailable    = "55P03"
	readOnlyTransaction = "25006"
	undefinedColumn     = "42703"
	undefinedTable      = "42P01"
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
