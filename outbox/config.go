package outbox

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/internal/work/invalid"
	"tenaq/offload"
)

// SQS is what a relay needs of a client. *sqs.Client has it.
type SQS interface {
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput,
		...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput,
		...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// Config configures a Relay. Box and Client are required; the rest has defaults.
type Config struct {
	Box    Box
	Client SQS

	// Queues maps the aggregatetype of rows to names or URLs of queues. An aggregatetype that is
	// not in it is the name of a queue.
	Queues map[string]string

	// Offload, if set, stores bodies that are too large for a message, under the ids of their rows.
	// Workers need one with the same store.
	Offload *offload.Offloader

	// Parallel is the maximum number of concurrent requests: 8 when zero, at most 1,000.
	Parallel int

	// Rows is the maximum number of rows that the relay has leased: 1,000 when zero, at most
	// 100,000. Bytes is the maximum size of their bodies: 32 MiB when zero; a single row may be
	// larger.
	Rows, Bytes int

	// Lease is how long rows stay leased to a relay that has died: 30 s when zero, at least 3 s. A
	// running relay renews it after a third.
	Lease time.Duration

	// Attempts is how often the queue may refuse a row before it is parked: 10 when zero. Failures
	// of the queue, the network or the credentials are not attempts.
	Attempts int

	// RetryBase and RetryMax bound the pause before a refused row is sent again. It is random, up
	// to RetryBase doubled with every attempt, at most RetryMax: 1 s and 5 min when zero.
	RetryBase, RetryMax time.Duration

	// Poll is the longest pause of an idle relay before it looks for rows: 5 s when zero. A Box
	// usually wakes it earlier.
	Poll time.Duration

	// Keep is how long sent rows are kept: 30 days when zero, forever when negative.
	Keep time.Duration

	Events Events

	// Logger gets what an operator may have to act on; slog.Default when nil.
	Logger *slog.Logger
}

// Events are callbacks for what happens to rows. Any may be nil. They are called from several
// goroutines and must return quickly.
type Events struct {
	// Sent: the queue has stored the message under that id.
	Sent func(r Row, messageID string)

	// Failed: the queue refused the row. The relay sends it again after a pause.
	Failed func(r Row, reason string, after time.Duration)

	// Parked: the relay does not try the row again.
	Parked func(r Row, reason string)

	// Lost: this relay lost the lease of the row. Another relay sends it.
	Lost func(r Row)
}

// Limits of a relay.
const (
	parallelMax = 1000
	rowsMax     = 100_000
	leaseMin    = 3 * time.Second
	keepDefault = 30 * 24 * time.Hour
)

// setDefaults fills in the defaults and returns an error for an invalid configuration.
func (c *Config) setDefaults() error {
	c.Parallel = cmp.Or(c.Parallel, 8)
	c.Rows = cmp.Or(c.Rows, 1000)
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

	var bad invalid.Fields
	bad.Add(c.Box == nil, "Config.Box is missing: set it to the outbox (packages pgoutbox, sqliteoutbox)")
	bad.Add(c.Client == nil, "Config.Client is missing: set it to a client of SQS (sqs.NewFromConfig)")
	bad.Add(c.Parallel < 1 || c.Parallel > parallelMax, "Parallel is %d: it must be 1 to %d",
		c.Parallel, parallelMax)
	bad.Add(c.Rows < 1 || c.Rows > rowsMax, "Rows is %d: it must be 1 to %d", c.Rows, rowsMax)
	bad.Add(c.Bytes < 1, "Bytes is %d: it must be at least 1", c.Bytes)
	bad.Add(c.Lease < leaseMin, "Lease is %v: it must be at least %v", c.Lease, leaseMin)
	bad.Add(c.Attempts < 1, "Attempts is %d: it must be at least 1", c.Attempts)
	bad.Add(c.RetryBase < 0 || c.RetryMax < c.RetryBase,
		"RetryBase and RetryMax are %v and %v: the second must not be below the first", c.RetryBase,
		c.RetryMax)
	bad.Add(c.Poll < 0, "Poll is %v: it must not be negative", c.Poll)
	return bad.Err("outbox")
}
