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
	"tenaq/records"
)

// SQS is what a producer needs of a client. *sqs.Client has it.
type SQS interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Config says where a producer sends, and how it remembers. QueueURL is needed; the rest has defaults.
type Config struct {
	// QueueURL is the queue. The name of a FIFO queue ends in .fifo.
	QueueURL string

	// Prefix begins the keys of all registrations; "send/", the name of the queue and "/" when empty. Give
	// queues of the same name that share a store, of two accounts for example, prefixes of their own.
	// Every producer of one queue needs the same.
	Prefix string

	// Owner says who sends, for people; host name and process id when empty.
	Owner string

	// Lease is how long after the death of a sender nobody else sends the same key: 30 s when zero, at
	// least a second. A send is given up before it ends, so it has to be longer than a send may take, the
	// tries of the client included.
	Lease time.Duration

	// Retention is how long a key is recognised after its registration was written last: 15 days when
	// zero. A key that comes later is sent again.
	Retention time.Duration

	// Work is the ledger in which workers claim the same keys. With it receipts of duplicates say what
	// became of the work, and Stuck finds messages that were sent and that nobody ever began to work on.
	// It has to remember as long as Retention at least.
	Work *claims.Ledger

	// Parallel is how many messages SendAll sends at once: 16 when zero.
	Parallel int
}

// A Producer sends messages once. Its methods may be called from any goroutine, and any number of producers
// in any number of processes may share a store. Keep one for as long as the process lives: in a store
// without a clock it has to see for itself that a dead sender's lease is over.
type Producer struct {
	client SQS
	store  records.Store
	ledger *claims.Ledger
	cfg    Config
	fifo   bool
}

// New returns a producer for one queue. It asks neither the queue nor the store, and fails when the
// configuration contradicts itself.
func New(client SQS, store records.Store, cfg Config) (*Producer, error) {
	name := cfg.QueueURL[strings.LastIndexByte(cfg.QueueURL, '/')+1:]
	switch {
	case name == "":
		return nil, fmt.Errorf("producer: %q is no URL of a queue: set Config.QueueURL", cfg.QueueURL)
	case cfg.Parallel < 0:
		return nil, fmt.Errorf("producer: Parallel is %d: it is at least 1", cfg.Parallel)
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "send/"+name+"/")
	cfg.Lease = cmp.Or(cfg.Lease, 30*time.Second)
	cfg.Retention = cmp.Or(cfg.Retention, 15*24*time.Hour)
	cfg.Parallel = cmp.Or(cfg.Parallel, 16)
	p := &Producer{client: client, store: store, cfg: cfg, fifo: strings.HasSuffix(name, ".fifo")}
	var err error
	if p.ledger, err = p.newLedger(store); err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	if cfg.Work != nil && cfg.Work.Retention() < cfg.Retention {
		return nil, fmt.Errorf("producer: the ledger of the work forgets after %v, registrations are kept for %v: "+
			"work that was done would look as if it had been lost", cfg.Work.Retention(), cfg.Retention)
	}
	return p, nil
}

// newLedger is the ledger of the registrations, over store.
func (p *Producer) newLedger(store records.Store) (*claims.Ledger, error) {
	return claims.New(store, claims.Config{
		Prefix: p.cfg.Prefix, Owner: p.cfg.Owner, Lease: p.cfg.Lease, Retention: p.cfg.Retention,
	})
}

// SendOnce sends a message, unless its key was sent before: then the receipt is not New and says so.
//
// When another SendOnce of the key is under way, or its process died less than a lease ago, it waits until
// ctx ends; for a lease and a quarter when ctx has no deadline. After that the error is a *claims.Busy. It may
// outlast ctx by a third of the lease to record what it did.
//
// After an error the same call may be made again, and after any but ErrRefused it should be, or the message
// may never be sent. The receipt says what is known all the same; errors.Is knows ErrRefused, ErrUnknown and
// ErrUnrecorded.
func (p *Producer) SendOnce(ctx context.Context, m Message) (Receipt, error) {
	if err := m.check(p.fifo); err != nil {
		return Receipt{}, fmt.Errorf("message %q is not sent: %w", m.Key, err)
	}
	key, given := claims.EffectKey(m.Key, m.Generation), register(m, time.Now())
	claim, err := p.acquire(ctx, key, given.encode())
	var done *claims.Done
	switch {
	case errors.As(err, &done):
		return p.duplicate(ctx, m, done.Entry, given.Sum)
	case err != nil:
		return m.receipt(), fmt.Errorf("register %q: %w", key, err)
	}
	first, err := decodeRegistered(claim.Entry().Memo)
	if err == nil && first.Message != nil {
		m = first.message()
	}
	receipt, err := p.send(ctx, claim, m, nil)
	receipt.Differs = first.differs(given.Sum)
	return receipt, err
}

