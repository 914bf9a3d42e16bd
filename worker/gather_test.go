package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/sqstest"
	"tenaq/worker"
)

const deletion = "DeleteMessageBatch"

// A slowQueue takes its time to delete.
type slowQueue struct{ worker.SQS }

func (q slowQueue) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	time.Sleep(10 * time.Millisecond)
	return q.SQS.DeleteMessageBatch(ctx, in, options...)
}

// Messages that were handled together are deleted together, and so are messages that happen to end
// together.
func TestDeletesAreGathered(t *testing.T) {
	for name, handler := range map[string]worker.Handler{
		"one by one": worker.HandlerFunc(func(context.Context, *worker.Message) error { return nil }),
		"in batches": batchFunc(func(context.Context, []*worker.Message) error { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "", func(t *testing.T, r *rig) {
				const messages = 100
				for range messages {
					r.send("a")
				}
				cfg := r.config(nil)
				cfg.Client, cfg.Handler = slowQueue{r.client}, handler
				if name == "in batches" {
					cfg.Concurrency = 1
				}
				r.run(cfg)
				r.sleep(time.Minute)
				if got := len(r.lines("done")); got != messages {
					t.Errorf("%d done, want %d", got, messages)
				}
				if calls := r.client.Calls(deletion); calls < messages/10 || calls > messages/5 {
					t.Errorf("%d requests to delete %d messages, want %d to %d", calls, messages, messages/10, messages/5)
				}
			})
		})
	}
}

// A place for a handler is free when the handler has returned, however long it takes to inform the
// queue.
func TestPlaceIsFreeBeforeDelete(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.send("a")
		r.send("b")
		broken := 2
		r.client.SetFault(func(operation string) sqstest.Fault {
			if operation != deletion || broken == 0 {
				return sqstest.None
			}
			broken--
			return sqstest.Broken
		})
		var began []time.Duration
		cfg := r.config(func(context.Context, *worker.Message) error {
			began = append(began, time.Since(r.at))
			return nil
		})
		cfg.Concurrency, cfg.Prefetch = 1, 1
		r.run(cfg)
		r.sleep(time.Minute)
		if len(began) != 2 || began[0] != began[1] {
			t.Errorf("handlers began at %v, want two at the same time", began)
		}
		r.wantCount(r.url, 0)
	})
}
