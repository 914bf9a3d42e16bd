package sqliteoutbox

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"

	"tenaq/internal/work/sqlitedb"
	"tenaq/outbox"
)

// The columns of an outbox, with their affinity.
var outboxColumns = []struct{ name, affinity string }{
	{"id", "TEXT"}, {"aggregatetype", "TEXT"}, {"aggregateid", "TEXT"}, {"type", "TEXT"},
	{"payload", "TEXT"}, {"group_id", "TEXT"},
	{"dedup_id", "TEXT"}, {"headers", "TEXT"}, {"deliver_after", "TEXT"}, {"created_at", "TEXT"},
	{"generation", "INTEGER"},
}

const (
	kindOf    = `SELECT ifnull((SELECT type FROM sqlite_master WHERE name = '{{name}}' COLLATE NOCASE AND type IN ('table', 'view')), '')`
	columnsIn = `SELECT lower(name), type FROM pragma_table_info('{{name}}')`
	uniqueID  = `SELECT (SELECT group_concat(lower(name)) FROM pragma_table_info('{{name}}') WHERE pk > 0) IS 'id' OR EXISTS (
	SELECT 1 FROM pragma_index_list('{{name}}') AS l WHERE l."unique" AND NOT l.partial
		AND (SELECT group_concat(lower(name)) FROM pragma_index_info(l.name)) IS 'id')`
	takenNames = `SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) IN
	(lower('{{name}}_pending'), lower('{{name}}_sent'), lower('{{name}}_replays'), lower('{{name}}_replay_rows'), lower('{{name}}_meta')) ORDER BY name`
)

// checkForeign returns an *outbox.ForeignTable if a table of another program has the name of the
// outbox, or of one of its other tables.
func (b *Box) checkForeign(ctx context.Context, c conn) error {
	var why []string
	var kind string
	if err := c.QueryRowContext(ctx, b.sql(kindOf)).Scan(&kind); err != nil {
		return err
	}
	if kind == "view" {
		why = append(why, "it is a view")
	} else if kind != "" {
		found, err := b.foreignColumns(ctx, c)
		if err != nil {
			return err
		}
		why = append(why, found...)
	}
	taken, err := sqlitedb.All(ctx, c, sqlitedb.Column[string], b.sql(takenNames))
	if err != nil {
		return err
	}
	if len(taken) > 0 {
		why = append(why, "these names are taken as well: "+strings.Join(taken, ", "))
	}
	if len(why) == 0 {
		return nil
	}
	return &outbox.ForeignTable{Table: b.table, Why: strings.Join(why, "; ")}
}

// foreignColumns says what the table lacks to be an outbox.
func (b *Box) foreignColumns(ctx context.Context, c conn) (why []string, err error) {
	types := make(map[string]string)
	err = sqlitedb.Each(ctx, c, func(rows *sql.Rows) error {
		var name, declared string
		err := rows.Scan(&name, &declared)
		types[name] = declared
		return err
	}, b.sql(columnsIn))
	if err != nil {
		return nil, err
	}
	var missing, wrong []string
	for _, column := range outboxColumns {
		declared, there := types[column.name]
		switch {
		case !there:
			missing = append(missing, column.name)
		case affinityOf(declared) != column.affinity:
			wrong = append(wrong, fmt.Sprintf("its column %s is %s, not %s", column.name,
				cmp.Or(declared, "without a type"), column.affinity))
		}
	}
	if len(missing) > 0 {
		why = append(why, "it has no column "+strings.Join(missing, ", "))
	}
	why = append(why, wrong...)
	if _, there := types["id"]; there {
		var unique bool
		if err := c.QueryRowContext(ctx, b.sql(uniqueID)).Scan(&unique); err != nil {
			return nil, err
		}
		if !unique {
			why = append(why, "its column id is not unique")
		}
	}
	return why, nil
}

// affinityOf returns the affinity of a column by its declared type, by the rules of SQLite. A
// column of another affinity may change the values that it stores.
func affinityOf(declared string) string {
	declared = strings.ToUpper(declared)
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(declared, word) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return "INTEGER"
	case has("CHAR", "CLOB", "TEXT"):
		return "TEXT"
	case declared == "" || has("BLOB"):
		return "BLOB"
	case has("REAL", "FLOA", "DOUB"):
		return "REAL"
	}
	return "NUMERIC"
}
