package sqliteoutbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/outbox"
)

// fill writes n rows, by a function of their number.
func fill(t testing.TB, path string, n int, queue, key string) {
	t.Helper()
	_, err := connect(t, path).Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT ?2, `+key+`, 'body ' || i FROM n`, n, queue)
	if err != nil {
		t.Fatal(err)
	}
}

// No statement except that of Stats reads all rows: each uses an index.
func TestPlans(t *testing.T) {
	path := newFile(t)
	b := open(t, path)
	fill(t, path, 1000, "q.fifo", "i % 10")
	fill(t, path, 1000, "mails", "i")
	for name, statement := range map[string]string{
		"lease": lease, "unlease": unlease, "queues": queues, "ended": ended, "soonest": soonest, "dueHeads": dueHeads,
		"followers": followers, "content": content, "renew": renew, "settleSent": settleSent, "settleGone": settleGone,
		"settleAgain": settleAgain, "settleParked": settleParked, "oldSent": oldSent, "parkedPlace": parkedPlace,
		"parkedRows": parkedRows, "parkedAmong": parkedAmong, "remove": remove, "renewed": renewed, "discard": discard,
		"oneReplay": oneReplay, "insertNew": insertNew, "stagedPlaces": stagedPlaces, "messagesOf": messagesOf,
		"beginStaging": beginStaging, "stillStaging": stillStaging, "unstage": unstage, "untidy": untidy,
		"sweep": `DELETE FROM {{table}} WHERE id IN (SELECT value FROM json_each(?))`,
		// These run in triggers, which EXPLAIN does not show.
		"first of its stream": `SELECT NOT EXISTS (SELECT 1 FROM {{pending}} AS p WHERE p.stream = ? AND p.parked_at IS NULL)`,
		"the next head": `UPDATE {{pending}} SET head = 1
			WHERE seq = (SELECT seq FROM {{pending}} WHERE stream = ? AND parked_at IS NULL ORDER BY seq LIMIT 1)`,
	} {
		args := slices.Repeat([]any{nil}, strings.Count(statement, "?"))
		for i := 4; i > 0; i-- {
			if strings.Contains(statement, fmt.Sprint("?", i)) {
				args = args[:i]
				break
			}
		}
		rows, err := b.db.Query("EXPLAIN QUERY PLAN "+b.sql(statement), args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		rows.Close()
		if len(plan) == 0 {
			t.Errorf("%s has no plan", name)
		}
		for _, step := range plan {
			whole := strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "VIRTUAL TABLE") &&
				!strings.HasPrefix(step, "SCAN CONSTANT ROW") && step != "SCAN q"
			// Sorting is for a few rows in hand; the rest comes in the order of an index.
			sorts := strings.Contains(step, "TEMP B-TREE") && !slices.Contains([]string{"content", "parkedAmong", "insertNew"}, name)
			if whole || sorts {
				t.Errorf("%s: %s\nin\n%s", name, step, strings.Join(plan, "\n"))
			}
		}
	}
}

// A stream whose first row waits does not hold up a claim, however long it is, and neither do rows
// of a queue that is not wanted.
func TestLongStream(t *testing.T) {
	path := newFile(t)
	b := open(t, path)
	fill(t, path, 3_000, "hot.fifo", "'k'")
	fill(t, path, 3_000, "unwanted", "i")
	claim := outbox.Claim{Relay: "r", Lease: time.Hour, Rows: 10, Bytes: 1 << 20, Stream: 10, Except: []string{"unwanted"}}
	rows, _, err := b.Claim(t.Context(), claim)
	if err != nil || len(rows) != 10 || rows[0].Body != "body 1" || rows[9].Body != "body 10" {
		t.Fatalf("%d rows of a stream, %v, want the first ten", len(rows), err)
	}
	fill(t, path, 5, "mails", "i")
	if rows, _, err = b.Claim(t.Context(), claim); err != nil || len(rows) != 5 {
		t.Fatalf("%d rows, %v, want the five mails", len(rows), err)
	}
	if rows, next, err := b.Claim(t.Context(), claim); err != nil || len(rows) != 0 || next != outbox.NextMax {
		t.Fatalf("%d rows, next in %v, %v, want none, never", len(rows), next, err)
	}
	s, err := b.Stats(t.Context())
	if err != nil || s.Pending != 6_005 || s.Due != 6_005 {
		t.Errorf("stats are %+v, %v", s, err)
	}
}

// Queues share the size of a claim, so that a large queue does not delay a small one.
func TestQueuesTakeTurns(t *testing.T) {
	path := newFile(t)
	b := open(t, path)
	fill(t, path, 500, "large", "i")
	fill(t, path, 500, "larger.fifo", "i")
	fill(t, path, 3, "small", "i")
	rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Hour, Rows: 100, Bytes: 1 << 20, Stream: 10})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, r := range rows {
		got[r.Queue]++
	}
	if len(rows) != 100 || got["small"] != 3 || got["large"] < 40 || got["larger.fifo"] < 40 {
		t.Errorf("%d rows: %v, want 100, 3 small ones among them, and the others half and half", len(rows), got)
	}
}

// So do streams, and a long one gets what the short ones leave.
func TestStreamsTakeTurns(t *testing.T) {
	path := newFile(t)
	b := open(t, path)
	fill(t, path, 1000, "q.fifo", "'long'")
	fill(t, path, 30, "q.fifo", "i % 15")
	rows, _, err := b.Claim(t.Context(), outbox.Claim{Relay: "r", Lease: time.Hour, Rows: 100, Bytes: 1 << 20, Stream: 70})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, r := range rows {
		got[r.Key]++
	}
	if len(rows) != 100 || len(got) != 16 || got["long"] != 70 || got["7"] != 2 {
		t.Errorf("%d rows: %v, want 100, 70 of the long stream and both of each other", len(rows), got)
	}
}
