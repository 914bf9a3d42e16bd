package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/testing/proof"
	"tenaq/internal/work/v1client"
	"tenaq/worker"
)

// A message that moves in one step is in one queue, whenever the server is killed. Workers make all
// messages dead letters, half of them as poison, and then clients send all letters back, some with
// park. In the end each is there once. [NACK-5, NACK-17, NACK-18, NACK-19, NACK-20]
func TestKillLetters(t *testing.T) {
	t.Parallel()
	seed := proof.Seed(t)
	k := &tagged{rig: newRig(t, time.Second)}
	k.v1 = v1client.New(k.api)
	n := (kills() + 1) / 2
	count := 200*n + 1000 // at most 400 a second move, so the first life of the server sees no end
	source, dead := k.pair("orders", "", 1000)
	ids := make(map[string]string, count)
	for len(ids) < count {
		in := &sqs.SendMessageBatchInput{QueueUrl: &source}
		for i := range 10 {
			id := fmt.Sprint(i)
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: &id, MessageBody: aws.String(fmt.Sprint("order-", len(ids)+i))})
		}
		out, err := k.api.SendMessageBatch(t.Context(), in)
		k.must(err)
		first := len(ids)
		for _, sent := range out.Successful {
			var i int
			_, err := fmt.Sscan(*sent.Id, &i)
			k.must(err)
			ids[fmt.Sprint("order-", first+i)] = *sent.MessageId
		}
		if len(ids) != first+10 {
			t.Fatalf("the server stored %d of 10 messages", len(ids)-first)
		}
	}

	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var workers sync.WaitGroup
	for range 2 {
		w, err := worker.New(worker.Config{
			Client: k.api, QueueURL: source, NoClaims: true, Attempts: 1, Concurrency: 4, Lease: 10 * time.Second,
			Handler: worker.HandlerFunc(func(ctx context.Context, m *worker.Message) error {
				wait(ctx, 20*time.Millisecond)
				if m.Body[len(m.Body)-1]%2 == 0 {
					return worker.Poison(errors.New("an even order"))
				}
				return errors.New("an odd order")
			}),
		})
		k.must(err)
		workers.Go(func() {
			err := w.Run(ctx)
			for ; err != nil && ctx.Err() == nil; err = w.Run(ctx) {
				refusal, answered := errors.AsType[smithy.APIError](err)
				if answered && refusal.ErrorFault() == smithy.FaultClient { // else it began while the server was down
					stop(err)
				}
			}
		})
	}
	k.dies(ctx, seed, n, source)
	k.must(k.reaches(ctx, dead.URL, count))
	stop(nil)
	workers.Wait()
	k.wantAll("become dead letters", source, dead.URL, ids, true)

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var movers sync.WaitGroup
	for i := range 4 {
		movers.Go(func() {
			if err := k.sendOn(ctx, dead.URL, "orders-dead", map[string]any{"to": "orders", "park": i%2 == 0}, 10*time.Millisecond); err != nil {
				cancel(err)
			}
		})
	}
	k.dies(ctx, seed+1, n, dead.URL)
	k.must(k.reaches(ctx, source, count))
	cancel(nil)
	movers.Wait()
	k.wantAll("are sent on", dead.URL, source, ids, false)
	k.must(k.Stop())
}

// dies kills the server n times, a quarter of them at least before a queue is empty.
func (k *tagged) dies(ctx context.Context, seed uint64, n int, from string) {
	k.t.Helper()
	meant := 0
	k.must(k.disturb(ctx, seed, n, func(_ *rand.Rand, kills int) {
		left, err := insist(ctx, func() (int, error) { return k.count(ctx, from) })
		k.must(err)
		if left > 0 {
			meant = kills
		}
	}))
	if 4*meant < n {
		k.t.Errorf("got %d kills before all messages had moved, too few to mean anything", meant)
	}
}

// reaches waits until a queue has all messages, as long as more come.
func (k *tagged) reaches(ctx context.Context, url string, count int) error {
	for had := -1; had < count; {
		n, err := insist(ctx, func() (int, error) {
			n, err := k.count(ctx, url)
			if err == nil && n <= had {
				err = fmt.Errorf("%s has %d messages of %d, and no more come", url, n, count)
			}
			return n, err
		})
		if err != nil {
			return err
		}
		had = n
	}
	return nil
}

// sendOn sends the messages of a queue on, each in one step, until the context ends.
func (k *tagged) sendOn(ctx context.Context, url, name string, in map[string]any, pause time.Duration) error {
	for ctx.Err() == nil {
		got, err := k.receive(ctx, url, 10, 1)
		if err != nil || len(got) == 0 {
			continue // the server is down, or there is nothing
		}
		body := map[string]any{"queue": name, "receiptHandle": *got[0].ReceiptHandle}
		for key, value := range in {
			body[key] = value
		}
		var answer struct{ Mark string }
		err = k.v1.Post(ctx, "/replace", body, &answer)
		var refused *v1client.Error
		if errors.As(err, &refused) && refused.Status == 400 {
			return err
		}
		wait(ctx, pause)
	}
	return nil
}

// wantAll checks that all messages are in one queue, once, and none is in the other.
func (k *tagged) wantAll(what, from, to string, ids map[string]string, same bool) {
	k.t.Helper()
	ctx := k.t.Context()
	n, err := k.count(ctx, from)
	k.must(err)
	if n != 0 {
		k.t.Errorf("when all messages %s: got %d messages in %s, want none", what, n, from)
	}
	seen, query := make(map[string]bool, len(ids)), url.Values{"limit": {"100"}, "body": {"64"}}
	for more := true; more; {
		var page struct {
			Messages []struct{ MessageID, Body string }
			Next     string
		}
		k.must(k.v1.Get(ctx, "/queues/"+path.Base(to)+"/messages", query, &page))
		for _, m := range page.Messages {
			switch id, sent := ids[m.Body]; {
			case !sent || seen[m.Body]:
				k.t.Errorf("when all messages %s: %s is there twice, or was not sent", what, m.Body)
			case same && m.MessageID != id:
				k.t.Errorf("when all messages %s: %s is the message %s, want %s, since it moves in one step", what, m.Body, m.MessageID, id)
			}
			seen[m.Body] = true
		}
		query.Set("after", page.Next)
		more = page.Next != ""
	}
	if len(seen) != len(ids) {
		k.t.Errorf("when all messages %s: got %d of %d", what, len(seen), len(ids))
	}
}
