package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// naive is the usual first worker: it receives messages, handles them, and deletes them. Their
// visibility timeout is that of the queue.
func (w *world) naive(ctx context.Context, name string) {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for ctx.Err() == nil {
		out, err := w.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &w.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
		if err != nil {
			continue
		}
		for _, m := range out.Messages {
			handlers.Go(func() { w.handleNaively(name, m) })
		}
	}
}

func (w *world) handleNaively(name string, m types.Message) {
	var o order
	if err := json.Unmarshal([]byte(*m.Body), &o); err != nil {
		w.Error(err)
		return
	}
	r := &run{worker: name, id: *m.MessageId, key: o.Key, ctx: context.Background()}
	w.oracle.begin(r)
	err := act(w.oracle, r, script{length: time.Duration(o.N%15) * lease / 10})
	w.oracle.end(r, succeeded)
	if err != nil {
		return
	}
	w.oracle.done(r)
	if _, err := w.api.DeleteMessage(context.Background(), &sqs.DeleteMessageInput{QueueUrl: &w.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
		w.Error(err)
	}
}

// The oracle is worth something: it finds a naive worker guilty, without any trouble between it and
// the queue.
func TestNaiveWorkerIsGuilty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldConfig{receives: 1000}, 0)
	w.oracle.ledger = false
	_, err := w.api.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: &w.url, Attributes: map[string]string{"VisibilityTimeout": "3"},
	})
	must(t, err)
	for n := range 60 {
		w.send(&sent{order: order{N: n, Key: fmt.Sprint("order-", n), Kind: good}})
	}
	// Work that takes longer than the visibility timeout never ends: its message is received again
	// before it can be deleted.
	ctx, stop := context.WithTimeout(t.Context(), 3*lease)
	defer stop()
	var workers sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		workers.Go(func() { w.naive(ctx, name) })
	}
	workers.Wait()
	e := w.end()
	e.entries = nil
	w.mustFind(w.oracle.judge(e), ruleOnce, ruleOverlap)
}

// Without claims, two messages of the same work are handled at the same time, whatever the leases.
func TestWithoutClaimsHandlersOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldConfig{receives: 1000, noLedger: true}, 2)
	w.oracle.ledger = false
	for n := range 60 {
		w.send(&sent{order: order{N: n, Key: fmt.Sprint("order-", n/3), Kind: good}})
	}
	w.mustFind(w.storm(time.Second, 5), ruleOverlap)
}

// mustFind fails a test unless the oracle found that rules were broken.
func (w *world) mustFind(violations []violation, rules ...string) {
	w.Helper()
	w.Log(w.oracle.figures())
	found := broken(violations)
	w.Logf("found %d violations, of %q", len(violations), found)
	for _, rule := range rules {
		if !slices.Contains(found, rule) {
			w.Errorf("the oracle did not find the rule %q broken", rule)
		}
	}
}
