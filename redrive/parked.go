package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/queuename"
	"tenaq/internal/work/sqslimits"
	"tenaq/internal/work/sqsqueue"
	"tenaq/internal/work/trail"
	"tenaq/internal/work/v1client"
	"tenaq/records"
)

// A ParkingLot is the queue where redrivers put messages that they will not redrive, for a person
// to decide.
//
// SQS cannot show a message without a receive. So a listed message is hidden from others until
// GiveBack or until ParkedLook has passed, and its receive count has grown; a tenaq server takes
// back the receive with GiveBack. A parking lot must have no redrive policy, which would move
// listed messages.
type ParkingLot struct {
	r *Redriver // treats the parking lot like a dead-letter queue
}

// ParkedLook is how long a listed message is hidden, and can be released or discarded.
const ParkedLook = 2 * time.Minute

// A ParkingLotConfig says which queue is the parking lot. Client and URL are required.
type ParkingLotConfig struct {
	Client SQS
	URL    string

	// Store is the store of the redrivers. Without it, messages that had no room for their trail
	// can be discarded, but not released.
	Store records.Store
}

// NewParkingLot returns a parking lot. It does not use the queue.
func NewParkingLot(cfg ParkingLotConfig) (*ParkingLot, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("redrive: ParkingLotConfig.Client is missing: set it to a client of SQS (sqs.NewFromConfig)")
	case cfg.URL == "":
		return nil, errors.New("redrive: ParkingLotConfig.URL is missing: set it to the URL of the parking lot")
	case cfg.Store == nil:
		cfg.Store = noStore{}
	}
	r := &Redriver{cfg: Config{Client: cfg.Client, Store: cfg.Store, DeadLetterURL: cfg.URL,
		Logger: slog.Default()}, name: queuename.Of(cfg.URL)}
	r.features.server = v1client.New(cfg.Client)
	return &ParkingLot{r}, nil
}

// A Parked is a message in a parking lot.
type Parked struct {
	ID         string
	Body       string
	Attributes map[string]types.MessageAttributeValue // of its sender

	Why    string      // why the redriver parked it
	Reason string      // why it failed last, if its worker said
	Kind   Fingerprint // of Reason

	Key     string // the effect key of its work
	Lineage string // message id of its first message
	Group   string // of the message, if it has one
	Source  string // ARN of the queue it came from; empty if unknown

	Attempts int // of its worker, since the last redrive
	Redrives int
	Strikes  int // how often it failed while others succeeded

	FirstSent time.Time // zero if unknown
	Since     time.Time // when it was parked

	letter *letter
	gone   bool
}

