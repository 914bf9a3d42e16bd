package pgoutbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
)

// always is a time in which everything was sent.
var always = outbox.Source{From: time.Unix(0, 0), To: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}

// found are the bodies of what a source has.
func found(t testing.TB, b *Box, s outbox.Source) string {
	t.Helper()
	n, first, err := b.Look(t.Context(), s, 1000)
	if err != nil {
		t.Errorf("look for %q%q: %v", s.Where, s.Query, err)
		return ""
	}
	var all []string
	for _, p := range first {
		all = append(all, p.Body)
	}
	if n != len(all) {
		t.Errorf("%d messages are counted, and there are %d", n, len(all))
	}
	return strings.Join(all, " ")
}

// A condition is PostgreSQL's own SQL about PostgreSQL's types, also about columns that the user
// has added. It is only asked about rows that the rest of the source lets through.
func TestWhere(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	exec(t, url, `ALTER TABLE outbox ADD tenant text, ADD sent_at int, ADD seq int`)
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload, headers, tenant) VALUES
		('json', 'k', '{"n":1}', '{"h": "a"}', 't1'), ('json', 'k', '{"n":2}', NULL, 't2'), ('text', 'k', 'plain', NULL, NULL)`)
	bodies(t, b)
	for where, want := range map[string]string{
		`(payload::jsonb ->> 'n')::int > 1`:                                      `{"n":2}`,
		`payload::jsonb @> '{"n": 1}' OR tenant = 't2';`:                         `{"n":1} {"n":2}`,
		`headers ->> 'h' = 'a' -- one`:                                           `{"n":1}`,
		`headers ? 'h' /* one */ ; ` + "\n":                                      `{"n":1}`,
		`payload ~ $re$"n":[;2]$re$`:                                             `{"n":2}`,
		`tenant = 't1'`:                                                          `{"n":1}`,
		`created_at > now() - interval '1 hour'`:                                 `{"n":1} {"n":2}`,
		`EXISTS (SELECT FROM outbox_sent s WHERE s.id = r.id AND tenant = 't2')`: `{"n":2}`,
	} {
		s := always
		s.Queues, s.Where = []string{"json"}, where
		if got := found(t, b, s); got != want {
			t.Errorf("where %s there is %q, want %q", where, got, want)
		}
	}
	s := always
	s.Keys = []string{"k\x00", "\xff"}
	if got := found(t, b, s); got != "" {
		t.Errorf("of keys that no row can have there is %q", got)
	}
}

// A condition that fails for other rows is not asked about them, whatever plan the server makes.
func TestWhereOfTheRest(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'plain'), ('q', 'k', '{"n":1}')`)
	bodies(t, b)
	exec(t, url, `UPDATE outbox_sent SET sent_at = '1969-01-01' WHERE id = (SELECT id FROM outbox WHERE payload = 'plain')`)
	s := always
	s.Where = `payload::jsonb @> '{"n":1}'`
	for _, plans := range []string{"", "&enable_nestloop=off", "&enable_nestloop=off&enable_hashjoin=off", "&enable_hashjoin=off&enable_mergejoin=off"} {
		if got := found(t, over(t, url+plans, Config{}), s); got != `{"n":1}` {
			t.Errorf("with plans %q there is %q", plans, got)
		}
	}
}

