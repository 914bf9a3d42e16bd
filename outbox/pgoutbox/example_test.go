package pgoutbox_test

import (
	"context"
	"fmt"
	"log"
	"time"

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
	box, err := pgoutbox.New(pgoutbox.Config{Pool: pool, Table: "jobs.outbox"})
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
		return pgoutbox.Writer{Table: "jobs.outbox"}.Enqueue(ctx, tx, outbox.Message{Queue: "transcode", Key: "job 1", Body: `{"job": "job 1"}`})
	})
	if err != nil {
		log.Fatal(err)
	}

	// Relays send it. How many are waiting is for a monitor.
	stats, err := box.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d messages are due, the oldest for %v\n", stats.Due, stats.Oldest)
}

func ExampleBox_Look() {
	ctx := context.Background()
	box, err := pgoutbox.New(pgoutbox.Config{URL: "postgres://app@db.example.com/app"})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	// Select the messages of one day about one tenant, which PostgreSQL finds in their bodies.
	day := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	count, first, err := box.Look(ctx, outbox.Source{
		From: day, To: day.AddDate(0, 0, 1),
		Queues: []string{"transcode"},
		Where:  `payload::jsonb @> '{"tenant": "17"}'`,
	}, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d messages\n", count)
	for _, p := range first {
		fmt.Printf("%s was sent at %v as %s\n", p.Key, p.SentAt, p.MessageID)
	}
}
