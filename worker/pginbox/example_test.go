package pginbox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/records/pgrecords"
	"tenaq/worker"
	"tenaq/worker/pginbox"
)

// A step of a chain: it receives the message about a video, writes that it was transcoded, and
// announces that to the next step. A crash leaves all of it or nothing, and a second delivery
// changes nothing.
func Example() {
	ctx := context.Background() // in a program: signal.NotifyContext
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.com/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgrecords.New(pgrecords.Config{Pool: pool}) // in the database that the work changes
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	ledger, err := claims.New(claims.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	box, err := pgoutbox.New(pgoutbox.Config{Pool: pool}) // for "tenaq outbox relay", or an outbox.Relay
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Client:   sqs.NewFromConfig(cfg),
		QueueURL: "http://127.0.0.1:9324/000000000000/transcoded",
		Claims:   ledger,
		Handler: pginbox.Handler(pool, func(ctx context.Context, tx pgx.Tx, m *worker.Message) (result []byte, err error) {
			if _, err := tx.Exec(ctx, "UPDATE videos SET status = 'transcoded' WHERE id = $1", m.Body); err != nil {
				return nil, err
			}
			return nil, pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "publish", Key: m.Body, Type: "video_transcoded", Body: m.Body})
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

type payment struct {
	Order string
	Cents int
}

// charge stands for a payment provider, which charges once for each idempotency key and takes its
// time.
func charge(_ context.Context, idempotencyKey string, _ int) (receipt string, err error) {
	return "receipt for " + idempotencyKey, nil
}

// Calls to other systems belong before the transaction, under the effect key, so that no
// transaction is open while they run.
func ExampleInTx() {
	var pool *pgxpool.Pool // see the example of the package
	handler := worker.JSON(func(ctx context.Context, p payment, m *worker.Message) error {
		receipt, err := charge(ctx, m.EffectKey(), p.Cents)
		if err != nil {
			return err
		}
		return pginbox.InTx(ctx, pool, m, func(ctx context.Context, tx pgx.Tx) (result []byte, err error) {
			if _, err := tx.Exec(ctx, "INSERT INTO payments (order_id, receipt) VALUES ($1, $2)", p.Order, receipt); err != nil {
				return nil, err
			}
			return []byte(receipt), pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "mails", Key: p.Order, Body: "paid: " + receipt})
		})
	})
	// Without a worker that has a ledger nothing is written.
	fmt.Println(handler.Handle(context.Background(), &worker.Message{Body: `{"Order": "17", "Cents": 500}`}))
	// Output: there is no claim to complete in a transaction: set worker.Config.Claims to a ledger
}

// transcribe stands for work that takes an hour.
func transcribe(_ context.Context, video string) (text string, err error) {
	return "words of " + video, nil
}

// Long work runs outside of the transaction and commits inside of it. The worker renews the lease
// of the message and the claim for as long as the handler runs, and the transaction is open for a
// moment only. If the worker dies after the work and before the commit, another attempt does the
// work again, so it needs a place of its own per attempt or must be safe to repeat.
func ExampleInTx_longWork() {
	var pool *pgxpool.Pool // see the example of the package
	handler := worker.HandlerFunc(func(ctx context.Context, m *worker.Message) error {
		text, err := transcribe(ctx, m.Body) // ctx ends when the lease or the claim is lost
		if err != nil {
			return err
		}
		return pginbox.InTx(ctx, pool, m, func(ctx context.Context, tx pgx.Tx) (result []byte, err error) {
			if _, err := tx.Exec(ctx, "UPDATE videos SET transcript = $2 WHERE id = $1", m.Body, text); err != nil {
				return nil, err
			}
			return nil, pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "publish", Key: m.Body, Body: m.Body})
		})
	})
	// Without a worker that has a ledger nothing is written.
	fmt.Println(handler.Handle(context.Background(), &worker.Message{Body: "video-7"}))
	// Output: there is no claim to complete in a transaction: set worker.Config.Claims to a ledger
}
