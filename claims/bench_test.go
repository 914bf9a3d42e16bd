package claims_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"tenaq/claims"
	"tenaq/internal/testing/pgtest"
	"tenaq/records"
	"tenaq/records/recordstest"
)

// Claims are acquired and completed, one operation each, by one worker and by many at once. The
// figure for DynamoDB is the speed of the emulator, which serves one request at a time. The server
// keeps its records in memory.
func BenchmarkClaim(b *testing.B) {
	for _, name := range []string{"memory", "server", "sqlite", "postgres", "dynamodb"} {
		bench := func(b *testing.B, run func(work func(next func() bool))) {
			store := benchStore(b, name)
			defer store.Close()
			l := newLedger(b, store, claims.Config{})
			var n atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			run(func(next func() bool) {
				for next() {
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
		b.Run(name+"/one", func(b *testing.B) {
			bench(b, func(work func(func() bool)) { work(b.Loop) })
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			bench(b, func(work func(func() bool)) {
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) { work(pb.Next) })
			})
		})
	}
}

// benchStore opens an empty store that forces each write to disk, if it has one.
func benchStore(b *testing.B, name string) (store records.Store) {
	b.Helper()
	var err error
	switch name {
	case "memory":
		return recordstest.NewMemory()
	case "postgres": // not the server of other tests, which spares the disk
		store, err = openPostgres(pgtest.New(b).URL() + "&pool_max_conns=32")
	default:
		for _, backend := range backends {
			if backend.name == name {
				store, err = openStore(backend.make(b))
			}
		}
	}
	must(b, err)
	return store
}
