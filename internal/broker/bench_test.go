package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// BenchmarkLives measures whole lives of messages, each sent, received and deleted in requests of its own,
// by callers that wait for each answer, on the real disk.
func BenchmarkLives(b *testing.B) {
	b.ReportAllocs()
	store := openDisk(b)
	r := start(b, newConfig(b, store))
	r.create("orders")
	commits := store.CommitNumber()
	body := "an order of the usual size, which is some hundred bytes or so, with a name, an address and two items"
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			ctx := context.Background()
			for left.Add(-1) >= 0 {
				if _, err := r.Do(ctx, sendOp("orders", body)); err != nil {
					b.Errorf("send: %v", err)
					return
				}
				// Whoever has sent finds a message: nobody receives more than he has sent.
				res, err := r.Do(ctx, receiveOp("orders", 0))
				if err != nil || len(res.Messages) != 1 {
					b.Errorf("receive: %d messages, %v", len(res.Messages), err)
					return
				}
				m := res.Messages[0]
				h := engine.Handle{Text: "h", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation}
				if _, err := r.Do(ctx, deleteOp("orders", h)); err != nil {
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

// BenchmarkEngineLives measures the same without a broker: one goroutine makes turns of as many commands
// as there are callers, and does not wait for the disk before it makes the next.
func BenchmarkEngineLives(b *testing.B) {
	b.ReportAllocs()
	cfg := newConfig(b, openDisk(b))
	e := engine.Open(cfg.Store, cfg.Engine)
	var seed uint64
	apply := func(op engine.Op) engine.Result {
		c := engine.Command{Now: time.Now().UnixMilli(), Op: op}
		seed++
		binary.LittleEndian.PutUint64(c.Seed[:], seed)
		res, err := e.Apply(c)
		if err != nil {
			b.Fatal(err)
		}
		return res
	}
	waits := make(chan func(), 2)
	var committer sync.WaitGroup
	committer.Go(func() {
		for wait := range waits {
			wait()
		}
	})
	apply(engine.Start{})
	apply(engine.CreateQueue{Queue: named("orders"), NameSet: true})
	body := "an order of the usual size, which is some hundred bytes or so, with a name, an address and two items"
	handles := make([]engine.Handle, 0, callers)
	b.ResetTimer()
	for done := 0; done < b.N; done += callers {
		for range callers {
			apply(sendOp("orders", body))
		}
		waits <- e.Commit()
		handles = handles[:0]
		for range callers {
			res := apply(receiveOp("orders", 0))
			m := res.Messages[0]
			handles = append(handles, engine.Handle{Text: "h", Valid: true, Incarnation: res.Incarnation, Space: m.Space, Seq: m.Seq, Generation: m.Generation})
		}
		waits <- e.Commit()
		for _, h := range handles {
			apply(deleteOp("orders", h))
		}
		waits <- e.Commit()
	}
	close(waits)
	committer.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
}
