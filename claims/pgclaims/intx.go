package pgclaims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/internal/work/pgdb"
)

// A Beginner begins transactions: a *pgxpool.Pool or *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// InTx runs work in a transaction, completes the claim in it with the result of work, and commits.
// If it returns nil, all of that is committed; if the answer to the commit was lost, it has asked
// the ledger. If it returns an error other than ErrUnknown, nothing was committed. A claim that is
// not lost or ended is still held: call InTx again, or Claim.Fail.
//
// Pass the context of Claim.Hold. InTx may call work several times, each time in a new transaction,
// because PostgreSQL may refuse to serialize one. So work must have no effects outside tx, and must
// neither commit nor roll back. The isolation level is the default of the connection.
//
// Work may take longer than a lease. While the claim is held, InTx keeps the idle transaction
// alive, so PostgreSQL ends it only a lease after its client was stopped or cut off. That stops
// when work calls tx.Conn or tx.LargeObjects, which give it the connection itself; PostgreSQL then
// ends the transaction when it is idle for longer than a lease. A shorter
// idle_in_transaction_session_timeout of the connection stays in force. An open transaction holds
// locks and delays vacuum, so do long work before it.
func InTx(
	ctx context.Context, db Beginner, claim *claims.Claim,
	work func(ctx context.Context, tx pgx.Tx) (result []byte, err error),
) error {
	for n := 1; ; n++ {
		err := inTx(ctx, db, claim, work)
		if errors.Is(err, claims.ErrEnded) {
			noteEnd(ctx, claim)
		}
		if n == refusedMax || !pgdb.HasCode(err, pgdb.SerializationFailure,
			pgdb.DeadlockDetected) ||
			backoff.Sleep(ctx, rand.N(time.Duration(n)*refusedPause)) != nil {
			return err
		}
	}
}

// ErrUnknown is the error of InTx when the commit had no answer and the ledger could not be asked.
// Treat it as a failure. If the transaction was committed after all, Claim.Fail, another InTx and
// the next claim on the key find out.
var ErrUnknown = errors.New("it is not known whether the transaction was committed")

// refusedMax is how often InTx runs a transaction that PostgreSQL refuses to serialize. The longest
// pause before the next run grows by refusedPause each time.
const (
	refusedMax   = 20
	refusedPause = 5 * time.Millisecond
)

func inTx(
	ctx context.Context, db Beginner, claim *claims.Claim,
	work func(context.Context, pgx.Tx) ([]byte, error),
) error {
	before := claim.Entry()
	if before.State != claims.Held {
		return fmt.Errorf("complete the claim on %q in a transaction: %w", before.Key,
			claims.ErrEnded)
	}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN;" + limitIdle(before.Lease)})
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	defer func() { // also if work panics; after a commit it does nothing
		ctx, cancel := afterwards(ctx, before.Lease)
		defer cancel()
		_ = tx.Rollback(ctx) // if the connection is gone, PostgreSQL rolls back by itself
	}()
	result, err := whileAlive(ctx, tx, claim, before.Lease, work)
	if err != nil {
		return err
	}
	committed, err := complete(ctx, pgxTx{tx}, claim, result, true)
	if err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		ctx, cancel := afterwards(ctx, before.Lease)
		defer cancel()
		return outcome(ctx, claim, err)
	}
	committed()
	return nil
}

// whileAlive calls work with a transaction that is kept alive while the claim is held.
func whileAlive(
	ctx context.Context, tx pgx.Tx, claim *claims.Claim, lease time.Duration,
	work func(context.Context, pgx.Tx) ([]byte, error),
) ([]byte, error) {
	alive, stop := keepAlive(ctx, tx, claim, lease)
	defer stop()
	return work(ctx, alive)
}

// noteEnd makes a claim find out how it was ended.
func noteEnd(ctx context.Context, claim *claims.Claim) {
	ctx, cancel := afterwards(ctx, 0)
	defer cancel()
	_, _ = claim.Ended(ctx)
}

// outcome returns the result of a transaction whose commit returned err.
func outcome(ctx context.Context, claim *claims.Claim, err error) error {
	err = fmt.Errorf("commit the transaction that completes the claim on %q: %w", claim.Key(), err)
	ended, asked := claim.Ended(ctx)
	switch {
	case ended && claim.Entry().State == claims.Completed:
		return nil
	case asked == nil:
		return err
	case errors.Is(asked, claims.ErrLost):
		return fmt.Errorf("%w: %w", asked, err)
	}
	return fmt.Errorf("%w: %w; %w", ErrUnknown, err, asked)
}

// afterwards returns a context for what must be done even if ctx has ended, with a time limit.
func afterwards(ctx context.Context, lease time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), max(lease/3, time.Second))
}
