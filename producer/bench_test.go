package producer_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/producer"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/records/sqliterecords"
)

// sink takes every message at once.
type sink struct{}

func (sink) SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	return &sqs.SendMessageOutput{MessageId: aws.String("4c4f8f3f-7d31-43ee-91d2-5a1b2b0e6f55"), SequenceNumber: aws.String("18849496460467696128")}, nil
}

// The cost of registering new keys and duplicates, by one producer and by many at once.
func BenchmarkSendOnce(b *testing.B) {
	for _, store := range []struct {
		name string
		open func(*testing.B) records.Store
	}{
		{"memory", func(*testing.B) records.Store { return recordstest.NewMemory() }},
		{"sqlite", func(b *testing.B) records.Store {
			s, err := sqliterecords.New(sqliterecords.Config{Path: filepath.Join(b.TempDir(), "records.db")})
			must(b, err)
			return s
		}},
	} {
		run := func(b *testing.B, workers int, key func(n int64) string) {
			s := store.open(b)
			defer s.Close()
			p, err := producer.New(producer.Config{Client: sink{}, Store: s, QueueURL: "http://localhost/000000000000/orders.fifo"})
			must(b, err)
			send := func(key string) {
				m := file("accounts-2026-02-28")
				m.Key = key
				if _, err := p.SendOnce(b.Context(), m); err != nil {
					b.Error(err)
				}
			}
			send("duplicate")
			var n atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			if workers == 1 {
				for range b.N {
					send(key(n.Add(1)))
				}
			} else {
				b.SetParallelism(workers)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						send(key(n.Add(1)))
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
		}
		fresh := func(n int64) string { return "file-" + strconv.FormatInt(n, 10) }
		b.Run(store.name+"/new", func(b *testing.B) { run(b, 1, fresh) })
		b.Run(store.name+"/new-parallel", func(b *testing.B) { run(b, 16, fresh) })
		b.Run(store.name+"/duplicate", func(b *testing.B) { run(b, 1, func(int64) string { return "duplicate" }) })
	}
}
