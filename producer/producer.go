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
	"tenaq/internal/work/queuename"
	"tenaq/records"
)

// SQS is what a producer needs of a client. *sqs.Client has it.
type SQS interface {
	SendMessage(context.Context, *sqs.SendMessageInput,
		...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Prefix begins the keys of all registrations, unless Config.Prefix says otherwise. The name of the
// queue and a slash follow.
const Prefix = "send/"

// A Config says where a producer sends, and how it remembers. Client, Store and QueueURL are
// required; the rest has defaults.
type Config struct {
	// Client sends the messages.
	Client SQS

	// Store keeps the registrations. All producers of one queue need the same one.
	Store records.Store

	// QueueURL is the queue. The name of a FIFO queue ends in .fifo.
	QueueURL string

	// Prefix begins the keys of all registrations; "send/", the name of the queue and "/" when
	// empty. Give queues of the same name that share a store, of two accounts for example, prefixes
	// of their own. Every producer of one queue needs the same.
	Prefix string

	// Owner says who sends, for people; host name and process id when empty.
	Owner string

	// Lease is how long after the death of a sender nobody else sends the same key: 30 s when zero,
	// at least a second. A send is given up before it ends, so it has to be longer than a send may
	// take, the tries of the client included.
	Lease time.Duration

	// Retention is how long a key is recognised after its registration was written last: 15 days
	// when zero. A key that comes later is sent again.
	Retention time.Duration

	// Work is the ledger in which workers claim the same keys. With it receipts of duplicates say
	// what became of the work, and Stuck finds messages that were sent and that nobody ever began
	// to work on. It has to remember as long as Retention at least.
	Work *claims.Ledger

	// Parallel is how many messages SendAll sends at once: 16 when zero.
	Parallel int
}

// A Producer sends messages once. Its methods may be called from any goroutine, and any number of
// producers in any number of processes may share a store. Keep one for as long as the process
// lives: in a store without a clock it has to see for itself that a dead sender's lease is over.
type Producer struct {
	ledger *claims.Ledger
	cfg    Config
	fifo   bool
}

// New returns a producer for one queue. It asks neither the queue nor the store, and fails when the
// configuration contradicts itself.
func New(cfg Config) (*Producer, error) {
	name := queuename.Of(cfg.QueueURL)
	switch {
	case cfg.Client == nil:
		return nil, errors.New("producer: Config.Client is missing: set it to a client of SQS (sqs.NewFromConfig)")
	case cfg.Store == nil:
		return nil, errors.New("producer: Config.Store is missing: set it to the store of the registrations (packages sqliterecords, pgrecords, dynamorecords)")
	case name == "":
		return nil, fmt.Errorf("producer: %q is no URL of a queue: set Config.QueueURL",
			cfg.QueueURL)
	case cfg.Parallel < 0:
		return nil, fmt.Errorf("producer: Parallel is %d: it is at least 1", cfg.Parallel)
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, Prefix+name+"/")
	cfg.Lease = cmp.Or(cfg.Lease, 30*time.Second)
	cfg.Retention = cmp.Or(cfg.Retention, 15*24*time.Hour)
	cfg.Parallel = cmp.Or(cfg.Parallel, 16)
	p := &Producer{cfg: cfg, fifo: strings.HasSuffix(name, ".fifo")}
	var err error
	if p.ledger, err = p.newLedger(cfg.Store); err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	if cfg.Work != nil && cfg.Work.Retention() < cfg.Retention {
		return nil, fmt.Errorf("producer: the ledger of the work forgets after %v, registrations are kept for %v: "+
			"work that was done would look as if it had been lost", cfg.Work.Retention(),
			cfg.Retention)
	}
	return p, nil
}

// newLedger is the ledger of the registrations, over store.
func (p *Producer) newLedger(store records.Store) (*claims.Ledger, error) {
	return claims.New(store, claims.Config{
		Prefix: p.cfg.Prefix, Owner: p.cfg.Owner, Lease: p.cfg.Lease, Retention: p.cfg.Retention,
	})
}

// SendOnce sends a message, unless its key was sent before: then the receipt is not New and says
// so.
//
// When another SendOnce of the key is under way, or its process died less than a lease ago, it
// waits until ctx ends; for a lease and a quarter when ctx has no deadline. After that the error is
// a *claims.Refused as Busy. It may outlast ctx by a third of the lease to record what it did.
//
// After an error the message may never be sent unless the same call is made again, as it may be
// after any. Four errors are different. The receipt says what is known all the same.
//
//   - ErrRefused: something has to be corrected first.
//   - ErrUnknown: the message may be in the queue.
//   - ErrUnrecorded: the message is in the queue.
//   - ErrDiffers: the key stands for another message, and this one is never sent under it.
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
	case differs: // what was registered is too large to be kept, and what came now is not it
		receipt := m.receipt()
		receipt.Attempts, receipt.Differs = claim.Attempts()-1, true
		p.undo(ctx, claim, nil)
		return receipt, differing(receipt, nil)
	}
	receipt, err := p.send(ctx, claim, m, nil)
	receipt.Differs = differs
	return receipt, differing(receipt, err)
}

// differing adds to the outcome of a call that another message is registered under its key.
func differing(r Receipt, err error) error {
	if !r.Differs {
		return err
	}
	what := "nothing was sent"
	if r.MessageID != "" {
		what = "message " + r.MessageID + " is the registered one"
	}
	differs := fmt.Errorf("send %q: %w, with another body or other attributes: %s: give different work a key of its own, "+
		"or the next Generation to have it done again", claims.EffectKey(r.Key,
		r.Generation), ErrDiffers, what)
	if err == nil {
		return differs
	}
	return fmt.Errorf("%w; %w", err, differs)
}

// pauseMin is the first pause while another sender is at the same key. Most sends take a few
// milliseconds.
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
		refused, ok := errors.AsType[*claims.Refused](err)
		if !ok || refused.Why != claims.Busy {
			return claim, err
		}
		timer := time.NewTimer(min(refused.RetryIn, pause/2+rand.N(pause)))
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
			return nil, fmt.Errorf("it is being sent by somebody else: %w: %w", err,
				context.Cause(waiting))
		}
	}
}
