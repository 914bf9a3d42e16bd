package redrive_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/records/sqliterecords"
	"tenaq/redrive"
)

// A service that brings the dead letters of orders back, ten at a time at most, until it is
// stopped.
func ExampleNew() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: "records.db"}) // that of the workers
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ledger, err := claims.New(claims.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	r, err := redrive.New(redrive.Config{
		Client:        sqs.NewFromConfig(cfg),
		Store:         store,
		Claims:        ledger,
		DeadLetterURL: "http://127.0.0.1:9324/000000000000/orders-dead",
		ParkingURL:    "http://127.0.0.1:9324/000000000000/orders-parking",
		Policy:        redrive.Policy{RateMax: 10, CoolDown: 2 * time.Minute},
	})
	if err != nil {
		log.Fatal(err)
	}
	plan, err := r.Plan(ctx) // what the first step would do
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%d dead letters: %d to redrive, %d to park", plan.Depth, plan.Count(redrive.Redrive), plan.Count(redrive.Park))
	if err := r.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
