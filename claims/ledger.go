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

// Config configures a Ledger. Store is required; the rest has defaults.
type Config struct {
	// Store keeps the records. All contenders for a key need the same one.
	Store records.Store

	// Prefix begins the keys of all records of the ledger; "claim/" when empty. Ledgers can share a
	// store if no prefix begins with the prefix of another ledger.
	Prefix string

	// Owner names the holder of a claim, for people; host name and process id when empty. It need
	// not be unique.
	Owner string

	// Lease is how long a claim lasts without a renewal: 60 s when zero, at least 1 s. It is the
	// time after the death of a holder in which no other holder begins. It does not limit the work,
	// because Hold renews it.
	Lease time.Duration

	// Retention is how long an entry is kept after its last write: 15 days when zero. Make it
	// longer than the time in which a message may come back, including by hand from a dead-letter
	// queue. A message that comes later finds no entry, and its work is done again. Parked entries
	// are kept until a person decides.
	Retention time.Duration

	// Lost decides what happens to work whose holder was lost, so that it is unknown how far it
	// came. The new holder calls it under its claim, which is being renewed, with the entry of the
	// previous holder (see Claim.TakenOver). Nil always decides Retry: right for work that can be
	// repeated, or that passes EffectKey or the fence to whatever it changes. If Lost returns an
	// error, the claim is released, the question stays open, and Acquire returns the error.
	Lost func(context.Context, Entry) (Decision, error)
}

// A Decision says what happens to work whose holder was lost. The zero Decision is that of Retry.
type Decision struct {
	state  State
	result []byte
	reason string
}

// Retry decides to do the work, even if that repeats it.
func Retry() Decision { return Decision{} }

// Settled decides that the work turned out to be done, with a result. Acquire is refused as Done.
func Settled(result []byte) Decision { return Decision{state: Completed, result: result} }

// Park leaves the decision to a person. Acquire is refused as NeedsPerson until an operator calls
// Reopen or Settle.
func Park(reason string) Decision { return Decision{state: Parked, reason: reason} }

// leaseMin is the shortest lease. Below it, most of the traffic would be renewals.
const leaseMin = time.Second

// A Ledger gives out claims. Any number of ledgers, in any number of processes, may share a store.
type Ledger struct {
	cfg Config

	mu   sync.Mutex
	seen map[string]sighting // of held entries in a store without a clock, by key
}

// A sighting says since when an entry has been unchanged, by the clock of this process.
type sighting struct {
	version records.Version
	since   time.Time
}

// sightingsMax is the maximum number of sightings. Beyond it, a ledger forgets a random one, which
// only delays a take-over.
const sightingsMax = 10_000

// New returns a ledger, or an error if the configuration contradicts itself. It does not use the
// store.
func New(cfg Config) (*Ledger, error) {
	if isNil(cfg.Store) {
		return nil, errors.New("claims: Config.Store is missing: open a store, for example with sqliterecords.New, and check its error")
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
		return nil, fmt.Errorf("a retention of %v is shorter than two leases of %v: "+
			"make it longer than the time in which a message can come back", cfg.Retention,
			cfg.Lease)
	}
	if err := records.CheckKey(cfg.Prefix); err != nil {
		return nil, fmt.Errorf("prefix of the ledger: %w", err)
	}
	return &Ledger{cfg: cfg, seen: make(map[string]sighting)}, nil
}

// isNil reports whether there is no store. A failed New of a store returns a nil pointer.
func isNil(store records.Store) bool {
	v := reflect.ValueOf(store)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Retention returns how long entries are kept.
func (l *Ledger) Retention() time.Duration { return l.cfg.Retention }

// Store returns the store of the ledger, for callers that keep records of their own beside it.
func (l *Ledger) Store() records.Store { return l.cfg.Store }

// Lease returns how long a claim lasts without a renewal.
func (l *Ledger) Lease() time.Duration { return l.cfg.Lease }

// Acquire claims key for the caller. If it returns a *Refused, that says what to do with the
// message. Any other error is one of the store: the state is unknown, so the message must come
// back.
func (l *Ledger) Acquire(ctx context.Context, key string) (*Claim, error) {
	return l.AcquireWith(ctx, key, Note{})
}

// A Note is what a claim records about the work of a key, for later readers of the entry.
type Note struct {
	// Message is the id of the message that brought the work. By it, Acquire recognizes a message
	// that has used up its attempts (see Claim.Exhaust), and people find the message.
	Message string

	// Memo is what it takes to do the work again, or where it came from. The first memo of a key is
	// kept for as long as its entry.
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
		return fmt.Errorf("a message id has %d bytes, and %d are allowed: use a hash of it", len(n.Message), MessageMax)
	case len(n.Memo) > MemoMax:
		return fmt.Errorf("a memo has %d bytes, and %d are allowed: store it elsewhere and its name here",
			len(n.Memo), MemoMax)
	}
	return nil
}

