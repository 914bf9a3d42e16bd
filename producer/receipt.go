package producer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/records"
)

// A Receipt is the result of a send.
type Receipt struct {
	Key        string
	Generation int

	// New is whether this call put the message into the queue. If it is false and there was no
	// error, the message is a duplicate: its key was sent before.
	New bool

	// MessageID and SequenceNumber are those of the message that was sent under the key, by this
	// call or earlier. Standard queues have no sequence numbers. Both are empty if a person settled
	// the key.
	MessageID, SequenceNumber string

	// Age is the time since the send of a duplicate was recorded, or records.AgeUnknown.
	Age time.Duration

	// Attempts is how often a sender began to send the key. If it is more than one, an earlier
	// attempt may have reached the queue too: see ErrUnknown.
	Attempts int

	// Differs is whether the message that was registered first under the key has another body or
	// other attributes than the message of this call; the error is then ErrDiffers. Trace context,
	// the group and the delay are not compared.
	Differs bool

	// Work is the state of the work of a duplicate. It is empty if no worker has begun it, if its
	// entry has expired, and if Config.Work is nil.
	Work claims.State
}

// ErrRefused says that the queue does not accept the message, or not from this sender. The
// registration is gone. Correct what the error says, then send the key again. The error is about
// this call: an earlier call that returned ErrUnknown may have reached the queue.
var ErrRefused = errors.New("the queue refused it")

// ErrUnknown is the error of a send without an answer: a timeout, a broken connection, or a status
// of 500 and above. The message may be in the queue. Repeat the call: it sends at once, under the
// same deduplication id.
var ErrUnknown = errors.New("it is unknown whether it was sent")

// ErrUnrecorded is the error of a send that succeeded but that the ledger does not know: the store
// did not answer, or another sender took over. The receipt is valid. The next call for the key
// sends it again.
var ErrUnrecorded = errors.New("but the ledger does not know that")

// ErrDiffers is the error of a call whose message has another body or other attributes than the one
// that was registered first under its key. The message of this call is not sent. The receipt is
// about the first message, which this call may have sent. Either two pieces of work share a key by
// mistake, or one piece of work is described in two ways.
var ErrDiffers = errors.New("another message is registered under this key")

// resultVersion is the version of the format of a sent. Other versions are not read.
const resultVersion = 1

// A sent is the result of a completed registration: JSON, so that people and other programs can
// read it.
type sent struct {
	Version        int    `json:"v"`
	MessageID      string `json:"message_id"`
	SequenceNumber string `json:"sequence_number,omitempty"`
	At             int64  `json:"at"` // Unix milliseconds by the clock of the sender

	// The first message of the key, if this is a later one.
	First   string `json:"first_message_id,omitempty"`
	FirstAt int64  `json:"first_at,omitempty"`

	found []byte // what this was read from
}

func newSent(out *sqs.SendMessageOutput, before *sent, now time.Time) sent {
	s := sent{
		Version: resultVersion, MessageID: aws.ToString(out.MessageId),
		SequenceNumber: aws.ToString(out.SequenceNumber),
		At:             now.UnixMilli(),
	}
	switch {
	case before == nil || before.MessageID == "":
	case before.MessageID == s.MessageID: // the queue dropped it
		s.At, s.First, s.FirstAt = before.At, before.First, before.FirstAt
	default:
		s.First, s.FirstAt = before.lineage(), before.firstSent().UnixMilli()
	}
	return s
}

func (s *sent) encode() []byte {
	b, _ := json.Marshal(s) // cannot fail for these types
	return b
}

// decodeSent reads the result of a registration. It reports false for a result that a person wrote.
func decodeSent(result []byte) (s sent, ok bool) {
	if json.Unmarshal(result, &s) != nil || s.Version != resultVersion {
		return sent{found: result}, false
	}
	s.found = result
	return s, true
}

// lineage returns the id of the first message of the key.
func (s *sent) lineage() string { return cmp.Or(s.First, s.MessageID) }

func (s *sent) firstSent() time.Time {
	if s.First != "" {
		return time.UnixMilli(s.FirstAt).UTC()
	}
	return time.UnixMilli(s.At).UTC()
}

// duplicate returns the receipt of a key that was sent before. Given is the message of this call.
func (p *Producer) duplicate(
	ctx context.Context, m Message, e claims.Entry, given *registered,
) (Receipt, error) {
	r := m.receipt()
	r.Attempts = e.Attempts
	s, ok := decodeSent(e.Result)
	r.MessageID, r.SequenceNumber = s.MessageID, s.SequenceNumber
	r.Age = e.Age
	if r.Age == records.AgeUnknown && ok {
		r.Age = since(s.At)
	}
	if first, err := decodeRegistered(e.Memo); err == nil {
		r.Differs = first.differs(given)
	}
	if p.cfg.Work == nil {
		return r, nil
	}
	work, err := p.cfg.Work.Entry(ctx, e.Key)
	if err != nil && !errors.Is(err, claims.ErrNoEntry) {
		return r, fmt.Errorf("%q was sent before, but the state of its work cannot be read: %w",
			e.Key, err)
	}
	r.Work = work.State
	return r, nil
}

// since returns the time since a Unix time in milliseconds, by two clocks that may differ.
func since(ms int64) time.Duration { return max(0, time.Since(time.UnixMilli(ms))) }
