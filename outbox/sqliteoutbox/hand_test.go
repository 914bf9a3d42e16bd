package sqliteoutbox

import (
	"database/sql"
	"maps"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tenaq/outbox"
)

// run runs SQL as another program would, in a transaction each.
func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// claimed are the bodies of what a relay gets, those of a stream in order.
func claimed(t *testing.T, b *Box, relay string) (rows []outbox.Row, bodies string) {
	t.Helper()
	rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: relay, Lease: time.Hour, Rows: 1000, Bytes: 1 << 30, Stream: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		bodies += " " + r.Body
	}
	return rows, strings.TrimSpace(bodies)
}

func settle(t *testing.T, b *Box, relay string, fate outbox.Fate, rows ...outbox.Row) {
	t.Helper()
	var outcomes []outbox.Outcome
	for _, r := range rows {
		outcomes = append(outcomes, outbox.Outcome{ID: r.ID, Fate: fate})
	}
	if err := b.Settle(t.Context(), relay, outcomes); err != nil {
		t.Fatal(err)
	}
}

// An INSERT with the fewest columns is a message, and one with all is a whole one.
func TestInsertByHand(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	before := time.Now().Add(-2 * time.Millisecond)
	run(t, db, `INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('mails', 17, 42.5)`)
	rows, _ := claimed(t, b, "r")
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	got := rows[0]
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	if got.CreatedAt.Before(before) || got.CreatedAt.After(time.Now()) {
		t.Errorf("written at %v, want now", got.CreatedAt)
	}
	want := outbox.Message{ID: got.ID, Queue: "mails", Key: "17", Body: "42.5"}
	if got.Key != want.Key || got.Body != want.Body || got.Type != "" || got.Group != "" || got.Dedup != "" || got.Headers != nil || !got.After.IsZero() {
		t.Errorf("the message is %+v, want %+v", got.Message, want)
	}

	run(t, db, `INSERT INTO outbox (aggregatetype, aggregateid, payload, created_at) VALUES ('m', 'k', 'b', 'some day'), ('m', 'k', 'c', NULL), ('m', 'k', 'd', CURRENT_TIMESTAMP)`,
		`INSERT INTO outbox (aggregatetype, aggregateid, payload, headers, group_id, generation, created_at)
		VALUES ('m', 'k', 'e', '{"n": 1.50, "s": "é", "t": true, "l": [1, 2]}', '', '7', '2026-01-02 03:04:05+01:00')`)
	rows, bodies := claimed(t, b, "r")
	if bodies != "b c d e" || !rows[0].CreatedAt.IsZero() || !rows[1].CreatedAt.IsZero() || rows[2].CreatedAt.Before(before.Add(-time.Second)) ||
		rows[3].Stream != "" || rows[3].Generation != 7 || rows[3].CreatedAt.Unix() != 1767319445 ||
		!maps.Equal(rows[3].Headers, map[string]string{"n": "1.50", "s": "é", "t": "true", "l": "[1, 2]"}) {
		t.Errorf("the rows are %+v", rows)
	}
}

// A time may be written in any way that SQLite reads.
func TestDeliverAfterByHand(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	for name, tt := range map[string]struct {
		sql string
		due bool
	}{
		"current":      {`CURRENT_TIMESTAMP`, true},
		"datetime":     {`datetime('now', '+1 hour')`, false},
		"datetimeAgo":  {`datetime('now', '-1 second')`, true},
		"iso":          {`strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 hour')`, false},
		"isoAgo":       {`strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 second')`, true},
		"zone":         {`strftime('%Y-%m-%dT%H:%M:%S', 'now') || '-01:00'`, false}, // in an hour
		"zoneAgo":      {`strftime('%Y-%m-%dT%H:%M:%S', 'now') || '+01:00'`, true},
		"date":         {`date('now', '+2 days')`, false},
		"julian":       {`julianday('now', '+1 hour')`, false},
		"micros":       {`strftime('%Y-%m-%dT%H:%M:%S', 'now', '+1 hour') || '.123456Z'`, false},
		"yesterday":    {`date('now', '-1 day')`, true},
		"null":         {`NULL`, true},
		"millennia":    {`'9999-12-31'`, false},
		"before_epoch": {`'1969-01-01'`, true},
	} {
		run(t, db, `INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after) VALUES ('m', '`+name+`', '`+name+`', `+tt.sql+`)`)
		_, bodies := claimed(t, b, "r")
		if got := bodies == name; got != tt.due {
			t.Errorf("deliver_after = %s is due: %v, want %v", tt.sql, got, tt.due)
		}
	}
	var early int
	err := db.QueryRow(`SELECT count(*) FROM outbox_pending JOIN outbox USING (id) WHERE relay IS NULL AND aggregateid <> 'millennia'
		AND due NOT BETWEEN (julianday('now') - 2440587.5) * 86400000 + 3500000 AND (julianday('now') - 2440587.5) * 86400000 + 172800000`).Scan(&early)
	if err != nil || early != 0 {
		t.Errorf("%d of those that are not due are due at another time than written, %v", early, err)
	}
}