// AcquireWith is Acquire with a note. If the work is exhausted and the note names the message that
// used up the attempts, it is refused as UsedUp.
func (l *Ledger) AcquireWith(ctx context.Context, key string, note Note) (*Claim, error) {
	if key == "" {
		return nil, errors.New("the key of the claim is empty: name the work")
	}
	if err := note.check(); err != nil {
		return nil, fmt.Errorf("claim %q: %w", key, err)
	}
	var (
		next = stored{
			State: Held, Owner: l.cfg.Owner, Nonce: rand.Text(), Attempts: 1,
			LeaseMS: l.cfg.Lease.Milliseconds(), Message: note.Message, Memo: note.Memo,
		}
		version records.Version // of the entry that gives way
		before  *Entry          // that entry, if its holder was lost
	)
	for {
		began := time.Now()
		r, err := l.put(ctx, plainPut, l.writeOf(key, version, &next), next.Nonce)
		if err == nil {
			l.forget(key)
			return l.decide(ctx, l.newClaim(key, next, r, began), before)
		}
		conflict, ok := errors.AsType[*records.Conflict](err)
		if !ok {
			return nil, fmt.Errorf("claim %q: %w", key, err)
		}
		version, before = conflict.Current.Version, nil
		next.Attempts, next.Unknown, next.Memo, next.Reason = 1, false, note.Memo, ""
		if version == 0 {
			continue // it expired or was deleted meanwhile
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

// judge returns an error for Acquire unless an entry gives way to a new claim for a message. Lost
// is the entry if it is unknown how far its holder came, otherwise nil.
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

// remaining returns how long the holder of an entry may still be working.
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
			for other := range l.seen { // in random order
				delete(l.seen, other)
				break
			}
		}
		s = sighting{e.Version, time.Now()}
		l.seen[e.Key] = s
	}
	return max(0, e.Lease-time.Since(s.since))
}

// forget drops the sighting of a key.
func (l *Ledger) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, key)
}

// decide calls Config.Lost if a holder was lost, and carries out the decision.
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
		return nil, fmt.Errorf("decide about %q, whose holder was lost: %w", c.key, err)
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

// ask calls Config.Lost while it renews the lease.
func (c *Claim) ask(ctx context.Context, before Entry) (Decision, error) {
	held, stop := c.Hold(ctx)
	defer stop() // even after a panic, or the claim would be renewed forever
	decision, err := c.ledger.cfg.Lost(held, before)
	if err == nil && decision.state == "" && context.Cause(held) == ErrLost {
		err = ErrLost // the decision took so long that the claim is gone
	}
	return decision, err
}

// writeOf returns the write of an entry over a version. A parked entry does not expire.
func (l *Ledger) writeOf(key string, version records.Version, e *stored) records.Write {
	now := time.Now()
	w := records.Write{
		Key: l.cfg.Prefix + key, Value: e.encode(), If: version, TTL: l.cfg.Retention,
	}
	if _, ignored := l.cfg.Store.(records.Unlabeled); !ignored {
		w.Labels, w.Due = e.labels(now), e.due(now)
	}
	if e.State == Parked {
		w.TTL = 0
	}
	return w
}

// safe returns how long a holder may rely on a renewal, from its start. The rest of the lease is a
// margin for the difference between two clocks, and for the work to stop.
func (l *Ledger) safe() time.Duration { return l.cfg.Lease - l.cfg.Lease/10 }

// The number of tries of one write, and the longest pause between two of them.
const (
	putTries = 3
	putPause = 200 * time.Millisecond
)

// put writes, and retries after an error that leaves the outcome open. If the record has the nonce
// of the write, the write took effect, regardless of the store's answer.
func (l *Ledger) put(
	ctx context.Context, put putter, w records.Write, nonce string,
) (r records.Record, err error) {
	for try := 1; ; try++ {
		if r, err = put(ctx, l.cfg.Store, w); err == nil {
			return r, nil
		}
		if conflict, ok := errors.AsType[*records.Conflict](err); ok {
			// Also on the first try, because some clients of stores retry by themselves.
			if current := conflict.Current; current.Version != 0 {
				if s, bad := decode(current); bad == nil && s.Nonce == nonce {
					return current, nil
				}
			}
			return r, err
		}
		// A store refuses what exceeds its limits every time.
		if try == putTries || w.Check() != nil ||
			backoff.Sleep(ctx, backoff.Jitter(putPause)) != nil {
			return r, err
		}
	}
}
