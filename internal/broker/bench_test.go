package broker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"tenaq/internal/engine"
	"tenaq/internal/kv/pebblekv"
)

// openDisk opens a store on the real disk.
func openDisk(b *testing.B) *pebblekv.Store {
	store, err := pebblekv.Open(pebblekv.Options{
		Dir: b.TempDir(),
		Fatal: func(err error) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(7)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return store
}

// callers is how many clients wait for an answer at any time.
const callers = 256

// BenchmarkLives measures whole lives of messages, each sent, received and deleted in requests of
// its own, by callers that wait for each answer, on the real disk.
func BenchmarkLives(b *testing.B) {
	b.ReportAllocs()
	store := openDisk(b)
	r := start(b, newConfig(b, store))
	r.create("orders")
	commits := store.CommitNumber()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			ctx := context.Background()
			for left.Add(-1) >= 0 {
				if err := r.Do(ctx, sendOp("orders", aBody)); err != nil {
					b.Errorf("send: %v", err)
					return
				}
				// Every client that has sent finds a message: no client receives more than it has
				// sent.
				res := receiveOp("orders", 0)
				if err := r.Do(ctx, res); err != nil || len(res.Messages) != 1 {
					b.Errorf("receive: %d messages, %v", len(res.Messages), err)
					return
				}
				m := res.Messages[0]
				h := engine.Handle{Text: "h", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation}
				if err := r.Do(ctx, deleteOp("orders", h)); err != nil {
					b.Errorf("delete: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
	b.ReportMetric(3*float64(b.N)/float64(store.CommitNumber()-commits), "requests/commit")
	r.stop()
}
