package pgoutbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/testing/pgtest"
	"tenaq/outbox"
)

// The cost of an outbox row in a transaction that writes a business row, on a server that waits for
// its disk.
func BenchmarkEnqueue(b *testing.B) {
	server := pgtest.New(b)
	exec(b, server.URL(), `CREATE TABLE jobs (id bigserial PRIMARY KEY, body text)`)
	over(b, server.URL(), Config{})
	for _, tt := range []struct {
		name     string
		messages []outbox.Message
	}{
		{"none", nil},
		{"plain", []outbox.Message{{Queue: "q", Key: "k", Body: "body"}}},
		{"stream", []outbox.Message{{Queue: "q.fifo", Key: "k", Body: "body"}}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			conn := dial(b, server.URL())
			for b.Loop() {
				err := pgx.BeginFunc(b.Context(), conn, func(tx pgx.Tx) error {
					if _, err := tx.Exec(b.Context(), `INSERT INTO jobs (body) VALUES ('body')`); err != nil {
						return err
					}
					return Enqueue(b.Context(), tx, tt.messages...)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkClaimSettle measures how many rows a second one relay claims and settles, 400 at a time,
// by the number of pending rows.
func BenchmarkClaimSettle(b *testing.B) {
	for _, pending := range []int{1000, 1_000_000} {
		for _, kind := range []string{"q", "q.fifo"} {
			b.Run(fmt.Sprint(pending, " ", kind), func(b *testing.B) {
				url := pgtest.URL(b)
				box := over(b, url, Config{})
				fill := func(n int) {
					exec(b, url, `INSERT INTO outbox (aggregatetype, aggregateid, payload)
						SELECT $1, 'key ' || n % 10000, repeat('b', 200) FROM generate_series(1, $2::int) n`, kind, n)
				}
				fill(pending)
				rows, claims := 0, time.Duration(0)
				for b.Loop() {
					began := time.Now()
					got, _, err := box.Claim(b.Context(), outbox.Claim{Relay: "r", Lease: time.Minute, Rows: 400, Bytes: 32 << 20, Stream: 100})
					claims += time.Since(began)
					if err != nil || len(got) != 400 {
						b.Fatal(len(got), err)
					}
					outcomes := make([]outbox.Outcome, len(got))
					for i, r := range got {
						outcomes[i] = outbox.Outcome{ID: r.ID, Fate: outbox.Sent, SentTo: kind, MessageID: r.ID}
					}
					if err := box.Settle(b.Context(), "r", outcomes); err != nil {
						b.Fatal(err)
					}
					rows += len(got)
					b.StopTimer()
					fill(len(got))
					b.StartTimer()
				}
				b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
				b.ReportMetric(float64(claims.Milliseconds())/float64(rows/400), "ms/claim")
			})
		}
	}
}

// How long it takes to look at a million rows that were sent, to note that they are to be sent
// again, to read a page of them, and to forget all of it.
func BenchmarkReplay(b *testing.B) {
	const n = 1_000_000
	url := pgtest.New(b).URL()
	box := over(b, url, Config{})
	exec(b, url, `SET session_replication_role = replica;
		INSERT INTO outbox (aggregatetype, aggregateid, payload) SELECT 'q.fifo', 'key ' || n % 10000, repeat('b', 200) FROM generate_series(1, `+fmt.Sprint(n)+`) n`)
	exec(b, url, `INSERT INTO outbox_sent SELECT id, clock_timestamp(), 'q.fifo', 'm', 0, nextval('outbox_seq') FROM outbox ORDER BY random()`)
	exec(b, url, `VACUUM ANALYZE`)
	source := outbox.Source{From: time.Unix(0, 0), To: time.Now().Add(time.Hour)}
	took := make(map[string]time.Duration)
	measure := func(what string, call func() error) {
		b.Helper()
		began := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took[what] += time.Since(began)
	}
	for b.Loop() {
		var r outbox.Replay
		measure("look", func() error { _, _, err := box.Look(b.Context(), source, 10); return err })
		measure("stage", func() (err error) {
			if r, err = box.BeginReplay(b.Context(), outbox.Replay{State: outbox.Preparing, Source: source}); err == nil {
				r, err = box.StageReplay(b.Context(), r.Number)
			}
			return err
		})
		measure("page", func() error { _, err := box.Staged(b.Context(), r.Number, n/2, 200); return err })
		measure("cancel", func() error { _, err := outbox.CancelReplay(b.Context(), box, r.Number, ""); return err })
		if r.Found != n {
			b.Fatalf("%d rows are staged", r.Found)
		}
	}
	for what, d := range took {
		b.ReportMetric(float64(d.Milliseconds())/float64(b.N), "ms/"+what)
	}
}
