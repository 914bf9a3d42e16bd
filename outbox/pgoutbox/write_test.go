package pgoutbox

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
)

// Rows come through package database/sql as well, thousands at once, each in a stream of its own:
// the server has no memory for so many advisory locks.
func TestEnqueueSQL(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var messages []outbox.Message
	const n = 2000
	for i := range n {
		messages = append(messages, outbox.Message{Queue: "q.fifo", Key: fmt.Sprint("key \\ ' \x01 ", i), Body: fmt.Sprint(i), Headers: map[string]string{"a\"": "é"}})
	}
	messages[7].Body = strings.Repeat("large \\u0000 ", 1<<20/12)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for range 10 { // 20,000 streams and rows in one transaction
		if err := EnqueueSQL(t.Context(), tx, messages...); err != nil {
			t.Fatal(err)
		}
		for i := range messages {
			messages[i].Key += "x"
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for len(seen) < 10*n {
		rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 5000, Bytes: 1 << 30, Stream: 10})
		if err != nil || len(rows) == 0 {
			t.Fatalf("%d of %d rows were claimed, %v", len(seen), 10*n, err)
		}
		for _, r := range rows {
			if seen[r.ID] {
				t.Fatalf("row %s was claimed twice", r.ID)
			}
			seen[r.ID] = true
			if r.Headers["a\""] != "é" || !strings.HasPrefix(r.Key, "key \\ ' \x01 ") {
				t.Fatalf("row %+v", r)
			}
		}
	}
}

// Rows that other programs write may be odder than those of Enqueue.
func TestOddRows(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	long := strings.Repeat("gé", 3000)
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload, group_id, headers, deliver_after, created_at) VALUES
		('q', 'k', 'headers', '', '{"n": 1.50, "s": "é\u0001", "b": true, "o": {"a": [1]}, "z": null}', '-infinity', 'infinity'),
		('q', 'k', 'long', $1, NULL, '0044-03-15 BC', '-infinity'), ('q', 'k', 'long', $1, NULL, NULL, '294276-12-31'),
		('q', 'k', 'never', NULL, NULL, 'infinity', now())`, long)
	rows, next, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 10, Bytes: 1 << 20, Stream: 10})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v, want 3", len(rows), err)
	}
	if next < outbox.NextMax-time.Minute {
		t.Errorf("next is %v, and the only row that is left is due never", next)
	}
	if h := rows[0].Headers; len(h) != 4 || h["n"] != "1.50" || h["s"] != "é\x01" || h["b"] != "true" || h["o"] != `{"a": [1]}` || rows[0].Stream != "" {
		t.Errorf("row %+v", rows[0])
	}
	if want := "q\x1f" + long; rows[1].Stream != want || rows[2].Stream != want {
		t.Error("a long group is not the stream of its rows")
	}
	if _, err := b.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`'[1]'`, `'null'`, `'"s"'`} {
		_, err := b.pool.Exec(t.Context(), `INSERT INTO outbox (aggregatetype, aggregateid, payload, headers) VALUES ('q', 'k', 'b', `+bad+`)`)
		fails(t, err, "outbox_headers_check")
	}
}

// Deleting a row withdraws its message, even if triggers are off.
func TestDeletedRows(t *testing.T) {
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	fill := func() {
		t.Helper()
		exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'k', 'row ' || n FROM generate_series(1, 5) n`)
	}
	fill()
	exec(t, url, `DELETE FROM outbox WHERE payload IN ('row 1', 'row 3')`)
	if got := bodies(t, b); got != "row 2 row 4 row 5" {
		t.Errorf("after two rows were deleted %q was claimed", got)
	}
	fill()
	exec(t, url, `TRUNCATE outbox`)
	if s, err := b.Stats(t.Context()); err != nil || s != (outbox.Stats{}) {
		t.Errorf("after all rows were deleted: %+v, %v", s, err)
	}
	if n, err := b.Sweep(t.Context(), 0, 10); n != 0 || err != nil {
		t.Errorf("sweep = %d, %v: what was sent is gone with its rows", n, err)
	}
	fill()
	exec(t, url, `SET session_replication_role = replica; DELETE FROM outbox WHERE payload IN ('row 1', 'row 3')`)
	if got := bodies(t, b); got != "row 2 row 4 row 5" {
		t.Errorf("after two rows were deleted without triggers %q was claimed", got)
	}
	if s, err := b.Stats(t.Context()); err != nil || s.Pending != 0 {
		t.Errorf("after all rows were sent: %+v, %v", s, err)
	}
}
