// Package offload keeps the bodies of messages that are too large for SQS in a store beside the
// queue, a directory or a bucket (package s3offload), and sends a pointer in their place.
//
//	o, err := offload.New(offload.Config{Store: store})
//	...
//	body, attributes, err = o.Out(ctx, "accounts-2026-02-28", body, attributes) // before the message is sent
//	body, attributes, err = o.In(ctx, body, attributes)                         // after it was received
//
// Package worker does the second itself, see worker.Config.Offload.
//
// Pointers are those of the Amazon SQS Extended Client Libraries for Java and Python, so programs
// with these read what is sent here, and what they send is read here: the body is
//
//	["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"orders","s3Key":"..."}]
//
// and the user attribute ExtendedPayloadSize holds the size of the real one in bytes. What older
// versions of these libraries write is read too: another class name, SQSLargePayloadSize as the
// attribute, which Java uses to this day unless told otherwise, or an object that is in no array.
// As with them the attribute decides whether a body is a pointer; a body that only looks like one
// is left alone.
//
// What it guarantees:
//
//   - A body is in the store before its pointer is returned, so no pointer is sent ahead of its
//     body.
//   - What a pointer names is never replaced by another body: the key of a body ends with its hash.
//     To store a body again is harmless.
//   - A pointer is followed only into the stores of the Config, under Config.Prefix, and to a body
//     of Config.BodyMax bytes at most. Whoever may send a message decides what is in a pointer;
//     without this one could have a consumer read whatever its credentials reach.
//
// What it leaves to others: who may send to the queue may name every body under the prefix, and one
// who deletes bodies will delete it, so messages of people who must not read each other's belong
// into different buckets or under different prefixes. Bodies are not removed here unless somebody
// says Delete. A rule of the store should: after the retention of the queue, that of its
// dead-letter queue, and that of whatever else sends messages again, taken together.
package offload

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A Store keeps bodies beside the queue. It may be used by many goroutines and processes at once.
// Implementations pass the tests in package offloadtest.
type Store interface {
	// Bucket is the name of the store in pointers. It never changes.
	Bucket() string

	// Put stores a body. When it returns without an error the body outlives a crash. To put the
	// same body under the same key again is harmless, at the same time too; nobody ever reads a
	// part of a body.
	Put(ctx context.Context, key string, body []byte) error

	// Get returns a body, ErrNotFound when there is none, or ErrTooLarge, without having read all
	// of it, when it has more than so many bytes.
	Get(ctx context.Context, key string, most int) ([]byte, error)

	// Delete removes a body. It is no error when there is none.
	Delete(ctx context.Context, key string) error
}

// What a store answers. Both are final for a pointer: to follow it again ends the same way.
var (
	ErrNotFound = errors.New("there is no such body in the store")
	ErrTooLarge = errors.New("the body is larger than allowed")
)

// ErrPointer is that a message says that its body is kept elsewhere, and not where, or in a place
// that the configuration does not allow. It is final for the message, as ErrNotFound and
// ErrTooLarge are. Other errors say that nobody knows now.
var ErrPointer = errors.New("the pointer to the body cannot be followed")

// Config says what is kept where. Store is needed; the rest has defaults.
type Config struct {
	// Store is where bodies are kept, and read from.
	Store Store

	// Read are further stores that pointers may lead to: that of a producer with a bucket of its
	// own, or the former one during a move. Nothing is ever stored there.
	Read []Store

	// Prefix begins every key that is written. With a prefix no pointer is followed to a key
	// without it.
	Prefix string

	// Threshold is how many bytes of body and attributes stay in the message, as SQS counts them:
	// names, types and values. 240 KiB when zero, which fits a queue whose MaximumMessageSize is
	// 256 KiB and leaves room for what a dead letter says about itself; 1 MiB at most. Negative
	// keeps every body in the store.
	Threshold int

	// BodyMax is how many bytes a body may have that is stored, or fetched into memory: 64 MiB when
	// zero.
	BodyMax int
}

