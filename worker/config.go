package worker

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/work/invalid"
	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
	"tenaq/offload"
)

// SQS is what a worker needs of a client. *sqs.Client has it.
type SQS interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput,
		...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput,
		...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput,
		...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput,
		...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput,
		...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// Config configures a Worker. Client, QueueURL and Handler are required, and one of Claims and
// NoClaims. The rest has defaults.
type Config struct {
	// Client may have the method Nacked(handle string, hidden time.Duration, moved bool). It is
	// called for each message that goes back to a tenaq server with a reason, because that does not
	// pass through the other methods. If the claims are records of the same server, the worker
	// completes the claim and deletes the message in one step. It does so with an *sqs.Client, and
	// with one that has the method Deleted(handle string), which is called for each such delete.
	Client SQS

	// QueueURL is the URL of the queue. The worker resolves a name or an ARN with GetQueueUrl when
	// it starts.
	QueueURL string

	Handler Handler

	// Claims is the ledger of the work. All workers that may get the same work need a ledger over
	// the same store, with the same prefix.
	Claims *claims.Ledger

	// NoClaims runs the worker without a ledger: it handles messages at least once, and each
	// duplicate runs the handler again. See the package comment.
	NoClaims bool

	// Key returns the name of the work of a message, at most 512 bytes. An error makes the message
	// poison. When Key is nil, the name is the first of these:
	//
	//   - the key that package producer gave to the message
	//   - on a FIFO queue, the MessageDeduplicationId, unless the queue made it from the body
	//   - the id of the first message
	//
	// SQS itself does not keep the last two when it moves dead letters, and an order that was sent
	// twice has two ids. So a name from the body is better. It should not end in # and digits, as
	// the keys of later generations do (see claims.EffectKey).
	Key func(m *Message) (string, error)

	// Memo, if set, returns what the ledger records with the first claim of a message, see
	// claims.Note.
	Memo func(m *Message) []byte

	// Offload, if set, fetches the bodies of messages that hold only a pointer, see package
	// offload. Message.Body is then the real body. Dead letters keep the pointer.
	//
	// The worker fetches the body under the claim, so that a duplicate costs nothing, or before the
	// claim if Key or Memo is set, because they may read it. While a store cannot be reached,
	// messages with pointers are given back without counting an attempt, and the worker receives
	// less. A missing body is a failed attempt, or poison if Key is set, because the work is
	// unknown. A pointer that may not be followed is poison.
	Offload *offload.Offloader

	// DeleteBodies deletes the body of a message from its store when its work is completed and the
	// message is deleted. A replay, or another message with the same pointer, then finds no body.
	// If possible, use an expiry rule of the store instead.
	DeleteBodies bool

	// Concurrency is the maximum number of concurrent handlers: 10 when zero.
	Concurrency int

	// BatchSize is the maximum number of messages of a BatchHandler, 1 to 10: 10 when zero. Other
	// handlers get one.
	BatchSize int

	// Prefetch is how many messages the worker receives beyond those that it can handle at once. It
	// saves short handlers the wait for the next receive, but keeps messages from other workers.
	// Messages whose handlers have returned do not count: the worker receives others while it
	// records and deletes them.
	Prefetch int

	// Lease is the visibility timeout of received messages, in whole seconds: 60 s when zero, 3 s
	// to 12 h. The worker renews it after a third. When a worker dies, its messages come back after
	// at most this time.
	Lease time.Duration

	// Timeout is how long a handler may run: 11 h when zero, and at most 11 h, because SQS ends
	// every visibility timeout after 12 h. Set it if the handler calls other systems: a handler
	// that hangs keeps its place from other messages.
	Timeout time.Duration

	// Stall is how long a handler may run without calling Message.Progress; zero disables it.
	Stall time.Duration

	// Drain is how long running handlers may continue after the context of Run has ended: 30 s when
	// zero. It is also how long a handler may take to return after its own context has ended. So
	// Run may take twice as long to return: give the process that time before it is killed.
	Drain time.Duration

	// Attempts is how often a handler may begin the work of a message before the message is
	// dead-lettered: 3 when zero. The maxReceiveCount of the queue should be larger by three,
	// because it also counts receives that are not attempts.
	Attempts int

	// DeadLetterURL is the queue for messages that have used up their attempts: a URL, a name or an
	// ARN, like QueueURL. When empty, it is that of the RedrivePolicy of the queue. If there is
	// none either, messages are tried until they expire.
	DeadLetterURL string

	// RetryBase and RetryMax bound the pause before the next attempt. It is random, up to RetryBase
	// doubled with every attempt, at most RetryMax: 2 s and 15 min when zero, at most 12 h.
	RetryBase, RetryMax time.Duration

	// Middleware runs around each call of the handler, the first one outermost.
	Middleware []Middleware

	// Events report what happens to messages: for logs and metrics.
	Events Events

	// Logger gets what an operator may have to act on; slog.Default when nil.
	Logger *slog.Logger
}