// List receives up to most messages, in the order of the queue. It ends when the queue returns no
// more: other messages may be hidden by another caller, and a FIFO queue shows at most ten messages
// of a group. With an error, it returns the messages so far. Give back the messages that you do not
// release or discard.
func (p *ParkingLot) List(ctx context.Context, most int) ([]*Parked, error) {
	var all []*Parked
	seen := make(map[string]bool)
	for began := time.Now(); len(all) < most && time.Since(began) < ParkedLook/2; {
		out, err := p.r.cfg.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl:            &p.r.cfg.DeadLetterURL,
			MaxNumberOfMessages: int32(min(sqslimits.ReceiveMax, most-len(all))),
			VisibilityTimeout:   int32(ParkedLook / time.Second),
			// makes SQS ask all of its servers
			WaitTimeSeconds:             1,
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			return all, fmt.Errorf("receive from %s: %w", p.r.name, err)
		}
		if len(out.Messages) == 0 {
			break
		}
		for _, m := range out.Messages {
			one, err := p.read(ctx, m)
			if err != nil {
				return all, err
			}
			if !seen[one.ID] { // SQS may deliver a message twice
				seen[one.ID] = true
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// errAside says that the trail of a message is in the store, which was not given.
var errAside = errors.New("it has ten attributes of its own, so the store of the redrivers holds the identity of its work")

// read returns a parked message with its trail.
func (p *ParkingLot) read(ctx context.Context, m types.Message) (*Parked, error) {
	l, err := p.r.newLetter(ctx, m)
	if errors.Is(err, errAside) {
		l, err = &letter{raw: m, bad: errAside, Letter: Letter{ID: aws.ToString(m.MessageId)}}, nil
	}
	if err != nil {
		return nil, err
	}
	one := &Parked{
		ID: l.ID, Body: aws.ToString(m.Body),
		Attributes: make(map[string]types.MessageAttributeValue),
		Key:        l.Key, Lineage: l.Lineage, Group: l.group(),
		Source:   cmp.Or(l.trail.Source, m.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)]),
		Attempts: l.trail.Attempts, Redrives: l.Sends, Strikes: l.Strikes,
		FirstSent: l.trail.FirstSent, Since: l.Died, letter: l,
	}
	for name, value := range m.MessageAttributes {
		if name != trail.Attribute {
			one.Attributes[name] = value
		}
	}
	if one.Why, one.Reason = cause(l.Reason); l.bad != nil {
		one.Why = l.bad.Error()
	}
	one.Kind = FingerprintOf(one.Reason)
	return one, nil
}

// A noStore replaces a store that was not given.
type noStore struct{ records.Store }

// Get returns errAside.
func (noStore) Get(context.Context, string) (records.Record, error) {
	return records.Record{}, errAside
}

// parkedWhy matches the reason of a parked message: why it was parked, and why it failed.
var parkedWhy = regexp.MustCompile(`(?s)^(poison, its worker says` +
	`|failed (?:once|\d+ times) while others succeeded` +
	`|poison: failed (?:once|\d+ times) while others succeeded, and nearly nothing else fails like this` +
	`|poison: nothing that fails like this has succeeded for \S+): (.*)$`)

// cause splits the reason of a parked message. An earlier version parked messages again with the
// reasons of all rounds: why is that of the last one, and failure what its worker said.
func cause(reason string) (why, failure string) {
	failure = reason
	for m := parkedWhy.FindStringSubmatch(failure); m != nil; {
		why, failure = cmp.Or(why, m[1]), m[2]
		m = parkedWhy.FindStringSubmatch(failure)
	}
	return why, failure
}

// Release sends a message back to work, to the queue with the URL to, or to the one it came from if
// to is empty. The message starts again with no strikes. It is the same work: it keeps its key and
// generation, so completed work is not repeated. On a server other than tenaq, if Release fails
// between sending and deleting, the message is in both queues, and may be released again.
func (p *ParkingLot) Release(ctx context.Context, one *Parked, to string) error {
	l := *one.letter
	switch {
	case one.gone:
		return fmt.Errorf("%s is no longer in %s", one.ID, p.r.name)
	case errors.Is(l.bad, errAside):
		return fmt.Errorf("release %s: %w: pass that store with --records (ParkingLotConfig.Store)", one.ID, l.bad)
	}
	if to == "" {
		var err error
		if to, err = p.source(ctx, one); err != nil {
			return fmt.Errorf("release %s: %w", one.ID, err)
		}
	}
	switch {
	case to == p.r.cfg.DeadLetterURL:
		return fmt.Errorf("release %s: it is parked in %s: name another queue", one.ID,
			p.r.name)
	case queuename.IsFIFO(to) && l.group() == "":
		return fmt.Errorf("release %s: it has no message group, which %s requires: name a standard queue", one.ID, queuename.Of(to))
	}
	l.trail.Reason = one.Reason // without why it was parked
	if err := p.r.move(ctx, &l, to, Decision{Action: Redrive}); err != nil {
		return fmt.Errorf("release %s: %w", one.ID, err)
	}
	one.gone = true
	if l.lost {
		return fmt.Errorf("release %s: another process has received it, or it has left %s: list the messages again",
			one.ID, p.r.name)
	}
	return nil
}

// source returns the URL of the queue that a message came from.
func (p *ParkingLot) source(ctx context.Context, one *Parked) (url string, err error) {
	url, err = sqsqueue.URLOf(ctx, p.r.cfg.Client, one.Source)
	switch {
	case errors.Is(err, sqsqueue.ErrNotARN):
		return "", errors.New("the message does not say which queue it came from: name one")
	case err != nil:
		return "", fmt.Errorf("the queue it came from, %s: %w", one.Source, err)
	}
	return url, nil
}

// Discard deletes a message for good.
func (p *ParkingLot) Discard(ctx context.Context, one *Parked) error {
	if one.gone {
		return fmt.Errorf("%s is no longer in %s", one.ID, p.r.name)
	}
	_, err := p.r.cfg.Client.DeleteMessage(ctx,
		&sqs.DeleteMessageInput{QueueUrl: &p.r.cfg.DeadLetterURL,
			ReceiptHandle: one.letter.raw.ReceiptHandle})
	if err != nil {
		return fmt.Errorf("discard %s: %w", one.ID, err)
	}
	one.gone = true
	return nil
}

// GiveBack makes listed messages visible again, except released and discarded ones. A tenaq server
// then does not count that they were listed. Without it, or after an error, they become visible
// when ParkedLook has passed.
func (p *ParkingLot) GiveBack(ctx context.Context, all []*Parked) error {
	var letters []*letter
	for _, one := range all {
		if !one.gone {
			letters = append(letters, one.letter)
		}
	}
	errs := p.r.giveBack(ctx, letters)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("give back %s: %w", letters[i].ID, err)
		}
	}
	return errors.Join(errs...)
}
