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

	"tenaq/internal/work/sqslimits"
)

// A Store keeps bodies beside the queue. It is safe for use by many goroutines and processes at
// once. Implementations pass the tests in package offloadtest.
type Store interface {
	// Bucket returns the name of the store in pointers. It never changes.
	Bucket() string

	// Put stores a body. When it returns nil, the body survives a crash. Storing the same body
	// under the same key again is harmless, even concurrently: a reader never sees a part of a
	// body.
	Put(ctx context.Context, key string, body []byte) error

	// Get returns a body, or ErrNotFound if there is none. If the body has more than most bytes, it
	// returns ErrTooLarge without reading all of it.
	Get(ctx context.Context, key string, most int) ([]byte, error)

	// Delete removes a body, if there is one.
	Delete(ctx context.Context, key string) error
}

// Errors of a Store. Both are final for a pointer: following it again ends in the same way.
var (
	ErrNotFound = errors.New("there is no such body in the store")
	ErrTooLarge = errors.New("the body is larger than allowed")
)

// ErrPointer says that the pointer of a message is malformed, or leads to a place that the
// configuration does not allow. Like ErrNotFound and ErrTooLarge, it is final for the message.
// After any other error, try again.
var ErrPointer = errors.New("the pointer to the body cannot be followed")

// Config configures an Offloader. Store is required; the rest has defaults.
type Config struct {
	// Store keeps the bodies.
	Store Store

	// Read are further stores that pointers may lead to, such as the bucket of another producer, or
	// the previous bucket during a move. This package stores nothing there.
	Read []Store

	// Prefix begins every key. Pointers to keys without it are not followed.
	Prefix string

	// Threshold is the maximum size in bytes of a message that is sent as it is. It counts the body
	// and the names, types and values of the attributes, as SQS does. 240 KiB when zero, which fits
	// a queue whose MaximumMessageSize is 256 KiB and leaves room for the trail of a dead letter;
	// at most 1 MiB. If it is negative, every body goes to the store.
	Threshold int

	// BodyMax is the maximum size of a stored or fetched body, in bytes: 64 MiB when zero. A
	// fetched body is held in memory.
	BodyMax int
}

// Defaults, in bytes.
const (
	thresholdDefault = 240 << 10
	bodyMaxDefault   = 64 << 20
)

// The user attributes that say that a body is a pointer. The value is the size of the real body in
// bytes.
const (
	Attribute       = "ExtendedPayloadSize"
	LegacyAttribute = "SQSLargePayloadSize"
)

// IsPointer reports whether the attributes of a message say that its body is a pointer. The receive
// must ask for the attributes.
func IsPointer(attributes map[string]types.MessageAttributeValue) bool {
	_, now := attributes[Attribute]
	_, legacy := attributes[LegacyAttribute]
	return now || legacy
}

// An Offloader stores and fetches bodies. It is safe for concurrent use.
type Offloader struct {
	cfg    Config
	stores map[string]Store // by the names of their buckets
}

