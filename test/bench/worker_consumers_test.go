package bench

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/records/recordstest"
	"tenaq/records/serverrecords"
	"tenaq/records/sqliterecords"
	"tenaq/worker"
)

// allConsumers are those that are compared. What the worker's are compared with has as many
// handlers at once.
func allConsumers(b *testing.B, a *arena) []consumer {
	memory := func() (records.Store, error) { return recordstest.NewMemory(), nil }
	sqlite := func() (records.Store, error) {
		return sqliterecords.New(sqliterecords.Config{Path: filepath.Join(b.TempDir(), "records.db")})
	}
	server := func() (records.Store, error) {
		return serverrecords.New(serverrecords.Config{Client: a.client})
	}
	all := []consumer{
		loop(1, deleteBatch), loop(1, deleteEach),
		loop(10, deleteBatch), loop(10, deleteEach),
		loop(100, deleteBatch),
	}
	all = append(all,
		ofWorker(worker.Config{Concurrency: 10, Prefetch: 90}, "", nil),  // both hold as many messages
		ofWorker(worker.Config{Concurrency: 10, BatchSize: 10}, "", nil)) // as the loop of 10
	for _, n := range []int{10, 100} {
		all = append(all,
			ofWorker(worker.Config{Concurrency: n}, "", nil),
			ofWorker(worker.Config{Concurrency: n}, "memory", memory),
			ofWorker(worker.Config{Concurrency: n}, "SQLite", sqlite),
			ofWorker(worker.Config{Concurrency: n}, "the server", server))
	}
	if node := startNode(b, a); node != nil {
		all = append(all,
			node.consumer(1, false), node.consumer(1, true),
			node.consumer(10, false), node.consumer(10, true))
	}
	return all
}

// An observer is the client of one consumer. It counts the requests that are answered, up to the
// one that deletes the last message.
type observer struct {
	*sqs.Client
	handled atomic.Int64
	done    chan struct{} // closed when no message is left

	mu      sync.Mutex
	left    int // messages
	began   time.Time
	cpu     time.Duration // of this process, at the start
	outcome outcome
}

func newObserver(client *sqs.Client, messages int) *observer {
	return &observer{
		Client: client, done: make(chan struct{}), left: messages,
		began: time.Now(), cpu: cpuTime(), outcome: outcome{Answered: make(map[string]int)},
	}
}

// answered counts a request and the messages that it has deleted.
func (o *observer) answered(operation string, deleted int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left == 0 {
		return
	}
	o.outcome.Answered[operation]++
	o.delete(deleted)
}

// gone counts messages that were deleted without a request of their own.
func (o *observer) gone(messages int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left > 0 {
		o.delete(messages)
	}
}

// delete counts deleted messages. The caller holds the mutex.
func (o *observer) delete(messages int) {
	if o.left -= messages; o.left == 0 {
		o.outcome.Took, o.outcome.CPU = time.Since(o.began), cpuTime()-o.cpu
		o.outcome.Handled = int(o.handled.Load())
		close(o.done)
	}
}

// Deleted is called for a message that was deleted together with the end of its claim.
func (o *observer) Deleted(string) { o.gone(1) }

// wait waits for the last message.
func (o *observer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		return fmt.Errorf("%d messages are left: %w", o.left, context.Cause(ctx))
	case <-o.done:
		return nil
	}
}

func (o *observer) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out, err := o.Client.ReceiveMessage(ctx, in, options...)
	if err == nil {
		o.answered("ReceiveMessage", 0)
	}
	return out, err
}

func (o *observer) DeleteMessage(ctx context.Context, in *sqs.DeleteMessageInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	out, err := o.Client.DeleteMessage(ctx, in, options...)
	if err == nil {
		o.answered("DeleteMessage", 1)
	}
	return out, err
}

func (o *observer) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	out, err := o.Client.DeleteMessageBatch(ctx, in, options...)
	if err == nil {
		o.answered("DeleteMessageBatch", len(out.Successful))
	}
	return out, err
}

