package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"tenaq/internal/cli"
	"tenaq/internal/testing/pgtest"
)

// A table called outbox that was made for something else stays as it is, and --table makes an
// outbox beside it.
func TestOutboxBesideForeignTable(t *testing.T) {
	foreign := func(driver, address, sql string) func(*testing.T) {
		return func(t *testing.T) { execSQL(t, driver, address, sql) }
	}
	path, postgres := filepath.Join(t.TempDir(), "app.db"), pgtest.URL(t)
	for _, tt := range []struct {
		name, address, want string
		make                func(*testing.T)
	}{
		{"SQLite", "sqlite:" + path, "its column id is INTEGER, not TEXT",
			foreign("sqlite", path, `CREATE TABLE outbox (id INTEGER PRIMARY KEY, job_id TEXT, event TEXT, sent INTEGER)`)},
		{"PostgreSQL", postgres, "its column id is bigint, not uuid",
			foreign("pgx", postgres, `CREATE TABLE outbox (id bigserial PRIMARY KEY, job_id text, event jsonb, sent boolean)`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.make(t)
			t.Setenv("TENAQ_OUTBOX", tt.address)
			wantExecute(t, cli.ExitRefused, "is not an outbox: it has no column aggregatetype, aggregateid, type, payload, group_id, dedup_id, headers, "+
				"deliver_after, created_at, generation; "+tt.want+". Nothing was changed. Use another table: tenaq outbox init --table tenaq_outbox", "outbox", "init")
			wantExecute(t, cli.ExitNotFound, "there is no outbox in table outbox of", "outbox", "enqueue", "hello", "--to", "q")
			wantExecute(t, cli.ExitNotFound, "check --db, TENAQ_OUTBOX and --table", "outbox", "status")
			wantExecute(t, cli.ExitOK, "made an outbox in table tenaq_outbox of", "outbox", "init", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, "", "outbox", "enqueue", "hello", "--to", "q", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, `"pending": 1`, "outbox", "status", "--json", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, "no replays", "outbox", "replay", "list", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, "", "outbox", "parked", "list", "--table", "tenaq_outbox")
		})
	}
}

func execSQL(t *testing.T, driver, address, statement string) {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
