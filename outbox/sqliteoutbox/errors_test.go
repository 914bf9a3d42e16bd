package sqliteoutbox

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/outbox"
)

// says checks that an error has words that help, in one line.
func says(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v\nwant an error with %q", what, err, want)
	}
}

// calls are all calls of a Box that look at its tables.
func calls(ctx context.Context, b outbox.Box) map[string]error {
	errs := make(map[string]error)
	_, _, errs["claim"] = b.Claim(ctx, outbox.Claim{Relay: "r", Rows: 1, Bytes: 1})
	_, errs["renew"] = b.Renew(ctx, "r", time.Second)
	errs["settle"] = b.Settle(ctx, "r", []outbox.Outcome{{ID: "x"}})
	errs["wait"] = b.Wait(ctx, time.Millisecond)
	_, errs["stats"] = b.Stats(ctx)
	_, errs["sweep"] = b.Sweep(ctx, 0, 1)
	_, errs["parked"] = b.Parked(ctx, "", 1)
	_, errs["release"] = b.Release(ctx, "x")
	_, errs["discard"] = b.Discard(ctx, "x")

	h := b.(outbox.History)
	source := outbox.Source{From: time.Unix(1, 0), To: time.Unix(2, 0)}
	_, _, errs["look"] = h.Look(ctx, source, 1)
	r, err := h.BeginReplay(ctx, outbox.Replay{State: outbox.Preparing, Source: source})
	errs["begin"] = err
	_, errs["stage"] = h.StageReplay(ctx, r.Number)
	_, errs["staged"] = h.Staged(ctx, r.Number, 0, 1)
	r, errs["replay"] = h.Replay(ctx, r.Number)
	_, errs["step"] = h.StepReplay(ctx, r, nil)
	_, errs["replays"] = h.Replays(ctx, 1)
	return errs
}

// Missing tables, and those of another version, have errors of their own.
func TestSchemaMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "business.db")
	db := connect(t, path)
	run(t, db, "CREATE TABLE customers (name TEXT)")
	b := open(t, path)
	for name, err := range calls(t.Context(), b) {
		if !errors.Is(err, outbox.ErrSchema) {
			t.Errorf("%s without tables: %v", name, err)
		}
	}
	if err := write(t.Context(), db, true, outbox.Message{Queue: "q", Body: "b"}); err == nil {
		t.Error("a message was written without a table")
	}
	for range 2 {
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range calls(t.Context(), b) {
		if err != nil {
			t.Errorf("%s after Migrate: %v", name, err)
		}
	}

	run(t, db, "UPDATE outbox_meta SET schema = 99")
	newer := open(t, path)
	for name, err := range calls(t.Context(), newer) {
		if !errors.Is(err, outbox.ErrSchema) {
			t.Errorf("%s with newer tables: %v", name, err)
		}
	}
	says(t, "migrate newer tables", newer.Migrate(t.Context()), "run a newer version of the program")
}

