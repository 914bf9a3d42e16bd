package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/queuename"
	"tenaq/internal/work/trail"
	"tenaq/records"
)

// A ParkingLot is the queue where redrivers put what they will not redrive, for a person to decide
// about.
//
// SQS cannot show a message without handing it out. So what was listed is hidden from others until
// it is given back, or ParkedLook is over, and has been received once more. A parking lot must have
// no redrive policy: it would move on what is looked at.
type ParkingLot struct {
	r *Redriver // which does to the parking lot what it does to a dead-letter queue
}

// ParkedLook is how long a parked message that was listed is hidden, and how long there is to
// release or discard it.
const ParkedLook = 2 * time.Minute

// A ParkingLotConfig says which queue is the parking lot. Client and URL are required.
type ParkingLotConfig struct {
	Client SQS
	URL    string

	// Store is that of the redrivers. Without it, messages that had no room for what a redriver
	// knows about them can be discarded and not released.
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
	return &ParkingLot{&Redriver{cfg: Config{Client: cfg.Client, Store: cfg.Store,
		DeadLetterURL: cfg.URL}, name: queuename.Of(cfg.URL)}}, nil
}

// A Parked is a message in a parking lot.
type Parked struct {
	ID         string
	Body       string
	Attributes map[string]types.MessageAttributeValue // those of its sender

	Why    string      // the redriver parked it
	Reason string      // why it failed last, as far as its worker said
	Kind   Fingerprint // of that

	Key     string // the effect key of its work
	Lineage string // message id of its first message
	Group   string // of the message, if it has one
	Source  string // ARN of the queue it came from; empty when nobody knows

	Attempts int // that its worker made last
	Redrives int
	Strikes  int // how often it failed while others succeeded

	FirstSent time.Time // zero when nobody knows
	Since     time.Time // it was parked

	letter *letter
	gone   bool
}

// List takes up to so many messages into the hands of the caller, in the order in which the queue
// gives them. It ends where the queue gives no more: others may be in the hands of somebody else,
// and of a message group on a FIFO queue no more than ten can be seen at once. After an error the
// messages so far are returned with it. The caller gives back what it does not release or discard.
func (p *ParkingLot) List(ctx context.Context, most int) ([]*Parked, error) {
	var all []*Parked
	seen := make(map[string]bool)
	for began := time.Now(); len(all) < most && time.Since(began) < ParkedLook/2; {
		out, err := p.r.cfg.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl:            &p.r.cfg.DeadLetterURL,
			MaxNumberOfMessages: int32(min(10, most-len(all))),
			VisibilityTimeout:   int32(ParkedLook / time.Second),
			// makes SQS look everywhere before it says that there are none
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
			if !seen[one.ID] { // an SQS may deliver one twice
				seen[one.ID] = true
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// errAside is why a message cannot be understood without the store.
var errAside = errors.New("it has ten attributes of its own, and which work it is stands in the store of the redrivers")

// read reads what a parked message says about itself.
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

// A noStore stands where no store was given.
type noStore struct{ records.Store }

// Get says what is missing.
func (noStore) Get(context.Context, string) (records.Record, error) {
	return records.Record{}, errAside
}

// parkedWhy finds, in the reason of a parked message, why it was parked; what follows is why it
// failed.
var parkedWhy = regexp.MustCompile(`(?s)^(poison, its worker says` +
	`|failed (?:once|\d+ times) while others succeeded` +
	`|poison: failed (?:once|\d+ times) while others succeeded, and nearly nothing else fails like this` +
	`|poison: nothing that fails like this has succeeded for \S+): (.*)$`)

// cause takes the reason of a parked message apart.
func cause(reason string) (why, failure string) {
	if m := parkedWhy.FindStringSubmatch(reason); m != nil {
		return m[1], m[2]
	}
	return "", reason
}

// Release sends a message back to work, to the queue with the URL to, or to the one it came from
// when to is empty. It begins anew, with no strikes, and is the same work: it keeps its key and its
// generation, so what is recorded as completed is not done again. When Release ends between sending
// and deleting, the message is in both queues, and may be released again.
func (p *ParkingLot) Release(ctx context.Context, one *Parked, to string) error {
	l := *one.letter
	switch {
	case one.gone:
		return fmt.Errorf("%s is not in %s any more", one.ID, p.r.name)
	case errors.Is(l.bad, errAside):
		return fmt.Errorf("release %s: %w: name that store", one.ID, l.bad)
	}
	if to == "" {
		var err error
		if to, err = p.source(ctx, one); err != nil {
			return fmt.Errorf("release %s: %w", one.ID, err)
		}
	}
	switch {
	case to == p.r.cfg.DeadLetterURL:
		return fmt.Errorf("release %s: %s is where it is parked: name another queue", one.ID,
			p.r.name)
	case isFIFO(to) && l.group() == "":
		return fmt.Errorf("release %s: it has no message group, which %s wants: name a standard queue", one.ID, queuename.Of(to))
	}
	l.trail.Reason = one.Reason // why it was parked is over
	if err := p.r.move(ctx, &l, to, Decision{Action: Redrive}); err != nil {
		return fmt.Errorf("release %s: %w", one.ID, err)
	}
	one.gone = true
	return nil
}

// source finds the queue that a message came from.
func (p *ParkingLot) source(ctx context.Context, one *Parked) (url string, err error) {
	arn := strings.Split(one.Source, ":")
	if len(arn) != 6 {
		return "", errors.New("nobody knows which queue it came from: name one")
	}
	out, err := p.r.cfg.Client.GetQueueUrl(ctx,
		&sqs.GetQueueUrlInput{QueueName: &arn[5], QueueOwnerAWSAccountId: &arn[4]})
	if err != nil {
		return "", fmt.Errorf("the queue it came from, %s: %w", one.Source, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// Discard deletes a message. Nothing remains of it, and nobody hears of it.
func (p *ParkingLot) Discard(ctx context.Context, one *Parked) error {
	if one.gone {
		return fmt.Errorf("%s is not in %s any more", one.ID, p.r.name)
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

// giveBackAtOnce is how many messages are given back at the same time.
const giveBackAtOnce = 10

// GiveBack lets others see listed messages again, those that were neither released nor discarded.
// Without it, or after an error, they are there when ParkedLook is over.
func (p *ParkingLot) GiveBack(ctx context.Context, all []*Parked) error {
	var (
		waiting = make(chan *Parked)
		givers  sync.WaitGroup
		mu      sync.Mutex
		failed  []error
	)
	for range giveBackAtOnce {
		givers.Go(func() {
			for one := range waiting {
				_, err := p.r.cfg.Client.ChangeMessageVisibility(ctx,
					&sqs.ChangeMessageVisibilityInput{
						QueueUrl:          &p.r.cfg.DeadLetterURL,
						ReceiptHandle:     one.letter.raw.ReceiptHandle,
						VisibilityTimeout: 0,
					})
				if err != nil {
					mu.Lock()
					failed = append(failed, fmt.Errorf("give back %s: %w", one.ID, err))
					mu.Unlock()
				}
			}
		})
	}
	for _, one := range all {
		if !one.gone {
			waiting <- one
		}
	}
	close(waiting)
	givers.Wait()
	return errors.Join(failed...)
}
