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
	"tenaq/outbox/internal/layout"
)

// schemaVersion is the schema that this code works with. A later one that this code could not work
// with has a larger number; the SQL brings any older one up to it.
const schemaVersion = 2

// The tables and what programs that write depend on, and the functions that relays call.
var (
	//go:embed schema.sql
	schemaSQL string

	//go:embed relay.sql
	relaySQL string
)

// planned are settings of functions whose statements must go by indexes, however small the tables
// were when their plans were made, and whatever the planner thinks of the effort.
const planned = `SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET jit = off
	SET enable_seqscan = off SET enable_bitmapscan = off`

// names are what a box is made of, quoted for use in SQL.
type names struct{ schema, table string } // no schema: the search_path decides

func namesOf(table string) (names, error) {
	schema, table, err := layout.Table(table)
	if err != nil {
		return names{}, err
	}
	n := names{table: pgx.Identifier{table}.Sanitize()}
	if schema != "" {
		n.schema = pgx.Identifier{schema}.Sanitize()
	}
	return n, nil
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

// Schema returns the SQL that creates the tables, triggers and functions of an outbox in table, or
// brings older ones up to date. It is for operators who apply schemas themselves, in one
// transaction (psql -1 -v ON_ERROR_STOP=1), any number of times. Programs that write can go on
// meanwhile, and so can relays of the previous version. The role that replays needs rights that a
// relay does not need; the package comment lists them.
func Schema(table string) (string, error) {
	n, err := namesOf(table)
	if err != nil {
		return "", err
	}
	return n.sql(), nil
}

// Migrate applies Schema if the tables are missing or older. Any number of processes may call it at
// once. It returns an *outbox.ForeignTable, and changes nothing, when a table of that name was made
// for something else.
func (b *Box) Migrate(ctx context.Context) error {
	err := b.schema.Migrate(ctx, b.names.sql())
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == foreignTable {
		err = &outbox.ForeignTable{Table: b.names.in(b.names.table), Why: refusal.Detail}
	}
	if err != nil {
		return fmt.Errorf("migrate the outbox %s: %w", b.names.in(b.names.table), err)
	}
	return nil
}

// foreignTable is the error code that schema.sql raises.
const foreignTable = "TNQ01"
