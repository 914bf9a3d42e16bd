// Package trail packs what a piece of work carries with it when its message is sent again as
// another one: into a dead-letter queue, back out of it, into a parking lot. SQS gives every send a
// new message id and forgets deduplication ids, so without it nothing would show that two messages
// are the same work: a card would be charged again after a redrive, and poison would be counted
// from zero for ever.
//
// It is one user attribute, named Attribute, because SQS allows ten in all and most of them belong
// to the user. Its value is written like the query of a URL, so people can read it:
//
//	v=1&key=order-17&lineage=2f1c...&redrives=2&reason=card+declined
//
// Fields that this version does not know are kept, so an older program does not lose what a newer
// one wrote.
//
// Nothing in a trail is to be trusted more than the rest of the message: every sender can write
// one.
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

// AttributesMax is how many user attributes SQS allows a message.
const AttributesMax = 10

// Limits of fields, in bytes. KeyMax leaves room for the prefix of a ledger and a generation.
const (
	KeyMax    = 512
	ReasonMax = 1024
)

// A Trail is what one attribute holds. The zero value is that of a message that has none.
type Trail struct {
	Key        string // what the producer calls the work; empty if it gave it no name
	Generation int    // raised only by an intended replay of completed work
	Lineage    string // message id of the first message; empty on the first one itself
	Redrives   int    // how often it was brought back from a dead-letter queue
	Strikes    int    // how often it then failed while others succeeded
	// when the first message was sent, to the millisecond; zero on the first one itself
	FirstSent time.Time

	// Died is when it became a dead letter, of one that was sent to its dead-letter queue again
	// since; else zero.
	Died time.Time

	// Of a dead letter: why, after how many attempts, the ARN of the queue it comes from, and
	// whether its handler said that no attempt will ever succeed.
	Reason   string
	Attempts int
	Source   string
	Poison   bool

	unknown url.Values // fields of later versions
}

// Names of the fields.
const (
	fieldVersion    = "v"
	fieldKey        = "key"
	fieldGeneration = "generation"
	fieldLineage    = "lineage"
	fieldRedrives   = "redrives"
	fieldStrikes    = "strikes"
	fieldFirstSent  = "first-sent"
	fieldDied       = "died"
	fieldReason     = "reason"
	fieldAttempts   = "attempts"
	fieldSource     = "source"
	fieldPoison     = "poison"
)

// Of returns the trail among the attributes of a message. It fails when there is one that cannot be
// read: then it is unknown what work the message belongs to.
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

// Attach returns attributes with the trail in place of the one they had. It reports false, and
// changes nothing, when that would be more attributes than SQS allows.
func (t Trail) Attach(
	attributes map[string]types.MessageAttributeValue,
) (with map[string]types.MessageAttributeValue, ok bool) {
	if _, has := attributes[Attribute]; !has && len(attributes) >= AttributesMax {
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

// IsZero reports whether the trail says nothing.
func (t Trail) IsZero() bool { return t.String() == "v=1" }

// String is the value of the attribute.
func (t Trail) String() string {
	v := maps.Clone(t.unknown)
	if v == nil {
		v = make(url.Values)
	}
	set := func(name, value string) {
		if value != "" && value != "0" {
			v.Set(name, value)
		}
	}
	set(fieldKey, t.Key)
	set(fieldGeneration, strconv.Itoa(t.Generation))
	set(fieldLineage, t.Lineage)
	set(fieldRedrives, strconv.Itoa(t.Redrives))
	set(fieldStrikes, strconv.Itoa(t.Strikes))
	if !t.FirstSent.IsZero() {
		set(fieldFirstSent, strconv.FormatInt(t.FirstSent.UnixMilli(), 10))
	}
	if !t.Died.IsZero() {
		set(fieldDied, strconv.FormatInt(t.Died.UnixMilli(), 10))
	}
	set(fieldReason, clip.To(t.Reason, ReasonMax))
	set(fieldAttempts, strconv.Itoa(t.Attempts))
	set(fieldSource, t.Source)
	if t.Poison {
		set(fieldPoison, "1")
	}
	return strings.TrimSuffix(fieldVersion+"=1&"+v.Encode(), "&")
}

// parse reads the value of the attribute. Other versions are refused: their fields may mean
// something else.
func parse(s string) (t Trail, err error) {
	v, err := url.ParseQuery(s)
	if err != nil {
		return t, err
	}
	if got := v.Get(fieldVersion); got != "1" {
		return t, fmt.Errorf("it has version %q, this program knows 1: use the version of the program that wrote it", got)
	}
	v.Del(fieldVersion)
	text := func(name string) string {
		s := v.Get(name)
		v.Del(name)
		return s
	}
	number := func(name string) (n int) {
		s := text(name)
		n, bad := strconv.Atoi(cmp.Or(s, "0"))
		if bad != nil || n < 0 {
			err = cmp.Or(err, fmt.Errorf("%s is %q, which is no number", name, s))
		}
		return n
	}
	t.Key, t.Lineage, t.Reason, t.Source = text(fieldKey), text(fieldLineage), text(fieldReason),
		text(fieldSource)
	t.Generation, t.Redrives, t.Strikes = number(fieldGeneration), number(fieldRedrives),
		number(fieldStrikes)
	t.Attempts, t.Poison = number(fieldAttempts), number(fieldPoison) != 0
	if ms := number(fieldFirstSent); ms != 0 {
		t.FirstSent = time.UnixMilli(int64(ms)).UTC()
	}
	if ms := number(fieldDied); ms != 0 {
		t.Died = time.UnixMilli(int64(ms)).UTC()
	}
	if len(t.Key) > KeyMax {
		err = cmp.Or(err, fmt.Errorf("its key has %d bytes, %d are allowed", len(t.Key), KeyMax))
	}
	if len(v) > 0 {
		t.unknown = v
	}
	return t, err
}
