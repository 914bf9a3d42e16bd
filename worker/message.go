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
	// see Config.Offload for one that is kept beside the queue
	Body       string
	Attributes map[string]types.MessageAttributeValue // of the user, without the one named "tenaq"
	// message group; empty on a standard queue that uses none
	Group string
	// MessageDeduplicationId; empty on standard queues
	Dedup string
	// how often SQS says it was received, this time included
	Receives int
	Sent     time.Time // by the clock of the queue
	QueueURL string

	// TraceHeader is the system attribute AWSTraceHeader: the X-Ray trace of the producer, or
	// empty.
	TraceHeader string

	// Key names the work: what Config.Key says, else what the producer called it, else what of the
	// queue names it best (see Config.Key). Generation is 0 unless completed work is replayed on
	// purpose, and Redrives is how often it was brought back from a dead-letter queue. Lineage is
	// the message id of the first message of this work.
	Key        string
	Generation int
	Redrives   int
	Lineage    string

	handle     string
	received   time.Time
	raw        types.Message
	trail      trail.Trail
	unreadable bool          // the trail is
	aside      bool          // the trail may be in the store
	away       bool          // the body is kept beside the queue, and not fetched yet
	claim      *claims.Claim // nil without a ledger, and before the claim
	attempt    int
	result     atomic.Pointer[[]byte]
	progress   atomic.Pointer[func()]
}

// EffectKey is the key under which the effects of this work happen once: give it to a payment
// provider as the idempotency key, make it the name of a file, a unique column of a table. It stays
// the same over redeliveries, dead-lettering and redrives, and changes only when completed work is
// replayed on purpose.
func (m *Message) EffectKey() string { return claims.EffectKey(m.Key, m.Generation) }

// Fence is the fencing token of the claim under which the handler runs: larger than that of every
// handler that ran for this key before. A system that remembers the largest one it has seen can
// refuse the writes of a handler that lost its claim. Zero without a ledger.
func (m *Message) Fence() uint64 {
	if m.claim == nil {
		return 0
	}
	return m.claim.Fence()
}

// Attempt is the number of this attempt, from 1. With a ledger it counts handlers that began;
// without one, receives.
func (m *Message) Attempt() int { return m.attempt }

// Claim is the claim under which the handler runs; nil without a ledger. A handler may complete it
// itself, in a transaction of its own (see package pgclaims); the worker then finds it completed.
// It must not end it in another way.
func (m *Message) Claim() *claims.Claim { return m.claim }

// TakenOver returns the entry of the handler before, when that one was lost: it is unknown how far
// it came. Nil when there is no such doubt. Work that takes no effect key can look for its traces
// here, though claims.Config.Lost is the better place to decide.
func (m *Message) TakenOver() *claims.Entry {
	if m.claim == nil {
		return nil
	}
	return m.claim.TakenOver()
}

// SetResult says what is to be recorded when the handler returns without an error. A later delivery
// of the same work gets it in claims.Refused. The error is that it has more than claims.ResultMax
// bytes; it is not recorded then, and a handler that ends well all the same has done its work
// without a result.
func (m *Message) SetResult(result []byte) error {
	if len(result) > claims.ResultMax {
		return fmt.Errorf("a result of %d bytes, %d are allowed: keep it elsewhere and make its name the result", len(result), claims.ResultMax)
	}
	m.result.Store(&result)
	return nil
}

// Progress says that the handler is getting on. It matters only with Config.Stall.
func (m *Message) Progress() {
	if f := m.progress.Load(); f != nil {
		(*f)()
	}
}

// newMessage makes a Message of what was received. It fails when the message cannot be told from
// other work; then it must not be handled.
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

// lookAside finds out what work a message is that may have its trail in the store. An error means
// that it is unknown now.
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

// name says what work a message is, by its trail. Where Config.Key has to look into a body that is
// not here yet, it does so when it is.
func (w *Worker) name(m *Message, t trail.Trail) (err error) {
	m.trail = t
	m.Generation, m.Redrives, m.Lineage = t.Generation, t.Redrives, cmp.Or(t.Lineage, m.ID)
	if m.away && w.cfg.Key != nil {
		return nil
	}
	if m.Key, err = w.keyOf(m); err != nil {
		return err
	}
	if len(m.Key) > keyMax {
		return fmt.Errorf("its key has %d bytes, %d are allowed: use a hash of it", len(m.Key),
			keyMax)
	}
	return records.CheckKey(m.Key)
}

// keyOf names the work of a message.
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
	case m.trail.Lineage != "": // the deduplication id is that of a redrive, then
		return m.trail.Lineage, nil
	case m.Dedup != "" && m.Dedup != bodyHash(aws.ToString(m.raw.Body)): // what the queue saw
		return m.Dedup, nil
	}
	return m.Lineage, nil
}

// bodyHash is the deduplication id that a queue with content-based deduplication gives a message.
// It is no name for the work: two messages with the same body, an hour apart, may both be meant.
func bodyHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