// pauseMin is the first pause while another sender is at the same key. Most sends take a few milliseconds.
const pauseMin = 50 * time.Millisecond

// errStillBusy is why SendOnce stops waiting by itself.
var errStillBusy = errors.New("it was for longer than one lease: call again")

// acquire claims a key, and waits while somebody else has it.
func (p *Producer) acquire(ctx context.Context, key string, memo []byte) (*claims.Claim, error) {
	waiting := ctx
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, p.cfg.Lease+p.cfg.Lease/4, errStillBusy)
		defer cancel()
	}
	for pause := pauseMin; ; pause = min(2*pause, p.cfg.Lease/8) {
		claim, err := p.ledger.AcquireWith(ctx, key, claims.Note{Memo: memo})
		var busy *claims.Busy
		if !errors.As(err, &busy) {
			return claim, err
		}
		timer := time.NewTimer(min(busy.RetryIn, pause/2+rand.N(pause)))
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
			return nil, fmt.Errorf("it is being sent by somebody else: %w: %w", err, context.Cause(waiting))
		}
	}
}

// send sends a message under a claim on its key, and ends the claim. Before is what was registered as sent
// when this is a second time on purpose.
func (p *Producer) send(ctx context.Context, claim *claims.Claim, m Message, before *sent) (Receipt, error) {
	receipt := m.receipt()
	receipt.Attempts = claim.Attempts()
	sending, cancel := context.WithDeadline(ctx, claim.Deadline()) // afterwards somebody else may
	defer cancel()
	if err := sending.Err(); err != nil {
		p.undo(ctx, claim, before)
		return receipt, fmt.Errorf("send %q: it was not sent: %w: call again", claim.Key(), err)
	}

	var w watch
	out, err := p.client.SendMessage(sending, m.input(p.cfg.QueueURL, p.fifo, before), w.option)
	switch w.outcome(err) {
	case outcomeRefused:
		p.forget(ctx, claim, before)
		return receipt, fmt.Errorf("send %q: %w: %w: %s", claim.Key(), ErrRefused, err, advice(err))
	case outcomeNotSent:
		if before != nil {
			p.undo(ctx, claim, before)
		} else {
			p.end(ctx, func(ctx context.Context) error { return claim.Fail(ctx, "not sent: "+err.Error()) })
		}
		return receipt, fmt.Errorf("send %q: it was not sent: %w: it stays registered, call again", claim.Key(), err)
	case outcomeUnknown:
		p.end(ctx, func(ctx context.Context) error { return claim.Fail(ctx, "unknown whether it was sent: "+err.Error()) })
		return receipt, fmt.Errorf("send %q: %w: %w: call again with the same key", claim.Key(), ErrUnknown, err)
	}

	now := newSent(out, before, time.Now())
	receipt.MessageID, receipt.SequenceNumber = now.MessageID, now.SequenceNumber
	// What the queue drops as a duplicate it answers with the id of the first.
	receipt.New = before == nil || before.MessageID != now.MessageID
	if err := p.record(ctx, claim, now); err != nil {
		return receipt, fmt.Errorf("%q is sent as message %s, %w: %w", claim.Key(), now.MessageID, ErrUnrecorded, err)
	}
	return receipt, nil
}

// end writes the last word of a claim, although ctx may have ended. When it cannot be written, the lease
// says it.
func (p *Producer) end(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Lease/3)
	defer cancel()
	return write(ctx)
}

// undo leaves a registration as it was before the claim. Nothing was sent.
func (p *Producer) undo(ctx context.Context, claim *claims.Claim, before *sent) {
	p.end(ctx, func(ctx context.Context) error {
		if before != nil {
			return claim.Complete(ctx, before.found)
		}
		return claim.Release(ctx)
	})
}

// forget removes a registration whose message the queue refuses: the next one under this key is to be the
// corrected one. The record goes only if it is still what this claim wrote.
func (p *Producer) forget(ctx context.Context, claim *claims.Claim, before *sent) {
	if before != nil {
		p.undo(ctx, claim, before)
		return
	}
	p.end(ctx, func(ctx context.Context) error {
		err := p.store.Delete(ctx, p.cfg.Prefix+claim.Key(), claim.Entry().Version)
		var conflict *records.Conflict
		if err != nil && !errors.As(err, &conflict) {
			return claim.Release(ctx)
		}
		return nil
	})
}

// record completes a registration. What is not recorded would be sent again, so it tries for a while.
func (p *Producer) record(ctx context.Context, claim *claims.Claim, now sent) error {
	return p.end(ctx, func(ctx context.Context) error {
		for {
			err := claim.Complete(ctx, now.encode())
			if err == nil || errors.Is(err, claims.ErrLost) || ctx.Err() != nil {
				return err
			}
			select {
			case <-time.After(pauseMin + rand.N(10*pauseMin)):
			case <-ctx.Done():
				return err
			}
		}
	})
}
