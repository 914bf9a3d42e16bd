package pgrecords_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/records"
	"tenaq/records/pgrecords"
)

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.com/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgrecords.New(pgrecords.Config{Pool: pool, Table: "jobs.records"})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	_, err = store.Put(ctx, records.Write{Key: "nightly report", Value: []byte("me"), TTL: time.Minute})
	var taken *records.Conflict
	if errors.As(err, &taken) {
		fmt.Printf("%s has had it for %v\n", taken.Current.Value, taken.Current.Age)
	}
}
