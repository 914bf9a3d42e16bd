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

	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
	"tenaq/internal/work/trail"
)

// A Message is one row of an outbox. Each field names its column.
type Message struct {
	// ID (id) identifies the row: a UUID, a new one when empty.
	ID string

	// Queue (aggregatetype) is the name of a queue, or a key of Config.Queues.
	Queue string

	// Key (aggregateid) is what the message is about, for example the id of an order. On a FIFO
	// queue it is the message group, unless Group is set.
	Key string

	// Type (type) is the kind of event. Unless it is empty, it is sent as the attribute "type".
	Type string

	// Body (payload) is the body of the message, unchanged. Include all that the consumer needs:
	// what it reads in the database later may be newer, or missing on a replica.
	Body string

	// Group (group_id) is the message group. Rows of one queue and group are sent in the order of
	// their commits.
	Group string

	// Dedup (dedup_id) names the work of the message, in at most 512 bytes: the ID of the row when
	// empty. It becomes the deduplication id, and the key by which a worker recognizes the work. It
	// should not end in # and digits, as the keys of replays do (see claims.EffectKey).
	Dedup string

	// Headers (headers, a JSON object of strings) become attributes of the message. There are at
	// most eight, or seven if Config.Offload stores the body. The names "type" and "tenaq" are
	// reserved.
	Headers map[string]string

	// After (deliver_after) is the earliest time to send the message; zero means at once.
	After time.Time

	// Generation (generation) is 0, except in a replay of completed work: see claims.EffectKey.
	Generation int
}

// HeadersMax is the maximum number of headers of a message. SQS allows ten attributes; one holds
// the identity of the work and one the type.
const HeadersMax = sqslimits.AttributesMax - 2

// typeAttribute is the name of the attribute for Message.Type.
const typeAttribute = "type"

// Limits of a row, in bytes. A body may be larger than a message if relays have a Config.Offload.
const (
	rowMax   = 64 << 20
	queueMax = 1024
)

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// Check returns an error if no relay could ever send the message.
func (m *Message) Check() error {
	switch {
	case m.ID != "" && !uuid.MatchString(m.ID):
		return fmt.Errorf("its ID %q is not a UUID: leave it empty to get one", m.ID)
	case m.Queue == "":
		return errors.New("it has no queue: name one")
	case m.Body == "":
		return errors.New("it has no body, and SQS requires one")
	case len(m.Body) > rowMax:
		return fmt.Errorf("its body has %d bytes, and %d are allowed: store it elsewhere and its name in the body", len(m.Body), rowMax)
	case len(m.Dedup) > trail.KeyMax:
		return fmt.Errorf("its deduplication id has %d bytes, and %d are allowed: use a hash of it", len(m.Dedup),
			trail.KeyMax)
	case len(m.Headers) > HeadersMax:
		return fmt.Errorf("it has %d headers, and %d are allowed, because SQS allows ten attributes and tenaq needs one for the identity of the work and one for the type: leave some out", len(m.Headers), HeadersMax)
	case len(m.Queue) > queueMax:
		return fmt.Errorf("the name of its queue has %d bytes, and %d are allowed", len(m.Queue),
			queueMax)
	case m.Generation < 0 || m.Generation > math.MaxInt32:
		return fmt.Errorf("its generation is %d: it must be 0 to %d", m.Generation, math.MaxInt32)
	case queuename.IsFIFO(m.Queue) && m.Key == "" && m.Group == "":
		return errors.New("it has neither key nor group, and a FIFO queue needs one of them")
	}
	for name, value := range m.Headers {
		switch {
		case name == trail.Attribute || name == typeAttribute:
			return fmt.Errorf("its header %q has a reserved name: use another name", name)
		case name == "" || value == "":
			return fmt.Errorf("its header %q has no name or no value, and SQS requires both",
				name)
		}
	}
	for _, field := range []struct{ name, text string }{
		{"queue", m.Queue}, {"key", m.Key}, {"type", m.Type}, {"body", m.Body}, {"group", m.Group},
		{"deduplication id", m.Dedup},
		{"headers", strings.Join(slices.Collect(maps.Keys(m.Headers)), "") +
			strings.Join(slices.Collect(maps.Values(m.Headers)), "")},
	} {
		if !utf8.ValidString(field.text) || strings.ContainsRune(field.text, 0) {
			return fmt.Errorf("its %s is not UTF-8 or has a zero byte: encode it, in base64 for example", field.name)
		}
	}
	return nil
}

// A Trace returns headers that propagate the trace of a context. With OpenTelemetry:
//
//	func(ctx context.Context) map[string]string {
//		c := propagation.MapCarrier{}
//		otel.GetTextMapPropagator().Inject(ctx, c)
//		return c
//	}
type Trace func(context.Context) map[string]string