func (o *observer) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	out, err := o.Client.ChangeMessageVisibilityBatch(ctx, in, options...)
	if err == nil {
		o.answered("ChangeMessageVisibilityBatch", 0)
	}
	return out, err
}

// A batchHandler is a handler of batches.
type batchHandler func(batch int)

func (h batchHandler) Handle(context.Context, *worker.Message) error { h(1); return nil }

func (h batchHandler) HandleBatch(_ context.Context, batch []*worker.Message) error {
	h(len(batch))
	return nil
}

// ofWorker is package worker, with handlers of batches if there is a size of them. Open opens the
// store of its claims; nil is a worker without.
func ofWorker(cfg worker.Config, store string, open func() (records.Store, error)) consumer {
	name := fmt.Sprintf("worker of %d", cfg.Concurrency)
	if cfg.Prefetch > 0 {
		name += fmt.Sprintf(", prefetching %d", cfg.Prefetch)
	}
	if cfg.BatchSize > 0 {
		name += fmt.Sprintf(", batches of %d", cfg.BatchSize)
	}
	if open != nil {
		name += ", claims in " + store
	}
	return consumer{name, nameOfLoop(cfg.Concurrency, deleteBatch), func(ctx context.Context, o *observer, queueURL string) error {
		cfg := cfg
		cfg.Client, cfg.QueueURL = o, queueURL
		cfg.Handler = worker.HandlerFunc(func(context.Context, *worker.Message) error {
			o.handled.Add(1)
			return nil
		})
		if cfg.BatchSize > 0 {
			cfg.Handler = batchHandler(func(n int) { o.handled.Add(int64(n)) })
		}
		cfg.Logger, cfg.NoClaims = slog.New(slog.DiscardHandler), open == nil
		if open != nil {
			store, err := open()
			if err != nil {
				return err
			}
			defer store.Close()
			if cfg.Claims, err = claims.New(claims.Config{Store: store}); err != nil {
				return err
			}
		}
		w, err := worker.New(cfg)
		if err != nil {
			return err
		}
		working, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(working) }()
		err = o.wait(ctx)
		stop()
		if ran := <-ended; err == nil {
			err = ran
		}
		return err
	}}
}

// How a loop deletes what it has handled.
const (
	deleteBatch = false
	deleteEach  = true
)

func nameOfLoop(goroutines int, each bool) string {
	name := fmt.Sprintf("loop of %d", goroutines)
	if each {
		name += ", deleting one by one"
	}
	return name
}

// loop is what is usually written by hand: each of its goroutines receives ten messages, handles
// one after the other and deletes them, all of them with one request or each with one of its own.
func loop(goroutines int, each bool) consumer {
	return consumer{nameOfLoop(goroutines, each), nameOfLoop(goroutines, deleteBatch), func(ctx context.Context, o *observer, queueURL string) error {
		working, stop := context.WithCancelCause(ctx)
		var running sync.WaitGroup
		for range goroutines {
			running.Go(func() {
				for working.Err() == nil {
					if err := o.turn(working, queueURL, each); err != nil {
						stop(err)
					}
				}
			})
		}
		err := o.wait(working)
		stop(nil)
		running.Wait()
		return err
	}}
}

// turn receives messages, handles them and deletes them.
func (o *observer) turn(ctx context.Context, queueURL string, each bool) error {
	out, err := o.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queueURL, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
	if err != nil || len(out.Messages) == 0 {
		return err
	}
	var entries []types.DeleteMessageBatchRequestEntry
	for i, m := range out.Messages {
		o.handled.Add(1)
		if each {
			if _, err := o.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &queueURL, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return err
			}
			continue
		}
		id := strconv.Itoa(i)
		entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: m.ReceiptHandle})
	}
	if each {
		return nil
	}
	_, err = o.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &queueURL, Entries: entries})
	return err
}
