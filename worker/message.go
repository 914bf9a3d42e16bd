package worker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/trail"
	"tenaq/offload"
	"tenaq/records"
)

// A Message is one delivery of a message, as a handler gets it.
type Message struct {
	ID string // message id, new with every send
	// the real body, if Config.Offload has fetched it
	Body       string
	Attributes map[string]types.MessageAttributeValue // of the user, without the one named "tenaq"
	// message group, if any
	Group string
	// MessageDeduplicationId; empty on standard queues
	Dedup string
	// number of receives by the count of SQS, including this one; a tenaq server does not count
	// those after which the message was given back untried
	Receives int
	Sent     time.Time // by the clock of the queue
	QueueURL string

	// TraceHeader is the system attribute AWSTraceHeader: the X-Ray trace of the producer, or
	// empty.
	TraceHeader string

	// Key names the work, see Config.Key. Generation is 0, except in a deliberate replay of
	// completed work. Redrives is how often the work was brought back from a dead-letter queue.
	// Lineage is the message id of the first message of this work.
	Key        string
	Generation int
	Redrives   int
	Lineage    string

	handle     string
	received   time.Time
	raw        types.Message
	trail      trail.Trail
	unreadable bool          // the trail cannot be read
	aside      bool          // the trail may be in the store
	away       bool          // the body is a pointer that has not been followed yet
	claim      *claims.Claim // nil without a ledger, or before the claim
	attempt    int
	result     atomic.Pointer[[]byte]
	progress   atomic.Pointer[func()]
}

// EffectKey returns the key under which the effects of this work happen once. Use it as the
// idempotency key for a payment provider, as the name of a file, or in a unique column. It stays
// the same over redeliveries, dead-lettering and redrives, and changes only in a deliberate replay
// of completed work.
func (m *Message) EffectKey() string { return claims.EffectKey(m.Key, m.Generation) }

// Fence returns the fencing token of the claim under which the handler runs, or zero without a
// ledger. It is larger than that of every earlier handler for this key. A system that remembers the
// largest one it has seen can refuse the writes of a handler that has lost its claim.
func (m *Message) Fence() uint64 {
	if m.claim == nil {
		return 0
	}
	return m.claim.Fence()
}

// Attempt returns the number of this attempt, from 1. With a ledger, it counts handlers that began;
// without one, receives.
func (m *Message) Attempt() int { return m.attempt }

// Claim returns the claim under which the handler runs, or nil without a ledger. A handler may
// complete it in a transaction of its own (see package pgclaims); the worker then finds it
// completed. A handler must not end it in another way.
func (m *Message) Claim() *claims.Claim { return m.claim }

// TakenOver returns the entry of the previous handler if that was lost, so that it is unknown how
// far it came; otherwise nil. The better place to decide about such work is claims.Config.Lost.
func (m *Message) TakenOver() *claims.Entry {
	if m.claim == nil {
		return nil
	}
	return m.claim.TakenOver()
}

// SetResult sets the result that is recorded when the handler returns nil. A later delivery of the
// same work gets it in claims.Refused. A result of more than claims.ResultMax bytes is an error and
// is not recorded; a handler that still returns nil has done its work without a result.
func (m *Message) SetResult(result []byte) error {
	if len(result) > claims.ResultMax {
		return fmt.Errorf("a result has %d bytes, and %d are allowed: store it elsewhere and its name in the result", len(result), claims.ResultMax)
	}
	m.result.Store(&result)
	return nil
}

// Progress says that the handler makes progress. It has an effect only with Config.Stall.
func (m *Message) Progress() {
	if f := m.progress.Load(); f != nil {
		(*f)()
	}
}

// newMessage returns a received message. With an error, the work of the message is unknown, so it
// must not be handled.
func (w *Worker) newMessage(raw types.Message) (*Message, error) {
	t, err := trail.Of(raw.MessageAttributes)
	system := raw.Attributes
	m := &Message{
		ID:       aws.ToString(raw.MessageId),
		Body:     aws.ToString(raw.Body),
		Group:    system[string(types.MessageSystemAttributeNameMessageGroupId)],
		Dedup:    system[string(types.MessageSystemAttributeNameMessageDeduplicationId)],
		QueueURL: w.cfg.QueueURL,

		TraceHeader: system[string(types.MessageSystemAttributeNameAWSTraceHeader)],

		handle:     aws.ToString(raw.ReceiptHandle),
		received:   time.Now(),
		raw:        raw,
		unreadable: err != nil,
		aside:      w.cfg.Claims != nil && trail.MayBeAside(raw.MessageAttributes),
		away:       w.cfg.Offload != nil && offload.IsPointer(raw.MessageAttributes),
	}
	m.Attributes = make(map[string]types.MessageAttributeValue, len(raw.MessageAttributes))
	for name, value := range raw.MessageAttributes {
		if name != trail.Attribute {
			m.Attributes[name] = value
		}
	}
	m.Receives, _ = strconv.Atoi(system[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if ms, bad := strconv.ParseInt(system[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); bad == nil {
		m.Sent = time.UnixMilli(ms)
	}
	m.attempt = m.Receives
	if named := w.name(m, t); err == nil {
		err = named
	}
	return m, err
}

// lookAside names the work of a message that may have its trail in the store. An error means that
// the store does not answer.
func (w *Worker) lookAside(ctx context.Context, d *delivery) error {
	id := d.ID
	if w.fifo() {
		id = d.Dedup
	}
	t, err := trail.Aside(ctx, w.cfg.Claims.Store(), id)
	if err == nil && !t.IsZero() {
		d.unnamed = w.name(d.Message, t)
	}
	return err
}

// name names the work of a message by its trail. If the body has not been fetched yet, Config.Key
// is called later.
func (w *Worker) name(m *Message, t trail.Trail) (err error) {
	m.trail = t
	m.Generation, m.Redrives, m.Lineage = t.Generation, t.Redrives, cmp.Or(t.Lineage, m.ID)
	if m.away && w.cfg.Key != nil {
		return nil
	}
	if m.Key, err = w.keyOf(m); err != nil {
		return err
	}
	if len(m.Key) > trail.KeyMax {
		return fmt.Errorf("its key has %d bytes, and %d are allowed: use a hash of it", len(m.Key),
			trail.KeyMax)
	}
	return records.CheckKey(m.Key)
}

// keyOf returns the name of the work of a message.
func (w *Worker) keyOf(m *Message) (string, error) {
	switch {
	case w.cfg.Key != nil:
		key, err := w.cfg.Key(m)
		if err == nil && key == "" {
			err = errNoKey
		}
		return key, err
	case m.trail.Key != "":
		return m.trail.Key, nil
	case m.trail.Lineage != "": // the deduplication id is then that of a redrive
		return m.trail.Lineage, nil
	case m.Dedup != "" && m.Dedup != bodyHash(aws.ToString(m.raw.Body)): // as the queue saw it
		return m.Dedup, nil
	}
	return m.Lineage, nil
}

// bodyHash returns the deduplication id of a queue with content-based deduplication. It does not
// name the work: two messages with the same body, an hour apart, may be different work.
func bodyHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
