package sqliteoutbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"tenaq/outbox"
)

// schemaVersion is the schema that this code works with. The SQL brings any older one up to it.
const schemaVersion = 1

//go:embed schema.sql
var schemaSQL string

// names are those of the table and of what belongs to it, which begin with the table's.
type names struct{ table string }

func namesOf(table string) (names, error) {
	if table == "" {
		table = "outbox"
	}
	if strings.Contains(table, ".") {
		return names{}, fmt.Errorf("the table %q is in another database: the outbox has to be in the main one, where its transactions are", table)
	}
	if _, err := outbox.TableName(table); err != nil {
		return names{}, err
	}
	return names{table}, nil
}

// replacer puts the names into SQL. They are letters, digits and underscores; the quotes make words of SQL names.
func (n names) replacer() *strings.Replacer {
	pairs := []string{
		"{{name}}", n.table, "{{table}}", `"` + n.table + `"`,
		"{{schema}}", strconv.Itoa(schemaVersion), "{{clock}}", clock,
	}
	for _, what := range []string{
		"pending", "sent", "meta", // tables
		"free", "leased", "streams", "parked", "sent_at", // indexes
		"insert", "update", "delete", "gone", "aside", // triggers
	} {
		pairs = append(pairs, "{{"+what+"}}", `"`+n.table+"_"+what+`"`)
	}
	return strings.NewReplacer(pairs...)
}

// Schema returns the SQL that makes the tables and triggers of this outbox, or brings older ones up to date, for
// those who apply such things themselves: in one transaction, as often as they like.
func (b *Box) Schema() string { return b.schema }

// Migrate applies Schema if it has to. Any number of processes may call it at once.
func (b *Box) Migrate(ctx context.Context) error {
	found, err := b.version(ctx, b.db)
	if err == nil && found < schemaVersion {
		err = b.writeUnchecked(ctx, func(c *sql.Conn, _ int64) error {
			if found, err := b.version(ctx, c); err != nil || found == schemaVersion {
				return err // another process was faster
			}
			_, err := c.ExecContext(ctx, b.schema)
			return err
		})
	}
	return b.explain(ctx, "migrate", err)
}

// version returns the schema that is there, zero for none. One that is too new is an error.
func (b *Box) version(ctx context.Context, c conn) (found int, err error) {
	var tables int
	err = c.QueryRowContext(ctx, b.sql("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '{{name}}_meta'")).Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = c.QueryRowContext(ctx, b.sql("SELECT coalesce(max(schema), 0) FROM {{meta}}")).Scan(&found)
	if err == nil && found > schemaVersion {
		err = fmt.Errorf("they have version %d and this program knows versions up to %d; run a newer version of the program: %w",
			found, schemaVersion, outbox.ErrSchema)
	}
	return found, err
}

// check makes sure, once, that the schema is the one that the rest works with.
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
