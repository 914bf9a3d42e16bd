package pgclaims_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"tenaq/claims"
	"tenaq/internal/testing/pgtest"
)

// Orders that are claimed, written and completed on a PostgreSQL that forces each commit to disk:
// in one transaction, and, for comparison, completed behind it by a write of its own.
func BenchmarkOrder(b *testing.B) {
	for _, workers := range []int{1, 32} {
		for name, do := range map[string]func(r *rig, c *claims.Claim) error{
			"in tx": func(r *rig, c *claims.Claim) error { return inTx(b.Context(), r.pool, c) },
			"apart": func(r *rig, c *claims.Claim) error {
				if err := pgx.BeginFunc(b.Context(), r.pool, func(tx pgx.Tx) error {
					_, err := order(b.Context(), tx, c)
					return err
				}); err != nil {
					return err
				}
				return c.Complete(b.Context(), resultOf(c))
			},
		} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) {
				r := rigOn(b, pgtest.New(b).URL())
				l := r.ledger(claims.Config{})
				var n atomic.Int64
				work := func(next func() bool) {
					for next() {
						c, err := l.Acquire(b.Context(), keyOf(n.Add(1)))
						if err == nil {
							err = do(r, c)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				}
				b.ResetTimer()
				if workers == 1 {
					work(b.Loop)
				} else {
					b.SetParallelism(workers / 2)
					b.RunParallel(func(pb *testing.PB) { work(pb.Next) })
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
			})
		}
	}
}
