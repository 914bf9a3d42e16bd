package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"tenaq/internal/work/clip"
	"tenaq/records"
)

// A Claim is the right to do the work of one key until it is ended or lost. It is safe for
// concurrent use. Complete, Fail, Exhaust, ExhaustUnbegun and Release each end it. After an error,
// the same one may be called again.
type Claim struct {
	ledger *Ledger
	key    string
	before *Entry
	over   chan struct{} // closed when why is set

	writing chan struct{} // holds one token during a write

	mu       sync.Mutex
	entry    stored          // as written last
	version  records.Version // of that write
	deadline time.Time       // end of the time for which the holder may rely on the claim
	why      error           // why the claim is over: ErrLost, ErrEnded, or nil
	holdings []*holding      // that are told when the claim is lost
}

// newClaim returns the claim that r records, which the caller asked for at began.
func (l *Ledger) newClaim(key string, e stored, r records.Record, began time.Time) *Claim {
	e.Fence = uint64(r.Version)
	return &Claim{
		ledger:   l,
		key:      key,
		over:     make(chan struct{}),
		writing:  make(chan struct{}, 1),
		entry:    e,
		version:  r.Version,
		deadline: began.Add(l.safe()),
	}
}

// Key returns the key of the claim.
func (c *Claim) Key() string { return c.key }

// Fence returns the fencing token of the claim. It is larger than that of every earlier claim on
// the key, and does not change. Pass it to every system that can compare it with the largest one
// seen.
func (c *Claim) Fence() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry.Fence
}

// Attempts returns how often a holder has begun the work of the key, including this one.
func (c *Claim) Attempts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry.Attempts
}

// TakenOver returns the entry of the previous holder if that was lost, so that it is unknown how
// far it came; otherwise nil. If a later holder gave the claim back without finding out, TakenOver
// returns the entry of that one, in the state Released; after Ledger.GiveUp, Exhausted.
func (c *Claim) TakenOver() *Entry { return c.before }

// Entry returns the entry of the key as this claim wrote it last. Its Age is zero.
func (c *Claim) Entry() Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.entryOf(records.Record{Key: c.ledger.cfg.Prefix + c.key, Version: c.version},
		&c.entry)
}

// Deadline returns the end of the time for which the holder may rely on the claim without renewing
// it. It is before the end of the lease, by the monotonic clock of this process.
func (c *Claim) Deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline
}

// Renew restarts the lease. It returns ErrLost if the claim is no longer current or Deadline has
// passed. After any other error, the claim may still be held until Deadline.
func (c *Claim) Renew(ctx context.Context) error {
	if err := c.write(ctx, plainPut, func(e *stored) { e.State = Held }); err != nil {
		return fmt.Errorf("renew the claim on %q: %w", c.key, err)
	}
	return nil
}

// ResultMax is the maximum size of a result, in bytes. Store a larger one elsewhere, and its name
// in the ledger.
const ResultMax = 128 << 10

// Complete records that the work is done, with a result for later callers of Acquire. It succeeds
// even after Deadline, unless another holder has taken over. Then it returns ErrLost: other systems
// may have refused the fence, and the other holder may be repeating the work.
func (c *Claim) Complete(ctx context.Context, result []byte) error {
	return c.end(ctx, Completed, result, "", true)
}

// CompleteBy is Complete by a write that put makes, with the store of the ledger, for a store that
// can do more in the same step: serverrecords deletes the message. Put answers like Put of the
// store. It is called again after an error, and if a renewal has come first.
func (c *Claim) CompleteBy(
	ctx context.Context, result []byte,
	put func(context.Context, records.Store, records.Write) (records.Record, error),
) error {
	return c.endBy(ctx, Completed, result, "", true, put)
}

// Fail records that the work failed, and the first 4 KiB of the reason. The key can be claimed
// again at once.
func (c *Claim) Fail(ctx context.Context, reason string) error {
	return c.end(ctx, Failed, nil, reason, true)
}

// Exhaust records that the work failed, and that its message has used up its attempts. From then on
// the same message is refused as UsedUp. Another message, with which a redrive brings the work
// back, can claim the key, and its attempts start at one.
func (c *Claim) Exhaust(ctx context.Context, reason string) error {
	return c.end(ctx, Exhausted, nil, reason, true)
}

// ExhaustUnbegun is Exhaust by a holder that has not begun the work, because earlier attempts were
// enough. Its own attempt does not count.
func (c *Claim) ExhaustUnbegun(ctx context.Context, reason string) error {
	return c.end(ctx, Exhausted, nil, reason, false)
}

