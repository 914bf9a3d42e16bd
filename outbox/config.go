package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/offload"
)

// SQS is what a relay needs of a client. *sqs.Client has it.
type SQS interface {
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput,
		...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput,
		...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// Config says how a relay works. Box and Client are needed; the rest has defaults.
type Config struct {
	Box    Box
	Client SQS

	// Queues are the names or URLs of queues by what rows have in aggregatetype. What is not in it
	// is the name of a queue itself.
	Queues map[string]string

	// Offload, if set, keeps bodies elsewhere that are too large for a message, under the id of
	// their row. Workers need one with the same store.
	Offload *offload.Offloader

	// Parallel is how many requests are under way at once: 8 when zero.
	Parallel int

	// Rows is how many rows a relay has in hand at most: 400 when zero. Bytes is how much their
	// bodies are in all: 32 MiB when zero; a single row may have more.
	Rows, Bytes int

	// Lease is how long rows stay with a relay that has died: 30 s when zero, at least 3 s. It is
	// renewed after a third of it.
	Lease time.Duration

	// Attempts is how often the queue may refuse a row before it is parked: 10 when zero. What is
	// wrong with the queue, the network or the credentials is no attempt.
	Attempts int

	// Retry bounds the pause before a refused row is tried again, which is random up to Base
	// doubled with every attempt, at most Max: 1 s and 5 min when zero.
	RetryBase, RetryMax time.Duration

	// Poll is how long a relay that has nothing to do sleeps at most before it looks again: 5 s
	// when zero. A Box wakes it sooner, as a rule.
	Poll time.Duration

	// Keep is how long rows stay after they were sent: 30 days when zero, for ever when negative.
	Keep time.Duration

	Events Events

	// Logger is told what a person may have to act on; slog.Default when nil.
	Logger *slog.Logger
}

// Events are called for what happens to rows. Any of them may be nil. They are called from several
// goroutines and must return quickly.
type Events struct {
	// Sent: the queue has the message, under that id.
	Sent func(r Row, messageID string)

	// Failed: the queue refused the row; it is tried again after a while.
	Failed func(r Row, reason string, after time.Duration)

	// Parked: the row is given up.
	Parked func(r Row, reason string)

	// Lost: the lease of the row ended in the hands of this relay. Another one sends it.
	Lost func(r Row)
}

// Limits of a relay.
const (
	parallelMax = 1000
	rowsMax     = 100_000
	leaseMin    = 3 * time.Second
	keepDefault = 30 * 24 * time.Hour
)

// setDefaults fills in what was left out, and refuses what contradicts itself.
func (c *Config) setDefaults() error {
	c.Parallel = cmp.Or(c.Parallel, 8)
	c.Rows = cmp.Or(c.Rows, 400)
	c.Bytes = cmp.Or(c.Bytes, 32<<20)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 10)
	c.RetryBase = cmp.Or(c.RetryBase, time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, 5*time.Minute)
	c.Poll = cmp.Or(c.Poll, 5*time.Second)
	c.Keep = cmp.Or(c.Keep, keepDefault)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	e := &c.Events
	if e.Sent == nil {
		e.Sent = func(Row, string) {}
	}
	if e.Failed == nil {
		e.Failed = func(Row, string, time.Duration) {}
	}
	if e.Parked == nil {
		e.Parked = func(Row, string) {}
	}
	if e.Lost == nil {
		e.Lost = func(Row) {}
	}

	var bad []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Box == nil, "Box is missing")
	refuse(c.Client == nil, "Client is missing")
	refuse(c.Parallel < 1 || c.Parallel > parallelMax, "Parallel is %d: it is 1 to %d", c.Parallel,
		parallelMax)
	refuse(c.Rows < 1 || c.Rows > rowsMax, "Rows is %d: it is 1 to %d", c.Rows, rowsMax)
	refuse(c.Bytes < 1, "Bytes is %d: it is at least 1", c.Bytes)
	refuse(c.Lease < leaseMin, "Lease is %v: it is at least %v", c.Lease, leaseMin)
	refuse(c.Attempts < 1, "Attempts is %d: it is at least 1", c.Attempts)
	refuse(c.RetryBase < 0 || c.RetryMax < c.RetryBase,
		"RetryBase and RetryMax are %v and %v: the second is the larger one", c.RetryBase,
		c.RetryMax)
	refuse(c.Poll < 0, "Poll is %v: it is not negative", c.Poll)
	if len(bad) > 0 {
		return fmt.Errorf("outbox: %w", errors.Join(bad...))
	}
	return nil
}