// A row that no relay could send is refused when it is written, with the reason.
func TestRefusedByHand(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	const id = "'018f0000-0000-7000-8000-000000000001'"
	run(t, db, `INSERT INTO outbox (id, aggregatetype, aggregateid, payload) VALUES (`+id+`, 'm.fifo', 'k', 'first')`)
	for _, tt := range []struct{ statement, want string }{
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after) VALUES ('m', 'k', 'b', 'tomorrow')`, "deliver_after is a time, as 2006-01-02T15:04:05Z"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after) VALUES ('m', 'k', 'b', 1763724000)`, "deliver_after is a time, as 2006-01-02T15:04:05Z"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after) VALUES ('m', 'k', 'b', '')`, "deliver_after is a time, as 2006-01-02T15:04:05Z"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload, headers) VALUES ('m', 'k', 'b', 'a=b')`, "headers are a JSON object"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload, headers) VALUES ('m', 'k', 'b', '["a"]')`, "headers are a JSON object"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('', 'k', 'b')`, "aggregatetype names a queue"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('m', 'k', '')`, "payload is text, and not empty"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('m', 'k', x'00ff')`, "payload is text, and not empty"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload) VALUES ('m', NULL, 'b')`, "NOT NULL constraint failed: outbox.aggregateid"},
		{`INSERT INTO outbox (aggregatetype, aggregateid, payload, generation) VALUES ('m', 'k', 'b', 'x')`, "generation is a number"},
		{`INSERT INTO outbox (id, aggregatetype, aggregateid, payload) VALUES ('17', 'm', 'k', 'b')`, "id is a UUID"},
		{`INSERT INTO outbox (id, aggregatetype, aggregateid, payload) VALUES ('018f0000-0000-7000-8000-00000000000g', 'm', 'k', 'b')`, "id is a UUID"},
		{`INSERT INTO outbox (id, aggregatetype, aggregateid, payload) VALUES (x'018f', 'm', 'k', 'b')`, "id is a UUID"},
		{`INSERT INTO outbox (id, aggregatetype, aggregateid, payload) VALUES (` + id + `, 'm', 'k', 'b')`, "UNIQUE constraint failed: outbox.id"},
		{`UPDATE outbox SET aggregatetype = 'other'`, "where a row goes, and when, cannot be changed"},
		{`UPDATE outbox SET group_id = 'g'`, "where a row goes, and when, cannot be changed"},
		{`UPDATE outbox SET deliver_after = '2100-01-01'`, "where a row goes, and when, cannot be changed"},
	} {
		if _, err := db.Exec(tt.statement); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.statement, err, tt.want)
		}
	}
	run(t, db, `UPDATE outbox SET payload = 'mended', headers = '{"a": "b"}', aggregatetype = aggregatetype`)
	if rows, bodies := claimed(t, b, "r"); bodies != "mended" || rows[0].Headers["a"] != "b" {
		t.Errorf("%q was claimed, want the one that was written, as it was mended", bodies)
	}
}

// Streams stay whole, no matter what else a program does to the table.
func TestOtherStatements(t *testing.T) {
	path := newFile(t)
	db, b := connect(t, path), open(t, path)
	db.SetMaxOpenConns(1)
	id := func(n string) string { return "'018f0000-0000-7000-8000-00000000000" + n + "'" }
	row := func(n string) string { return "(" + id(n) + ", 'q.fifo', 'k', 'b" + n + "')" }
	into := " INTO outbox (id, aggregatetype, aggregateid, payload) VALUES "
	run(t, db,
		"INSERT"+into+row("1")+", "+row("2")+", "+row("3"),
		"INSERT OR IGNORE"+into+row("1")+", "+row("4"),
		"INSERT"+into+row("2")+" ON CONFLICT DO NOTHING",
		"INSERT"+into+row("3")+" ON CONFLICT (id) DO UPDATE SET payload = 'b3b'",
	)
	replaced := func(n string) {
		t.Helper()
		if _, err := db.Exec("REPLACE" + into + row(n)); err == nil || !strings.Contains(err.Error(), "constraint failed") && !strings.Contains(err.Error(), "cannot be replaced") {
			t.Errorf("row %s was replaced: %v", n, err)
		}
	}
	replaced("1")
	replaced("3")
	rows, bodies := claimed(t, b, "r")
	if bodies != "b1 b2 b3b b4" {
		t.Fatalf("%q was claimed, want b1 b2 b3b b4", bodies)
	}
	settle(t, b, "r", outbox.Back, rows...)
	run(t, db, "DELETE FROM outbox WHERE payload = 'b3b'", "DELETE FROM outbox WHERE id = "+id("2"))
	rows, bodies = claimed(t, b, "r")
	if bodies != "b1 b4" {
		t.Fatalf("%q was claimed, want b1 b4", bodies)
	}
	settle(t, b, "r", outbox.Sent, rows[0])
	settle(t, b, "r", outbox.Back, rows[1])
	run(t, db, "DELETE FROM outbox WHERE id = "+id("1")) // which was sent
	run(t, db, "INSERT"+into+row("1"))
	rows, bodies = claimed(t, b, "r")
	if bodies != "b4 b1" {
		t.Fatalf("%q was claimed, want b4 b1", bodies)
	}
	settle(t, b, "r", outbox.Sent, rows[1])
	replaced("1")
	settle(t, b, "r", outbox.Parked, rows[0])
	run(t, db, "INSERT"+into+row("5")+", "+row("6"), "DELETE FROM outbox WHERE id = "+id("4"))
	if _, bodies = claimed(t, b, "r"); bodies != "b5 b6" {
		t.Fatalf("%q was claimed, want b5 b6", bodies)
	}
	// With this pragma REPLACE deletes and inserts, and that is what it does to the stream.
	run(t, db, "PRAGMA recursive_triggers = ON", "INSERT"+into+row("7")+", "+row("8"), "REPLACE"+into+row("5"))
	if _, bodies = claimed(t, b, "r"); bodies != "" {
		t.Fatalf("%q was claimed behind a row in hand", bodies)
	}
	run(t, db, "DELETE FROM outbox WHERE id = "+id("6"))
	if _, bodies = claimed(t, b, "r"); bodies != "b7 b8 b5" {
		t.Fatalf("%q was claimed, want b7 b8 b5", bodies)
	}
	run(t, db, "DELETE FROM outbox")
	for _, table := range []string{"outbox_pending", "outbox_sent"} {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s has %d rows after all were deleted, %v", table, n, err)
		}
	}
}

// Programs in other languages have SQLites of their own. The triggers run in these.
func TestOtherLanguages(t *testing.T) {
	const insert = `INSERT INTO outbox (aggregatetype, aggregateid, payload, headers, deliver_after) VALUES ('orders.fifo', 'k', '%s', '{"a": "é"}', CURRENT_TIMESTAMP)`
	for name, args := range map[string][]string{
		"sqlite3": {"PATH", "BEGIN; " + strings.ReplaceAll(insert, "%s", "one") + "; ROLLBACK; " + strings.ReplaceAll(insert, "%s", "two") + ";"},
		"python3": {"-c", `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("""` + strings.ReplaceAll(insert, "%s", "one") + `""")
db.rollback()
db.execute("""` + strings.ReplaceAll(insert, "%s", "two") + `""")
db.commit()
`, "PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skip(err)
			}
			path := newFile(t)
			for i, arg := range args {
				if arg == "PATH" {
					args[i] = path
				}
			}
			if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			rows, bodies := claimed(t, open(t, path), "r")
			if bodies != "two" || rows[0].Headers["a"] != "é" || rows[0].Stream == "" {
				t.Errorf("the rows are %+v, want the one that was committed", rows)
			}
		})
	}
}
