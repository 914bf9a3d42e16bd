package producer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
)

// registeredVersion is the version of the format of a registered. Other versions are not read.
const registeredVersion = 1

// A registered is the memo of a registration: JSON, so that people and other programs can read it.
// It is written once and kept for as long as the registration.
type registered struct {
	Version    int    `json:"v"`
	Key        string `json:"key"`
	Generation int    `json:"generation,omitempty"`
	At         int64  `json:"at"`  // Unix milliseconds by the clock of the producer
	Sum        string `json:"sum"` // SHA-256 of the content
	// SHA-256 of what the effect depends on; earlier versions wrote none
	Effect string `json:"effect,omitempty"`
	// the deduplication id begins with dedupPrefix; in earlier versions it was only the key
	Once    bool     `json:"once,omitempty"`
	Message *content `json:"message,omitempty"`
}

// A content is a message without its name.
type content struct {
	Body         string               `json:"body"`
	Group        string               `json:"group,omitempty"`
	DelaySeconds int32                `json:"delay_s,omitempty"`
	Attributes   map[string]attribute `json:"attributes,omitempty"`
}

type attribute struct {
	Type   string  `json:"type"`
	Text   *string `json:"text,omitempty"`
	Binary []byte  `json:"binary,omitempty"`
}

// register returns the memo of a message.
func register(m Message, now time.Time) *registered {
	c := &content{Body: m.Body, Group: m.Group, DelaySeconds: m.delaySeconds()}
	for name, a := range m.Attributes {
		if c.Attributes == nil {
			c.Attributes = make(map[string]attribute, len(m.Attributes))
		}
		c.Attributes[name] = attribute{aws.ToString(a.DataType), a.StringValue, a.BinaryValue}
	}
	sum := sha256.Sum256(encode(c))
	return &registered{
		Version: registeredVersion, Key: m.Key, Generation: m.Generation, At: now.UnixMilli(),
		Sum: hex.EncodeToString(sum[:]), Effect: c.effect(), Once: true, Message: c,
	}
}

// traceContext are the attributes of the W3C trace context and baggage. They are new with every
// call, and no effect depends on them.
var traceContext = []string{"traceparent", "tracestate", "baggage"}

// effect returns a digest of what the effect of the message depends on: its body and attributes.
// The group and the delay say where and when it is delivered, and may differ between two calls for
// one piece of work.
func (c *content) effect() string {
	same := content{Body: c.Body, Attributes: maps.Clone(c.Attributes)}
	for _, name := range traceContext {
		delete(same.Attributes, name)
	}
	sum := sha256.Sum256(encode(same))
	return hex.EncodeToString(sum[:])
}

// encode leaves the message out if it does not fit into a memo.
func (r registered) encode() []byte {
	b := encode(r)
	if len(b) > claims.MemoMax {
		r.Message = nil
		b = encode(r)
	}
	return b
}

// encode returns JSON without HTML escapes.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // cannot fail for these types
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func decodeRegistered(memo []byte) (registered, error) {
	var r registered
	if err := json.Unmarshal(memo, &r); err != nil {
		return registered{}, fmt.Errorf("its memo is not from a producer: %w", err)
	}
	if r.Version != registeredVersion {
		return registered{}, fmt.Errorf("its memo has format %d and this program knows %d: use the version of the program that wrote it",
			r.Version, registeredVersion)
	}
	return r, nil
}

// differs reports whether the message that was registered first has another effect than the given
// one. An earlier version recorded only a sum that includes the group and the delay. Without any
// record, the two count as equal.
func (r *registered) differs(given *registered) bool {
	switch {
	case r.Effect != "":
		return r.Effect != given.Effect
	case r.Message != nil:
		return r.Message.effect() != given.Effect
	}
	return r.Sum != "" && r.Sum != given.Sum
}

// message returns the registered message, which must have been kept.
func (r *registered) message() Message {
	m := Message{
		Key: r.Key, Generation: r.Generation,
		Body: r.Message.Body, Group: r.Message.Group,
		Delay: time.Duration(r.Message.DelaySeconds) * time.Second,
	}
	for name, a := range r.Message.Attributes {
		if m.Attributes == nil {
			m.Attributes = make(map[string]types.MessageAttributeValue, len(r.Message.Attributes))
		}
		m.Attributes[name] = types.MessageAttributeValue{DataType: aws.String(a.Type),
			StringValue: a.Text, BinaryValue: a.Binary}
	}
	return m
}
