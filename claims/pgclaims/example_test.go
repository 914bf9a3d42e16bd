package pgclaims_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/records/pgrecords"
)

// placeOrder does a piece of work: it charges a card, writes the order, and has a mail sent. If the
// work arrives in messages to package worker, package worker/pginbox does everything except the
// work itself.
func placeOrder(ctx context.Context, db pgclaims.Beginner, ledger *claims.Ledger, order string) error {
	claim, err := ledger.Acquire(ctx, order)
	if errors.Is(err, claims.Done) {
		return nil // the message can go
	}
	if err != nil {
		return err
	}
	held, stop := claim.Hold(ctx)
	defer stop()

	// The provider does it once for each key. It takes its time, and no transaction is open
	// meanwhile.
	receipt, err := charge(held, claims.EffectKey(order, 0))
	if err != nil {
		return errors.Join(err, claim.Fail(context.WithoutCancel(ctx), err.Error()))
	}

	// The order, the word that it is done, and the mail that a relay sends from the outbox: one
	// commit. A crash before it leaves none of them, a crash behind it all.
	err = pgclaims.InTx(held, db, claim, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, receipt, fence) VALUES ($1, $2, $3)",
			order, receipt, int64(claim.Fence())); err != nil {
			return nil, err
		}
		return []byte(receipt), pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "mails", Key: order, Body: "order " + order + " is paid"})
	})
	if err != nil && !errors.Is(err, claims.ErrLost) {
		err = errors.Join(err, claim.Fail(context.WithoutCancel(ctx), err.Error()))
	}
	return err
}

// charge stands for the call of a payment provider.
func charge(ctx context.Context, idempotencyKey string) (receipt string, err error) {
	return "receipt for " + idempotencyKey, ctx.Err()
}

// The ledger and the orders are in one database, so that they can be written by one commit.
func ExampleInTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.com/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgrecords.New(pgrecords.Config{Pool: pool})
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
	fmt.Println(placeOrder(ctx, pool, ledger, "order-17"))
}
