package pgoutbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/testing/pgtest"
	"tenaq/internal/testing/proof"
	"tenaq/internal/work/pgdb"
	"tenaq/outbox"
)

// effort is what one call of a function cost: pages that were looked at, and scans of whole tables.
type effort struct{ pages, wholes int }

// cost runs a call as the box does, and rolls it back if told so. Statements of a function run with
// the plans that are kept, once they have run a few times in a session.
func cost(t testing.TB, conn *pgx.Conn, keep bool, call string) effort {
	t.Helper()
	return costOf(t, conn, keep, call, "SELECT * FROM "+call)
}

// costOf is cost for any statement.
func costOf(t testing.TB, conn *pgx.Conn, keep bool, what, sql string, args ...any) effort {
	t.Helper()
	tx, err := conn.BeginTx(t.Context(), pgdb.ReadCommitted)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var text string
	args = append([]any{pgx.QueryExecModeExec}, args...)
	if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
		Time float64 `json:"Execution Time"`
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	e := effort{pages: plans[0].Plan.Hit + plans[0].Plan.Read}
	err = tx.QueryRow(t.Context(), `SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_xact_user_tables WHERE relname IN ('outbox', 'outbox_pending', 'outbox_sent', 'outbox_replay_rows')`).Scan(&e.wholes)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.40s: %d pages, %.1f ms, %d whole tables", what, e.pages, plans[0].Time, e.wholes)
	if keep {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func dial(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

// Rows that cannot be claimed now cost a claim nothing, however many they are: rows behind one that
// waits or is leased, rows of queues that are not wanted, and rows whose time has not come.
func TestClaimCost_FD3(t *testing.T) {
	n := proof.Count(20_000, 50_000, 50_000, 200_000)
	url := pgtest.URL(t)
	over(t, url, Config{})
	conn := dial(t, url)
	const claim = `outbox_claim('r', 60000000, 10, 1000000, 10, '{paused,paused.fifo}', '')`
	// The plans are made while the tables are small.
	for range 10 {
		cost(t, conn, false, claim)
	}
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'k' || n, 'b' FROM generate_series(1, 10000) n`)
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q', 'k' || n, 'b' FROM generate_series(1, 10000) n`)
	cost(t, conn, false, claim)
	alone := cost(t, conn, false, claim)

	for _, sql := range []string{
		// A stream that waits, and one that is leased.
		`INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after) VALUES ('q.fifo', 'blocked', 'b', now() + interval '1 day')`,
		`INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'blocked', 'b' FROM generate_series(1, many)`,
		`INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'a.fifo', 'leased', 'b' FROM generate_series(1, many)`,
		`UPDATE outbox_pending SET state = 'leased', relay = 'other', lease_until = now() + interval '1 day' WHERE queue = 'a.fifo'`,
		// Queues that are not wanted.
		`INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'paused', 'k', 'b' FROM generate_series(1, many / 4)`,
		`INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'paused.fifo', 'k' || n, 'b' FROM generate_series(1, many / 4) n`,
		// Rows for another day, and what is parked.
		`INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after) SELECT 'q', 'k', 'b', now() + interval '1 day' FROM generate_series(1, many / 4)`,
		`INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after) SELECT 'q.fifo', 'later' || n, 'b', now() + interval '1 day' FROM generate_series(1, many / 4) n`,
		`INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'parked.fifo', 'k', 'b' FROM generate_series(1, many / 4)`,
		`UPDATE outbox_pending SET state = 'parked', parked_at = now() WHERE queue = 'parked.fifo'`,
	} {
		exec(t, url, strings.ReplaceAll(sql, "many", fmt.Sprint(n)))
	}
	var beside effort
	for _, vacuum := range []string{"", "ANALYZE outbox_pending", "VACUUM ANALYZE outbox_pending"} {
		t.Run(fmt.Sprintf("after %q", vacuum), func(t *testing.T) {
			if vacuum != "" {
				exec(t, url, vacuum)
			}
			cost(t, conn, false, claim) // and sees to what is dead
			beside = cost(t, conn, false, claim)
			if beside.wholes > 0 {
				t.Errorf("a claim reads %d whole tables", beside.wholes)
			}
			most := 2 * alone.pages
			if !strings.HasPrefix(vacuum, "VACUUM") {
				most += n / 20 // dead entries of indexes, by the page
			}
			if beside.pages > most {
				t.Errorf("a claim looks at %d pages beside what it cannot have, and at %d without", beside.pages, alone.pages)
			}
		})
	}
	cost(t, conn, true, claim)
	for _, call := range []string{`outbox_renew('r', 60000000)`, `outbox_sweep(0, 100)`} {
		cost(t, conn, true, call)
		if e := cost(t, conn, true, call); e.wholes > 0 || e.pages > 10*alone.pages {
			t.Errorf("%s looks at %d pages and reads %d whole tables", call, e.pages, e.wholes)
		}
	}
}

// Plans that were made when the tables were empty, and known to be, do for large ones: by VACUUM
// the planner learns that there is a single row.
func TestPlansOfEmptyTables(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n /= 5
	}
	url := pgtest.URL(t)
	over(t, url, Config{})
	conn := dial(t, url)
	other := dial(t, url) // what it does is not counted
	calls := []func() string{
		func() string { return `outbox_claim('r', 60000000, 10, 1000000, 10, '{}', '')` },
		func() string { return `outbox_renew('r', 60000000)` },
		func() string {
			var ids string
			var n int
			err := other.QueryRow(t.Context(), `SELECT coalesce(array_agg(id), '{}')::text, count(*) FROM outbox_pending WHERE relay = 'r'`).Scan(&ids, &n)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf(`outbox_settle('r', '%s', array_fill(0, ARRAY[%[2]d]), array_fill(0::bigint, ARRAY[%[2]d]), array_fill(''::text, ARRAY[%[2]d]),
				array_fill(''::text, ARRAY[%[2]d]), array_fill(''::text, ARRAY[%[2]d]))`, ids, n)
		},
		func() string { return `outbox_sweep(0, 10)` },
	}
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q', 'k', 'b' FROM generate_series(1, 1000) n`)
	exec(t, url, `DELETE FROM outbox`)
	exec(t, url, `VACUUM ANALYZE`)
	for range 8 {
		for _, call := range calls {
			cost(t, conn, true, call())
		}
	}
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q', 'k' || n, 'b' FROM generate_series(1, `+fmt.Sprint(n)+`) n`)
	exec(t, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'k' || n, 'b' FROM generate_series(1, `+fmt.Sprint(n)+`) n`)
	for _, call := range calls {
		sql := call()
		if e := cost(t, conn, true, sql); e.wholes > 0 || e.pages > 4000 {
			t.Errorf("%s looks at %d pages and reads %d whole tables of %d rows", sql, e.pages, e.wholes, 2*n)
		}
	}
}

// A look at a short time does not read all that was sent, nor does a page of a replay all that is
// staged, whatever is known about the tables.
func TestHistoryCost(t *testing.T) {
	n := proof.Count(20_000, 100_000, 100_000, 200_000)
	url := pgtest.URL(t)
	b := over(t, url, Config{})
	conn := dial(t, url)
	exec(t, url, `INSERT INTO outbox_replay_rows (number, place) VALUES (1, 1)`)
	exec(t, url, `DELETE FROM outbox_replay_rows`)
	exec(t, url, `VACUUM ANALYZE`)
	for range 8 { // the plan is made while there is nothing, and that is known
		cost(t, conn, false, `outbox_staged(1, 0, 200)`)
	}
	exec(t, url, `INSERT INTO outbox (id, aggregatetype, aggregateid, payload) SELECT md5(n::text)::uuid, 'q' || n % 10, 'k', repeat('b', 500) FROM generate_series(1, $1::int) n`, n)
	exec(t, url, `INSERT INTO outbox_sent SELECT id, '2026-01-01Z'::timestamptz + seq * interval '1 second', queue, 'm', 0, seq FROM outbox_pending`)
	exec(t, url, `DELETE FROM outbox_pending`)
	exec(t, url, `INSERT INTO outbox_replay_rows (number, place) SELECT 1, n FROM generate_series(1, 10) n`)
	exec(t, url, `ANALYZE outbox_replay_rows`)
	exec(t, url, `INSERT INTO outbox_replay_rows (number, place, id) SELECT 2, row_number() OVER (), id FROM outbox`)
	begin := time.Date(2026, 1, 1, 0, 0, n/2, 0, time.UTC)
	for _, analyze := range []string{"", "ANALYZE", "VACUUM ANALYZE"} {
		t.Run(fmt.Sprintf("after %q", analyze), func(t *testing.T) {
			if analyze != "" {
				exec(t, url, analyze)
			}
			for _, where := range []string{"", "payload LIKE 'b%' AND sent_to = 'q1'"} {
				s := b.selection(&outbox.Source{From: begin, To: begin.Add(100 * time.Second), Queues: []string{"q1", "q2", "q3"}, Where: where})
				if e := costOf(t, conn, false, "look", s.look, append(s.args, int64(5))...); e.wholes > 0 || e.pages > 2000 {
					t.Errorf("a look is at %d pages and reads %d whole tables, for 100 of %d rows", e.pages, e.wholes, n)
				}
				e := costOf(t, conn, false, "stage", s.stage, append(s.args, int64(3))...)
				if e.wholes > 0 || e.pages > 2500 {
					t.Errorf("to stage looks at %d pages and reads %d whole tables, for 100 of %d rows", e.pages, e.wholes, n)
				}
			}
			for _, place := range []int{0, n / 2, n - 1} {
				cost(t, conn, false, fmt.Sprintf(`outbox_staged(2, %d, 200)`, place))
				if e := cost(t, conn, false, fmt.Sprintf(`outbox_staged(2, %d, 200)`, place)); e.wholes > 0 || e.pages > 2000 {
					t.Errorf("a page of 200 rows behind place %d looks at %d pages and reads %d whole tables of %d rows", place, e.pages, e.wholes, n)
				}
			}
		})
	}
}