// Limits of SQS, and defaults.
const (
	sizeMax          = 1 << 20 // of a message: its body and its attributes
	attributesMax    = 10
	thresholdDefault = 240 << 10
	bodyMaxDefault   = 64 << 20
)

// The user attributes that say that a body is a pointer. The value is the size of the real body in
// bytes.
const (
	Attribute       = "ExtendedPayloadSize"
	LegacyAttribute = "SQSLargePayloadSize"
)

// IsPointer reports whether the attributes of a message say that its body is kept elsewhere. They
// have to be asked for when the message is received.
func IsPointer(attributes map[string]types.MessageAttributeValue) bool {
	_, now := attributes[Attribute]
	_, legacy := attributes[LegacyAttribute]
	return now || legacy
}

// An Offloader puts bodies into stores and fetches them. It may be used by many goroutines.
type Offloader struct {
	cfg    Config
	stores map[string]Store // by the names of their buckets
}

// New returns an offloader, or an error when the configuration contradicts itself. It asks nothing
// of the stores yet.
func New(cfg Config) (*Offloader, error) {
	cfg.Threshold = cmp.Or(cfg.Threshold, thresholdDefault)
	cfg.BodyMax = cmp.Or(cfg.BodyMax, bodyMaxDefault)
	switch {
	case cfg.Store == nil:
		return nil, errors.New("offload: Store is missing")
	case cfg.Threshold > sizeMax:
		return nil, fmt.Errorf("offload: Threshold is %d: SQS takes messages of %d bytes at most",
			cfg.Threshold, sizeMax)
	case cfg.BodyMax < 0:
		return nil, fmt.Errorf("offload: BodyMax is %d: it is not negative", cfg.BodyMax)
	}
	if cfg.Prefix != "" {
		if err := checkKey(cfg.Prefix + "x"); err != nil {
			return nil, fmt.Errorf("offload: Prefix: %w", err)
		}
	}
	o := &Offloader{cfg: cfg, stores: make(map[string]Store)}
	for _, s := range append([]Store{cfg.Store}, cfg.Read...) {
		if err := checkBucket(s.Bucket()); err != nil {
			return nil, fmt.Errorf("offload: %w", err)
		}
		if _, ok := o.stores[s.Bucket()]; ok {
			return nil, fmt.Errorf("offload: two stores are named %q: a pointer could mean either",
				s.Bucket())
		}
		o.stores[s.Bucket()] = s
	}
	return o, nil
}

// Threshold is how many bytes of body and attributes stay in the message.
func (o *Offloader) Threshold() int { return o.cfg.Threshold }

// ErrUnfit is that a message can never be sent with its body elsewhere, as it is. Other errors of
// Out say that the store cannot be used now.
var ErrUnfit = errors.New("the message cannot be sent with its body elsewhere")

