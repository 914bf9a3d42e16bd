package outbox

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	box "tenaq/outbox"
)

// relayLease is the shortest that there is.
const relayLease = 3 * time.Second

// relay is a relay, with few rows in hand, so that it comes by every step often.
func (t *Task) relay(ctx context.Context, db *database, api *sqs.Client) error {
	watched := &watchedBox{Box: db.box, t: t, jobs: make(map[string]string)}
	if t.Break == Leases {
		watched.Box = newUnleased(db.box)
	}
	r, err := box.NewRelay(box.Config{
		Box: watched, Client: &watchedQueue{api, t},
		Queues: map[string]string{plainQueue: t.Queues.Plain, orderedQueue: t.Queues.Ordered},
		Rows:   4, Parallel: 2, Lease: relayLease, RetryBase: 50 * time.Millisecond,
		Events: box.Events{Lost: func(r box.Row) { t.tell(ctx, report{Point: pointLost, Jobs: []string{r.Dedup}}) }},
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// A watchedBox tells the stage what a relay asks of its box, before and after.
type watchedBox struct {
	box.Box
	t *Task

	mu   sync.Mutex
	jobs map[string]string // by the id of the row
}

// Claim tells that it is about to, and what it got.
func (b *watchedBox) Claim(ctx context.Context, c box.Claim) ([]box.Row, time.Duration, error) {
	b.t.tell(ctx, report{Point: pointClaiming})
	rows, next, err := b.Box.Claim(ctx, c)
	var jobs []string
	b.mu.Lock()
	for _, r := range rows {
		b.jobs[r.ID] = r.Dedup
		jobs = append(jobs, r.Dedup)
	}
	b.mu.Unlock()
	if len(jobs) > 0 {
		b.t.tell(ctx, report{Point: pointClaimed, Jobs: jobs})
	}
	return rows, next, err
}

// Settle tells what was written down as sent.
func (b *watchedBox) Settle(ctx context.Context, relay string, outcomes []box.Outcome) error {
	if err := b.Box.Settle(ctx, relay, outcomes); err != nil {
		return err
	}
	var jobs []string
	b.mu.Lock()
	for _, o := range outcomes {
		if o.Fate == box.Sent {
			jobs = append(jobs, b.jobs[o.ID])
		}
		delete(b.jobs, o.ID)
	}
	b.mu.Unlock()
	if len(jobs) > 0 {
		b.t.tell(ctx, report{Point: pointSettled, Jobs: jobs})
	}
	return nil
}

// A watchedQueue tells the stage what a relay sends, before and after.
type watchedQueue struct {
	box.SQS
	t *Task
}

// SendMessageBatch sends.
func (q *watchedQueue) SendMessageBatch(
	ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options),
) (*sqs.SendMessageBatchOutput, error) {
	r := report{Point: pointSending, Queue: aws.ToString(in.QueueUrl)}
	for _, e := range in.Entries {
		var w work
		_ = json.Unmarshal([]byte(aws.ToString(e.MessageBody)), &w) // all bodies are works
		r.Jobs = append(r.Jobs, w.Job)
	}
	q.t.tell(ctx, r)
	out, err := q.SQS.SendMessageBatch(ctx, in, options...)
	if r.Point = pointSent; err != nil {
		r.Point = pointDoubt
	}
	q.t.tell(context.WithoutCancel(ctx), r)
	return out, err
}

// An unleased box is what is left out with Leases: rows are looked for, sent and marked, and no relay keeps
// another one from doing so at the same time. What a relay has in hand itself it does not take again.
type unleased struct {
	box.Box
	mu     sync.Mutex
	inHand map[string]bool
}

func newUnleased(b box.Box) *unleased { return &unleased{Box: b, inHand: make(map[string]bool)} }

// anyRelay is the name of all of them.
const anyRelay = "any relay"

// Claim hands rows out that others may have.
func (b *unleased) Claim(ctx context.Context, c box.Claim) ([]box.Row, time.Duration, error) {
	c.Relay, c.Lease = anyRelay, time.Millisecond
	rows, next, err := b.Box.Claim(ctx, c)
	b.mu.Lock()
	defer b.mu.Unlock()
	rows = slices.DeleteFunc(rows, func(r box.Row) bool { return b.inHand[r.ID] })
	for _, r := range rows {
		b.inHand[r.ID] = true
	}
	return rows, next, err
}

// Renew renews nothing.
func (b *unleased) Renew(context.Context, string, time.Duration) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.inHand)), nil
}

// Settle marks rows whoever has them.
func (b *unleased) Settle(ctx context.Context, _ string, outcomes []box.Outcome) error {
	b.mu.Lock()
	for _, o := range outcomes {
		delete(b.inHand, o.ID)
	}
	b.mu.Unlock()
	return b.Box.Settle(ctx, anyRelay, outcomes)
}