// The end of the time is not within it, to the microsecond.
func TestTimes(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'b')`)
	bodies(t, b)
	at := time.Date(2026, 5, 1, 12, 0, 0, 123_456_000, time.FixedZone("", 7200))
	exec(t, url, `UPDATE outbox_sent SET sent_at = $1`, at)
	for _, tt := range []struct {
		from, to time.Duration
		want     string
	}{
		{0, time.Nanosecond, "b"}, {-time.Nanosecond, time.Microsecond, "b"}, {-time.Hour, 0, ""}, {-time.Hour, -time.Nanosecond, ""},
		{time.Nanosecond, time.Hour, ""}, {-time.Microsecond, 0, ""},
	} {
		if got := found(t, b, outbox.Source{From: at.Add(tt.from), To: at.Add(tt.to)}); got != tt.want {
			t.Errorf("from %v to %v there is %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
}

// The rows of a query keep their order, and documents in them keep their text.
func TestQueryRows(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	exec(t, url, `CREATE TABLE orders (id int, event json)`)
	exec(t, url, `INSERT INTO orders VALUES (1, '{"z": 1,  "a": 1.50}'), (2, '{"z":2}'), (3, '[3]')`)
	s := outbox.Source{Query: `
		WITH q AS (SELECT * FROM orders) -- a comment; and its end
		SELECT 'q' AS aggregatetype, id AS aggregateid, event AS payload, 'order ' || id AS dedup_id, '{"n": "1"}'::jsonb AS headers
		FROM q AS r WHERE id <> 2 ORDER BY id DESC; `}
	const want = `[3] {"z": 1,  "a": 1.50}`
	if got := found(t, b, s); got != want {
		t.Errorf("the query returns %q, want %q", got, want)
	}
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing, Source: s})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = b.StageReplay(t.Context(), r.Number); err != nil || r.Found != 2 {
		t.Fatal(r, err)
	}
	exec(t, url, `DROP TABLE orders`)
	staged, err := b.Staged(t.Context(), r.Number, 0, 10)
	if err != nil || len(staged) != 2 {
		t.Fatal(staged, err)
	}
	if got := staged[0].Body + " " + staged[1].Body; got != want {
		t.Errorf("%q is staged, want %q", got, want)
	}
	if m := staged[1].Message; m.Key != "1" || m.Dedup != "order 1" || m.Headers["n"] != "1" {
		t.Errorf("staged is %+v", m)
	}
	exec(t, url, `CREATE TABLE ids AS SELECT gen_random_uuid() AS id`)
	s.Query = `SELECT id, 'q' AS aggregatetype, id AS aggregateid, id AS payload, 'r' AS type FROM ids tenaq`
	if got := found(t, b, s); len(got) != 36 {
		t.Errorf("the query returns %q, want one id", got)
	}
}

// SQL that tries to write fails, whatever it tries, and the error says why.
func TestSourceWritesNothing(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	exec(t, url, `CREATE TABLE t (n int); CREATE SEQUENCE s; INSERT INTO t VALUES (1);
		CREATE FUNCTION writes() RETURNS bool LANGUAGE sql VOLATILE AS 'INSERT INTO t VALUES (2); SELECT true';
		CREATE FUNCTION dares() RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
			BEGIN PERFORM set_config('transaction_read_only', 'off', false); INSERT INTO t VALUES (2); RETURN true; END $$;
		INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'b')`)
	bodies(t, b)
	const row = `SELECT 'q' AS aggregatetype, 'd' AS dedup_id, 'b' AS payload`
	for _, tt := range []struct{ where, query, want string }{
		{where: `writes()`, want: "read-only transaction"},
		{where: `dares()`, want: "must be set before any query"},
		{where: `nextval('s') > 0`, want: "read-only transaction"},
		{where: `true; DELETE FROM t`, want: "multiple commands"},
		{where: `true) OR (true`, want: "syntax error"},
		{where: `true /* `, want: "unterminated"},
		{where: `true /* ) r; DELETE FROM t; -- `, want: "unterminated"},
		{where: `true) r; DELETE FROM t; --`, want: "syntax error"},
		{where: `aggregateid = $1`, want: "has a parameter"},
		{where: "aggregateid = '\x00'", want: "zero byte"},
		{where: `payload::int > 1`, want: "invalid input syntax"},
		{where: `agregateid = 'k'`, want: `hint: Perhaps you meant to reference the column "r.aggregateid"`},
		{where: " ", want: "syntax error"},
		{where: `true LIMIT 1`, want: "syntax error"},
		{query: row + ` WHERE writes()`, want: "read-only transaction"},
		{query: row + ` WHERE dares()`, want: "must be set before any query"},
		{query: `SELECT * FROM t FOR UPDATE`, want: "read-only transaction"},
		{query: row + `; COMMIT; DELETE FROM t`, want: "multiple commands"},
		{query: row + `) q; COMMIT; DELETE FROM t; --`, want: "syntax error"},
		{query: row + `) q, (` + row, want: "syntax error"},
		{query: row + ` WHERE 'd' = $1`, want: "has a parameter"},
		{query: `WITH d AS (DELETE FROM t RETURNING 1) ` + row, want: "data-modifying"},
		{query: `DROP TABLE t`, want: "syntax error"},
		{query: `COMMIT`, want: "syntax error"},
		{query: `COPY t TO '/nowhere'`, want: "syntax error"},
		{query: `; ; `, want: "syntax error"},
		{query: row + `, ''::json AS headers`, want: "invalid input syntax"},
	} {
		s := always
		if s.Where = tt.where; tt.query != "" {
			s = outbox.Source{Query: tt.query}
		}
		_, _, err := b.Look(t.Context(), s, 10)
		if !errors.Is(err, outbox.ErrSource) || errors.Is(err, pgdb.ErrStandby) {
			t.Errorf("look for %q%q: %v, want ErrSource", tt.where, tt.query, err)
		}
		fails(t, err, tt.want)
		switch tt.want {
		case "read-only transaction", "must be set before any query": // what functions do then is up to who wrote them
			continue
		case "zero byte": // which a record has none of
			continue
		}
		r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing, Source: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.StageReplay(t.Context(), r.Number); !errors.Is(err, outbox.ErrSource) {
			t.Errorf("stage %q%q: %v, want ErrSource", tt.where, tt.query, err)
		}
	}
	var rows, last int
	if err := b.pool.QueryRow(t.Context(), `SELECT (SELECT sum(n) FROM t), (SELECT last_value FROM s)`).Scan(&rows, &last); err != nil || rows != 1 || last != 1 {
		t.Errorf("the table has %d and the sequence %d, %v; want what they had", rows, last, err)
	}
}

// A busy server is not the fault of the SQL, and neither is an error that occurs without any.
func TestSourceNotToBlame(t *testing.T) {
	url := pgtest.URL(t)
	over(t, url, Config{})
	exec(t, url, `CREATE TABLE t (dedup_id text)`)
	hurried := over(t, url+"&statement_timeout=200&lock_timeout=100", Config{})
	slow := outbox.Source{Query: `SELECT 'd' AS dedup_id FROM pg_sleep(60)`}
	if _, _, err := hurried.Look(t.Context(), slow, 1); !pgdb.HasCode(err, "57014") || errors.Is(err, outbox.ErrSource) {
		t.Errorf("a query that takes long: %v", err)
	}
	tx := begin(t, url)
	if _, err := tx.Exec(t.Context(), `LOCK TABLE t`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := hurried.Look(t.Context(), outbox.Source{Query: `SELECT * FROM t`}, 1); !pgdb.HasCode(err, "55P03") || errors.Is(err, outbox.ErrSource) {
		t.Errorf("a query of a locked table: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, _, err := over(t, url, Config{}).Look(t.Context(), slow, 1)
		done <- err
	}()
	for ended := 0; ended == 0; {
		err := hurried.pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep'`).Scan(&ended)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err == nil || errors.Is(err, outbox.ErrSource) {
		t.Errorf("a query on a connection that ended: %v", err)
	}
	exec(t, url, `ALTER TABLE outbox_sent RENAME TO gone`)
	if _, _, err := hurried.Look(t.Context(), always, 1); !pgdb.HasCode(err, pgdb.UndefinedTable) || errors.Is(err, outbox.ErrSource) {
		t.Errorf("a look without SQL at an outbox that is broken: %v", err)
	}
}

// Filters may have thousands of values, and SQL may be long.
func TestLargeSource(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q', 'k' || n, 'b' || n FROM generate_series(1, 3) n`)
	bodies(t, b)
	s := always
	for n := range 20_000 {
		s.Keys = append(s.Keys, fmt.Sprint("k", 2*n))
	}
	s.Where = "payload IN ('b2'" + strings.Repeat(", 'it''s \\ \"none\"'", 5000) + ")"
	if got := found(t, b, s); got != "b2" {
		t.Errorf("there is %q, want b2", got)
	}
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing, Source: s, Note: "zero \x00 \\u0000 \xff"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "zero \uFFFD \\u0000 \uFFFD"; r.Note != want {
		t.Errorf("the note is %q, want %q", r.Note, want)
	}
	if r, err = b.StageReplay(t.Context(), r.Number); err != nil || r.Found != 1 {
		t.Errorf("%d rows are staged, %v", r.Found, err)
	}
}
