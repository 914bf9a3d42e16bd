package producer

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/dedupid"
	"tenaq/internal/work/sqslimits"
	"tenaq/internal/work/trail"
)

// A Message is a message to send, once for its key.
type Message struct {
	// Key names the work: 1 to 512 bytes of UTF-8 without zero bytes. It must not end in a # and
	// digits, like the keys of later generations. If two pieces of work share a key, the second is
	// never sent.
	Key string

	// Body is the body, at least one character.
	Body string

	// Group is the message group, required on FIFO queues. The messages of a group are worked on
	// one at a time.
	Group string

	// Attributes are the user attributes, up to nine: SQS allows ten, and one holds the key. None
	// may have the name "tenaq".
	Attributes map[string]types.MessageAttributeValue

	// Delay is how long the message is hidden at first, up to 15 minutes, rounded up to seconds.
	// Zero is the delay of the queue. FIFO queues allow no delay of a message.
	Delay time.Duration

	// Generation is 0, except in a deliberate replay of completed work: see claims.EffectKey. Each
	// generation is registered and sent separately.
	Generation int
}

// check refuses messages that no queue would accept. It leaves the limits of the queue to the
// queue.
func (m *Message) check(fifo bool) error {
	switch {
	case m.Key == "":
		return errors.New("it has no key: name the work, so that it is recognized when it comes again")
	case len(m.Key) > trail.KeyMax:
		return fmt.Errorf("its key has %d bytes, and %d are allowed: use a hash of it", len(m.Key), trail.KeyMax)
	case !utf8.ValidString(m.Key) || strings.ContainsRune(m.Key, 0):
		return errors.New("its key is not UTF-8 or has a zero byte: encode it, in base64 for example")
	case endsLikeGeneration(m.Key):
		return errors.New("its key ends in # and digits, as keys of later generations do: use another name, or set Generation")
	case m.Generation < 0:
		return fmt.Errorf("its generation is %d: it must be 0 or more", m.Generation)
	case m.Body == "":
		return errors.New("it has no body, and SQS requires one")
	case !utf8.ValidString(m.Body):
		return errors.New("its body is not UTF-8: encode it, in base64 for example")
	case m.Delay < 0 || m.Delay > sqslimits.DelayMax:
		return fmt.Errorf("its delay is %v: it must be 0 to %v", m.Delay, sqslimits.DelayMax)
	case fifo && m.Delay > 0:
		return errors.New("it has a delay, which FIFO queues do not allow: set DelaySeconds on the queue")
	case fifo && m.Group == "":
		return errors.New("it has no group, and FIFO queues need one")
	case len(m.Attributes) >= sqslimits.AttributesMax:
		return fmt.Errorf("it has %d attributes: SQS allows %d, and one of them holds the key",
			len(m.Attributes), sqslimits.AttributesMax)
	}
	for name, a := range m.Attributes {
		switch {
		case name == trail.Attribute:
			return fmt.Errorf("its attribute %q is where the key is stored: use another name", name)
		case !utf8.ValidString(name) || !utf8.ValidString(aws.ToString(a.DataType)) ||
			!utf8.ValidString(aws.ToString(a.StringValue)):
			return fmt.Errorf("its attribute %q is not UTF-8: make it a binary attribute", name)
		case len(a.StringListValues)+len(a.BinaryListValues) > 0:
			return fmt.Errorf("its attribute %q is a list, which SQS does not support: use a string", name)
		}
	}
	return nil
}

// endsLikeGeneration reports whether a key ends in # and digits.
func endsLikeGeneration(key string) bool {
	name := strings.TrimRight(key, "0123456789")
	return name != key && strings.HasSuffix(name, "#")
}

// input returns the request that sends the message under a claim on its key. Before is the earlier
// send of this key, if the message is sent again on purpose.
func (m *Message) input(
	url string, fifo bool, claim *claims.Claim, before *sent,
) *sqs.SendMessageInput {
	t := trail.Trail{Key: m.Key, Generation: m.Generation}
	if before != nil && before.MessageID != "" {
		t.Lineage, t.FirstSent = before.lineage(), before.firstSent()
	}
	attributes, _ := t.Attach(m.Attributes) // check has made sure that there is room
	in := &sqs.SendMessageInput{
		QueueUrl:          &url,
		MessageBody:       &m.Body,
		MessageAttributes: attributes,
		DelaySeconds:      m.delaySeconds(),
	}
	if m.Group != "" {
		in.MessageGroupId = &m.Group
	}
	if fifo {
		in.MessageDeduplicationId = aws.String(dedupID(claim))
	}
	return in
}

// dedupPrefix begins the deduplication ids of producers. Without it, if another program sent a
// message with the key as its id, a FIFO queue would accept the registered message and drop it.
const dedupPrefix = "once/"

// dedupID returns the deduplication id for the key of a claim. It is the same for every send of a
// registration, including one that an earlier version wrote.
func dedupID(claim *claims.Claim) string {
	id := dedupPrefix + claim.Key()
	if r, err := decodeRegistered(claim.Entry().Memo); err == nil && !r.Once {
		id = claim.Key()
	}
	return dedupid.Of(id)
}

func (m *Message) delaySeconds() int32 { return int32((m.Delay + time.Second - 1) / time.Second) }

// receipt returns a receipt with only the name of the message.
func (m *Message) receipt() Receipt { return Receipt{Key: m.Key, Generation: m.Generation} }
