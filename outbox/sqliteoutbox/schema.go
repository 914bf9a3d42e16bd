package sqliteoutbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// schemaVersion is the schema that this code works with. The SQL updates any older one.
const schemaVersion = 2

//go:embed schema.sql
var schemaSQL string

// names are the names of the table and of the other objects of the outbox, which begin with it.
type names struct{ table string }

func namesOf(table string) (names, error) {
	schema, name, err := layout.Table(table)
	switch {
	case err != nil:
		return names{}, err
	case schema != "":
		return names{}, fmt.Errorf("the table %q is in another database: the outbox must be in the main one, like its transactions", table)
	}
	return names{name}, nil
}

// replacer puts the names into SQL. They have only letters, digits and underscores. The quotes make
// keywords of SQL names.
func (n names) replacer() *strings.Replacer {
	pairs := []string{
		"{{name}}", n.table, "{{table}}", `"` + n.table + `"`,
		"{{schema}}", strconv.Itoa(schemaVersion), "{{clock}}", clock,
	}
	for _, what := range []string{
		"pending", "sent", "meta", "replays", "replay_rows", // tables
		"free", "leased", "streams", "parked", "sent_at", // indexes
		"insert", "update", "delete", "gone", "aside", // triggers
	} {
		pairs = append(pairs, "{{"+what+"}}", `"`+n.table+"_"+what+`"`)
	}
	return strings.NewReplacer(pairs...)
}

// Schema returns the SQL that creates or updates the tables and triggers of an outbox in table. It
// is for operators who apply schemas themselves, in one transaction, any number of times.
//
// Tables of version 1 (SELECT schema FROM outbox_meta) need one more column first, because SQLite
// cannot add a column only where it is missing. In the same transaction, run before the schema:
//
//	ALTER TABLE outbox_sent ADD COLUMN seq INTEGER
//
// That is fast for any number of rows. Relays of version 1 may still run. The rows that they send
// have no number, so a replay sends them first, in the order of their times.
//
// SQLite has no roles. Relays and programs that replay must be able to read and write the file.
func Schema(table string) (string, error) {
	n, err := namesOf(table)
	if err != nil {
		return "", err
	}
	return n.replacer().Replace(schemaSQL), nil
}

// seqOfSent is the part of the update that Schema cannot do.
const seqOfSent = `ALTER TABLE {{sent}} ADD COLUMN seq INTEGER`

// Migrate applies Schema if the tables are missing or older. Any number of processes may call it at
// once.
func (b *Box) Migrate(ctx context.Context) error {
	found, err := b.version(ctx, b.db)
	if err == nil && found < schemaVersion {
		err = b.writeUnchecked(ctx, func(c *sql.Conn, _ int64) error {
			found, err := b.version(ctx, c)
			if err != nil || found == schemaVersion {
				return err // another process has migrated
			}
			if found == 0 {
				if err := b.checkForeign(ctx, c); err != nil {
					return err
				}
			}
			if found == 1 {
				if _, err := c.ExecContext(ctx, b.sql(seqOfSent)); err != nil {
					return err
				}
			}
			_, err = c.ExecContext(ctx, b.names.Replace(schemaSQL))
			return err
		})
	}
	return b.explain(ctx, "migrate", err)
}

// version returns the schema of the tables, or zero if there are none. It returns an error for a
// newer one than this program knows.
func (b *Box) version(ctx context.Context, c conn) (found int, err error) {
	var tables int
	err = c.QueryRowContext(ctx,
		b.sql("SELECT count(*) FROM pragma_table_info('{{name}}_meta') WHERE name = 'schema'")).Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = c.QueryRowContext(ctx,
		b.sql("SELECT coalesce(max(schema), 0) FROM {{meta}}")).Scan(&found)
	if err == nil && found > schemaVersion {
		err = fmt.Errorf("they have version %d and this program knows versions up to %d; run a newer version of the program: %w",
			found, schemaVersion, outbox.ErrSchema)
	}
	return found, err
}

// check returns an error unless the schema is the one that this code works with.
func (b *Box) check(ctx context.Context) error {
	if b.checked.Load() {
		return nil
	}
	found, err := b.version(ctx, b.db)
	if err == nil && found < schemaVersion {
		err = outbox.ErrSchema
	}
	b.checked.Store(err == nil)
	return err
}
