package order

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/worker"
)

// A worker without heartbeats is one whose renewals are answered and not carried out: it does not know that its
// leases end. (One that is told so stops by itself, and only that would be seen.)

// A deafQueue does not renew the leases of messages. What it is asked to give back it does.
type deafQueue struct{ worker.SQS }

// ChangeMessageVisibilityBatch answers renewals itself.
func (q deafQueue) ChangeMessageVisibilityBatch(
	ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options),
) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	var others []types.ChangeMessageVisibilityBatchRequestEntry
	for _, e := range in.Entries {
		if e.VisibilityTimeout != int32(lease/time.Second) {
			others = append(others, e)
		}
	}
	if len(others) == 0 {
		return &sqs.ChangeMessageVisibilityBatchOutput{}, nil
	}
	rest := *in
	rest.Entries = others
	return q.SQS.ChangeMessageVisibilityBatch(ctx, &rest, options...)
}

// A deafStore does not renew claims.
type deafStore struct{ records.Store }

// Put answers a write that is a renewal as if it had been made: one of an entry that is held, under a fence
// that it has already.
func (s deafStore) Put(ctx context.Context, w records.Write) (records.Record, error) {
	var entry struct {
		State claims.State `json:"state"`
		Fence uint64       `json:"fence"`
	}
	if json.Unmarshal(w.Value, &entry) == nil && entry.State == claims.Held && entry.Fence != 0 {
		return records.Record{Key: w.Key, Value: w.Value, Version: w.If, TTL: w.TTL}, nil
	}
	return s.Store.Put(ctx, w)
}
