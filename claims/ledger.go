package claims

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	"tenaq/records"
)

// Config says how a Ledger gives out claims. The zero value works.
type Config struct {
	// Prefix begins the keys of all records of the ledger; "claim/" when empty. Ledgers with different
	// prefixes share a store without meeting.
	Prefix string

	// Owner says who holds a claim, for people; host name and process id when empty. It need not be
	// unique.
	Owner string

	// Lease is how long a claim lasts without being renewed: 60 s when zero. It is how long after a
	// holder's death nobody else begins, not how long work may take, because Hold renews it.
	Lease time.Duration

	// Retention is how long an entry is kept after it was written last: 15 days when zero. It has to be
	// longer than the time in which a message may come back, by hand from a dead-letter queue as well;
	// a message that comes later finds no entry, and its work is done again.
	Retention time.Duration

	// Lost decides what happens to work whose holder was lost, so that nobody knows how far it came. It
	// is called by the one that takes over, while it holds the claim and the lease is being renewed,
	// with the entry of the one before. Nil is always Retry: right for work that can be done twice, or
	// that gives EffectKey or the fence to whatever it changes. When it returns an error the claim is
	// released, the question stays open, and Acquire returns the error.
	Lost func(context.Context, Entry) (Decision, error)
}

// A Decision is what is to become of work whose holder was lost.
type Decision struct {
	state  State
	result []byte
	reason string
}

// Retry is the decision to do the work, again if need be.
func Retry() Decision { return Decision{} }

// Settled is the decision that the work turned out to be done, with that result. Acquire answers *Done.
func Settled(result []byte) Decision { return Decision{state: Completed, result: result} }

// Park is the decision to leave it to a person. Acquire answers *NeedsPerson, now and until somebody calls
// Reopen or Settle.
func Park(reason string) Decision { return Decision{state: Parked, reason: reason} }

// The shortest lease that a ledger gives out. Below it renewals would be most of the traffic.
const leaseMin = time.Second

// A Ledger gives out claims. Any number of ledgers, in any number of processes, may share a store.
type Ledger struct {
	store records.Store
	cfg   Config

	mu   sync.Mutex
	seen map[string]sighting // of held entries in a store without a clock
}

// A sighting is since when an entry has been seen unchanged, by the clock of this process.
type sighting struct {
	version records.Version
	since   time.Time
}

// sightingsMax bounds how many entries a ledger watches. Beyond it the watch begins anew, which delays
// take-overs and does nothing else.
const sightingsMax = 10_000

// New returns a ledger over store. It fails when the configuration contradicts itself.
func New(store records.Store, cfg Config) (*Ledger, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, "claim/")
	cfg.Lease = cmp.Or(cfg.Lease, time.Minute)
	cfg.Retention = cmp.Or(cfg.Retention, 15*24*time.Hour)
	if cfg.Owner == "" {
		host, _ := os.Hostname()
		cfg.Owner = fmt.Sprintf("%s/%d", cmp.Or(host, "unknown"), os.Getpid())
	}
	switch {
	case cfg.Lease < leaseMin:
		return nil, fmt.Errorf("a lease of %v is too short to be renewed in time: give it at least %v", cfg.Lease, leaseMin)
	case cfg.Retention < 2*cfg.Lease:
		return nil, fmt.Errorf("entries kept for %v are gone before a lease of %v can be missed: "+
			"keep them for longer than a message can come back", cfg.Retention, cfg.Lease)
	}
	if err := records.CheckKey(cfg.Prefix); err != nil {
		return nil, fmt.Errorf("prefix of the ledger: %w", err)
	}
	return &Ledger{store: store, cfg: cfg, seen: make(map[string]sighting)}, nil
}

// Retention is how long entries are kept. Who hands out messages compares it with how long a message can
// come back.
func (l *Ledger) Retention() time.Duration { return l.cfg.Retention }

// Lease is how long a claim lasts without being renewed.
func (l *Ledger) Lease() time.Duration { return l.cfg.Lease }

