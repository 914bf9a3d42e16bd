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
	"tenaq/internal/work/trail"
)

// A Message is what is to be sent, once for its key.
type Message struct {
	// Key is what the work is called: 1 to 512 bytes of UTF-8 without zero bytes. It must not end
	// in a # and digits, because that is how the keys of later generations end. Two pieces of work
	// must not share a key, or the second is never sent.
	Key string

	// Body is the body, at least one character.
	Body string

	// Group is the message group. FIFO queues need one; what shares it is worked on one at a time.
	Group string

	// Attributes are the user attributes, up to nine: SQS allows ten, and one is taken for the key.
	// None may be called "tenaq".
	Attributes map[string]types.MessageAttributeValue

	// Delay is how long the message stays hidden at first, up to 15 minutes, rounded up to seconds.
	// FIFO queues take none. Zero is that of the queue.
	Delay time.Duration

	// Generation is 0, but for an intended replay of completed work: see claims.EffectKey. Each
	// generation is registered and sent by itself.
	Generation int
}

// Limits of a message.
const (
	delayMax      = 15 * time.Minute
	attributesMax = trail.AttributesMax - 1
)

// check refuses what would be registered in vain. What depends on the queue alone is left to the
// queue.
func (m *Message) check(fifo bool) error {
	switch {
	case m.Key == "":
		return errors.New("it has no key: name the work, so that it is known when it comes again")
	case len(m.Key) > trail.KeyMax:
		return fmt.Errorf("its key has %d bytes, %d are allowed", len(m.Key), trail.KeyMax)
	case !utf8.ValidString(m.Key) || strings.ContainsRune(m.Key, 0):
		return errors.New("its key is not UTF-8 or has a zero byte")
	case endsLikeGeneration(m.Key):
		return errors.New("its key ends in # and digits, as keys of later generations do: name the work otherwise, or set Generation")
	case m.Generation < 0:
		return fmt.Errorf("its generation is %d: it is 0 or more", m.Generation)
	case m.Body == "":
		return errors.New("it has no body, and SQS takes none without")
	case !utf8.ValidString(m.Body):
		return errors.New("its body is not UTF-8: encode it, in base64 for example")
	case m.Delay < 0 || m.Delay > delayMax:
		return fmt.Errorf("its delay is %v: it is 0 to %v", m.Delay, delayMax)
	case fifo && m.Delay > 0:
		return errors.New("it has a delay, which FIFO queues do not take: set one on the queue")
	case fifo && m.Group == "":
		return errors.New("it has no group, and FIFO queues need one")
	case len(m.Attributes) > attributesMax:
		return fmt.Errorf("it has %d attributes: SQS allows %d, and one of them holds the key",
			len(m.Attributes), trail.AttributesMax)
	}
	for name, a := range m.Attributes {
		switch {
		case name == trail.Attribute:
			return fmt.Errorf("its attribute %q is where the key is kept: call it otherwise", name)
		case !utf8.ValidString(name) || !utf8.ValidString(aws.ToString(a.DataType)) ||
			!utf8.ValidString(aws.ToString(a.StringValue)):
			return fmt.Errorf("its attribute %q is not UTF-8: make it a binary one", name)
		case len(a.StringListValues)+len(a.BinaryListValues) > 0:
			return fmt.Errorf("its attribute %q is a list, which SQS does not take", name)
		}
	}
	return nil
}

// endsLikeGeneration reports whether a key ends in # and digits.
func endsLikeGeneration(key string) bool {
	name := strings.TrimRight(key, "0123456789")
	return name != key && strings.HasSuffix(name, "#")
}

// input is the request that sends the message under a claim on its key. Before is what was sent
// under this key earlier, if it is to be sent again on purpose.
func (m *Message) input(
	url string, fifo bool, claim *claims.Claim, before *sent,
) *sqs.SendMessageInput {
	t := trail.Trail{Key: m.Key, Generation: m.Generation}
	if before != nil && before.MessageID != "" {
		t.Lineage, t.FirstSent = before.lineage(), before.firstSent()
	}
	attributes, _ := t.Attach(m.Attributes) // there is room, by check
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

// dedupPrefix begins the deduplication ids of producers. Without it, a FIFO queue would drop a
// registered message as the duplicate of any message that another program sent with the key as its
// id, and answer as if it had taken it.
const dedupPrefix = "once/"

// dedupID returns the deduplication id for the key of a claim. It is the same for every send of a
// registration, so what an earlier version registered, and perhaps sent, keeps its id.
func dedupID(claim *claims.Claim) string {
	id := dedupPrefix + claim.Key()
	if r, err := decodeRegistered(claim.Entry().Memo); err == nil && !r.Once {
		id = claim.Key()
	}
	return dedupid.Of(id)
}

func (m *Message) delaySeconds() int32 { return int32((m.Delay + time.Second - 1) / time.Second) }

// receipt is one that says nothing but what the message is called.
func (m *Message) receipt() Receipt { return Receipt{Key: m.Key, Generation: m.Generation} }
