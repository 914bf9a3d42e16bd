package producer

import (
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

// A Receipt says what became of a message that was to be sent once.
type Receipt struct {
	Key        string
	Generation int

	// New reports that this call put the message into the queue. Otherwise, if there was no error,
	// the message is a duplicate: its key was sent before.
	New bool

	// MessageID and SequenceNumber are those of the message that was sent under the key, by this
	// call or before. Standard queues have no sequence numbers. Both are empty when a person
	// settled the key.
	MessageID, SequenceNumber string

	// Age is how long ago the send was recorded, of a duplicate; records.AgeUnknown when nobody
	// knows.
	Age time.Duration

	// Attempts is how often somebody began to send the key. When it is more than one, an earlier
	// attempt may have reached the queue as well: see ErrUnknown.
	Attempts int

	// Differs reports that the message which was registered first under the key has another body or
	// other attributes than the one that this call brought; the error is ErrDiffers then. Trace
	// context, the group and the delay are not compared.
	Differs bool

	// Work is the state of the work of a duplicate. It is empty when nobody has begun it, when its
	// entry has expired, and when Config.Work is nil.
	Work claims.State
}

// ErrRefused is why a message was not sent that the queue does not take as it is, or not from this
// sender. Its registration is gone. Correct what the error says; then the key can be sent. It is
// about this call: an earlier one of the key that ended in ErrUnknown may have reached the queue.
var ErrRefused = errors.New("the queue refused it")

// ErrUnknown is the error of a send without an answer: a timeout, a broken connection, a status of
// 500 and above. The message may be in the queue or not. The same call again sends at once, under
// the same deduplication id.
var ErrUnknown = errors.New("it is unknown whether it was sent")

// ErrUnrecorded is the error of a send that succeeded, so that the receipt is good, and of which
// the ledger does not know: the store did not answer, or somebody took over meanwhile. The next one
// who is told to send the key sends it again.
var ErrUnrecorded = errors.New("but the ledger does not know that")

// ErrDiffers is the error of a call that brings another body or other attributes than the message
// which was registered first under its key. Only that first message counts: what this call brought
// is not sent. The receipt says what became of the first one, which this call may have sent. Two
// pieces of work share a key by mistake, or one piece of work is described in two ways.
var ErrDiffers = errors.New("another message is registered under this key")

// resultVersion is the version of the form of a sent. Others are not guessed at.
const resultVersion = 1

// A sent is what a completed registration holds as its result: JSON, so that people and other
// programs can read it.
type sent struct {
	Version        int    `json:"v"`
	MessageID      string `json:"message_id"`
	SequenceNumber string `json:"sequence_number,omitempty"`
	At             int64  `json:"at"` // Unix milliseconds by the clock of the sender

	// The first message of the key, when this is a later one.
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
	b, _ := json.Marshal(s) // nothing in it can fail to be encoded
	return b
}

// decodeSent reads the result of a registration. It reports false, and knows nothing, for the
// result of a person, who may write what they like.
func decodeSent(result []byte) (s sent, ok bool) {
	if json.Unmarshal(result, &s) != nil || s.Version != resultVersion {
		return sent{found: result}, false
	}
	s.found = result
	return s, true
}

// lineage is the id of the first message of the key.
func (s *sent) lineage() string {
	if s.First != "" {
		return s.First
	}
	return s.MessageID
}

func (s *sent) firstSent() time.Time {
	if s.First != "" {
		return time.UnixMilli(s.FirstAt).UTC()
	}
	return time.UnixMilli(s.At).UTC()
}

// duplicate is the receipt of a key that was sent before. Given is what the call brought now.
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
		return r, fmt.Errorf("%q was sent before, but what became of the work cannot be told: %w",
			e.Key, err)
	}
	r.Work = work.State
	return r, nil
}

// since is how long ago a time in Unix milliseconds was, by two clocks that may differ.
func since(ms int64) time.Duration { return max(0, time.Since(time.UnixMilli(ms))) }