// Out returns the body and the attributes to send. When the message is larger than Config.Threshold
// its body is put into the store, under a key that begins with the prefix and with key and ends
// with the hash of the body; an empty key is a random one. Give the same piece of work the same
// key, so that what a producer sends again is stored once. A message that would not become smaller
// is left as it is.
//
// It is an error when there is no room for the attribute, which is one of the ten that SQS allows,
// and when the attributes alone are larger than a message may be. Attributes are never changed in
// place.
func (o *Offloader) Out(
	ctx context.Context, key, body string, attributes map[string]types.MessageAttributeValue,
) (string, map[string]types.MessageAttributeValue, error) {
	if IsPointer(attributes) {
		return "", nil, fmt.Errorf("%w: the attributes %s and %s are reserved; one that already has a pointer is sent as it is", ErrUnfit, Attribute, LegacyAttribute)
	}
	size := sizeOf(body, attributes)
	if body == "" || size <= o.cfg.Threshold {
		return body, attributes, nil
	}
	if key == "" {
		key = rand.Text()
	}
	p := pointer{bucket: o.cfg.Store.Bucket(), key: objectKey(o.cfg.Prefix, key, body)}
	if err := checkKey(p.key); err != nil {
		return "", nil, fmt.Errorf("%w: keep a body of %d bytes: %w", ErrUnfit, len(body), err)
	}
	with := maps.Clone(attributes)
	if with == nil {
		with = make(map[string]types.MessageAttributeValue, 1)
	}
	with[Attribute] = types.MessageAttributeValue{DataType: aws.String("Number"),
		StringValue: aws.String(strconv.Itoa(len(body)))}
	left := sizeOf(p.String(), with)
	switch {
	case left >= size && o.cfg.Threshold >= 0:
		return body, attributes, nil
	case len(with) > attributesMax:
		return "", nil, fmt.Errorf("%w: it has %d bytes and %d attributes; the one that says where its body is kept needs a place, and SQS allows %d: put one of them into the body",
			ErrUnfit, size, len(attributes), attributesMax)
	case left > sizeMax:
		return "", nil, fmt.Errorf("%w: its attributes alone have %d bytes, and SQS takes messages of %d: put them into the body", ErrUnfit, sizeOf("", attributes), sizeMax)
	case len(body) > o.cfg.BodyMax:
		return "", nil, fmt.Errorf("%w: keep a body of %d bytes: %w, %d bytes: raise BodyMax here and wherever it is read", ErrUnfit, len(body), ErrTooLarge, o.cfg.BodyMax)
	}
	if err := o.cfg.Store.Put(ctx, p.key, []byte(body)); err != nil {
		return "", nil, fmt.Errorf("keep a body of %d bytes as %s: %w", len(body), p.name(), err)
	}
	return p.String(), with, nil
}

// In returns the real body of a message that was received, and its attributes without those of the
// pointer. A message without a pointer is returned as it is. When the error is ErrPointer,
// ErrNotFound or ErrTooLarge there is no body to be had for this message; otherwise nobody knows
// now. What was passed is returned with an error too.
func (o *Offloader) In(
	ctx context.Context, body string, attributes map[string]types.MessageAttributeValue,
) (string, map[string]types.MessageAttributeValue, error) {
	if !IsPointer(attributes) {
		return body, attributes, nil
	}
	store, p, err := o.follow(body)
	if err != nil {
		return body, attributes, err
	}
	real, err := store.Get(ctx, p.key, o.cfg.BodyMax)
	if err != nil {
		return body, attributes, fmt.Errorf("fetch the body kept as %s: %w", p.name(), err)
	}
	without := maps.Clone(attributes)
	delete(without, Attribute)
	delete(without, LegacyAttribute)
	return string(real), without, nil
}

// Delete removes the body of a message, as it was received, from its store. It does nothing to a
// message without a pointer. Whoever has the pointer still, in a dead letter, a replay or another
// queue, finds nothing then.
func (o *Offloader) Delete(
	ctx context.Context, body string, attributes map[string]types.MessageAttributeValue,
) error {
	if !IsPointer(attributes) {
		return nil
	}
	store, p, err := o.follow(body)
	if err != nil {
		return err
	}
	if err := store.Delete(ctx, p.key); err != nil {
		return fmt.Errorf("delete the body kept as %s: %w", p.name(), err)
	}
	return nil
}

// follow finds the store that a pointer leads to, if it may be followed.
func (o *Offloader) follow(body string) (Store, pointer, error) {
	p, err := parsePointer(body)
	if err != nil {
		return nil, p, fmt.Errorf("%w: %w", ErrPointer, err)
	}
	store, ok := o.stores[p.bucket]
	if !ok {
		return nil, p, fmt.Errorf("%w: it leads to the bucket %q, which this program may not read: name it in the configuration if it is yours", ErrPointer, p.bucket)
	}
	if !p.under(o.cfg.Prefix) {
		return nil, p, fmt.Errorf("%w: it leads to %s, which is not under %q", ErrPointer, p.name(),
			o.cfg.Prefix)
	}
	return store, p, nil
}

// sizeOf is the size of a message as SQS counts it.
func sizeOf(body string, attributes map[string]types.MessageAttributeValue) int {
	n := len(body)
	for name, a := range attributes {
		n += len(name) + len(aws.ToString(a.DataType)) + len(aws.ToString(a.StringValue)) +
			len(a.BinaryValue)
	}
	return n
}
