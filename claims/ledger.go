package claims

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/records"
)

// Config configures a Ledger. The zero value works.
type Config struct {
	// Prefix begins the keys of all records of the ledger; "claim/" when empty. Ledgers share a
	// store without meeting when the prefix of none begins with that of another.
	Prefix string

	// Owner names the holder of a claim, for people; host name and process id when empty. It need
	// not be unique.
	Owner string

	// Lease is how long a claim lasts without being renewed: 60 s when zero. It is how long after a
	// holder's death no other holder begins, not how long work may take, because Hold renews it.
	Lease time.Duration

	// Retention is how long an entry is kept after it was written last: 15 days when zero. It has
	// to be longer than the time in which a message may come back, by hand from a dead-letter queue
	// as well; a message that comes later finds no entry, and its work is done again. Parked
	// entries are kept until a person decides.
	Retention time.Duration

	// Lost decides what happens to work whose holder was lost, so that it is unknown how far it
	// came. It is called by the one that takes over, while it holds the claim and the lease is
	// being renewed, with the entry of the one before (see Claim.TakenOver). Nil is always Retry:
	// right for work that can be done twice, or that gives EffectKey or the fence to whatever it
	// changes. When it returns an error the claim is released, the question stays open, and Acquire
	// returns the error.
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

// Settled is the decision that the work turned out to be done, with that result. Acquire is refused
// as Done.
func Settled(result []byte) Decision { return Decision{state: Completed, result: result} }

// Park is the decision to leave it to a person. Acquire is refused as NeedsPerson, until an
// operator calls Reopen or Settle.
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

// sightingsMax bounds how many entries a ledger watches. Beyond it the watch of a random one begins
// anew, which delays take-overs and does nothing else.
const sightingsMax = 10_000

// New returns a ledger over store. It fails when there is no store, and when the configuration
// contradicts itself.
func New(store records.Store, cfg Config) (*Ledger, error) {
	if isNil(store) {
		return nil, errors.New("the ledger has no store: open one, for example with sqliterecords.Open, and check its error")
	}
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

// isNil reports whether there is no store. A nil pointer counts: it is what a failed Open returned.
func isNil(store records.Store) bool {
	v := reflect.ValueOf(store)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Retention is how long entries are kept. A worker compares it with how long a message can
// come back.
func (l *Ledger) Retention() time.Duration { return l.cfg.Retention }

// Store is the store of the ledger, for callers that keep records of their own beside it.
func (l *Ledger) Store() records.Store { return l.store }

// Lease is how long a claim lasts without being renewed.
func (l *Ledger) Lease() time.Duration { return l.cfg.Lease }

// Acquire claims key for the caller. Otherwise the error is a *Refused, which says what to do with
// the message, or an error of the store: then the state is unknown, and the message has to come
// back.
func (l *Ledger) Acquire(ctx context.Context, key string) (*Claim, error) {
	return l.AcquireWith(ctx, key, Note{})
}

// A Note is what a ledger writes down about the work of a key, for later readers of the entry.
type Note struct {
	// Message is the id of the message that brought the work. With it Acquire knows a message again
	// whose attempts are used up (see Claim.Exhaust), and a person finds it.
	Message string

	// Memo is what it would take to do the work again, or its origin. The first one of a key stays
	// for as long as its entry does.
	Memo []byte
}

// Limits of a Note, in bytes.
const (
	MessageMax = 1024
	MemoMax    = 32 << 10
)

func (n *Note) check() error {
	switch {
	case len(n.Message) > MessageMax:
		return fmt.Errorf("a message id of %d bytes, %d are allowed", len(n.Message), MessageMax)
	case len(n.Memo) > MemoMax:
		return fmt.Errorf("a memo of %d bytes, %d are allowed: keep it elsewhere and its name here",
			len(n.Memo), MemoMax)
	}
	return nil
}

// AcquireWith is Acquire, and writes a note down. When the work is exhausted and the note names the
// message that had the attempts, it is refused as UsedUp.
func (l *Ledger) AcquireWith(ctx context.Context, key string, note Note) (*Claim, error) {
	if key == "" {
		return nil, errors.New("a claim needs a key")
	}
	if err := note.check(); err != nil {
		return nil, fmt.Errorf("claim %q: %w", key, err)
	}
	var (
		next = stored{
			State: Held, Owner: l.cfg.Owner, Nonce: rand.Text(), Attempts: 1,
			LeaseMS: l.cfg.Lease.Milliseconds(), Message: note.Message, Memo: note.Memo,
		}
		version records.Version // of the entry that gives way, as
		before  *Entry          // when its holder was lost
	)
	for {
		began := time.Now()
		r, err := l.put(ctx, l.writeOf(key, version, &next), next.Nonce)
		var conflict *records.Conflict
		switch {
		case err == nil:
			l.forget(key)
			return l.decide(ctx, l.newClaim(key, next, r, began), before)
		case !errors.As(err, &conflict):
			return nil, fmt.Errorf("claim %q: %w", key, err)
		}
		version, before = conflict.Current.Version, nil
		next.Attempts, next.Unknown, next.Memo, next.Reason = 1, false, note.Memo, ""
		if version == 0 {
			continue // it expired or was deleted in between
		}
		s, err := decode(conflict.Current)
		if err != nil {
			return nil, err
		}
		e := l.entryOf(conflict.Current, &s)
		if before, err = l.judge(e, s.Unknown, note.Message); err != nil {
			return nil, err
		}
		next.Attempts, next.Unknown, next.Reason = s.Attempts+1, before != nil, s.Reason
		if s.State == Exhausted {
			next.Attempts = 1
		}
		if s.Memo != nil {
			next.Memo = s.Memo
		}
	}
}

// judge says whether an entry gives way to a new claim for a message; otherwise the error is what
// Acquire answers. It returns the entry when it is unknown how far its holder came.
func (l *Ledger) judge(e Entry, unknown bool, message string) (lost *Entry, err error) {
	switch e.State {
	case Held:
		if left := l.remaining(&e); left > 0 {
			return nil, &Refused{e, Busy, left}
		}
		return &e, nil
	case Completed:
		l.forget(e.Key)
		return nil, &Refused{Entry: e, Why: Done}
	case Parked:
		l.forget(e.Key)
		return nil, &Refused{Entry: e, Why: NeedsPerson}
	case Exhausted:
		if message != "" && message == e.Message {
			return nil, &Refused{Entry: e, Why: UsedUp}
		}
	}
	if unknown {
		return &e, nil
	}
	return nil, nil
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
		if !ok && len(l.seen) >= sightingsMax {
			for other := range l.seen { // whichever comes first is as good as random
				delete(l.seen, other)
				break
			}
		}
		s = sighting{e.Version, time.Now()}
		l.seen[e.Key] = s
	}
	return max(0, e.Lease-time.Since(s.since))
}

// forget ends the watch of a key.
func (l *Ledger) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, key)
}

