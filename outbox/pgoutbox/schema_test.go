package pgoutbox

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
)

// fails checks that an error says what to do.
func fails(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line with %q", err, want)
	}
}

// bodies claims and settles all that is there.
func bodies(t testing.TB, b *Box) string {
	t.Helper()
	rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 10_000, Bytes: 1 << 30, Stream: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	var outcomes []outbox.Outcome
	for _, r := range rows {
		all = append(all, r.Body)
		outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: outbox.Sent})
	}
	if err := b.Settle(t.Context(), "r", outcomes); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// Any number migrate at once, into schemas of their own or the same, and nothing is lost by doing
// so again.
func TestMigrate(t *testing.T) {
	u := pgtest.URL(t)
	exec(t, u, `CREATE SCHEMA one; CREATE SCHEMA "Two"`)
	tables := []string{"", "one.events", "Two.Events", "one." + strings.Repeat("x", 40)}
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() { over(t, u, Config{Table: tables[i%len(tables)]}) })
	}
	group.Wait()
	for _, table := range tables {
		b := over(t, u, Config{Table: table})
		tx := begin(t, u)
		if err := (Writer{Table: table}).Enqueue(t.Context(), tx, outbox.Message{Queue: "q", Body: "b", Group: "g"}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, u, b.names.sql())
		if got := bodies(t, b); got != "b" {
			t.Errorf("%s has %q, want b", table, got)
		}
	}
	_, err := New(Config{Pool: connect(t, u), Table: "no such name"})
	fails(t, err, "pass a name")
	_, err = New(Config{})
	fails(t, err, "neither Pool nor URL")
	_, err = New(Config{Pool: connect(t, u), URL: u})
	fails(t, err, "both Pool and URL")
	b, err := New(Config{Pool: connect(t, u), Table: "nowhere.events"})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, b.Migrate(t.Context()), "create it")
}

