package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

type order struct {
	ID    string
	Cents int
}

// charge stands for a payment provider, which charges once for each idempotency key.
func charge(context.Context, string, int) error { return nil }

// A worker that charges orders: each once, despite duplicate deliveries and crashes. On a
// FIFO queue it handles the orders of one group one after the other.
func Example() {
	ctx := context.Background() // in a program: signal.NotifyContext
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: "records.db"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ledger, err := claims.New(claims.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Client:   sqs.NewFromConfig(cfg),
		QueueURL: "http://127.0.0.1:9324/000000000000/orders",
		Claims:   ledger,
		Key: func(m *worker.Message) (string, error) { // so that an order is charged once, also if it is sent twice
			var o order
			err := json.Unmarshal([]byte(m.Body), &o)
			return "order-" + o.ID, err
		},
		Handler: worker.JSON(func(ctx context.Context, o order, m *worker.Message) error {
			return charge(ctx, m.EffectKey(), o.Cents)
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// The error that a handler returns decides what happens to its message.
func ExampleHandler() {
	errClosed := errors.New("the shop is closed")
	handler := worker.JSON(func(ctx context.Context, o order, m *worker.Message) error {
		switch err := charge(ctx, m.EffectKey(), o.Cents); {
		case o.Cents < 0:
			return worker.Poison(fmt.Errorf("an order of %d cents", o.Cents)) // to the dead-letter queue
		case errors.Is(err, errClosed):
			return worker.Later(time.Hour, "the shop is closed") // again in an hour, and no attempt
		default:
			return err // done, or a failed attempt
		}
	})
	fmt.Println(handler.Handle(context.Background(), &worker.Message{Body: `{"ID": "1", "Cents": -5}`}))
	fmt.Println(handler.Handle(context.Background(), &worker.Message{Body: `{"ID": "1", "Cents": 500}`}))
	// Output:
	// an order of -5 cents
	// <nil>
}

// The names of work come from the bodies, because they outlive whatever SQS does to a message.
func ExampleConfig_key() {
	cfg := worker.Config{
		Key: func(m *worker.Message) (string, error) { return "order-" + m.Body, nil },
	}
	key, err := cfg.Key(&worker.Message{Body: "17"})
	fmt.Println(key, err)
	// Output: order-17 <nil>
}
