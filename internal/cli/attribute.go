package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// An attributeKind says how the text of a queue attribute is to be read.
type attributeKind int

const (
	KindText attributeKind = iota
	kindSeconds
	kindBytes
	kindCount
	kindTime
	kindBool
	KindJSON
)

// QueueAttributes are the attributes of a queue as SQS names them, in the order in which they are
// shown: what is in the queue, how it behaves, where its dead letters go, who may use it, what it
// is.
var QueueAttributes = []struct {
	Name     string
	kind     attributeKind
	readOnly bool
}{
	{"ApproximateNumberOfMessages", kindCount, true},
	{"ApproximateNumberOfMessagesNotVisible", kindCount, true},
	{"ApproximateNumberOfMessagesDelayed", kindCount, true},
	{"VisibilityTimeout", kindSeconds, false},
	{"DelaySeconds", kindSeconds, false},
	{"ReceiveMessageWaitTimeSeconds", kindSeconds, false},
	{"MessageRetentionPeriod", kindSeconds, false},
	{"MaximumMessageSize", kindBytes, false},
	{"FifoQueue", kindBool, false},
	{"ContentBasedDeduplication", kindBool, false},
	{"DeduplicationScope", KindText, false},
	{"FifoThroughputLimit", KindText, false},
	{"RedrivePolicy", KindJSON, false},
	{"RedriveAllowPolicy", KindJSON, false},
	{"Policy", KindJSON, false},
	{"SqsManagedSseEnabled", kindBool, false},
	{"KmsMasterKeyId", KindText, false},
	{"KmsDataKeyReusePeriodSeconds", kindSeconds, false},
	{"QueueArn", KindText, true},
	{"CreatedTimestamp", kindTime, true},
	{"LastModifiedTimestamp", kindTime, true},
}

// KindOf returns the kind of an attribute; one that is not known is text.
func KindOf(name string) attributeKind {
	for _, a := range QueueAttributes {
		if a.Name == name {
			return a.kind
		}
	}
	return KindText
}

// SettableAttributes lists the names that a queue may be created with.
func SettableAttributes() []string {
	var names []string
	for _, a := range QueueAttributes {
		if !a.readOnly {
			names = append(names, a.Name)
		}
	}
	return names
}

func IsSettable(name string) bool { return slices.Contains(SettableAttributes(), name) }

func isReadOnly(name string) bool {
	for _, a := range QueueAttributes {
		if a.Name == name {
			return a.readOnly
		}
	}
	return false
}

// HumanAttribute formats a value with units; "" if the value needs none.
func HumanAttribute(name, value string, now time.Time) string {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return ""
	}
	switch KindOf(name) {
	case kindSeconds:
		return HumanDuration(time.Duration(n) * time.Second)
	case kindBytes:
		return HumanSize(n)
	case kindTime:
		return HumanTime(time.Unix(n, 0), now)
	}
	return ""
}

// SameAttribute reports whether two values of an attribute mean the same. SQS accepts true and
// True, 30 and 030, and JSON in any order and layout. "" means not set.
func SameAttribute(name, a, b string) bool {
	if a == b {
		return true
	}
	if a == "" || b == "" {
		return false
	}
	switch KindOf(name) {
	case kindBool:
		return strings.EqualFold(a, b)
	case kindSeconds, kindBytes, kindCount:
		x, errX := strconv.ParseInt(a, 10, 64)
		y, errY := strconv.ParseInt(b, 10, 64)
		return errX == nil && errY == nil && x == y
	case KindJSON:
		x, errX := canonicalJSON(a)
		y, errY := canonicalJSON(b)
		return errX == nil && errY == nil && x == y
	}
	return false
}

// canonicalJSON writes a document without blanks and with sorted keys. The count of a redrive
// policy may be a number or a string of digits in SQS, so it becomes a number.
func canonicalJSON(s string) (string, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	if m, ok := v.(map[string]any); ok {
		if digits, ok := m["maxReceiveCount"].(string); ok {
			m["maxReceiveCount"] = json.Number(digits)
		}
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// ParsePairs reads the values of a flag that have the form K=V.
func ParsePairs(flag string, pairs []string) (map[string]string, error) {
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, Usagef("%s: %q is not of the form NAME=VALUE", flag, p)
		}
		if _, double := m[k]; double {
			return nil, Usagef("%s: %s is given twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}

// ParseAttributes reads the values of --attribute. A duration or a size with a unit becomes the
// whole number of seconds or bytes that SQS takes; all else is the server's to judge.
func ParseAttributes(pairs []string) (map[string]string, error) {
	attributes, err := ParsePairs("--attribute", pairs)
	if err != nil {
		return nil, err
	}
	for name, value := range attributes {
		if attributes[name], err = withoutUnit(KindOf(name), value); err != nil {
			return nil, Usagef("--attribute: %s: %v", name, err)
		}
	}
	return attributes, nil
}

func withoutUnit(kind attributeKind, value string) (string, error) {
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return value, nil
	}
	switch kind {
	case kindSeconds:
		d, err := ParseDuration(value)
		switch {
		case err != nil:
			return value, nil
		case d%time.Second != 0:
			return "", fmt.Errorf("%q is not a whole number of seconds", value)
		}
		return strconv.FormatInt(int64(d/time.Second), 10), nil
	case kindBytes:
		if n, err := ParseSize(value); err == nil {
			return strconv.FormatInt(n, 10), nil
		}
	}
	return value, nil
}

func NumberOf(attributes map[string]string, name types.QueueAttributeName) int64 {
	n, _ := strconv.ParseInt(attributes[string(name)], 10, 64)
	return n
}

// CountsOf reads how many messages a queue has.
func CountsOf(attributes map[string]string) (visible, hidden, delayed int64) {
	return NumberOf(attributes, types.QueueAttributeNameApproximateNumberOfMessages),
		NumberOf(attributes, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		NumberOf(attributes, types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
}

// ImpliedAttributes adds FifoQueue if the name of a queue ends in .fifo: SQS requires both.
func ImpliedAttributes(name string, attributes map[string]string) map[string]string {
	if _, given := attributes["FifoQueue"]; given || !strings.HasSuffix(name, ".fifo") {
		return attributes
	}
	with := map[string]string{"FifoQueue": "true"}
	maps.Copy(with, attributes)
	return with
}

// CheckAttribute checks the name of an attribute and the kind of its value, not its range: ranges
// are the server's to know.
func CheckAttribute(name, value string) error {
	switch {
	case isReadOnly(name):
		return fmt.Errorf("attribute %s is set by the server only", name)
	case !IsSettable(name):
		return fmt.Errorf("unknown attribute %q%s", name, DidYouMean(name, SettableAttributes()))
	case value == "":
		return nil
	}
	switch KindOf(name) {
	case kindSeconds, kindBytes, kindCount:
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return fmt.Errorf("attribute %s: %q is not a whole number", name, value)
		}
	case kindBool:
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			return fmt.Errorf("attribute %s: %q is neither true nor false", name, value)
		}
	case KindJSON:
		if _, err := canonicalJSON(value); err != nil {
			return fmt.Errorf("attribute %s: not JSON: %v", name, err)
		}
	}
	return nil
}
