package redrive

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/trail"
)

// names are the names of n orders.
func names(what string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%04d", what, i+1)
	}
	return all
}

// poisonOf chooses three orders that nobody can fulfil, and says why: two for one reason, one for another. They
// are in the first half, and not among the very first.
func poisonOf(orders []string, rng *rand.Rand) map[string]string {
	poison := make(map[string]string, 3)
	some := orders[len(orders)/5 : len(orders)/5+max(3, len(orders)/4)]
	for i, n := range rng.Perm(len(some))[:3] {
		poison[some[n]] = []string{noArticle, noCountry, noArticle}[i]
	}
	return poison
}

// batchMax is how many messages SQS takes at once.
const batchMax = 10

// sendAll sends orders. Dress adds to a message what it is to carry; nil for nothing.
func (d *demo) sendAll(ctx context.Context, url string, orders []string, dress func(order string, m *types.SendMessageBatchRequestEntry)) error {
	for some := range slices.Chunk(orders, batchMax) {
		in := &sqs.SendMessageBatchInput{QueueUrl: &url}
		for i, order := range some {
			body, _ := json.Marshal(booking{order}) // nothing in it can fail to be encoded
			m := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(body))}
			if dress != nil {
				dress(order, &m)
			}
			in.Entries = append(in.Entries, m)
		}
		out, err := d.API.SendMessageBatch(ctx, in)
		switch {
		case err != nil:
			return fmt.Errorf("send orders: %w", err)
		case len(out.Failed) > 0:
			return fmt.Errorf("send orders: %s", aws.ToString(out.Failed[0].Message))
		}
	}
	return nil
}

// asDead makes a message what a worker would have made of it that dead-lettered it in the outage.
func asDead(source string) func(order string, m *types.SendMessageBatchRequestEntry) {
	return func(order string, m *types.SendMessageBatchRequestEntry) {
		t := trail.Trail{
			Key: order, Lineage: "first-message-of-" + order, FirstSent: time.Now(),
			Reason: answer(503, overloaded).Error(), Attempts: Attempts, Source: source,
		}
		m.MessageAttributes, _ = t.Attach(nil) // there is room for one
	}
}

// messagesIn is how many messages there are in queues, whatever state they are in.
func (d *demo) messagesIn(ctx context.Context, urls ...string) (n int, err error) {
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	for _, url := range urls {
		out, err := d.API.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
		if err != nil {
			return 0, fmt.Errorf("count messages: %w", err)
		}
		for _, name := range names {
			some, err := strconv.Atoi(out.Attributes[string(name)])
			if err != nil {
				return 0, fmt.Errorf("count messages: %s is %q", name, out.Attributes[string(name)])
			}
			n += some
		}
	}
	return n, nil
}

// A traffic is the orders that come in meanwhile, as they do. Some fail once, as they do, and succeed when they
// are brought back. By that the redriver knows in the end, when nothing but poison is left of the outage, that
// the workers are well. What workers say of their other work would tell it too, but they say it every fifteen
// seconds only, and that is not scaled down.
type traffic struct {
	stop func()
	done chan struct{}

	mu   sync.Mutex
	sent []string
	err  error
}

// isLive reports whether an order came in meanwhile.
func isLive(order string) bool { return strings.HasPrefix(order, livePrefix) }

const (
	livePrefix  = "live-"
	shakyPrefix = livePrefix + "shaky-"
)

// isShaky reports whether it is one that fails once.
func isShaky(order string) bool { return strings.HasPrefix(order, shakyPrefix) }

// trafficPause is the time between two of them.
const trafficPause = 500 * time.Millisecond

func (d *demo) startTraffic(ctx context.Context, url string) *traffic {
	ctx, stop := context.WithCancel(ctx)
	t := &traffic{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		for n := 1; ctx.Err() == nil; n++ {
			order := fmt.Sprintf("%s%04d", livePrefix, n)
			if n%2 == 0 {
				order = fmt.Sprintf("%s%04d", shakyPrefix, n)
			}
			// What is begun is finished: otherwise nobody would know whether it was sent.
			err := d.sendAll(context.WithoutCancel(ctx), url, []string{order}, nil)
			t.mu.Lock()
			t.sent, t.err = append(t.sent, order), err
			t.mu.Unlock()
			if err != nil {
				return
			}
			sleep(ctx, trafficPause)
		}
	}()
	return t
}

// end ends it and returns the orders.
func (t *traffic) end() ([]string, error) {
	t.stop()
	<-t.done
	return t.sent, t.err
}
