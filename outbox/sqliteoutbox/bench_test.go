package sqliteoutbox

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"tenaq/outbox"
)

// The cost of a message beside its business row, with and without an fsync for each commit.
func BenchmarkEnqueue(b *testing.B) {
	for _, sync := range []string{"NORMAL", "FULL"} {
		for _, messages := range []int{0, 1, 10} {
			b.Run(fmt.Sprintf("sync=%s/messages=%d", sync, messages), func(b *testing.B) {
				path := newFile(b)
				db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous("+sync+")&_txlock=immediate")
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				if _, err := db.Exec("CREATE TABLE orders (n INTEGER PRIMARY KEY, name TEXT, status TEXT)"); err != nil {
					b.Fatal(err)
				}
				batch := make([]outbox.Message, messages)
				i := 0
				for b.Loop() {
					i++
					tx, err := db.Begin()
					if err != nil {
						b.Fatal(err)
					}
					if _, err := tx.Exec("INSERT INTO orders (name, status) VALUES (?, 'pending')", i); err != nil {
						b.Fatal(err)
					}
					for j := range batch {
						batch[j] = outbox.Message{Queue: "orders.fifo", Key: fmt.Sprint(i % 1000), Type: "order_placed", Body: `{"order": 17, "status": "pending"}`}
					}
					if err := Enqueue(b.Context(), tx, batch...); err != nil {
						b.Fatal(err)
					}
					if err := tx.Commit(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// Claims and settlements of 100 rows, with few and with many that wait, and behind a stream that
// cannot continue. Rows are written again, outside of the measured time, as they are sent.
func BenchmarkClaimSettle(b *testing.B) {
	for _, pending := range []int{1000, 1_000_000} {
		for _, shape := range []struct{ name, queue, key string }{
			{"plain", "mails", "'k'"},
			{"streams", "orders.fifo", "i % 500"},
			{"blocked", "blocked.fifo", "'k'"},
		} {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, shape.name), func(b *testing.B) {
				path := newFile(b)
				box := open(b, path)
				fill(b, path, pending, shape.queue, shape.key)
				claim := outbox.Claim{Relay: "r", Lease: time.Hour, Rows: 100, Bytes: 1 << 20, Stream: 100}
				queue := shape.queue
				if shape.name == "blocked" {
					rows, _, err := box.Claim(b.Context(), outbox.Claim{Relay: "other", Lease: time.Hour, Rows: 1, Bytes: 1, Stream: 1})
					if err != nil || len(rows) != 1 {
						b.Fatal(len(rows), err)
					}
					queue = "mails"
					fill(b, path, 1000, queue, "i")
				}
				for b.Loop() {
					rows, _, err := box.Claim(b.Context(), claim)
					if err != nil || len(rows) != 100 {
						b.Fatal(len(rows), err)
					}
					outcomes := make([]outbox.Outcome, len(rows))
					for i, r := range rows {
						outcomes[i] = outbox.Outcome{ID: r.ID, Fate: outbox.Sent, SentTo: "q", MessageID: "m"}
					}
					if err := box.Settle(b.Context(), "r", outcomes); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					fill(b, path, 100, queue, shape.key)
					b.StartTimer()
				}
			})
		}
	}
}

// A relay that has nothing to do looks at one number, up to twenty times a second.
func BenchmarkWaitLook(b *testing.B) {
	path := newFile(b)
	box := open(b, path)
	fill(b, path, 1000, "mails", "'k'")
	for b.Loop() {
		if _, err := box.newest(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStats(b *testing.B) {
	for _, pending := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint("pending=", pending), func(b *testing.B) {
			path := newFile(b)
			box := open(b, path)
			fill(b, path, pending, "orders.fifo", "i % 500")
			for b.Loop() {
				if _, err := box.Stats(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The time to stage and end a replay, and the longest that other writers have to wait for it.
func BenchmarkStage(b *testing.B) {
	for _, rows := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			path := newFile(b)
			box, db := open(b, path), connect(b, path)
			fillSent(b, db, rows)
			ctx, cancel := context.WithCancel(b.Context())
			longest, ended := time.Duration(0), make(chan error, 1)
			go func() {
				for ctx.Err() == nil {
					began := time.Now()
					if _, err := db.Exec("UPDATE outbox_meta SET schema = schema"); err != nil {
						ended <- err
						return
					}
					longest = max(longest, time.Since(began))
					time.Sleep(5 * time.Millisecond)
				}
				ended <- nil
			}()
			var staging, ending time.Duration
			for b.Loop() {
				r := begin(b, box, everything)
				began := time.Now()
				r, err := box.StageReplay(b.Context(), r.Number)
				if err != nil || r.Found != rows {
					b.Fatal(r, err)
				}
				staging += time.Since(began)
				began = time.Now()
				r.State = outbox.Done
				if _, err := box.StepReplay(b.Context(), r, nil); err != nil {
					b.Fatal(err)
				}
				ending += time.Since(began)
			}
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(staging.Seconds()*1000/float64(b.N), "ms/stage")
			b.ReportMetric(ending.Seconds()*1000/float64(b.N), "ms/end")
			b.ReportMetric(longest.Seconds()*1000, "ms-longest-write")
		})
	}
}
