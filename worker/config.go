package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/work/queuename"
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

// Config configures a Worker. Client, QueueURL and Handler are needed, and one of Claims and
// NoClaims. The rest has defaults.
type Config struct {
	Client SQS

	// QueueURL is the URL of the queue. A plain name, or an ARN, is resolved with GetQueueUrl when
	// the worker starts.
	QueueURL string

	Handler Handler

	// Claims is the ledger of the work. Every worker that may get the same work needs one over the
	// same store, with the same prefix.
	Claims *claims.Ledger

	// NoClaims runs the worker without a ledger: it handles messages at least once, and each
	// duplicate runs the handler again. See the package comment.
	NoClaims bool

	// Key names the work of a message, at most 512 bytes; an error makes the message poison. Nil
	// takes the name that package producer gave it; else, on a FIFO queue, the
	// MessageDeduplicationId, unless the queue made it from the body; else the id of the first
	// message. The last two do not survive what SQS itself does with dead letters: there a name out
	// of the body is better.
	Key func(m *Message) (string, error)

	// Memo is what the ledger writes down with the first claim of a message, see claims.Note. Nil
	// is nothing.
	Memo func(m *Message) []byte

	// Offload fetches the bodies of messages that hold only a pointer, see package offload. Nil is
	// to take pointers for bodies like others.
	//
	// The body is fetched under the claim, so that a duplicate costs nothing, and Message.Body is
	// then the real one. With Key or Memo, which may look into it, it is fetched before the claim.
	// While a store cannot be reached messages with pointers are given back without an attempt
	// being counted, and less is received. A body that is not there is a failed attempt; a pointer
	// that may not be followed makes the message poison, and so does a missing body when Key is
	// set, because it is unknown what work it is. Dead letters have the pointer.
	Offload *offload.Offloader

	// DeleteBodies deletes the body of a message from its store when its work is recorded as
	// completed and the message is deleted. A replay, or another queue whose messages point to the
	// same body, would find nothing: an expiry rule of the store is better where it can be had.
	DeleteBodies bool

	// Concurrency is how many handlers run at once: 10 when zero.
	Concurrency int

	// BatchSize is how many messages a BatchHandler gets at most, 1 to 10: 10 when zero.
	BatchSize int

	// Prefetch is how many messages are received beyond those that can be handled at once. It saves
	// short handlers the wait for the next receive, and keeps messages from other workers.
	Prefetch int

	// Lease is the visibility timeout that messages are received with and renewed to, in whole
	// seconds: 60 s when zero, 3 s to 12 h. It is how long after the death of a worker its messages
	// come back. It is renewed after a third of it.
	Lease time.Duration

	// Timeout is how long a handler may run: 11 h when zero, and at most, because SQS takes a
	// message away after 12 h whatever a worker does.
	Timeout time.Duration

	// Stall is how long a handler may run without calling Message.Progress; zero is for ever. A
	// handler that hangs is alive and gets nowhere.
	Stall time.Duration

	// Drain is how long running handlers have after Run's context has ended: 30 s when zero. It is
	// also how long a handler has to return once its own context has ended, before it is given up.
	Drain time.Duration

	// Attempts is how often a handler may begin the work of a message before it is dead-lettered: 3
	// when zero. The queue's maxReceiveCount should be larger by a few: receives count there that
	// are no attempts here.
	Attempts int

	// DeadLetterURL is the queue for what has used up its attempts: a URL, a name or an ARN, like
	// QueueURL. Empty is the one of the queue's RedrivePolicy. When there is none either, messages
	// are tried until they expire.
	DeadLetterURL string

	// Retry bounds the pause before the next attempt, which is random up to Base doubled with every
	// attempt, at most Max: 2 s and 15 min when zero. Max is at most 12 h.
	RetryBase, RetryMax time.Duration

	// Middleware runs around each call of the handler, the first outermost: for traces, logs,
	// contexts.
	Middleware []Middleware

	// Events report what happens to messages: for logs and metrics.
	Events Events

	// Logger is told what a person may have to act on; slog.Default when nil.
	Logger *slog.Logger
}

// Limits of SQS.
const (
	receiveMax    = 10               // messages in one request
	waitMax       = 20 * time.Second // of a long poll
	visibilityMax = 12 * time.Hour   // since the receive
	leaseMin      = 3 * time.Second  // three renewals in it, of whole seconds
	timeoutMax    = 11 * time.Hour   // leaves room for the last renewal and the end
	keyMax        = 512              // leaves room for prefix and generation in a record's key
	reasonMax     = 4 << 10          // of what went wrong, in bytes
)

// setDefaults fills in what was left out, and refuses what contradicts itself.
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
	c.BatchSize = cmp.Or(c.BatchSize, receiveMax)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("queue", queuename.Of(c.QueueURL))
	c.Events.setDefaults()

	var bad []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Client == nil, "Client is missing")
	refuse(c.QueueURL == "", "QueueURL is missing")
	refuse(c.Handler == nil, "Handler is missing")
	for i, around := range c.Middleware {
		refuse(around == nil, "Middleware[%d] is nil: remove it", i)
	}
	refuse(c.Claims == nil && !c.NoClaims,
		"Claims is missing: set it to a ledger so that work is done once, "+
			"or set NoClaims to handle messages at least once")
	refuse(c.Claims != nil && c.NoClaims, "Claims and NoClaims are both set: remove one of them")
	refuse(c.DeleteBodies && c.Offload == nil, "DeleteBodies is set, and Offload is missing")
	refuse(c.Concurrency < 0, "Concurrency is %d: it is at least 1", c.Concurrency)
	refuse(c.BatchSize < 1 || c.BatchSize > receiveMax, "BatchSize is %d: it is 1 to %d",
		c.BatchSize, receiveMax)
	refuse(c.Prefetch < 0, "Prefetch is %d: it is not negative", c.Prefetch)
	refuse(c.Lease < leaseMin || c.Lease > visibilityMax, "Lease is %v: it is %v to %v", c.Lease,
		leaseMin, visibilityMax)
	refuse(c.Lease%time.Second != 0, "Lease is %v: SQS counts in whole seconds", c.Lease)
	refuse(c.Timeout < 0 || c.Timeout > timeoutMax,
		"Timeout is %v: it is at most %v, because SQS takes a message away after %v", c.Timeout,
		timeoutMax, visibilityMax)
	refuse(c.Stall < 0, "Stall is %v: it is not negative", c.Stall)
	refuse(c.Drain < 0, "Drain is %v: it is not negative", c.Drain)
	refuse(c.Attempts < 0, "Attempts is %d: it is at least 1", c.Attempts)
	refuse(c.RetryBase < 0 || c.RetryMax < 0 || c.RetryMax > visibilityMax,
		"RetryBase and RetryMax are %v and %v: they are at most %v", c.RetryBase, c.RetryMax,
		visibilityMax)
	if len(bad) > 0 {
		return fmt.Errorf("worker: %w", errors.Join(bad...))
	}
	return nil
}
