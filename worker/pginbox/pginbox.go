// Package pginbox is the receiving side of an outbox: it does the work of a message in a
// transaction of PostgreSQL, and the word that it is done, and the messages that follow from it,
// are in the same commit.
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
// The ledger of the worker is the inbox: there is no other table, and it knows a piece of work
// again that was sent twice, under another message id. What package pgclaims guarantees holds for
// every message:
//
//   - What the transaction writes is committed once for each piece of work, whatever is delivered
//     twice and whoever is killed. A message is deleted only after that.
//
//   - A handler whose claim was taken over commits nothing, even when it was stopped in the midst
//     of it.
//
//   - A commit whose answer was lost is not made again.
//
//   - That the database is not there, or is being shut down, is not the fault of a message: it is
//     given back, and no attempt is counted. Every other error is what worker.Handler says.
//
//   - Work may take longer than the lease of the claim: while the claim is held, an idle
//     transaction is kept alive. Only a process that was stopped or cut off loses its transaction,
//     after one lease.
//
// Long work belongs outside of the transaction all the same, because an open one holds its locks
// and a connection, and holds up vacuum. Run it first, then commit its result with InTx:
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
// Message.EffectKey, which is what InTx is for, or behind it, as a row of the outbox. The work is
// known again until claims.Config.Retention is over.
package pginbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tenaq/claims/pgclaims"
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

// InTx is for a handler that does something before its transaction, or is one of worker.JSON: it
// runs work in a transaction, records in it that the work of the message is done, and commits. The
// handler returns what InTx returns, and has nothing to do behind it that matters.
//
// Work may be called several times, each time in a transaction of its own, because PostgreSQL may
// refuse to serialize one. It neither commits nor rolls back. It may take longer than a lease of
// the claim, as pgclaims.InTx explains, though long work is better done before InTx. What it
// returns is recorded as the result of the work; Message.SetResult counts for nothing here. After
// an error nothing is committed: with worker.Poison and worker.Later it decides what becomes of the
// message.
func InTx(
	ctx context.Context, db pgclaims.Beginner, m *worker.Message,
	work func(ctx context.Context, tx pgx.Tx) (result []byte, err error),
) error {
	claim := m.Claim()
	if claim == nil {
		return errors.New("there is no claim to complete in a transaction: give the worker a ledger, in worker.Config.Claims")
	}
	begun := &beginner{Beginner: db}
	err := pgclaims.InTx(ctx, begun, claim, work)
	if err != nil && ctx.Err() == nil && (begun.err != nil || isAway(err)) {
		return worker.Later(awayPause, err.Error())
	}
	return err
}

// awayPause is how long a message is given back for when the database is away. The worker receives
// less as soon as it finds that its ledger, which is in the same one, cannot be used.
const awayPause = 5 * time.Second

// A beginner knows whether the last transaction could be begun.
type beginner struct {
	pgclaims.Beginner
	err error
}

func (b *beginner) BeginTx(ctx context.Context, o pgx.TxOptions) (tx pgx.Tx, err error) {
	tx, b.err = b.Beginner.BeginTx(ctx, o)
	return tx, b.err
}

// isAway reports whether a transaction has ended because the server did, or nobody knows how. A
// server that the work itself brings down closes its connection without a word, so that is not
// among it.
func isAway(err error) bool {
	if errors.Is(err, pgclaims.ErrUnknown) {
		return true
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	// admin_shutdown, crash_shutdown of another connection, cannot_connect_now
	case "57P01", "57P02", "57P03":
		return true
	}
	return false
}
