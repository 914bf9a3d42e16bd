package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/work/backoff"
	"tenaq/internal/work/queuename"
	"tenaq/records"
)

// SQS is what a producer needs of a client. *sqs.Client has it.
type SQS interface {
	SendMessage(context.Context, *sqs.SendMessageInput,
		...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Prefix begins the keys of all registrations by default. The name of the queue and a slash follow.
const Prefix = "send/"

// Config configures a Producer. Client, Store and QueueURL are required; the rest has defaults.
type Config struct {
	Client SQS

	// Store keeps the registrations. All producers of one queue need the same one.
	Store records.Store

	// QueueURL is the URL of the queue, or the name of a queue in the account of the client, which
	// SQS takes as well. It is not an ARN. The name of a FIFO queue ends in .fifo.
	QueueURL string

	// Prefix begins the keys of all registrations; "send/", the name of the queue and "/" when
	// empty. Every producer of one queue needs the same prefix. Queues with the same name that
	// share a store, for example those of two accounts, need different ones.
	Prefix string

	// Owner names the sender, for people; host name and process id when empty.
	Owner string

	// Lease is the time after the death of a sender in which no other sender sends the same key: 30
	// s when zero, at least 1 s. A send is cancelled before its lease expires, so make it longer
	// than a send may take, including the retries of the client.
	Lease time.Duration

	// Retention is how long a key is recognized after the last write of its registration: 15 days
	// when zero. A key that comes later is sent again.
	Retention time.Duration

	// Work is the ledger in which workers claim the same keys. With it, the receipts of duplicates
	// have the state of the work, and Stuck finds sent messages whose work no worker ever began.
	// Its retention must be at least that of the producer.
	Work *claims.Ledger

	// Parallel is how many messages SendAll sends at once: 16 when zero.
	Parallel int
}

// A Producer sends messages once. It is safe for concurrent use, and any number of producers in any
// number of processes may share a store. Keep one for the lifetime of the process: in a store
// without a clock, the lease of a dead sender counts from when this Producer first saw it.
type Producer struct {
	ledger *claims.Ledger
	cfg    Config
	fifo   bool
}

// New returns a producer for one queue, or an error if the configuration contradicts itself. It
// uses neither the queue nor the store.
func New(cfg Config) (*Producer, error) {
	name := queuename.Of(cfg.QueueURL)
	switch {
	case cfg.Client == nil:
		return nil, errors.New("producer: Config.Client is missing: set it to a client of SQS (sqs.NewFromConfig)")
	case cfg.Store == nil:
		return nil, errors.New("producer: Config.Store is missing: set it to the store of the registrations (packages sqliterecords, pgrecords, dynamorecords)")
	case name == "":
		return nil, fmt.Errorf("producer: %q is not the URL of a queue: set Config.QueueURL",
			cfg.QueueURL)
	case strings.HasPrefix(cfg.QueueURL, "arn:"):
		return nil, fmt.Errorf("producer: %q is an ARN: set Config.QueueURL to the URL or the name of the queue",
			cfg.QueueURL)
	case cfg.Parallel < 0:
		return nil, fmt.Errorf("producer: Parallel is %d: it must be at least 1", cfg.Parallel)
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, Prefix+name+"/")
	cfg.Lease = cmp.Or(cfg.Lease, 30*time.Second)
	cfg.Retention = cmp.Or(cfg.Retention, 15*24*time.Hour)
	cfg.Parallel = cmp.Or(cfg.Parallel, 16)
	p := &Producer{cfg: cfg, fifo: queuename.IsFIFO(name)}
	var err error
	if p.ledger, err = p.newLedger(cfg.Store); err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	if cfg.Work != nil && cfg.Work.Retention() < cfg.Retention {
		return nil, fmt.Errorf("producer: the ledger of the work forgets after %v, registrations are kept for %v: "+
			"completed work would look as if it had never begun: give the ledger at least the same retention", cfg.Work.Retention(),
			cfg.Retention)
	}
	return p, nil
}

// newLedger returns the ledger of the registrations, over store.
func (p *Producer) newLedger(store records.Store) (*claims.Ledger, error) {
	return claims.New(claims.Config{
		Store:  store,
		Prefix: p.cfg.Prefix, Owner: p.cfg.Owner, Lease: p.cfg.Lease, Retention: p.cfg.Retention,
	})
}

// SendOnce sends a message, unless its key was sent before: then the receipt is not New.
//
// If another SendOnce of the key is in progress, or its process died less than a lease ago, it
// waits until ctx ends, or for a lease and a quarter if ctx has no deadline. Then it returns a
// *claims.Refused with the reason Busy. It may outlast ctx by a third of the lease, to record the
// outcome.
//
// After an error, the message may never be sent unless the caller repeats the call, which is safe
// after any error. These errors say more, and the receipt has what is known:
//
//   - ErrRefused: correct something first.
//   - ErrUnknown: the message may be in the queue.
//   - ErrUnrecorded: the message is in the queue.
//   - ErrDiffers: the key stands for another message; this one is never sent under it.
func (p *Producer) SendOnce(ctx context.Context, m Message) (Receipt, error) {
	if err := m.check(p.fifo); err != nil {
		return Receipt{}, fmt.Errorf("message %q is not sent: %w", m.Key, err)
	}
	key, given := claims.EffectKey(m.Key, m.Generation), register(m, time.Now())
	claim, err := p.acquire(ctx, key, given.encode())
	if refused, ok := errors.AsType[*claims.Refused](err); ok && refused.Why == claims.Done {
		receipt, err := p.duplicate(ctx, m, refused.Entry, given)
		return receipt, differing(receipt, err)
	}
	if err != nil {
		return m.receipt(), fmt.Errorf("register %q: %w", key, err)
	}
	first, err := decodeRegistered(claim.Entry().Memo)
	differs := first.differs(given)
	switch {
	case err == nil && first.Message != nil:
		m = first.message()
	case differs: // the registered message was too large to keep, and this is another one
		receipt := m.receipt()
		receipt.Attempts, receipt.Differs = claim.Attempts()-1, true
		p.undo(ctx, claim, nil)
		return receipt, differing(receipt, nil)
	}
	receipt, err := p.send(ctx, claim, m, nil)
	receipt.Differs = differs
	return receipt, differing(receipt, err)
}

// differing adds to the error of a call that another message is registered under its key.
func differing(r Receipt, err error) error {
	if !r.Differs {
		return err
	}
	what := "nothing was sent"
	if r.MessageID != "" {
		what = "message " + r.MessageID + " is the registered one"
	}
	differs := fmt.Errorf("send %q: %w, with another body or other attributes: %s: give different work a key of its own, "+
		"or the next Generation to repeat it", claims.EffectKey(r.Key,
		r.Generation), ErrDiffers, what)
	if err == nil {
		return differs
	}
	return fmt.Errorf("%w; %w", err, differs)
}

// pauseMin is the first pause while another sender holds the key. Most sends take a few
// milliseconds.
const pauseMin = 50 * time.Millisecond

// errStillBusy is the cause when SendOnce stops waiting by itself.
var errStillBusy = errors.New("it was busy for longer than one lease: call again")

// acquire claims a key, and waits while another sender holds it.
func (p *Producer) acquire(ctx context.Context, key string, memo []byte) (*claims.Claim, error) {
	waiting := ctx
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, p.cfg.Lease+p.cfg.Lease/4, errStillBusy)
		defer cancel()
	}
	for pause := pauseMin; ; pause = min(2*pause, p.cfg.Lease/8) {
		claim, err := p.ledger.AcquireWith(ctx, key, claims.Note{Memo: memo})
		refused, ok := errors.AsType[*claims.Refused](err)
		if !ok || refused.Why != claims.Busy {
			return claim, err
		}
		if backoff.Sleep(waiting, min(refused.RetryIn, pause/2+rand.N(pause))) != nil {
			return nil, fmt.Errorf("another sender is sending it: %w: %w", err,
				context.Cause(waiting))
		}
	}
}
