package pipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tenaq/worker"
)

// A fact is a value about a message that a task gets in its environment or in a header.
type fact struct{ name, value string }

// factsOf returns the facts about a message. The names are those of headers, without Tenaq in
// front.
func factsOf(m *worker.Message) []fact {
	return []fact{
		{"Message-Id", m.ID},
		{"Key", m.Key},
		{"Effect-Key", m.EffectKey()},
		{"Generation", strconv.Itoa(m.Generation)},
		{"Fence", strconv.FormatUint(m.Fence(), 10)},
		{"Attempt", strconv.Itoa(m.Attempt())},
		{"Receives", strconv.Itoa(m.Receives)},
		{"Redrives", strconv.Itoa(m.Redrives)},
		{"Lineage", m.Lineage},
		{"Group", m.Group},
		{"Queue-Url", m.QueueURL},
		{"Sent", timestamp(m.Sent)},
	}
}

// timestamp returns a time as RFC 3339 in UTC, or an empty text for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// environment returns the variables of a task. All names are set, some to nothing, so that a task
// does not read a variable of the worker as a fact about its message.
func environment(m *worker.Message) (vars []string, err error) {
	for _, f := range factsOf(m) {
		if strings.ContainsRune(f.value, 0) {
			return nil, fmt.Errorf("its %s has a zero byte, which an environment cannot hold",
				strings.ToLower(f.name))
		}
		vars = append(vars, "TENAQ_"+strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))+"="+
			f.value)
	}
	return vars, nil
}

// metadata has the facts as JSON, for a file or for a record of a Lambda function.
type metadata struct {
	MessageID  string               `json:"messageId"`
	Key        string               `json:"key"`
	EffectKey  string               `json:"effectKey"`
	Generation int                  `json:"generation"`
	Fence      uint64               `json:"fence"`
	Attempt    int                  `json:"attempt"`
	Receives   int                  `json:"receives"`
	Redrives   int                  `json:"redrives"`
	Lineage    string               `json:"lineage"`
	Group      string               `json:"group,omitempty"`
	Dedup      string               `json:"deduplicationId,omitempty"`
	QueueURL   string               `json:"queueUrl"`
	Sent       string               `json:"sent,omitempty"`
	Attributes map[string]attribute `json:"attributes,omitempty"`
}

// An attribute is a message attribute as JSON. One of the values is set.
type attribute struct {
	DataType    string  `json:"dataType"`
	StringValue *string `json:"stringValue,omitempty"`
	BinaryValue []byte  `json:"binaryValue,omitempty"` // base64
}

func metadataOf(m *worker.Message) metadata {
	return metadata{
		MessageID:  m.ID,
		Key:        m.Key,
		EffectKey:  m.EffectKey(),
		Generation: m.Generation,
		Fence:      m.Fence(),
		Attempt:    m.Attempt(),
		Receives:   m.Receives,
		Redrives:   m.Redrives,
		Lineage:    m.Lineage,
		Group:      m.Group,
		Dedup:      m.Dedup,
		QueueURL:   m.QueueURL,
		Sent:       timestamp(m.Sent),
	}
}

func attributesOf(m *worker.Message) map[string]attribute {
	out := make(map[string]attribute, len(m.Attributes))
	for name, a := range m.Attributes {
		v := attribute{StringValue: a.StringValue, BinaryValue: a.BinaryValue}
		if a.DataType != nil {
			v.DataType = *a.DataType
		}
		out[name] = v
	}
	return out
}

// encode returns v as JSON without HTML escapes, because people read these files and bodies.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
