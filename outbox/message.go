package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tenaq/internal/work/trail"
)

// A Message is one row of an outbox. The name of its column stands with each field.
type Message struct {
	// ID (id) is that of the row, a UUID; a new one when empty.
	ID string

	// Queue (aggregatetype) is where the message goes: the name of a queue, or what Config.Queues
	// has for it.
	Queue string

	// Key (aggregateid) is what the message is about, the id of an order for example. On a FIFO
	// queue it is the message group, unless Group is set.
	Key string

	// Type (type) is the kind of event. The message has it as the attribute "type" unless it is
	// empty.
	Type string

	// Body (payload) is the body of the message, as it is. Say in it all that the consumer needs:
	// what it reads in the database later may be newer, or not there yet.
	Body string

	// Group (group_id) is the message group. Rows of one queue and group are sent in the order of
	// their commits.
	Group string

	// Dedup (dedup_id) names the work of the message, at most 512 bytes: it makes the deduplication
	// id, and is the key by which a worker knows the work again. Empty is the ID of the row.
	Dedup string

	// Headers (headers, a JSON object of strings) become attributes of the message, up to eight;
	// one less when its body is kept elsewhere. Two names are taken: "type" and "tenaq".
	Headers map[string]string

	// After (deliver_after) is when the message is to be sent, not before; zero is at once.
	After time.Time

	// Generation (generation) is 0, but for a replay of completed work: see claims.EffectKey.
	Generation int
}

// HeadersMax is how many headers a message may have. SQS allows ten attributes, one has the
// identity of the work and one the type.
const HeadersMax = trail.AttributesMax - 2

// typeAttribute is the name of the attribute for Message.Type.
const typeAttribute = "type"

// messageMax is what SQS allows a message, in bytes of body and attributes. A row may be larger
// when the relays keep large bodies elsewhere.
const (
	messageMax = 1 << 20
	rowMax     = 64 << 20
	queueMax   = 1024
)

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// Check returns an error when no relay could ever send the message.
func (m *Message) Check() error {
	switch {
	case m.ID != "" && !uuid.MatchString(m.ID):
		return fmt.Errorf("its ID %q is no UUID", m.ID)
	case m.Queue == "":
		return errors.New("it has no queue: say where it goes")
	case m.Body == "":
		return errors.New("it has no body, and SQS takes none without")
	case len(m.Body) > rowMax:
		return fmt.Errorf("its body has %d bytes, %d are allowed: keep it elsewhere and its name in the body", len(m.Body), rowMax)
	case len(m.Dedup) > trail.KeyMax:
		return fmt.Errorf("its deduplication id has %d bytes, %d are allowed", len(m.Dedup),
			trail.KeyMax)
	case len(m.Headers) > HeadersMax:
		return fmt.Errorf("it has %d headers, %d are allowed: SQS takes ten attributes, one for the identity of the work and one for the type among them", len(m.Headers), HeadersMax)
	case len(m.Queue) > queueMax:
		return fmt.Errorf("the name of its queue has %d bytes, %d are allowed", len(m.Queue),
			queueMax)
	case m.Generation < 0 || m.Generation > math.MaxInt32:
		return fmt.Errorf("its generation is %d: it is 0 to %d", m.Generation, math.MaxInt32)
	case strings.HasSuffix(m.Queue, ".fifo") && m.Key == "" && m.Group == "":
		return errors.New("it has neither key nor group, and a FIFO queue needs one to keep the order of")
	}
	for name, value := range m.Headers {
		switch {
		case name == trail.Attribute || name == typeAttribute:
			return fmt.Errorf("its header %q has a name that is taken: call it otherwise", name)
		case name == "" || value == "":
			return fmt.Errorf("its header %q has no name or no value, which SQS does not take",
				name)
		}
	}
	for _, field := range []struct{ name, text string }{
		{"queue", m.Queue}, {"key", m.Key}, {"type", m.Type}, {"body", m.Body}, {"group", m.Group},
		{"deduplication id", m.Dedup},
		{"headers", strings.Join(slices.Collect(maps.Keys(m.Headers)), "") +
			strings.Join(slices.Collect(maps.Values(m.Headers)), "")},
	} {
		// which is nobody's to read in a log
		if !utf8.ValidString(field.text) || strings.ContainsRune(field.text, 0) {
			return fmt.Errorf("its %s is not UTF-8 or has a zero byte: encode it, in base64 for example", field.name)
		}
	}
	return nil
}

// A Trace returns headers that carry the trace of a context on: with OpenTelemetry,
//
//	func(ctx context.Context) map[string]string {
//		c := propagation.MapCarrier{}
//		otel.GetTextMapPropagator().Inject(ctx, c)
//		return c
//	}
type Trace func(context.Context) map[string]string
