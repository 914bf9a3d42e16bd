package worker

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/sqslimits"
)

// A batcher gathers entries of one operation into requests of up to ten, because SQS bills
// requests. It sends the first entry at once. Entries that come during a request wait for the next
// one. That goes when there are ten, when the request in progress has ended, or after gatherMax.
type batcher[T any] struct {
	send func([]T) []error // carries out a request; returns one error per entry
	crew *crew             // runs requests

	mu      sync.Mutex
	waiting []batched[T]
	running int
	timing  bool // slow is about to be called
}

type batched[T any] struct {
	entry T
	done  chan<- error
}

// batchersMax is the maximum number of concurrent requests of one operation.
const batchersMax = 4

// do carries out an entry and returns its error.
func (b *batcher[T]) do(entry T) error {
	done := make(chan error, 1)
	b.mu.Lock()
	b.waiting = append(b.waiting, batched[T]{entry, done})
	switch {
	case b.running == 0 || len(b.waiting) >= sqslimits.BatchMax:
		b.start()
	case !b.timing:
		b.timing = true
		time.AfterFunc(gatherMax, b.slow)
	}
	b.mu.Unlock()
	return <-done
}

// slow begins another request, because those in progress are slow. One timer serves all entries, so
// some wait for less than gatherMax.
func (b *batcher[T]) slow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timing = false
	b.start()
}

// start begins a request with the waiting entries, if another request is allowed. The caller holds
// the mutex.
func (b *batcher[T]) start() {
	if len(b.waiting) > 0 && b.running < batchersMax {
		b.running++
		b.crew.run(b.run)
	}
}

// run sends the waiting entries. It continues while there are full requests, or while it is the
// only run.
func (b *batcher[T]) run() {
	runtime.Gosched() // include entries that come at this moment
	for {
		b.mu.Lock()
		batch := b.waiting[:min(len(b.waiting), sqslimits.BatchMax)]
		b.waiting = b.waiting[len(batch):]
		b.mu.Unlock()

		entries := make([]T, len(batch))
		for i := range batch {
			entries[i] = batch[i].entry
		}
		if len(entries) > 0 { // another run may have taken them
			for i, err := range b.send(entries) {
				batch[i].done <- err
			}
		}

		b.mu.Lock()
		if len(b.waiting) == 0 || len(b.waiting) < sqslimits.BatchMax && b.running > 1 {
			b.running--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}

// requestMax is the time limit of a request to the queue, including the retries of the client.
const requestMax = 15 * time.Second

// A show changes the visibility of a message.
type show struct {
	handle string
	after  time.Duration // how long the message is hidden from now on
}

// changeVisibility carries out one request. The error of an entry that the queue refused is an
// *entryError.
func (w *Worker) changeVisibility(ctx context.Context, entries []show) []error {
	in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &w.cfg.QueueURL}
	for i, e := range entries {
		in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id:                aws.String(strconv.Itoa(i)),
			ReceiptHandle:     aws.String(e.handle),
			VisibilityTimeout: int32(e.after / time.Second),
		})
	}
	out, err := w.cfg.Client.ChangeMessageVisibilityBatch(ctx, in)
	if err != nil {
		return alike(err, len(entries))
	}
	return outcomes(out.Failed, len(entries))
}

// deleteMessages carries out one request.
func (w *Worker) deleteMessages(ctx context.Context, handles []string) []error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &w.cfg.QueueURL}
	for i, handle := range handles {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{
			Id:            aws.String(strconv.Itoa(i)),
			ReceiptHandle: aws.String(handle),
		})
	}
	out, err := w.cfg.Client.DeleteMessageBatch(ctx, in)
	if err != nil {
		return alike(err, len(handles))
	}
	return outcomes(out.Failed, len(handles))
}

// alike returns the same error for each of n entries.
func alike(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// outcomes returns the error of each of n entries.
func outcomes(failed []types.BatchResultErrorEntry, n int) []error {
	errs := make([]error, n)
	for _, f := range failed {
		if i, err := strconv.Atoi(aws.ToString(f.Id)); err == nil && i >= 0 && i < n {
			errs[i] = &entryError{aws.ToString(f.Code), aws.ToString(f.Message), f.SenderFault}
		}
	}
	return errs
}

// An entryError says why the queue refused one entry of a batch.
type entryError struct {
	code, message string
	senderFault   bool
}

func (e *entryError) Error() string { return fmt.Sprintf("%s: %s", e.code, e.message) }

// final reports whether the queue would refuse the same entry again, because the receipt handle is
// no longer valid. Throttling is also a sender fault, but passes.
func (e *entryError) final() bool {
	switch e.code {
	case "RequestThrottled", "ThrottlingException", "Throttling", "RequestLimitExceeded":
		return false
	}
	return e.senderFault
}
