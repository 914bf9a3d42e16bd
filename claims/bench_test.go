package claims_test

import (
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/records/sqliterecords"
)

// Claims that are acquired and completed, one operation each: by one worker, and by many at once.
func BenchmarkClaim(b *testing.B) {
	for name, open := range map[string]func(*testing.B) records.Store{
		"memory": func(*testing.B) records.Store { return recordstest.NewMemory() },
		"sqlite": func(b *testing.B) records.Store {
			store, err := sqliterecords.Open(sqliterecords.Config{Path: filepath.Join(b.TempDir(), "records.db")})
			must(b, err)
			return store
		},
	} {
		run := func(b *testing.B, workers int) {
			store := open(b)
			defer store.Close()
			l := newLedger(b, store, claims.Config{})
			var n atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(workers)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c, err := l.Acquire(b.Context(), "order-"+strconv.FormatInt(n.Add(1), 10))
					if err == nil {
						err = c.Complete(b.Context(), []byte("receipt"))
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
		}
		b.Run(name+"/parallel", func(b *testing.B) { run(b, 16) })
		b.Run(name+"/one", func(b *testing.B) {
			store := open(b)
			defer store.Close()
			l := newLedger(b, store, claims.Config{})
			b.ReportAllocs()
			for i := range b.N {
				must(b, acquire(b, l, "order-"+strconv.Itoa(i)).Complete(b.Context(), []byte("receipt")))
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
		})
	}
}