// New returns an Offloader, or an error if the configuration contradicts itself. It does not use
// the stores.
func New(cfg Config) (*Offloader, error) {
	cfg.Threshold = cmp.Or(cfg.Threshold, thresholdDefault)
	cfg.BodyMax = cmp.Or(cfg.BodyMax, bodyMaxDefault)
	switch {
	case cfg.Store == nil:
		return nil, errors.New("offload: Config.Store is missing: open one with OpenDirectory or s3offload.New")
	case cfg.Threshold > sqslimits.MessageBytesMax:
		return nil, fmt.Errorf("offload: Threshold is %d: SQS accepts messages of at most %d bytes",
			cfg.Threshold, sqslimits.MessageBytesMax)
	case cfg.BodyMax < 0:
		return nil, fmt.Errorf("offload: BodyMax is %d: it must not be negative", cfg.BodyMax)
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

// Threshold returns the maximum size of a message that is sent as it is.
func (o *Offloader) Threshold() int { return o.cfg.Threshold }

// ErrUnfit says that a message can never be sent with a pointer, unless it is changed. After any
// other error of Out, try again.
var ErrUnfit = errors.New("the message cannot be sent with its body elsewhere")

// Out returns the body and the attributes to send. If the message is larger than Config.Threshold,
// Out stores the body under a key that consists of the prefix, key and the hash of the body; an
// empty key means a random one. Use the same key for the same piece of work, so that a repeated
// send is stored once. A message that would not become smaller stays as it is.
//
// Out returns ErrUnfit if there is no room for the attribute, which is one of the ten that SQS
// allows, and if the attributes alone are larger than a message may be. It does not change the
// given attributes.
func (o *Offloader) Out(
	ctx context.Context, key, body string, attributes map[string]types.MessageAttributeValue,
) (string, map[string]types.MessageAttributeValue, error) {
	if IsPointer(attributes) {
		return "", nil, fmt.Errorf("%w: the attributes %s and %s are reserved for pointers: send a message that has one as it is", ErrUnfit, Attribute, LegacyAttribute)
	}
	size := Size(body, attributes)
	if body == "" || size <= o.cfg.Threshold {
		return body, attributes, nil
	}
	if key == "" {
		key = rand.Text()
	}
	p := pointer{bucket: o.cfg.Store.Bucket(), key: objectKey(o.cfg.Prefix, key, body)}
	if err := checkKey(p.key); err != nil {
		return "", nil, fmt.Errorf("%w: store a body of %d bytes: %w", ErrUnfit, len(body), err)
	}
	with := maps.Clone(attributes)
	if with == nil {
		with = make(map[string]types.MessageAttributeValue, 1)
	}
	with[Attribute] = types.MessageAttributeValue{DataType: aws.String("Number"),
		StringValue: aws.String(strconv.Itoa(len(body)))}
	left := Size(p.String(), with)
	switch {
	case left >= size && o.cfg.Threshold >= 0:
		return body, attributes, nil
	case len(with) > sqslimits.AttributesMax:
		return "", nil, fmt.Errorf("%w: it has %d bytes and %d attributes, and the pointer needs one of the %d that SQS allows: move one of them into the body",
			ErrUnfit, size, len(attributes), sqslimits.AttributesMax)
	case left > sqslimits.MessageBytesMax:
		return "", nil, fmt.Errorf("%w: its attributes alone have %d bytes, and SQS accepts messages of %d: move them into the body",
			ErrUnfit, Size("", attributes), sqslimits.MessageBytesMax)
	case len(body) > o.cfg.BodyMax:
		return "", nil, fmt.Errorf("%w: store a body of %d bytes: %w, %d bytes: raise BodyMax here and in every reader", ErrUnfit, len(body), ErrTooLarge, o.cfg.BodyMax)
	}
	if err := o.cfg.Store.Put(ctx, p.key, []byte(body)); err != nil {
		return "", nil, fmt.Errorf("store a body of %d bytes as %s: %w", len(body), p.name(), err)
	}
	return p.String(), with, nil
}

// In returns the real body of a received message, and its attributes without those of the pointer.
// It returns a message without a pointer as it is. ErrPointer, ErrNotFound and ErrTooLarge are
// final: there is no body for this message. After any other error, try again. With an error, In
// returns the body and the attributes that it was given.
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
		return body, attributes, fmt.Errorf("fetch the body %s: %w", p.name(), err)
	}
	without := maps.Clone(attributes)
	delete(without, Attribute)
	delete(without, LegacyAttribute)
	return string(real), without, nil
}

// Delete removes the body of a received message from its store. It does nothing for a message
// without a pointer. Any other message with the same pointer, such as a dead letter or a replay,
// then finds no body.
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
		return fmt.Errorf("delete the body %s: %w", p.name(), err)
	}
	return nil
}

// follow returns the store that a pointer leads to, if it may be followed.
func (o *Offloader) follow(body string) (Store, pointer, error) {
	p, err := parsePointer(body)
	if err != nil {
		return nil, p, fmt.Errorf("%w: %w", ErrPointer, err)
	}
	store, ok := o.stores[p.bucket]
	if !ok {
		return nil, p, fmt.Errorf("%w: it leads to the bucket %q, which the configuration does not allow: add it if it is yours", ErrPointer, p.bucket)
	}
	if !p.under(o.cfg.Prefix) {
		return nil, p, fmt.Errorf("%w: it leads to %s, which is not under %q", ErrPointer, p.name(),
			o.cfg.Prefix)
	}
	return store, p, nil
}

// Size returns the size of a message as SQS counts it: its body, and the names, types and values of
// its attributes.
func Size(body string, attributes map[string]types.MessageAttributeValue) int {
	n := len(body)
	for name, a := range attributes {
		n += len(name) + len(aws.ToString(a.DataType)) + len(aws.ToString(a.StringValue)) +
			len(a.BinaryValue)
	}
	return n
}
