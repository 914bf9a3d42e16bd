package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/outbox"
)

// A counted box counts claims and the outcomes of each settling.
type counted struct {
	outbox.Box
	mu      sync.Mutex
	claims  int
	settled []int
}

func (b *counted) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
	b.mu.Lock()
	b.claims++
	b.mu.Unlock()
	return b.Box.Claim(ctx, c)
}

func (b *counted) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	b.mu.Lock()
	b.settled = append(b.settled, len(outcomes))
	b.mu.Unlock()
	return b.Box.Settle(ctx, relay, outcomes)
}

func (b *counted) reset() (claims int, settled []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	claims, settled = b.claims, b.settled
	b.claims, b.settled = 0, nil
	return claims, settled
}

// Outcomes that become known close to each other are stored together, and none waits for a request
// that takes long, or when nothing else is in progress.
func TestSettledTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "jobs")
		box := &counted{Box: r.box}
		n := 0
		client := &slowly{r.server.Client(), func(in *sqs.SendMessageBatchInput) error {
			r.mu.Lock()
			n++
			d := time.Duration(n%8+1) * time.Millisecond
			r.mu.Unlock()
			if slices.ContainsFunc(in.Entries, func(e types.SendMessageBatchRequestEntry) bool { return aws.ToString(e.MessageBody) == "slow" }) {
				d = 20 * time.Second
			}
			time.Sleep(d)
			return nil
		}}
		for i := range 800 {
			r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i)})
		}
		r.start(func(c *outbox.Config) { c.Box, c.Client = box, client })
		r.sleep(time.Second)
		r.wantStats(0, 0)
		if _, settled := box.reset(); len(settled) > 12 {
			t.Errorf("800 outcomes were stored in %d parts, %v", len(settled), settled)
		}

		r.enqueue(outbox.Message{Queue: "jobs", Body: "slow"})
		r.sleep(time.Second)
		r.enqueue(outbox.Message{Queue: "jobs", Body: "quick"})
		r.sleep(time.Second)
		r.wantStats(1, 0)
		r.sleep(time.Minute)
		r.wantStats(0, 0)
		if _, settled := box.reset(); !slices.Equal(settled, []int{1, 1}) {
			t.Errorf("the outcomes of two requests were stored in parts of %v", settled)
		}
	})
}

// After a claim that returned all there is, a relay asks again when it is woken or its poll is due,
// and when an outcome made another row claimable.
func TestClaimsOfARow(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.server.Queue(t, "jobs")
		r.server.Queue(t, "jobs.fifo")
		box := &counted{Box: r.box}
		r.start(func(c *outbox.Config) { c.Box, c.Rows = box, 4 })
		r.sleep(time.Hour)
		box.reset()
		r.enqueue(outbox.Message{Queue: "jobs", Body: "b"})
		r.sleep(15 * time.Millisecond)
		r.wantStats(0, 0)
		if claims, settled := box.reset(); claims != 1 || !slices.Equal(settled, []int{1}) {
			t.Errorf("it took %d claims and %d settlings to send a row", claims, len(settled))
		}
		for i := range 10 { // of which a claim returns one
			r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: fmt.Sprint(i)})
		}
		r.sleep(15 * time.Millisecond)
		r.wantStats(0, 0)
	})
}