// Acquire claims key for the caller. Otherwise the error is a *Busy, *Done or *NeedsPerson, which say what
// to do with the message, or an error of the store: then nobody knows, and the message has to come back.
func (l *Ledger) Acquire(ctx context.Context, key string) (*Claim, error) {
	next := stored{State: Held, Owner: l.cfg.Owner, Nonce: rand.Text(), Attempts: 1, LeaseMS: l.cfg.Lease.Milliseconds()}
	w := records.Write{Key: l.cfg.Prefix + key, TTL: l.cfg.Retention}
	var before *Entry // of the holder that was lost
	for {
		began := time.Now()
		w.Value = next.encode()
		r, err := l.put(ctx, w, next.Nonce)
		var conflict *records.Conflict
		switch {
		case err == nil:
			c := &Claim{ledger: l, key: key, entry: next, version: r.Version, deadline: began.Add(l.safe())}
			c.entry.Fence = uint64(r.Version)
			return l.decide(ctx, c, before)
		case !errors.As(err, &conflict):
			return nil, fmt.Errorf("claim %q: %w", key, err)
		}
		w.If, before, next.Attempts = conflict.Current.Version, nil, 1
		if w.If == 0 {
			continue // it expired or was deleted in between
		}
		s, err := decode(conflict.Current)
		if err != nil {
			return nil, err
		}
		e := l.entryOf(conflict.Current, &s)
		switch e.State {
		case Completed:
			return nil, &Done{e}
		case Parked:
			return nil, &NeedsPerson{e}
		case Held:
			if left := l.remaining(&e); left > 0 {
				return nil, &Busy{Entry: e, RetryIn: left}
			}
			before = &e
		case Released:
			if s.Unknown {
				before = &e
			}
		}
		next.Attempts, next.Unknown = s.Attempts+1, before != nil
	}
}

// remaining is how long the holder of an entry may still be at work.
func (l *Ledger) remaining(e *Entry) time.Duration {
	left, known := e.Remaining()
	if known {
		return left
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.seen[e.Key]
	if !ok || s.version != e.Version {
		if len(l.seen) >= sightingsMax {
			clear(l.seen)
		}
		s = sighting{e.Version, time.Now()}
		l.seen[e.Key] = s
	}
	if left = e.Lease - time.Since(s.since); left <= 0 {
		delete(l.seen, e.Key)
	}
	return max(left, 0)
}

// decide asks what is to become of work whose holder was lost, if there was one.
func (l *Ledger) decide(ctx context.Context, c *Claim, before *Entry) (*Claim, error) {
	if before == nil || l.cfg.Lost == nil {
		c.before = before
		return c, nil
	}
	held, stop := c.Hold(ctx)
	decision, err := l.cfg.Lost(held, *before)
	stop()
	if err != nil {
		if released := c.Release(context.WithoutCancel(ctx)); released != nil {
			err = errors.Join(err, released)
		}
		return nil, fmt.Errorf("find out what became of %q: %w", c.key, err)
	}
	switch decision.state {
	case Completed:
		if err := c.Complete(ctx, decision.result); err != nil {
			return nil, err
		}
		return nil, &Done{c.Entry()}
	case Parked:
		if err := c.end(ctx, Parked, nil, decision.reason); err != nil {
			return nil, err
		}
		return nil, &NeedsPerson{c.Entry()}
	}
	c.before = before
	return c, nil
}

// safe is how long after a renewal began its holder may rely on it: the lease without a margin for the
// difference between two clocks and for what is under way when it ends.
func (l *Ledger) safe() time.Duration { return l.cfg.Lease - l.cfg.Lease/10 }

// Tries of one write, and the longest pause between two of them.
const (
	putTries = 3
	putPause = 200 * time.Millisecond
)

// put writes, and tries again after an error that leaves open whether it did. A write whose nonce is found
// in the record has been carried out, whatever its answer was.
func (l *Ledger) put(ctx context.Context, w records.Write, nonce string) (r records.Record, err error) {
	for try := range putTries {
		r, err = l.store.Put(ctx, w)
		var conflict *records.Conflict
		if err == nil {
			return r, nil
		}
		if errors.As(err, &conflict) {
			if current := conflict.Current; try > 0 && current.Version != 0 {
				if s, bad := decode(current); bad == nil && s.Nonce == nonce {
					return current, nil
				}
			}
			return r, err
		}
		if try == putTries-1 {
			break
		}
		select {
		case <-ctx.Done():
			return r, err
		case <-time.After(jitter(putPause)):
		}
	}
	return r, err
}

// jitter returns a time between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + mathrand.N(d/2+1) }
