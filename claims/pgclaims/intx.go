package pgclaims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tenaq/claims"
)

// A Beginner begins transactions: a *pgxpool.Pool or *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// InTx runs work in a transaction, completes the claim in it with the result that work returns, and
// commits. When it returns nil both are done, also if the answer to the commit was lost: then it
// asks the ledger. When it returns an error nothing was committed, unless that is ErrUnknown. A
// claim that is not lost or ended is held as before: call InTx again, or Claim.Fail.
//
// Give it the context of Claim.Hold. Work may be called several times, each time in a transaction
// of its own, because PostgreSQL may refuse to serialize one; so let it have no effects but those
// in tx, and neither commit nor roll back. The transaction has the isolation level that is the
// default of the connection.
//
// Work may take longer than a lease. While the claim is held InTx keeps the idle transaction alive,
// so that PostgreSQL ends it a lease after its client was stopped or cut off, and not before. This
// is not so once work has called tx.Conn or tx.LargeObjects, through which it can use the
// connection at any time: then PostgreSQL ends the transaction when it is idle for longer than a
// lease. A shorter idle_in_transaction_session_timeout of the connection is left as it is. An open
// transaction holds its locks and holds up vacuum, so do long work before it.
func InTx(
	ctx context.Context, db Beginner, claim *claims.Claim,
	work func(ctx context.Context, tx pgx.Tx) (result []byte, err error),
) error {
	for n := 1; ; n++ {
		err := inTx(ctx, db, claim, work)
		if errors.Is(err, claims.ErrEnded) {
			noteEnd(ctx, claim)
		}
		if n == refusedMax || !refused(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(time.Duration(n) * refusedPause)):
		}
	}
}

// ErrUnknown is what InTx answers when the commit had no answer and the ledger could not be asked.
// Take it for a failure: Claim.Fail, InTx again, and whoever claims the key next are told if the
// transaction was committed after all.
var ErrUnknown = errors.New("it is not known whether the transaction was committed")

// refusedMax is how often a transaction is run that PostgreSQL refuses to serialize, and
// refusedPause how much longer the pause before is each time, at most.
const (
	refusedMax   = 20
	refusedPause = 5 * time.Millisecond
)

// refused says whether PostgreSQL rolled a transaction back only because of others at the same
// time.
func refused(err error) bool {
	var e *pgconn.PgError
	// serialization_failure, deadlock_detected
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
}

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
	defer func() { // also when work panics; it does nothing behind a commit
		ctx, cancel := afterwards(ctx, before.Lease)
		defer cancel()
		_ = tx.Rollback(ctx) // without a connection PostgreSQL rolls back by itself
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

// whileAlive calls work with a transaction that stays alive for as long as the claim is held. The
// transaction is the caller's again when it returns, also when work panics.
func whileAlive(
	ctx context.Context, tx pgx.Tx, claim *claims.Claim, lease time.Duration,
	work func(context.Context, pgx.Tx) ([]byte, error),
) ([]byte, error) {
	alive, stop := keepAlive(ctx, tx, claim, lease)
	defer stop()
	return work(ctx, alive)
}

// noteEnd has a claim find out how it was ended.
func noteEnd(ctx context.Context, claim *claims.Claim) {
	ctx, cancel := afterwards(ctx, 0)
	defer cancel()
	_, _ = claim.Ended(ctx)
}

// outcome is what became of a transaction whose commit was answered with an error.
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

// afterwards is the context for what has to be done whether or not ctx has ended, for some time.
func afterwards(ctx context.Context, lease time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), max(lease/3, time.Second))
}