// Limits of a worker.
const (
	leaseMin   = 3 * time.Second // three renewals, of whole seconds
	timeoutMax = 11 * time.Hour  // leaves room for the last renewal and the end
	reasonMax  = 4 << 10         // of a recorded reason, in bytes
)

// setDefaults fills in the defaults and returns an error for an invalid configuration.
func (c *Config) setDefaults() error {
	_, isBatch := c.Handler.(BatchHandler)
	c.Concurrency = cmp.Or(c.Concurrency, 10)
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.Timeout = cmp.Or(c.Timeout, timeoutMax)
	c.Drain = cmp.Or(c.Drain, 30*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 3)
	c.RetryBase = cmp.Or(c.RetryBase, 2*time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, 15*time.Minute)
	if !isBatch {
		c.BatchSize = 1
	}
	c.BatchSize = cmp.Or(c.BatchSize, sqslimits.ReceiveMax)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("queue", queuename.Of(c.QueueURL))
	c.Events.setDefaults()

	var bad invalid.Fields
	bad.Add(c.Client == nil, "Config.Client is missing: set it to a client of SQS (sqs.NewFromConfig)")
	bad.Add(c.QueueURL == "", "Config.QueueURL is missing: set it to the URL of the queue")
	f, isFunc := c.Handler.(HandlerFunc)
	bad.Add(c.Handler == nil || isFunc && f == nil, "Config.Handler is missing: set it to the handler of the messages")
	for i, around := range c.Middleware {
		bad.Add(around == nil, "Middleware[%d] is nil: remove it", i)
	}
	bad.Add(c.Claims == nil && !c.NoClaims,
		"Claims is missing: set it to a ledger so that work is done once, "+
			"or set NoClaims to handle messages at least once")
	bad.Add(c.Claims != nil && c.NoClaims, "Claims and NoClaims are both set: remove one of them")
	bad.Add(c.DeleteBodies && c.Offload == nil, "DeleteBodies is set, and Offload is missing")
	bad.Add(c.Concurrency < 0, "Concurrency is %d: it must be at least 1", c.Concurrency)
	bad.Add(c.BatchSize < 1 || c.BatchSize > sqslimits.ReceiveMax,
		"BatchSize is %d: it must be 1 to %d", c.BatchSize, sqslimits.ReceiveMax)
	bad.Add(c.Prefetch < 0, "Prefetch is %d: it must not be negative", c.Prefetch)
	bad.Add(c.Lease < leaseMin || c.Lease > sqslimits.VisibilityMax,
		"Lease is %v: it must be %v to %v", c.Lease, leaseMin, sqslimits.VisibilityMax)
	bad.Add(c.Lease%time.Second != 0, "Lease is %v: SQS counts in whole seconds", c.Lease)
	bad.Add(c.Timeout < 0 || c.Timeout > timeoutMax,
		"Timeout is %v: it must be at most %v, because SQS ends a visibility timeout after %v",
		c.Timeout, timeoutMax, sqslimits.VisibilityMax)
	bad.Add(c.Stall < 0, "Stall is %v: it must not be negative", c.Stall)
	bad.Add(c.Stall > c.Timeout, "Stall is %v: it must be at most Timeout, %v", c.Stall, c.Timeout)
	bad.Add(c.Drain < 0, "Drain is %v: it must not be negative", c.Drain)
	bad.Add(c.Attempts < 0, "Attempts is %d: it must be at least 1", c.Attempts)
	bad.Add(c.RetryBase < 0 || c.RetryMax < 0 || c.RetryMax > sqslimits.VisibilityMax,
		"RetryBase and RetryMax are %v and %v: they must be at most %v", c.RetryBase, c.RetryMax,
		sqslimits.VisibilityMax)
	return bad.Err("worker")
}