// begin opens a transaction that ends with the test.
func begin(t testing.TB, u string) pgx.Tx {
	t.Helper()
	tx, err := dial(t, u).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestOtherSchema(t *testing.T) {
	u := pgtest.URL(t)
	b, err := New(Config{Pool: connect(t, u)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	claim := func(b *Box) error {
		_, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r"})
		return err
	}
	if err := claim(b); !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("claim without tables: %v", err)
	}
	over(t, u, Config{})
	if err := claim(b); err != nil {
		t.Error(err)
	}
	exec(t, u, "UPDATE outbox_meta SET schema = 1000")
	byURL, err := New(Config{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	defer byURL.Close()
	fails(t, byURL.Migrate(t.Context()), "run a newer version of the program")
	newer, err := New(Config{Pool: connect(t, u)})
	if err != nil {
		t.Fatal(err)
	}
	if err := claim(newer); !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("claim with newer tables: %v", err)
	}
	_, err = b.pool.Exec(t.Context(), b.names.sql())
	fails(t, err, "run a newer version of the program")
}

// A program may write with INSERT on the table and nothing else, in any way, and no one turns what
// happens then to his own ends. A relay works with the rights that the documentation lists.
func TestRights(t *testing.T) {
	u := pgtest.URL(t)
	over(t, u, Config{})
	exec(t, u, `
		CREATE ROLE writer LOGIN; CREATE ROLE relay LOGIN;
		REVOKE CREATE ON SCHEMA public FROM PUBLIC;
		GRANT INSERT ON outbox TO writer;
		GRANT SELECT, DELETE ON outbox TO relay;
		GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_pending, outbox_sent TO relay;
		GRANT SELECT, UPDATE ON outbox_turns, outbox_waiting TO relay;
		GRANT USAGE ON SEQUENCE outbox_seq TO relay;
		GRANT SELECT ON outbox_rows, outbox_meta TO relay;
		CREATE SCHEMA writer AUTHORIZATION writer`)
	as := func(role string) string {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		parsed.User = url.User(role)
		return parsed.String()
	}
	b, err := New(Config{Pool: connect(t, as("relay"))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Migrate(t.Context()); err != nil { // there is nothing to do
		t.Error(err)
	}

	conn := dial(t, as("writer"))
	run := func(sql string) error {
		_, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	must := func(sql string) {
		t.Helper()
		if err := run(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	must(`INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'one'), ('q.fifo', 'k', 'two')`)
	must(`INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'k', 'three'`)
	_, err = conn.CopyFrom(t.Context(), pgx.Identifier{"outbox"}, []string{"aggregatetype", "aggregateid", "payload"},
		pgx.CopyFromRows([][]any{{"q.fifo", "k", "four"}, {"q", "k", "five"}}))
	if err != nil {
		t.Errorf("copy: %v", err)
	}
	// Functions and operators that fit better than PostgreSQL's, and tables in front of those of
	// the outbox.
	must(`SET search_path = writer, pg_catalog, public;
		CREATE FUNCTION writer.octet_length(text) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', current_user; END';
		CREATE FUNCTION writer.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', current_user; END';
		CREATE FUNCTION writer.hashtextextended(text, int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', current_user; END';
		CREATE TABLE writer.outbox_pending (id uuid); CREATE TABLE writer.outbox_turns (n int);
		CREATE TEMP TABLE outbox_pending (id uuid); CREATE TEMP TABLE outbox_turns (n int); CREATE TEMP TABLE new_rows (id uuid);
		INSERT INTO public.outbox (aggregatetype, aggregateid, payload) VALUES ('q.fifo', 'k', 'six')`)
	// By triggers of his own.
	for _, sql := range []string{
		`CREATE TABLE writer.mine (id uuid); CREATE TRIGGER t AFTER INSERT ON writer.mine REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.outbox_inserted()`,
		`CREATE TABLE writer.mine (id uuid); CREATE TRIGGER t AFTER DELETE ON writer.mine REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION public.outbox_deleted()`,
		`SELECT * FROM public.outbox`, `DELETE FROM public.outbox`, `SELECT * FROM public.outbox_pending`, `UPDATE public.outbox_turns SET n = n`,
		`SELECT * FROM public.outbox_claim('mine', 1, 1, 1, 1, '{}', '')`, `SELECT setval('public.outbox_waiting', 1)`,
	} {
		if err := run(sql); !pgdb.HasCode(err, "42501") {
			t.Errorf("%s: %v, want that it is not permitted", sql, err)
		}
	}

	words := bodies(t, b)
	if want := "one two three four five six"; words != want {
		t.Errorf("%q was claimed, want %q", words, want)
	}
	exec(t, u, `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'again'), ('q', 'k', 'not'), ('q.fifo', 'k', 'nor')`)
	rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 10, Bytes: 1000, Stream: 10})
	if err != nil || len(rows) != 3 {
		t.Fatal(rows, err)
	}
	if _, err := b.Renew(t.Context(), "r", time.Minute); err != nil {
		t.Error(err)
	}
	if err := b.Settle(t.Context(), "r", []outbox.Outcome{{ID: rows[0].ID, Fate: outbox.Failed}, {ID: rows[1].ID, Fate: outbox.Parked}, {ID: rows[2].ID, Fate: outbox.Parked}}); err != nil {
		t.Error(err)
	}
	if n, err := b.Release(t.Context(), rows[1].ID); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := b.Discard(t.Context(), rows[2].ID); n != 1 || err != nil {
		t.Error(n, err)
	}
	if _, err := b.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := b.Parked(t.Context(), "", 10); err != nil {
		t.Error(err)
	}
	if err := b.Wait(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	if n, err := b.Sweep(t.Context(), 0, 10); n == 0 || err != nil {
		t.Error(n, err)
	}
}

// A role that replays needs the documented rights, and SQL of the user has no more than these.
func TestRightsOfReplays(t *testing.T) {
	u := pgtest.URL(t)
	over(t, u, Config{})
	exec(t, u, `
		CREATE ROLE replays LOGIN; CREATE TABLE secret (dedup_id text);
		REVOKE CREATE ON SCHEMA public FROM PUBLIC;
		GRANT SELECT, DELETE ON outbox TO replays;
		GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_pending, outbox_sent TO replays;
		GRANT SELECT, UPDATE ON outbox_turns, outbox_waiting TO replays;
		GRANT USAGE ON SEQUENCE outbox_seq TO replays;
		GRANT SELECT ON outbox_rows, outbox_meta TO replays;
		GRANT INSERT ON outbox TO replays;
		GRANT SELECT, INSERT, UPDATE ON outbox_replays TO replays;
		GRANT SELECT, INSERT, DELETE ON outbox_replay_rows TO replays`)
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	parsed.User = url.User("replays")
	b, err := New(Config{Pool: connect(t, parsed.String())})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	exec(t, u, `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('q', 'k', 'one'), ('q.fifo', 'k', 'two')`)
	if got := bodies(t, b); got != "one two" {
		t.Fatalf("%q was sent", got)
	}
	s := outbox.Source{From: time.Unix(0, 0), To: time.Now().Add(time.Hour), Where: "payload <> ''"}
	if n, _, err := b.Look(t.Context(), s, 10); n != 2 || err != nil {
		t.Errorf("%d rows were found, %v", n, err)
	}
	r, err := b.BeginReplay(t.Context(), outbox.Replay{State: outbox.Preparing, Source: s})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = b.StageReplay(t.Context(), r.Number); err != nil {
		t.Fatal(err)
	}
	if staged, err := b.Staged(t.Context(), r.Number, 0, 10); len(staged) != 2 || err != nil {
		t.Error(staged, err)
	}
	r.State = outbox.Done
	if r, err = b.StepReplay(t.Context(), r, []outbox.Message{{Queue: "q.fifo", Key: "k", Body: "again"}}); err != nil {
		t.Fatal(err)
	}
	if all, err := b.Replays(t.Context(), 10); len(all) != 1 || err != nil {
		t.Error(all, err)
	}
	if got := bodies(t, b); got != "again" {
		t.Errorf("%q was written", got)
	}
	_, _, err = b.Look(t.Context(), outbox.Source{Query: "SELECT * FROM secret"}, 10)
	fails(t, err, "permission denied for table secret")
	if !errors.Is(err, outbox.ErrSource) {
		t.Errorf("a table that may not be read: %v", err)
	}
}

// An outbox of an earlier version is upgraded while relays of that version run, and the rows that
// they sent can be replayed.
func TestMigrateFromEarlier(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) { migrateFrom(t, version) })
	}
}

func migrateFrom(t *testing.T, version int) {
	u := pgtest.URL(t)
	earlier, err := os.ReadFile(fmt.Sprintf("testdata/schema%d.sql", version))
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{Pool: connect(t, u)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	exec(t, u, b.names.fill(strings.ReplaceAll(string(earlier), "{{version}}", fmt.Sprint(version))))
	const n = 300
	fill := func(from, to int) {
		t.Helper()
		exec(t, u, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'k', n::text FROM generate_series($1::int, $2::int) n`, from, to)
	}
	fill(1, n)
	_, _, err = b.Look(t.Context(), outbox.Source{}, 1)
	if !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("look at an outbox of version %d: %v", version, err)
	}

	// A relay of that version makes these calls.
	old, err := New(Config{Pool: connect(t, u)})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	old.schema.Version = version
	claim := outbox.Claim{Relay: "old", Lease: time.Minute, Rows: 10, Bytes: 1 << 20, Stream: 10}
	var sent []string
	for migrated := make(chan error, 1); len(sent) < n; {
		rows, _, err := old.Claim(t.Context(), claim)
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		var ids []string
		for _, r := range rows {
			sent = append(sent, r.Body)
			ids = append(ids, r.ID)
		}
		// Relays of both versions gave each row a value in every array.
		err = old.query(t.Context(), func() {}, func(pgx.Rows) error { return nil }, `SELECT outbox_settle('old', $1::text[]::uuid[],
			array_fill(0, ARRAY[$2::int]), array_fill(0::bigint, ARRAY[$2]), array_fill(NULL::text, ARRAY[$2]),
			array_fill('q.fifo'::text, ARRAY[$2]), array_fill('m'::text, ARRAY[$2]))`, ids, len(ids))
		if err != nil || len(ids) == 0 {
			t.Fatalf("settle %d rows: %v", len(ids), err)
		}
		switch len(sent) {
		case n / 3:
			go func() { migrated <- b.Migrate(t.Context()) }()
		case n / 3 * 2:
			if err := <-migrated; err != nil {
				t.Fatal(err)
			}
		}
	}

	// The time that rows were sent at is all there is to know their order by, until version 2 was
	// there.
	count, first10, err := b.Look(t.Context(), outbox.Source{From: time.Unix(0, 0), To: time.Now().Add(time.Hour)}, n)
	if err != nil || count != n || len(first10) != n {
		t.Fatalf("%d rows are found, %v", count, err)
	}
	for i, p := range first10 {
		if (i >= 2*n/3 || version > 1) && p.Body != sent[i] {
			t.Fatalf("row %s is at the place of row %s", p.Body, sent[i])
		}
		if i < n/3 && p.SentAt.After(first10[2*n/3].SentAt) {
			t.Fatalf("row %s, which was sent before the order was noted, is not among the first", p.Body)
		}
	}
	var noted int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(seq) FROM outbox_sent`).Scan(&noted); err != nil || noted < n/3 || version == 1 && noted > 2*n/3 {
		t.Errorf("the place of %d rows was noted, %v", noted, err)
	}
	exec(t, u, b.names.sql())
	if err := b.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	fill(n+1, n+1)
	if got := bodies(t, b); got != "301" {
		t.Errorf("%q was claimed after the migration", got)
	}
}

// A standby may lack rows that were sent.
func TestStandby(t *testing.T) {
	server := pgtest.New(t)
	b := over(t, server.URL(), Config{})
	exec(t, server.URL(), "CHECKPOINT")
	server.Kill(t)
	if err := os.WriteFile(filepath.Join(server.Data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	for what, call := range map[string]func() error{
		"claim":  func() error { _, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r"}); return err },
		"renew":  func() error { _, err := b.Renew(t.Context(), "r", time.Second); return err },
		"settle": func() error { return b.Settle(t.Context(), "r", []outbox.Outcome{{ID: outbox.NewID()}}) },
		"stats":  func() error { _, err := b.Stats(t.Context()); return err },
		"parked": func() error { _, err := b.Parked(t.Context(), "", 1); return err },
		"sweep":  func() error { _, err := b.Sweep(t.Context(), 0, 1); return err },
		"look": func() error {
			_, _, err := b.Look(t.Context(), outbox.Source{From: time.Unix(1, 0), To: time.Unix(2, 0)}, 1)
			return err
		},
		"begin":  func() error { _, err := b.BeginReplay(t.Context(), outbox.Replay{}); return err },
		"stage":  func() error { _, err := b.StageReplay(t.Context(), 1); return err },
		"staged": func() error { _, err := b.Staged(t.Context(), 1, 0, 1); return err },
		"step":   func() error { _, err := b.StepReplay(t.Context(), outbox.Replay{Number: 1}, nil); return err },
		"replay": func() error { _, err := b.Replay(t.Context(), 1); return err },
		"list":   func() error { _, err := b.Replays(t.Context(), 1); return err },
	} {
		err := call()
		for n := 0; err != nil && !errors.Is(err, pgdb.ErrStandby) && n < 10; n++ { // connections of before
			err = call()
		}
		if !errors.Is(err, pgdb.ErrStandby) {
			t.Errorf("%s on a standby: %v", what, err)
		}
	}
}
