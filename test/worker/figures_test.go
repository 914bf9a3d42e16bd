//go:build unix

package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/testing/sqstest"
	"tenaq/records/recordstest"
	"tenaq/worker"
)

// After a worker is killed, another one begins its work not much later than the lease ends. The
// test logs the distribution, and fails only far beyond it, so that a busy machine does not fail
// it.
func TestTakeOver(t *testing.T) {
	for _, ledgerLease := range []time.Duration{2 * time.Second, lease} {
		t.Run(fmt.Sprint("ledger ", ledgerLease), func(t *testing.T) {
			t.Parallel()
			took := make(chan []time.Duration)
			const rounds = 3
			for round := range rounds {
				go func() {
					var times []time.Duration
					defer func() { took <- times }()
					times = takeOver(t, round, ledgerLease)
				}()
			}
			var all []time.Duration
			for range rounds {
				all = append(all, <-took...)
			}
			if len(all) == 0 {
				t.Fatal("nothing was taken over") // not even the busiest machine loses all leases before
			}
			slices.Sort(all)
			at := func(p float64) time.Duration { return all[int(p*float64(len(all)-1))].Round(10 * time.Millisecond) }
			t.Logf("%d messages taken over, leases of %v and %v in the ledger: after %v at least, %v in the middle, %v at nine in ten, %v at most",
				len(all), lease, ledgerLease, at(0), at(.5), at(.9), at(1))
			if got := at(1); got > lease+10*time.Second {
				t.Errorf("a message was taken over after %v, with a lease of %v", got, lease)
			}
		})
	}
}

// takeOver kills a worker that is at some messages, and returns after which time another was at
// each.
func takeOver(t *testing.T, round int, ledgerLease time.Duration) (times []time.Duration) {
	const messages = 6
	server := startServer(t)
	w := &world{T: t, oracle: newOracle(attempts), api: connect(server, 3, nil)}
	w.url, w.dead = makeQueues(t, w.api, false, 1000)
	s := newWorkshop(t, childConfig{
		Endpoint: server, Queue: w.url, Store: filepath.Join(t.TempDir(), "records.db"),
		Attempts: attempts, Concurrency: messages, LedgerLease: ledgerLease,
	})
	w.oracle = s.oracle
	begun := make(chan *run, 10*messages)
	s.begun = func(r *run) { begun <- r }
	for n := range messages {
		w.send(&sent{order: order{N: n, Key: fmt.Sprint("order-", n), Kind: endless}})
	}
	next := func() *run {
		select {
		case r := <-begun:
			return r
		case <-time.After(time.Minute):
			t.Error("no handler has begun for a minute")
			return nil
		}
	}
	first := s.hire("first")
	for range messages {
		if next() == nil {
			return nil
		}
	}
	second := s.hire("second")
	defer second.kill()
	wait(t.Context(), lease+time.Duration(round)*lease/3) // leases are renewed meanwhile, and the second waits
	killed := time.Now()
	first.kill()
	for at := make(map[string]bool); len(at) < messages; {
		r := next()
		if r == nil {
			return nil
		}
		if r.worker == "second" {
			at[r.key] = true
		}
		// On a busy machine the first may have lost its lease before it was killed.
		if r.takeover && r.beganAt.After(killed) {
			times = append(times, r.beganAt.Sub(killed))
		}
	}
	return times
}

// A beatCounter counts renewals of leases.
type beatCounter struct {
	*sqstest.Client
	requests, messages atomic.Int64
}

// ChangeMessageVisibilityBatch is the Client's.
func (c *beatCounter) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	c.requests.Add(1)
	c.messages.Add(int64(len(in.Entries)))
	return c.Client.ChangeMessageVisibilityBatch(ctx, in, options...)
}

// How many requests it takes to keep messages for as long as a lease: not many more than three full
// batches for ten of them.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	const leases = 2
	messages := 200
	if soak() {
		messages = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		server := sqstest.New(t)
		server.Queue(t, "dead")
		url := server.Queue(t, "orders", "RedrivePolicy", sqstest.RedrivePolicy("dead", "10"))
		client := &beatCounter{Client: server.Client()}
		for n := range messages {
			_, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(fmt.Sprint(n))})
			must(t, err)
		}
		store := &recordstest.Faulty{Store: recordstest.NewMemory()}
		ledger, err := claims.New(claims.Config{Store: store})
		must(t, err)
		var begun, lost atomic.Int64
		w, err := worker.New(worker.Config{
			Client: client, QueueURL: url, Claims: ledger, Concurrency: messages, Logger: slog.New(slog.DiscardHandler),
			Handler: worker.HandlerFunc(func(ctx context.Context, _ *worker.Message) error {
				begun.Add(1)
				<-ctx.Done()
				return context.Cause(ctx)
			}),
			Drain: time.Second,
			Events: worker.Events{Outcome: func(_ *worker.Message, o worker.Outcome) {
				if o.Kind == worker.Lost {
					lost.Add(1)
				}
			}},
		})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(time.Minute) // they begin, and their renewals find together
		if got := begun.Load(); got != int64(messages) {
			t.Fatalf("%d handlers have begun, want %d", got, messages)
		}
		requests, renewed, writes := client.requests.Load(), client.messages.Load(), store.Calls()
		time.Sleep(leases * time.Minute)
		requests, renewed, writes = client.requests.Load()-requests, client.messages.Load()-renewed, store.Calls()-writes
		t.Logf("%d messages in flight: %d requests per lease, with %.1f messages each; a message is renewed %.2f times per lease, and its claim %.2f times",
			messages, requests/leases, float64(renewed)/float64(requests),
			float64(renewed)/leases/float64(messages), float64(writes)/leases/float64(messages))
		if got, most := requests/leases, int64(2*3*messages/10); got > most {
			t.Errorf("%d requests per lease, want at most %d", got, most)
		}
		if got := lost.Load(); got > 0 {
			t.Errorf("%d messages were lost", got)
		}
		stop()
		must(t, <-ended)
	})
}
