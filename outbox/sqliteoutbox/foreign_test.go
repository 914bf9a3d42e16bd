package sqliteoutbox

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"tenaq/outbox"
)

// A table that was created for something else is not changed, and the error lists what it lacks.
func TestMigrateForeign(t *testing.T) {
	const rest = `aggregatetype TEXT, aggregateid TEXT, type VARCHAR(255), group_id TEXT, dedup_id TEXT, deliver_after TEXT, created_at TEXT`
	for _, tt := range []struct{ sql, table, want string }{
		{`CREATE TABLE outbox (id INTEGER PRIMARY KEY, job_id TEXT, event TEXT, sent INTEGER)`, "",
			"it has no column aggregatetype, aggregateid, type, payload, group_id, dedup_id, headers, deliver_after, created_at, generation; " +
				"its column id is INTEGER, not TEXT"},
		{`CREATE TABLE Outbox (id TEXT PRIMARY KEY, payload BLOB, headers JSON, generation TEXT, ` + rest + `)`, "",
			"its column payload is BLOB, not TEXT; its column headers is JSON, not TEXT; its column generation is TEXT, not INTEGER"},
		{`CREATE TABLE outbox (id TEXT, payload TEXT, headers TEXT, generation INT, ` + rest + `)`, "", "its column id is not unique"},
		{`CREATE TABLE outbox (id TEXT, n INT, payload TEXT, headers TEXT, generation INT, ` + rest + `, UNIQUE (id, n))`, "", "its column id is not unique"},
		{`CREATE TABLE outbox (id TEXT UNIQUE, payload TEXT, headers TEXT, generation BIGINT, ` + rest + `)`, "", ""},
		{`CREATE TABLE outbox (n INTEGER PRIMARY KEY, ID TEXT, payload TEXT, headers TEXT, generation INT, ` + rest + `); CREATE UNIQUE INDEX u ON outbox (ID)`, "", ""},
		{`CREATE VIEW outbox AS SELECT 1 AS id`, "", "it is a view"},
		{`CREATE TABLE Events_Sent (id TEXT)`, "events", "these names are taken as well: Events_Sent"},
		{`CREATE TABLE outbox_meta (version INT)`, "", "these names are taken as well: outbox_meta"},
		{`CREATE TABLE outbox (id INTEGER PRIMARY KEY)`, "events", ""},
	} {
		path := filepath.Join(t.TempDir(), "app.db")
		db := connect(t, path)
		if _, err := db.Exec(tt.sql); err != nil {
			t.Fatal(err)
		}
		before := schemaOf(t, path)
		b, err := New(Config{DB: db, Table: tt.table})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Migrate(t.Context())
		if tt.want == "" {
			if err != nil {
				t.Errorf("beside %s: %v", tt.sql, err)
			} else if err := b.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
			tx, err := db.Begin()
			if err == nil {
				err = Writer{Table: tt.table}.Enqueue(t.Context(), tx, outbox.Message{Queue: "q", Body: "b"})
			}
			if err := errors.Join(err, tx.Commit()); err != nil {
				t.Errorf("beside %s: %v", tt.sql, err)
			}
			continue
		}
		var foreign *outbox.ForeignTable
		if !errors.As(err, &foreign) || foreign.Why != tt.want {
			t.Errorf("beside %s: %v, want that %s", tt.sql, err, tt.want)
		}
		if after := schemaOf(t, path); after != before {
			t.Errorf("%s has become %s", before, after)
		}
	}
}

// schemaOf is what there is in a database.
func schemaOf(t *testing.T, path string) string {
	t.Helper()
	rows, err := connect(t, path).Query(`SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var sql string
		if err := rows.Scan(&sql); err != nil {
			t.Fatal(err)
		}
		all = append(all, sql)
	}
	return strings.Join(all, "; ")
}