// decide asks what is to become of work whose holder was lost, if there was one.
func (l *Ledger) decide(ctx context.Context, c *Claim, before *Entry) (*Claim, error) {
	c.before = before
	if before == nil || l.cfg.Lost == nil {
		return c, nil
	}
	decision, err := c.ask(ctx, *before)
	if err != nil {
		releaseCtx, giveUp := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Lease/3)
		defer giveUp()
		if released := c.Release(releaseCtx); released != nil {
			err = errors.Join(err, released)
		}
		return nil, fmt.Errorf("find out what became of %q: %w", c.key, err)
	}
	if decision.state == "" {
		return c, nil
	}
	if err := c.end(ctx, decision.state, decision.result, decision.reason, false); err != nil {
		return nil, err
	}
	refused := &Refused{Entry: c.Entry(), Why: NeedsPerson}
	if decision.state == Completed {
		refused.Why = Done
	}
	return nil, refused
}

// ask calls Config.Lost while the lease is being renewed.
func (c *Claim) ask(ctx context.Context, before Entry) (Decision, error) {
	held, stop := c.Hold(ctx)
	defer stop() // also when it panics, or the claim would be renewed for ever
	decision, err := c.ledger.cfg.Lost(held, before)
	if err == nil && decision.state == "" && context.Cause(held) == ErrLost {
		err = ErrLost // it took so long that there is nothing left to work under
	}
	return decision, err
}

// writeOf is the write of an entry over a version. What waits for a person does not expire.
func (l *Ledger) writeOf(key string, version records.Version, e *stored) records.Write {
	now := time.Now()
	w := records.Write{
		Key: l.cfg.Prefix + key, Value: e.encode(), If: version, TTL: l.cfg.Retention,
		Labels: e.labels(now), Due: e.due(now),
	}
	if e.State == Parked {
		w.TTL = 0
	}
	return w
}

// safe is how long after a renewal began its holder may rely on it: the lease without a margin for
// the difference between two clocks and for what is under way when it ends.
func (l *Ledger) safe() time.Duration { return l.cfg.Lease - l.cfg.Lease/10 }

// Tries of one write, and the longest pause between two of them.
const (
	putTries = 3
	putPause = 200 * time.Millisecond
)

// put writes, and tries again after an error that leaves open whether it did. A write whose nonce
// is found in the record has been carried out, whatever its answer was.
func (l *Ledger) put(
	ctx context.Context, w records.Write, nonce string,
) (r records.Record, err error) {
	if err := w.Check(); err != nil {
		return r, err
	}
	for try := range putTries {
		r, err = l.store.Put(ctx, w)
		var conflict *records.Conflict
		if err == nil {
			return r, nil
		}
		if errors.As(err, &conflict) {
			// On the first try as well: some clients of stores try again by themselves.
			if current := conflict.Current; current.Version != 0 {
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
		case <-time.After(backoff.Jitter(putPause)):
		}
	}
	return r, err
}
