package pgclaims_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
)

// Work that takes longer than a lease is committed, as long as the claim is held: the idle
// transaction is not ended.
func TestWorkLongerThanLease(t *testing.T) {
	const short = 3 * time.Second
	r := newRig(t)
	l := r.ledger(claims.Config{Lease: short})
	for try := range 5 { // a machine that pauses for longer than the lease ends the claim
		key := fmt.Sprint("k", try)
		c := acquire(t, l, key)
		held, stop := c.Hold(t.Context())
		err := workLong(held, r.pool, c, short+short/2)
		lost := errors.Is(context.Cause(held), claims.ErrLost)
		stop()
		if !lost {
			must(t, err)
			r.wantDone(key, c.Fence())
			return
		}
	}
	t.Error("each of five claims was lost")
}

// workLong keeps a transaction open for a time, and commits it with the completion of a claim.
func workLong(ctx context.Context, pool *pgxpool.Pool, c *claims.Claim, least time.Duration) error {
	return pgclaims.InTx(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		result, err := order(ctx, tx, c)
		if err != nil {
			return nil, err
		}
		var pid int
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return nil, err
		}
		// The worker is busy elsewhere. The server reports how long the transaction has been open.
		for open := time.Duration(0); open < least; {
			time.Sleep(50 * time.Millisecond)
			if err := pool.QueryRow(ctx, "SELECT clock_timestamp() - xact_start FROM pg_stat_activity WHERE pid = $1", pid).Scan(&open); err != nil {
				return nil, err
			}
		}
		return result, nil
	})
}
