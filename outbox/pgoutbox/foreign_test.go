package pgoutbox

import (
	"errors"
	"testing"

	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
)

// A table that was created for something else is not changed, and the error lists what it lacks.
func TestMigrateForeign(t *testing.T) {
	const rest = `aggregatetype text, aggregateid varchar(255), type text, group_id text, dedup_id varchar, deliver_after timestamptz, created_at timestamptz`
	for _, tt := range []struct{ sql, table, want string }{
		{`CREATE TABLE outbox (id bigserial PRIMARY KEY, job_id text, event jsonb, sent boolean)`, "",
			"it has no column aggregatetype, aggregateid, type, payload, group_id, dedup_id, headers, deliver_after, created_at, generation; " +
				"its column id is bigint, not uuid"},
		{`CREATE TABLE outbox (id uuid PRIMARY KEY, payload jsonb, headers json, generation bigint, ` + rest + `)`, "",
			"its column payload is jsonb, not text; its column headers is json, not jsonb; its column generation is bigint, not integer"},
		{`CREATE TABLE outbox (id uuid, n int, payload text, headers jsonb, generation int, ` + rest + `, UNIQUE (id, n))`, "", "its column id is not unique"},
		{`CREATE VIEW outbox AS SELECT 1 AS id`, "", "it is no ordinary table; it has no column aggregatetype, aggregateid, type, payload, group_id, " +
			"dedup_id, headers, deliver_after, created_at, generation; its column id is integer, not uuid; its column id is not unique"},
		{`CREATE SCHEMA jobs; CREATE TABLE jobs."Events_sent" (id int)`, "jobs.Events", `these names are taken as well: "Events_sent"`},
		{`CREATE TABLE outbox_meta (version int)`, "", `these names are taken as well: "outbox_meta"`},
		{`CREATE TABLE outbox (id int)`, "events", ""},
		{`CREATE TABLE outbox (n int, id uuid UNIQUE, payload varchar, headers jsonb, generation int, ` + rest + `)`, "", ""},
	} {
		u := pgtest.URL(t)
		exec(t, u, tt.sql)
		b, err := New(Config{Pool: connect(t, u), Table: tt.table})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Migrate(t.Context())
		if tt.want != "" {
			var foreign *outbox.ForeignTable
			if !errors.As(err, &foreign) || foreign.Why != tt.want {
				t.Errorf("beside %s: %v, want that %s", tt.sql, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("beside %s: %v", tt.sql, err)
			continue
		}
		tx := begin(t, u)
		m := outbox.Message{ID: outbox.NewID(), Queue: "q.fifo", Key: "k", Body: "b", Group: "g"}
		if err := (Writer{Table: tt.table}).Enqueue(t.Context(), tx, m); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, b); got != "b" {
			t.Errorf("beside %s: the outbox has %q", tt.sql, got)
		}
	}
}
