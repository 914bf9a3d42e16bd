// Package workertest makes messages for unit tests of handlers, without a queue and without a
// worker.
//
//	d := workertest.New(t, workertest.Config{Body: `{"id": 17}`, Attempt: 3, Fence: 42})
//	err := handler.Handle(t.Context(), d.Message)
//
// The message has a claim in a ledger of its own, which renews, completes and gets lost as in
// production. Package worker decides what a returned error means for the message; that is not
// tested here.
package workertest

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/claims"
	"tenaq/internal/work/handed"
	"tenaq/worker"
)

// Config says what a message is like. The zero value is a message with an empty body at its first
// attempt.
type Config struct {
	Body       string
	ID         string                                 // "message-1" when empty
	Key        string                                 // the ID when empty
	Attributes map[string]types.MessageAttributeValue // of the user
	Group      string                                 // message group
	QueueURL   string                                 // of a queue named "test" when empty
	Generation int
	Redrives   int

	// Attempt is the number of the attempt, from 1: 1 when zero. It is also Message.Receives.
	Attempt int

	// Fence is the fencing token of the claim: 1 when zero.
	Fence uint64

	// TakenOver makes the previous handler a lost one: Message.TakenOver returns its entry.
	TakenOver bool

	// Claim is a claim from a ledger of the test, for handlers that complete it in a transaction.
	// Fence, TakenOver and, where it is zero, Attempt are those of the claim.
	Claim *claims.Claim

	// NoClaims makes the message that of a worker without a ledger: Claim is nil and Fence zero.
	NoClaims bool
}

// A Delivery is a message as a handler gets it, and what the handler did with it.
type Delivery struct {
	*worker.Message

	store    *record
	progress atomic.Int64
}

// lease is that of the claims that New makes.
const lease = time.Minute

// New returns a message. It fails the test when the configuration is impossible.
func New(t testing.TB, cfg Config) *Delivery {
	t.Helper()
	if cfg.Claim != nil && (cfg.NoClaims || cfg.Fence != 0 || cfg.TakenOver) {
		t.Fatal("workertest: Claim is set, and so is NoClaims, Fence or TakenOver: remove one of them")
	}
	if cfg.Attempt < 0 || cfg.TakenOver && (cfg.Attempt == 1 || cfg.NoClaims) {
		t.Fatalf("workertest: attempt %d cannot be, with TakenOver %t and NoClaims %t: an attempt that takes over is "+
			"at least the second, and has a claim", cfg.Attempt, cfg.TakenOver, cfg.NoClaims)
	}
	if cfg.TakenOver {
		cfg.Attempt = cmp.Or(cfg.Attempt, 2)
	}
	if cfg.Claim != nil {
		cfg.Attempt = cmp.Or(cfg.Attempt, cfg.Claim.Attempts())
	}
	cfg.Attempt = cmp.Or(cfg.Attempt, 1)
	id := cmp.Or(cfg.ID, "message-1")
	d := &Delivery{Message: &worker.Message{
		ID: id, Body: cfg.Body, Attributes: cfg.Attributes, Group: cfg.Group, Receives: cfg.Attempt,
		Sent:     time.Now(),
		QueueURL: cmp.Or(cfg.QueueURL, "http://127.0.0.1:9324/000000000000/test"),
		Key:      cmp.Or(cfg.Key, id), Generation: cfg.Generation, Redrives: cfg.Redrives,
		Lineage: id,
	}}
	claim := cfg.Claim
	if claim == nil && !cfg.NoClaims {
		d.store = new(record)
		var err error
		if claim, err = d.store.claim(t.Context(), d.EffectKey(), cfg); err != nil {
			t.Fatalf("workertest: claim %q: %v", d.EffectKey(), err)
		}
	}
	handed.Over(d.Message, claim, cfg.Attempt, func() { d.progress.Add(1) })
	return d
}

// Result returns what the handler gave to Message.SetResult last; nil when it gave nothing.
func (d *Delivery) Result() []byte { return handed.Result(d.Message) }

// Progressed returns how often the handler called Message.Progress.
func (d *Delivery) Progressed() int { return int(d.progress.Load()) }

// LoseClaim lets another worker take the claim over, so that every further write of this one is
// refused with claims.ErrLost. It fails the test when New did not make the claim. The context of
// the handler is the caller's: end it with worker.ErrLost as its cause, as a worker does.
func (d *Delivery) LoseClaim(t testing.TB) {
	t.Helper()
	if d.store == nil {
		t.Fatal("workertest: there is no claim to lose, or it is not from New")
	}
	d.store.expire()
	if _, err := d.store.acquire(t.Context(), d.EffectKey(), "another worker"); err != nil {
		t.Fatalf("workertest: take over the claim on %q: %v", d.EffectKey(), err)
	}
}

// claim makes a claim with the attempt and the fence of cfg.
func (r *record) claim(ctx context.Context, key string, cfg Config) (c *claims.Claim, err error) {
	for attempt := 1; ; attempt++ {
		last := attempt == cfg.Attempt
		if last {
			r.setNext(max(cfg.Fence, 1))
		}
		c, err = r.acquire(ctx, key, "workertest")
		switch {
		case err != nil || last:
			return c, err
		case cfg.TakenOver && attempt == cfg.Attempt-1:
			r.expire()
		default:
			if err := c.Fail(ctx, "the attempt before"); err != nil {
				return nil, err
			}
		}
	}
}

func (r *record) acquire(ctx context.Context, key, owner string) (*claims.Claim, error) {
	ledger, err := claims.New(claims.Config{Store: r, Owner: owner, Lease: lease})
	if err != nil {
		return nil, err
	}
	c, err := ledger.Acquire(ctx, key)
	if refused, ok := errors.AsType[*claims.Refused](err); ok && refused.Why == claims.Done {
		return nil, errors.New("the handler has completed it")
	}
	return c, err
}
