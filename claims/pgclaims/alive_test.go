package pgclaims_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/claims"
	"tenaq/claims/pgclaims"
)

// Work that takes longer than a lease is committed, as long as the claim is held: the idle
// transaction is not ended.
func TestWorkLongerThanLease(t *testing.T) {
	const short = 3 * time.Second
	ctx, r := t.Context(), newRig(t)
	c := acquire(t, r.ledger(claims.Config{Lease: short}), "k")
	held, stop := c.Hold(ctx)
	defer stop()
	must(t, pgclaims.InTx(held, r.pool, c, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		result, err := order(ctx, tx, c)
		must(t, err)
		var pid int
		must(t, tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid))
		// What it does meanwhile is elsewhere. The server says how long the transaction has been
		// open.
		for open := time.Duration(0); open < short+short/2; {
			if ctx.Err() != nil {
				t.Fatal(context.Cause(ctx))
			}
			time.Sleep(50 * time.Millisecond)
			must(t, r.pool.QueryRow(ctx, "SELECT clock_timestamp() - xact_start FROM pg_stat_activity WHERE pid = $1", pid).Scan(&open))
		}
		return result, nil
	}))
	r.wantDone("k", c.Fence())
}
