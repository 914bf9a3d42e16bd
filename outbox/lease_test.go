package outbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/testing/sqstest"
	"tenaq/outbox"
	"tenaq/outbox/outboxtest"
)

// A slowly is a client that does something before each request.
type slowly struct {
	*sqstest.Client
	before func(in *sqs.SendMessageBatchInput) error
}

func (c *slowly) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	if err := c.before(in); err != nil {
		return nil, err
	}
	return c.Client.SendMessageBatch(ctx, in, options...)
}

// slow is a client that takes its time.
func (r *rig) slow(d time.Duration) *slowly {
	return &slowly{r.server.Client(), func(*sqs.SendMessageBatchInput) error { time.Sleep(d); return nil }}
}

// Leases are renewed for as long as rows wait for those before them.
func TestLongStream(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs.fifo")
		r.start(func(c *outbox.Config) { c.Client = r.slow(5 * time.Second) })
		for i := range 50 {
			r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: fmt.Sprint(i)})
		}
		r.sleep(5 * time.Minute)
		if n := r.count("lost"); n != 0 {
			t.Errorf("%d were lost", n)
		}
		if got := bodies(r.received(url)); len(got) != 50 {
			t.Errorf("received %q", got)
		}
	})
}

// A box that one relay cannot reach while others can.
type cutOff struct {
	outbox.Box
	mu  sync.Mutex
	cut bool
}

func (b *cutOff) set(cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = cut
}

func (b *cutOff) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		return outboxtest.ErrInjected
	}
	return nil
}

func (b *cutOff) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, time.Duration, error) {
	if err := b.err(); err != nil {
		return nil, 0, err
	}
	return b.Box.Claim(ctx, c)
}

func (b *cutOff) Renew(ctx context.Context, relay string, lease time.Duration) ([]string, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	return b.Box.Renew(ctx, relay, lease)
}

func (b *cutOff) Settle(ctx context.Context, relay string, outcomes []outbox.Outcome) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Box.Settle(ctx, relay, outcomes)
}

// A relay that is cut off from the database stops sending before its leases end. Another one
// continues , and the first one learns that it has lost its rows.
func TestTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs.fifo")
		box := &cutOff{Box: r.box}
		var last time.Time
		first := r.slow(5 * time.Second)
		slowly := first.before
		first.before = func(in *sqs.SendMessageBatchInput) error {
			err := slowly(in)
			r.mu.Lock()
			defer r.mu.Unlock()
			last = time.Now()
			return err
		}
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: want[i]})
		}
		// It is started when all are there, so that it has more of them than the first.
		r.start(func(c *outbox.Config) { c.Box, c.Client = box, first })
		r.sleep(time.Second)
		box.set(true)
		cut := time.Now()
		r.start(nil)
		r.sleep(time.Minute)
		box.set(false)
		r.sleep(2 * time.Minute)
		if r.mu.Lock(); last.Sub(cut) > 30*time.Second {
			t.Errorf("it sent %v after it was cut off", last.Sub(cut))
		}
		r.mu.Unlock()
		if r.count("lost") == 0 {
			t.Error("nothing was lost")
		}
		if got := bodies(r.received(url)); !slices.Equal(got, want) {
			t.Errorf("received %q", got)
		}
		r.wantStats(0, 0)
	})
}

// A relay that paused for longer than its leases may claim its own rows again.
func TestOwnRowsAgain(t *testing.T) {
	for range 20 {
		inBubble(t, func(t *testing.T, r *rig) {
			url := r.server.Queue(t, "jobs.fifo")
			box := &cutOff{Box: r.box}
			r.start(func(c *outbox.Config) { c.Box, c.Client, c.Lease = box, r.slow(time.Second), 3*time.Second })
			var want []string
			for i := range 20 {
				want = append(want, fmt.Sprint(i))
				r.enqueue(outbox.Message{Queue: "jobs.fifo", Key: "k", Body: want[i]})
			}
			r.sleep(5 * time.Second)
			box.set(true)
			r.sleep(time.Duration(rand.IntN(20_000)) * time.Millisecond)
			box.set(false)
			r.sleep(time.Minute)
			if got := bodies(r.received(url)); !slices.Equal(got, want) {
				t.Errorf("received %q", got)
			}
			r.wantStats(0, 0)
		})
	}
}

// A claim that took effect, and whose answer was lost, holds its rows for one lease, or less.
func TestClaimUnheard(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		url := r.server.Queue(t, "jobs")
		unheard := true
		r.box.SetFault(func(call string) error {
			if call == "Claim+" && unheard {
				unheard = false
				return outboxtest.ErrInjected
			}
			return nil
		})
		r.enqueue(outbox.Message{Queue: "jobs", Body: "unheard of"})
		r.start(func(c *outbox.Config) { c.Client = r.slow(5 * time.Second) })
		for i := range 60 { // there is always something in hand, and leases are renewed
			r.enqueue(outbox.Message{Queue: "jobs", Body: fmt.Sprint(i)})
			r.sleep(time.Second)
		}
		if got := bodies(r.received(url)); !slices.Contains(got, "unheard of") {
			t.Errorf("it was not sent within a minute; %d others were", len(got))
		}
	})
}
