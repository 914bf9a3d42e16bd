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
)

// A batcher gathers entries of one operation into requests of up to ten: requests are what a queue
// counts, and SQS bills. The first entry goes at once. What comes while a request is under way goes
// together with the next: when there are ten, when that request has ended, or after gatherMax.
type batcher[T any] struct {
	send func([]T) []error // carries out a request; one error for each entry

	mu      sync.Mutex
	waiting []batched[T]
	running int
}

type batched[T any] struct {
	entry T
	done  chan<- error
}

// batchersMax is how many requests of one operation are under way at once.
const batchersMax = 4

// do carries out an entry and returns what became of it.
func (b *batcher[T]) do(entry T) error {
	done := make(chan error, 1)
	b.mu.Lock()
	b.waiting = append(b.waiting, batched[T]{entry, done})
	if b.running == 0 || len(b.waiting) >= receiveMax {
		b.start()
	}
	b.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-time.After(gatherMax):
	}
	b.mu.Lock()
	b.start() // the requests under way take their time
	b.mu.Unlock()
	return <-done
}

// start begins a request with what waits, if there may be another. The mutex is held.
func (b *batcher[T]) start() {
	if len(b.waiting) > 0 && b.running < batchersMax {
		b.running++
		go b.run()
	}
}

// run sends what waits, and goes on while there are whole requests, or no other run does.
func (b *batcher[T]) run() {
	runtime.Gosched() // what is ending at this moment comes along
	for {
		b.mu.Lock()
		batch := b.waiting[:min(len(b.waiting), receiveMax)]
		b.waiting = b.waiting[len(batch):]
		b.mu.Unlock()

		entries := make([]T, len(batch))
		for i := range batch {
			entries[i] = batch[i].entry
		}
		if len(entries) > 0 { // another may have taken them
			for i, err := range b.send(entries) {
				batch[i].done <- err
			}
		}

		b.mu.Lock()
		if len(b.waiting) == 0 || len(b.waiting) < receiveMax && b.running > 1 {
			b.running--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}

// requestMax bounds one request to the queue, the tries of the client included.
const requestMax = 15 * time.Second

// A show is a change of the visibility of a message: hidden for so long from now on.
type show struct {
	handle string
	after  time.Duration
}

// changeVisibility carries out one request. Its errors are *entryError where the queue refused an
// entry.
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

// alike is the same error for each of n entries.
func alike(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// outcomes sorts the refusals of a batch by entry.
func outcomes(failed []types.BatchResultErrorEntry, n int) []error {
	errs := make([]error, n)
	for _, f := range failed {
		if i, err := strconv.Atoi(aws.ToString(f.Id)); err == nil && i >= 0 && i < n {
			errs[i] = &entryError{aws.ToString(f.Code), aws.ToString(f.Message), f.SenderFault}
		}
	}
	return errs
}

// An entryError is why the queue did not carry out one entry of a batch.
type entryError struct {
	code, message string
	senderFault   bool
}

func (e *entryError) Error() string { return fmt.Sprintf("%s: %s", e.code, e.message) }

// final reports whether the same entry would be refused again: the receipt handle is no longer
// good. Throttling is the sender's fault too, and passes.
func (e *entryError) final() bool {
	switch e.code {
	case "RequestThrottled", "ThrottlingException", "Throttling", "RequestLimitExceeded":
		return false
	}
	return e.senderFault
}