// Concurrent migrations all succeed, and Schema does the same as they do.
func TestMigrateTogether(t *testing.T) {
	dir := t.TempDir()
	all := func(db *sql.DB) (s string) {
		if err := db.QueryRow("SELECT group_concat(sql, x'0a') FROM (SELECT sql FROM sqlite_master ORDER BY name)").Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	one := connect(t, filepath.Join(dir, "one.db"))
	run(t, one, "CREATE TABLE customers (name TEXT)")
	var group sync.WaitGroup
	for range 8 {
		b := open(t, filepath.Join(dir, "one.db"))
		group.Go(func() {
			if err := b.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	two := connect(t, filepath.Join(dir, "two.db"))
	b, err := New(Config{DB: two})
	if err != nil {
		t.Fatal(err)
	}
	run(t, two, "CREATE TABLE customers (name TEXT)", b.names.Replace(schemaSQL), b.names.Replace(schemaSQL))
	if got, want := all(two), all(one); got != want {
		t.Errorf("Schema makes\n%s\nand Migrate\n%s", got, want)
	}
}

// Two outboxes in one database do not know each other.
func TestTable(t *testing.T) {
	path := newFile(t)
	db, first := connect(t, path), open(t, path)
	second, err := New(Config{DB: db, Table: "Other_2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	trace := func(context.Context) map[string]string { return map[string]string{"traceparent": "00-1"} }
	if err := (Writer{Table: "Other_2", Trace: trace}).Enqueue(t.Context(), tx, outbox.Message{Queue: "q", Body: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, bodies := claimed(t, first, "r"); bodies != "" {
		t.Errorf("the first outbox has %q", bodies)
	}
	if rows, bodies := claimed(t, second, "r"); bodies != "b" || rows[0].Headers["traceparent"] != "00-1" {
		t.Errorf("the second outbox has %+v", rows)
	}
	for table, want := range map[string]string{
		"other.outbox": "must be in the main one",
		"out box":      "cannot be the table of an outbox",
		`o"; DROP`:     "cannot be the table of an outbox",
	} {
		_, err := New(Config{DB: db, Table: table})
		says(t, table, err, want)
		says(t, table, Writer{Table: table}.Enqueue(t.Context(), nil, outbox.Message{Queue: "q", Body: "b"}), want)
	}
}

// A file that cannot be opened is not changed.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("this is no database\n", 500)), 0o666); err != nil {
		t.Fatal(err)
	}
	both, err := New(Config{Path: garbage, DB: connect(t, garbage)})
	says(t, "both", err, "both DB and Path")
	if err == nil {
		both.Close()
	}
	for path, want := range map[string]string{
		"":                              "neither DB nor Path",
		filepath.Join(dir, "missing"):   "there is no such file; name the database to which the program writes",
		filepath.Join(dir, "a", "b.db"): "there is no such file",
		dir:                             "check that the file and its directory exist",
		garbage:                         "this is not a SQLite database, or a damaged one",
	} {
		b, err := New(Config{Path: path})
		says(t, path, err, want)
		if err == nil {
			b.Close()
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing")); err == nil {
		t.Error("Open has made a file")
	}
}

// On a full disk a message is not written, nothing is lost, and all continues when there is room.
func TestFull(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	for _, pool := range []*sql.DB{db, b.db} {
		pool.SetMaxOpenConns(1)
	}
	if err := write(t.Context(), db, true, outbox.Message{Queue: "q", Body: "before"}); err != nil {
		t.Fatal(err)
	}
	limit := func(pages string) {
		run(t, db, "PRAGMA max_page_count = "+pages)
		run(t, b.db, "PRAGMA max_page_count = "+pages)
	}
	limit("10") // fewer than there are, so no more
	large := outbox.Message{Queue: "q", Body: strings.Repeat("large", 100_000)}
	says(t, "a large message", write(t.Context(), db, true, large), "database or disk is full")
	rows, bodies := claimed(t, b, "r")
	if bodies != "before" {
		t.Errorf("%q was claimed on a full disk, want what was there", bodies)
	}
	settle(t, b, "r", outbox.Back, rows...)
	reason := strings.Repeat("reason", 50_000)
	err := b.Settle(t.Context(), "r", nil)
	if err != nil {
		t.Error(err)
	}
	rows, _ = claimed(t, b, "r")
	err = b.Settle(t.Context(), "r", []outbox.Outcome{{ID: rows[0].ID, Fate: outbox.Parked, Reason: reason}})
	says(t, "settle on a full disk", err, "the disk is full; free some space, no restart is needed")
	limit("10000")
	if err := b.Settle(t.Context(), "r", []outbox.Outcome{{ID: rows[0].ID, Fate: outbox.Parked, Reason: reason}}); err != nil {
		t.Error(err)
	}
	if err := write(t.Context(), db, true, large); err != nil {
		t.Error(err)
	}
	if rows, _ := claimed(t, b, "r"); len(rows) != 1 || len(rows[0].Body) != len(large.Body) {
		t.Errorf("%d rows were claimed, want the large one", len(rows))
	}
}

// A file that may only be read says so.
func TestReadOnly(t *testing.T) {
	path := newFile(t)
	if err := write(t.Context(), connect(t, path), true, outbox.Message{Queue: "q", Body: "b"}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b, err := New(Config{DB: db, Wait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = b.Claim(t.Context(), outbox.Claim{Relay: "r", Rows: 1, Bytes: 1, Stream: 1, Lease: time.Minute})
	says(t, "claim", err, "claim rows in the outbox outbox: ")
	says(t, "claim", err, "let this user write the file and its directory")
	if s, err := b.Stats(t.Context()); err != nil || s.Pending != 1 {
		t.Errorf("stats are %+v, %v", s, err)
	}
}

// A writer that never ends is waited for as long as Config.Wait, or as the context says.
func TestBusy(t *testing.T) {
	path := newFile(t)
	hog := connect(t, path)
	if err := write(t.Context(), hog, true, outbox.Message{Queue: "q", Body: "b"}); err != nil {
		t.Fatal(err)
	}
	tx, err := hog.Begin()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path) // without a busy timeout
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	claim := outbox.Claim{Relay: "r", Rows: 1, Bytes: 1, Stream: 1, Lease: time.Minute}
	for _, pool := range []*sql.DB{db, connect(t, path)} {
		b, err := New(Config{DB: pool, Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if _, _, err = b.Claim(ctx, claim); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("claim with a deadline while another writes: %v", err)
		}
		cancel()
		if s, err := b.Stats(t.Context()); err != nil || s.Pending != 1 {
			t.Errorf("stats while another writes are %+v, %v", s, err)
		}
	}
	b, err := New(Config{DB: db, Wait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = b.Claim(t.Context(), claim)
	says(t, "claim", err, "another process has been writing for too long")
	patient, err := New(Config{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(30*time.Millisecond, func() { _ = tx.Rollback() })
	if rows, _, err := patient.Claim(t.Context(), claim); err != nil || len(rows) != 1 {
		t.Errorf("claim by one who waits: %d rows, %v", len(rows), err)
	}
}

// One connection is enough, as for a database in memory.
func TestOneConnection(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	b, err := New(Config{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := b.Wait(t.Context(), 20*time.Second); err != nil {
			t.Error(err)
		}
	})
	if err := write(t.Context(), db, true, outbox.Message{Queue: "q.fifo", Key: "k", Body: "b"}); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	rows, bodies := claimed(t, b, "r")
	if bodies != "b" {
		t.Fatalf("%q was claimed, want b", bodies)
	}
	settle(t, b, "r", outbox.Sent, rows...)
	for name, err := range calls(t.Context(), b) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
