package worker_test

import (
	"context"
	"log/slog"
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

// takeOverMax is how much longer than a lease a take-over may take, in virtual time: a busy message
// is given back for the rest of the lease in whole seconds.
const takeOverMax = time.Second

// The same takeover with the default leases of workers and ledgers, where only waiting takes time.
// The worker dies like a machine whose cable is pulled.
func TestTakeOverOfDefaults(t *testing.T) {
	t.Parallel()
	for _, ledgerLease := range []time.Duration{40 * time.Second, time.Minute} {
		var all []time.Duration
		for trial := range 60 {
			synctest.Test(t, func(t *testing.T) {
				// The death falls into every part of a lease.
				all = append(all, pullTheCable(t, ledgerLease, time.Minute+time.Duration(trial)*1700*time.Millisecond))
			})
		}
		slices.Sort(all)
		at := func(p float64) time.Duration { return all[int(p*float64(len(all)-1))].Round(10 * time.Millisecond) }
		t.Logf("%d messages, leases of %v and %v in the ledger: taken over after %v at least, %v in the middle, %v at nine in ten, %v at most",
			len(all), time.Minute, ledgerLease, at(0), at(.5), at(.9), at(1))
		if got := at(1); got > time.Minute+takeOverMax {
			t.Errorf("a message was taken over after %v, want a lease and %v at most", got, takeOverMax)
		}
	}
}

// pullTheCable lets a worker die that has been at a message for some time, and returns after which
// time another one is at it.
func pullTheCable(t *testing.T, ledgerLease, after time.Duration) time.Duration {
	server := sqstest.New(t)
	server.Queue(t, "dead")
	url := server.Queue(t, "orders", "RedrivePolicy", sqstest.RedrivePolicy("dead", "10"))
	_, err := server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")})
	must(t, err)
	store := recordstest.NewMemory()
	begun := make(chan time.Time, 10)
	work := func(t *testing.T, client *sqstest.Client, fault func(recordstest.Call) recordstest.Fault) (stop func()) {
		ledger, err := claims.New(claims.Config{Store: &recordstest.Faulty{Store: store, Fault: fault}, Lease: ledgerLease})
		must(t, err)
		w, err := worker.New(worker.Config{
			Client: client, QueueURL: url, Claims: ledger, Logger: slog.New(slog.DiscardHandler),
			Handler: worker.HandlerFunc(func(ctx context.Context, _ *worker.Message) error {
				begun <- time.Now()
				<-ctx.Done()
				return context.Cause(ctx)
			}),
			Drain: time.Second,
		})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	var dead atomic.Bool
	first := server.Client()
	stopFirst := work(t, first, func(recordstest.Call) (f recordstest.Fault) {
		if dead.Load() {
			f.How = recordstest.Before
		}
		return f
	})
	<-begun
	stopSecond := work(t, server.Client(), nil)
	time.Sleep(after)
	died := time.Now()
	dead.Store(true)
	first.SetFault(func(string) sqstest.Fault { return sqstest.Dropped })
	took := (<-begun).Sub(died)
	stopSecond()
	stopFirst()
	return took
}
