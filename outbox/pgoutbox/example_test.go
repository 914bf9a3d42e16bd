package pgoutbox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
)

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.com/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	box, err := pgoutbox.New(pool, pgoutbox.Options{Table: "jobs.outbox"})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	// The row and the message about it, or neither.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO jobs.jobs (id, status) VALUES ($1, 'pending')`, "job 1"); err != nil {
			return err
		}
		return outbox.Writer{Table: "jobs.outbox"}.Enqueue(ctx, tx, outbox.Message{Queue: "transcode", Key: "job 1", Body: `{"job": "job 1"}`})
	})
	if err != nil {
		log.Fatal(err)
	}

	// Relays send it. How many are waiting is for whoever watches over them.
	stats, err := box.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d messages are due, the oldest for %v\n", stats.Due, stats.Oldest)
}
