package worker

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"tenaq/claims"
	"tenaq/internal/work/queuename"
	"tenaq/records"
)

// If the claims are records of the server that has the queue, it completes a claim and deletes the
// message in one step: one request instead of two, and no crash can come in between. [REC-15]

// A deletingStore is a store of claims that deletes messages: a *serverrecords.Store.
type deletingStore interface {
	PutAndDelete(ctx context.Context, w records.Write, queue, handle string) (
		rec records.Record, deleted bool, err error)
	Deletes(ctx context.Context, client interface{ Options() sqs.Options }, queue string) bool
}

// A deleteObserver is a client that tracks the messages of the worker. A delete together with the
// end of a claim does not call DeleteMessage, so the worker calls Deleted after each one.
type deleteObserver interface{ Deleted(handle string) }

// ends completes claims and deletes messages in one step.
type ends struct {
	queue   string
	deleted func(handle string)
	refused atomic.Bool // the server no longer allows it
}

// newEnds returns nil if the server does not do that, or if a client that is not the SDK's would
// not see the deletes.
func newEnds(ctx context.Context, client SQS, ledger *claims.Ledger, queueURL string) *ends {
	if ledger == nil {
		return nil
	}
	store, ok := ledger.Store().(deletingStore)
	server, has := client.(interface{ Options() sqs.Options })
	if !ok || !has {
		return nil
	}
	e := &ends{queue: queuename.Of(queueURL), deleted: func(string) {}}
	if observer, ok := client.(deleteObserver); ok {
		e.deleted = observer.Deleted
	} else if _, plain := client.(*sqs.Client); !plain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	if !store.Deletes(ctx, server, e.queue) {
		return nil
	}
	return e
}

// areTaken reports whether the server completes and deletes in one step.
func (e *ends) areTaken() bool { return e != nil && !e.refused.Load() }

// completeAndDelete completes the claim of a message and deletes the message. If the message could
// not be deleted, or that is not known, it is deleted afterwards, like that of any other store.
func (w *Worker) completeAndDelete(ctx context.Context, d *delivery) error {
	// A renewal must not meet a message that is already deleted, also not before the hold ends.
	resume := w.custody.pauseRenewals(d.hold)
	defer func() {
		if !d.deleted {
			resume()
		}
	}()
	err := d.claim.CompleteBy(ctx, d.recorded(), func(
		ctx context.Context, store records.Store, write records.Write,
	) (rec records.Record, err error) {
		rec, d.deleted, err = store.(deletingStore).PutAndDelete(ctx, write, w.ends.queue, d.handle)
		return rec, err
	})
	if d.deleted {
		w.ends.deleted(d.handle)
	}
	if refusal, ok := errors.AsType[smithy.APIError](err); ok &&
		refusal.ErrorFault() == smithy.FaultClient {
		w.ends.refused.Store(true) // such as a right that was taken away
	}
	return err
}
