// Package pginbox is the receiving side of an outbox. It does the work of a message in a
// transaction of PostgreSQL. The record that the work is done, and the messages that follow from
// it, are in the same commit.
//
//	w, err := worker.New(worker.Config{
//		Client:   sqs.NewFromConfig(cfg),
//		QueueURL: url,
//		Claims:   ledger, // over a store of pgrecords in the database of the pool
//		Handler: pginbox.Handler(pool, func(ctx context.Context, tx pgx.Tx, m *worker.Message) (result []byte, err error) {
//			if _, err := tx.Exec(ctx, "UPDATE jobs SET status = 'done' WHERE job_id = $1", m.Body); err != nil {
//				return nil, err
//			}
//			return nil, pgoutbox.Enqueue(ctx, tx, outbox.Message{Queue: "publish", Key: m.Body, Body: m.Body})
//		}),
//	})
//
// The ledger of the worker is the inbox, without another table. It recognizes work that was sent
// twice, under another message id. The guarantees of package pgclaims apply to every message:
//
//   - The writes of the transaction are committed once per piece of work, despite duplicate
//     deliveries and crashes. The message is deleted only after that.
//   - A handler whose claim was taken over commits nothing, even if it was stopped half-way.
//   - A commit whose answer was lost is not repeated.
//   - If the database is unreachable or shutting down, the message is given back and no attempt is
//     counted. Other errors have the effects that worker.Handler describes.
//   - Work may take longer than the lease of the claim: while the claim is held, an idle
//     transaction is kept alive. Only a process that was stopped or cut off loses its transaction,
//     after one lease.
//
// Long work still belongs outside the transaction, because an open one holds locks and a
// connection, and delays vacuum. Run it first, then commit its result with InTx:
//
//	func(ctx context.Context, m *worker.Message) error {
//		text, err := transcribe(ctx, m.Body) // takes an hour; no transaction is open
//		if err != nil {
//			return err
//		}
//		return pginbox.InTx(ctx, pool, m, func(ctx context.Context, tx pgx.Tx) (result []byte, err error) {
//			_, err = tx.Exec(ctx, "UPDATE videos SET transcript = $2 WHERE id = $1", m.Body, text)
//			return nil, err
//		})
//	}
//
// What it leaves to others: effects elsewhere. They belong before the transaction, under
// Message.EffectKey, or after it, as a row of the outbox. The inbox recognizes work until
// claims.Config.Retention has passed.
package pginbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/claims/pgclaims"
	"tenaq/internal/work/pgdb"
	"tenaq/worker"
)

// Handler returns a handler that does the work of each message in a transaction, as InTx does.
func Handler(
	db pgclaims.Beginner,
	work func(ctx context.Context, tx pgx.Tx, m *worker.Message) (result []byte, err error),
) worker.Handler {
	return worker.HandlerFunc(func(ctx context.Context, m *worker.Message) error {
		return InTx(ctx, db, m, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			return work(ctx, tx, m)
		})
	})
}

// InTx runs work in a transaction, records in it that the work of the message is done, and commits.
// Use it in a handler that does something before its transaction, or in one of worker.JSON. The
// handler must return the result of InTx, and must do nothing important after it.
//
// InTx may call work several times, each time in a new transaction, because PostgreSQL may refuse
// to serialize one. Work must neither commit nor roll back. It may take longer than a lease of the
// claim, as pgclaims.InTx explains, but long work is better done before InTx. Its result is
// recorded as that of the work; Message.SetResult has no effect here. After an error of work,
// nothing is committed; worker.Poison and worker.Later have their usual effects.
func InTx(
	ctx context.Context, db pgclaims.Beginner, m *worker.Message,
	work func(ctx context.Context, tx pgx.Tx) (result []byte, err error),
) error {
	claim := m.Claim()
	if claim == nil {
		return errors.New("there is no claim to complete in a transaction: set worker.Config.Claims to a ledger")
	}
	begun := &beginner{Beginner: db}
	err := pgclaims.InTx(ctx, begun, claim, work)
	if err != nil && ctx.Err() == nil && (begun.err != nil || isAway(err)) {
		return worker.Later(awayPause, err.Error())
	}
	return err
}

// awayPause is how long a message is given back for if the database is absent. The worker receives
// less as soon as it finds that its ledger, in the same database, cannot be used.
const awayPause = 5 * time.Second

// A beginner records whether the last transaction could begin.
type beginner struct {
	pgclaims.Beginner
	err error
}

func (b *beginner) BeginTx(ctx context.Context, o pgx.TxOptions) (tx pgx.Tx, err error) {
	tx, b.err = b.Beginner.BeginTx(ctx, o)
	return tx, b.err
}

// isAway reports whether a transaction ended because the server is stopping, or with an unknown
// outcome. It does not include a connection that closes without an error, because the work itself
// may have crashed the server.
func isAway(err error) bool {
	return errors.Is(err, pgclaims.ErrUnknown) ||
		// admin_shutdown, crash_shutdown of another connection, cannot_connect_now
		pgdb.HasCode(err, "57P01", "57P02", "57P03")
}
