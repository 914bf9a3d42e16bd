// Package trail packs the identity and the history of a piece of work into its message. A message
// that is sent on, to a dead-letter queue, back from it or to a parking lot, gets a new message id,
// and SQS forgets deduplication ids. The trail shows that two messages are the same work. Without
// it, a redrive would charge a card again, and the strikes of poison would restart at zero.
//
// The trail is one user attribute, because SQS allows ten in all and most of them belong to the
// user. Its value has the form of a URL query, so people can read it:
//
//	v=1&key=order-17&lineage=2f1c...&redrives=2&reason=card+declined
//
// Unknown fields are kept, so an older program does not lose what a newer one wrote.
//
// Any sender can write a trail, so trust it no more than the rest of the message.
package trail

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/clip"
)

// Attribute is the name of the user attribute.
const Attribute = "tenaq"

// Limits of fields, in bytes. KeyMax leaves room for the prefix of a ledger and a generation.
const (
	KeyMax    = 512
	ReasonMax = 1024
)

// A Trail is the content of the attribute. The zero value stands for a message without a trail.
type Trail struct {
	Key        string // the name that the producer gave to the work, if any
	Generation int    // raised only by a deliberate replay of completed work
	Lineage    string // message id of the first message; empty on the first message itself
	Redrives   int    // number of redrives from a dead-letter queue
	Strikes    int    // number of failures after a redrive while others succeeded
	// when the first message was sent, to the millisecond; zero on the first message itself
	FirstSent time.Time

	// Died is when the message became a dead letter, if it was sent to its dead-letter queue again
	// since; otherwise zero.
	Died time.Time

	// Of a dead letter:
	Reason   string // why its last attempt failed
	Attempts int
	Source   string // ARN of the queue that it comes from
	Poison   bool   // its handler said that no attempt will ever succeed

	unknown url.Values // fields of later versions
}

// fieldVersion is the field with the version of the format.
const fieldVersion = "v"

// A field is a field of a trail: its name and a *string, *int, *bool or *time.Time.
type field struct {
	name  string
	value any
}

func (t *Trail) fields() []field {
	return []field{
		{"key", &t.Key}, {"generation", &t.Generation}, {"lineage", &t.Lineage},
		{"redrives", &t.Redrives}, {"strikes", &t.Strikes}, {"first-sent", &t.FirstSent},
		{"died", &t.Died}, {"reason", &t.Reason}, {"attempts", &t.Attempts},
		{"source", &t.Source}, {"poison", &t.Poison},
	}
}

// Of returns the trail among the attributes of a message. It returns an error if it cannot read the
// trail, because then it is unknown which work the message belongs to.
func Of(attributes map[string]types.MessageAttributeValue) (Trail, error) {
	a, ok := attributes[Attribute]
	if !ok {
		return Trail{}, nil
	}
	t, err := parse(aws.ToString(a.StringValue))
	if err != nil {
		return Trail{}, fmt.Errorf("the message attribute %q cannot be read: %w", Attribute, err)
	}
	return t, nil
}

// Attach returns a copy of attributes with this trail. If that would be more attributes than SQS
// allows, it returns the attributes unchanged and false.
func (t Trail) Attach(
	attributes map[string]types.MessageAttributeValue,
) (with map[string]types.MessageAttributeValue, ok bool) {
	if MayBeAside(attributes) {
		return attributes, false
	}
	with = maps.Clone(attributes)
	if with == nil {
		with = make(map[string]types.MessageAttributeValue, 1)
	}
	with[Attribute] = types.MessageAttributeValue{DataType: aws.String("String"),
		StringValue: aws.String(t.String())}
	return with, true
}

// IsZero reports whether the trail is empty.
func (t Trail) IsZero() bool { return t.String() == "v=1" }

// String returns the value of the attribute.
func (t Trail) String() string {
	v := maps.Clone(t.unknown)
	if v == nil {
		v = make(url.Values)
	}
	t.Reason = clip.To(t.Reason, ReasonMax)
	for _, f := range t.fields() {
		var text string
		switch value := f.value.(type) {
		case *string:
			text = *value
		case *int:
			if *value != 0 {
				text = strconv.Itoa(*value)
			}
		case *bool:
			if *value {
				text = "1"
			}
		case *time.Time:
			if !value.IsZero() {
				text = strconv.FormatInt(value.UnixMilli(), 10)
			}
		}
		if text != "" {
			v.Set(f.name, text)
		}
	}
	return strings.TrimSuffix(fieldVersion+"=1&"+v.Encode(), "&")
}

// parse reads the value of the attribute. It refuses other versions, whose fields may differ in
// meaning.
func parse(s string) (t Trail, err error) {
	v, err := url.ParseQuery(s)
	if err != nil {
		return t, err
	}
	if got := v.Get(fieldVersion); got != "1" {
		return t, fmt.Errorf("it has version %q and this program knows 1: use the version of the program that wrote it", got)
	}
	v.Del(fieldVersion)
	for _, f := range t.fields() {
		text := v.Get(f.name)
		v.Del(f.name)
		if to, ok := f.value.(*string); ok {
			*to = text
			continue
		}
		n, bad := strconv.Atoi(cmp.Or(text, "0"))
		if bad != nil || n < 0 {
			err = cmp.Or(err, fmt.Errorf("%s is %q, which is not a number", f.name, text))
		}
		switch to := f.value.(type) {
		case *int:
			*to = n
		case *bool:
			*to = n != 0
		case *time.Time:
			if n != 0 {
				*to = time.UnixMilli(int64(n)).UTC()
			}
		}
	}
	if len(t.Key) > KeyMax {
		err = cmp.Or(err, fmt.Errorf("its key has %d bytes and %d are allowed", len(t.Key), KeyMax))
	}
	if len(v) > 0 {
		t.unknown = v
	}
	return t, err
}
