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

// schemaVersion is the schema that this code works with. An incompatible later schema has a larger
// number; the SQL updates any older one.
const schemaVersion = 3

// The tables and triggers that programs need, and the functions that relays call.
var (
	//go:embed schema.sql
	schemaSQL string

	//go:embed relay.sql
	relaySQL string
)

// planned are settings of functions whose statements must use indexes, even if the tables were
// small when the planner made the plans.
const planned = `SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET jit = off
	SET enable_seqscan = off SET enable_bitmapscan = off`

// names are the names of the objects of a box, quoted for use in SQL.
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

// in returns a name with the schema of the box.
func (n names) in(name string) string {
	if n.schema == "" {
		return name
	}
	return n.schema + "." + name
}

// of returns the name of another object of the outbox.
func (n names) of(part string) string { return n.in(n.with(part)) }

// with returns that name without the schema.
func (n names) with(part string) string { return strings.TrimSuffix(n.table, `"`) + "_" + part + `"` }

var placeholder = regexp.MustCompile(`\{\{\w+\}\}`)

// sql returns the schema under these names.
func (n names) sql() string { return n.fill(schemaSQL + relaySQL) }

// fill puts the names into SQL.
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

// Schema returns the SQL that creates or updates the tables, triggers and functions of an outbox in
// table. It is for operators who apply schemas themselves, in one transaction (psql -1 -v
// ON_ERROR_STOP=1), any number of times. Programs and relays of the previous version can run
// meanwhile. The package comment lists the rights that roles need.
func Schema(table string) (string, error) {
	n, err := namesOf(table)
	if err != nil {
		return "", err
	}
	return n.sql(), nil
}

// Migrate applies Schema if the tables are missing or older. Any number of processes may call it at
// once. If the table was created for something else, it returns an *outbox.ForeignTable and changes
// nothing.
func (b *Box) Migrate(ctx context.Context) error {
	err := b.schema.Migrate(ctx, b.names.sql())
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	if ok && refusal.Code == foreignTable {
		err = &outbox.ForeignTable{Table: b.names.in(b.names.table), Why: refusal.Detail}
	}
	if err != nil {
		return fmt.Errorf("migrate the outbox %s: %w", b.names.in(b.names.table), err)
	}
	return nil
}

// foreignTable is the error code that schema.sql raises.
const foreignTable = "TNQ01"