// Release gives the claim back before the work has begun. The attempt does not count.
func (c *Claim) Release(ctx context.Context) error {
	return c.end(ctx, Released, nil, "", false)
}

// reasonMax is the size to which reasons are clipped, in bytes.
const reasonMax = 4 << 10

// end writes the last entry of a claim. Begun is whether this holder has begun the work.
func (c *Claim) end(
	ctx context.Context, state State, result []byte, reason string, begun bool,
) error {
	return c.endBy(ctx, state, result, reason, begun, plainPut)
}

// A putter writes to a store like Put of it.
type putter = func(context.Context, records.Store, records.Write) (records.Record, error)

func plainPut(ctx context.Context, s records.Store, w records.Write) (records.Record, error) {
	return s.Put(ctx, w)
}

func (c *Claim) endBy(
	ctx context.Context, state State, result []byte, reason string, begun bool, put putter,
) error {
	err := checkResult(result)
	if err == nil {
		err = c.write(ctx, put, func(e *stored) {
			e.end(state, result, reason)
			if !begun {
				e.Attempts--
			}
		})
	}
	if err != nil {
		return fmt.Errorf("end the claim on %q as %s: %w", c.key, state, err)
	}
	return nil
}

// end makes an entry the last one of its claim.
func (s *stored) end(state State, result []byte, reason string) {
	s.State, s.Result, s.LeaseMS = state, result, 0
	// Release leaves what is known, and unknown, about the previous holder.
	if state != Released {
		s.Reason, s.Unknown = clip.To(reason, reasonMax), false
	}
}

func checkResult(result []byte) error {
	if len(result) > ResultMax {
		return fmt.Errorf("a result has %d bytes, and %d are allowed: store it elsewhere and its name here", len(result), ResultMax)
	}
	return nil
}

// write changes the entry, if it is still the one that this claim wrote last.
func (c *Claim) write(ctx context.Context, put putter, change func(*stored)) error {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	c.mu.Lock()
	before, version, deadline, why := c.entry, c.version, c.deadline, c.why
	c.mu.Unlock()
	e := before
	change(&e)
	switch {
	case why == ErrEnded && before.sameEnd(&e):
		return nil // an earlier call with the same effect returned an error but took effect
	case why != nil:
		return why
	case e.State == Held && began.After(deadline):
		return ErrLost
	}
	e.Nonce = rand.Text()
	r, e, err := c.put(ctx, put, version, e)

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.why != nil: // found out elsewhere meanwhile
	case err == nil && e.State == Held:
		c.entry, c.version, c.deadline = e, r.Version, began.Add(c.ledger.safe())
	case err == nil || err == ErrEnded:
		c.entry, c.version = e, r.Version
		c.finish(ErrEnded)
	case errors.Is(err, ErrLost):
		c.finish(ErrLost)
	}
	return err
}

// finish ends the claim, unless it is over already. The caller holds the mutex.
func (c *Claim) finish(why error) {
	if c.why == nil {
		c.why = why
		close(c.over)
		for _, h := range c.holdings {
			if why == ErrLost {
				h.lost()
			}
		}
	}
}

// put writes the entry over the version that this claim wrote last. If the claim has been ended
// already, it returns the entry that ended it, and ErrEnded unless that equals the one to write.
func (c *Claim) put(
	ctx context.Context, put putter, version records.Version, e stored,
) (records.Record, stored, error) {
	w := c.ledger.writeOf(c.key, version, &e)
	for {
		r, err := c.ledger.put(ctx, put, w, e.Nonce)
		conflict, ok := errors.AsType[*records.Conflict](err)
		if !ok {
			return r, e, err
		}
		// No other holder has this fence. So the record is from an earlier write of this claim,
		// which took effect although it returned an error.
		found, ours := ours(conflict.Current, e.Fence)
		switch {
		case !ours:
			return r, e, ErrLost
		case found.State == Held:
			w.If = conflict.Current.Version
		case found.sameEnd(&e):
			return conflict.Current, found, nil
		default:
			return conflict.Current, found, ErrEnded
		}
	}
}

// ours returns the entry of a record, and whether it was written under fence.
func ours(r records.Record, fence uint64) (stored, bool) {
	if r.Version == 0 {
		return stored{}, false
	}
	s, err := decode(r)
	return s, err == nil && s.Fence == fence
}
