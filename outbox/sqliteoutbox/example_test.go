package sqliteoutbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"tenaq/outbox"
	"tenaq/outbox/sqliteoutbox"
)

// An order and the message about it are one fact: both are there, or neither.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")

	// The program that takes orders has its database, and the outbox in it.
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	box, err := sqliteoutbox.New(sqliteoutbox.Config{DB: db})
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE orders (id TEXT PRIMARY KEY, price INTEGER CHECK (price > 0))"); err != nil {
		log.Fatal(err)
	}
	for id, price := range map[string]int{"17": 25, "18": -3} {
		if err := order(ctx, db, id, price); err != nil {
			fmt.Println("order", id, "is refused")
		}
	}

	// A relay claims rows and reports what became of them; outbox.Relay does so with a queue.
	rows, _, err := box.Claim(ctx, outbox.Claim{Relay: "example", Lease: time.Minute, Rows: 10, Bytes: 1 << 20, Stream: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range rows {
		fmt.Println(row.Queue, row.Key, row.Body)
		if err := box.Settle(ctx, "example", []outbox.Outcome{{ID: row.ID, Fate: outbox.Sent}}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// order 18 is refused
	// orders.fifo 17 {"price": 25}
}

func order(ctx context.Context, db *sql.DB, id string, price int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	body := fmt.Sprintf(`{"price": %d}`, price)
	if err := sqliteoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "orders.fifo", Key: id, Body: body}); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, price) VALUES (?, ?)", id, price); err != nil {
		return err
	}
	return tx.Commit()
}

// A program in any language writes messages with an INSERT. The process of the relay opens the
// file.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")
	if err := os.WriteFile(path, nil, 0o666); err != nil { // an empty file is an empty database
		log.Fatal(err)
	}
	box, err := sqliteoutbox.New(sqliteoutbox.Config{Path: path})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	ctx := context.Background()
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = box.DB().Exec(`INSERT INTO outbox (aggregatetype, aggregateid, payload, deliver_after)
		VALUES ('mails', '17', 'welcome', CURRENT_TIMESTAMP), ('mails', '17', 'how is it?', datetime('now', '+7 days'))`)
	if err != nil {
		log.Fatal(err)
	}
	stats, err := box.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Pending, "pending,", stats.Due, "due")
	// Output: 2 pending, 1 due
}

// A Writer has another table, or carries traces on.
func ExampleWriter() {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection to :memory: has a database of its own
	ctx := context.Background()
	box, err := sqliteoutbox.New(sqliteoutbox.Config{DB: db, Table: "mail_outbox"})
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	writer := sqliteoutbox.Writer{
		Table: "mail_outbox",
		Trace: func(context.Context) map[string]string {
			return map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
		},
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := writer.Enqueue(ctx, tx, outbox.Message{Queue: "mails", Key: "17", Body: "welcome"}); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	var headers string
	if err := db.QueryRow("SELECT headers FROM mail_outbox").Scan(&headers); err != nil {
		log.Fatal(err)
	}
	fmt.Println(headers)
	// Output: {"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
}

// Send past messages about one customer again. Consumers work on them again, because they have a
// new generation.
func ExampleBox_replay() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		log.Fatal(err)
	}
	box, err := sqliteoutbox.New(sqliteoutbox.Config{Path: path})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	ctx := context.Background()
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = box.DB().Exec(`INSERT INTO outbox (aggregatetype, aggregateid, payload)
		VALUES ('mails', '17', 'welcome'), ('mails', '18', 'welcome'), ('mails', '17', 'how is it?')`)
	if err != nil {
		log.Fatal(err)
	}
	send := func() (rows []outbox.Row) {
		rows, _, err := box.Claim(ctx, outbox.Claim{Relay: "example", Lease: time.Minute, Rows: 10, Bytes: 1 << 20, Stream: 10})
		if err != nil {
			log.Fatal(err)
		}
		for _, row := range rows {
			if err := box.Settle(ctx, "example", []outbox.Outcome{{ID: row.ID, Fate: outbox.Sent}}); err != nil {
				log.Fatal(err)
			}
		}
		return rows
	}
	send()

	replayer, err := outbox.NewReplayer(outbox.ReplayConfig{
		Box:    box,
		Source: outbox.Source{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour), Where: "aggregateid = '17' -- and nobody else"},
		By:     "the shop",
	})
	if err != nil {
		log.Fatal(err)
	}
	replay, err := replayer.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("replay", replay.Number, "is", replay.State, "with", replay.Written, "messages")
	for _, row := range send() {
		fmt.Println(row.Key, row.Body, row.Generation)
	}
	// Output:
	// replay 1 is done with 2 messages
	// 17 welcome 1
	// 17 how is it? 1
}
