package producer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tenaq/internal/testing/proof"
	"tenaq/internal/testing/sqstest"
	"tenaq/producer"
	"tenaq/records/recordstest"
)

// Two hundred calls for ten keys, through three producers that each have trouble of their own with
// the queue and with the store. Every call is made again until it is answered, as a batch is that
// failed.
func TestManyAtOnce(t *testing.T) {
	for _, row := range []struct {
		name    string
		queue   string
		unknown bool // whether requests and answers get lost on the way to the queue
		noClock bool
	}{
		{"standard", "orders", false, false},
		{"standard, lost answers", "orders", true, false},
		{"standard, no clock", "orders", false, true},
		{"fifo, lost answers", "orders.fifo", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := at(t, row.queue)
				var made []*producer.Producer
				var stores []*recordstest.Faulty
				for range 3 {
					client := p.server.Client()
					client.SetFault(sometimes(t, row.unknown))
					store := &recordstest.Faulty{Store: p.store, NoClock: row.noClock, Fault: recordstest.Sometimes(t, recordstest.Chances{
						Before: 0.1, After: 0.1, Late: 0.05, Slow: 0.3, DelayMax: 500 * time.Millisecond,
					})}
					stores = append(stores, store)
					made = append(made, p.producer(client, store, producer.Config{}))
				}
				type answer struct {
					producer.Receipt
					doubts int // how often it may have sent as well
				}
				answers := make([]answer, 200)
				began := time.Now()
				var running sync.WaitGroup
				for i := range answers {
					running.Go(func() {
						m := file(fmt.Sprint("key ", i%10))
						a := &answers[i]
						for {
							r, err := made[i%3].SendOnce(context.Background(), m)
							a.Receipt = r
							switch {
							case err == nil:
								return
							case errors.Is(err, producer.ErrUnrecorded):
								a.doubts++
								return // it is sent
							case errors.Is(err, producer.ErrUnknown):
								a.doubts++
							case errors.Is(err, producer.ErrRefused) || r.New:
								t.Errorf("receipt %+v, error %v", r, err)
								return
							}
							time.Sleep(rand.N(time.Second))
						}
					})
				}
				running.Wait()
				took := time.Since(began)
				for _, store := range stores {
					must(t, store.Close()) // what is late is over
				}

				ids := make(map[string]string) // of what is in the queue: message to key
				queued := make(map[string]int)
				for _, m := range p.drain() {
					key := (*m.MessageAttributes["tenaq"].StringValue)
					ids[*m.MessageId] = key
					queued[key]++
				}
				fresh, doubts := make(map[string]int), make(map[string]int)
				for _, a := range answers {
					key := "v=1&key=" + "key+" + a.Key[len("key "):]
					if a.New {
						fresh[key]++
					}
					if a.doubts > 0 {
						doubts[key] += a.doubts
					}
					if ids[a.MessageID] != key || a.Differs {
						t.Errorf("receipt %+v, message %s is of %q", a.Receipt, a.MessageID, ids[a.MessageID])
					}
				}
				if len(queued) != 10 {
					t.Errorf("%d keys in the queue, want 10", len(queued))
				}
				for key, n := range queued {
					certain := doubts[key] == 0 || row.queue == "orders.fifo" && took < window
					if n < 1 || certain && n != 1 || fresh[key] < 1 || doubts[key] == 0 && fresh[key] != 1 || n > fresh[key]+doubts[key] {
						t.Errorf("%s: %d messages, %d receipts are new, %d doubts", key, n, fresh[key], doubts[key])
					}
				}
				if !row.unknown && len(doubts) > 0 {
					t.Errorf("doubts %v without lost answers", doubts)
				}
				p.wantMessages(0)
			})
		})
	}
}

// sometimes is trouble with a queue at random.
func sometimes(t *testing.T, unknown bool) func(string) sqstest.Fault {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 2))
	return func(string) sqstest.Fault {
		switch n := rng.IntN(10); {
		case n < 3:
			return sqstest.Throttled
		case !unknown:
			return sqstest.None
		default:
			return []sqstest.Fault{sqstest.None, sqstest.Dropped, sqstest.Unanswered, sqstest.Broken}[n%4]
		}
	}
}
