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

// A Claim is the right to do the work of one key, until it is ended, or lost. Its methods may be
// called from any goroutine; one of Complete, Fail, Exhaust, ExhaustUnbegun and Release ends it.
// The same one may be called again when its answer was an error.
type Claim struct {
	ledger *Ledger
	key    string
	before *Entry
	over   chan struct{} // closed when why is set

	writing chan struct{} // holds one token during a write, for as long as the store takes

	mu       sync.Mutex
	entry    stored          // as it was written last
	version  records.Version // of that write
	deadline time.Time       // until when the holder may rely on the claim, by the monotonic clock
	why      error           // it is over: ErrLost, or ErrEnded
}

// newClaim is the claim that r says the caller has, asked for at began.
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

// Key is what was claimed.
func (c *Claim) Key() string { return c.key }

// Fence is the fencing token of the claim: larger than that of every earlier claim on the key, and
// fixed. Give it to every system that can compare it with the largest it has seen.
func (c *Claim) Fence() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry.Fence
}

// Attempts is how often a holder has begun the work of the key, this one included.
func (c *Claim) Attempts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry.Attempts
}

// TakenOver returns the entry of the holder before when that one was lost, so that it is unknown
// how far it came; nil when there is no such doubt. When another holder took over from the lost
// holder and gave the claim back without having found out, it is that one's entry, which says
// Released; after Ledger.GiveUp it says Exhausted.
func (c *Claim) TakenOver() *Entry { return c.before }

// Entry is what the ledger says about the key, as this claim wrote it last. Its Age is zero.
func (c *Claim) Entry() Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.entryOf(records.Record{Key: c.ledger.cfg.Prefix + c.key, Version: c.version},
		&c.entry)
}

// Deadline is until when the holder may rely on the claim unless it renews it. It lies before the
// end of the lease, by the monotonic clock of this process.
func (c *Claim) Deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline
}

// Renew makes the lease begin again. It returns ErrLost when the claim is no longer current, or
// when Deadline has passed: then it is too late to be sure. After any other error the claim may
// still be held until Deadline.
func (c *Claim) Renew(ctx context.Context) error {
	if err := c.write(ctx, func(e *stored) { e.State = Held }); err != nil {
		return fmt.Errorf("renew the claim on %q: %w", c.key, err)
	}
	return nil
}

// ResultMax is how long a result may be, in bytes. Keep larger ones elsewhere and their name in the
// ledger.
const ResultMax = 128 << 10

// Complete records that the work is done, with a result for later callers of Acquire. It returns
// ErrLost when the claim is no longer current: then the work has been done under a fence that
// others may have refused, and another holder may be doing it. It is not too late after Deadline,
// while no other holder has taken over.
func (c *Claim) Complete(ctx context.Context, result []byte) error {
	return c.end(ctx, Completed, result, "", true)
}

// Fail records that the work did not succeed, and why. The key can be claimed again at once. Of a
// long reason the first 4 KiB are kept.
func (c *Claim) Fail(ctx context.Context, reason string) error {
	return c.end(ctx, Failed, nil, reason, true)
}

// Exhaust records that the work did not succeed, and that the message which brought it has had its
// attempts. The same message is then refused as UsedUp, for as long as it is there; another one, by
// which a redrive brings the work back, can claim the key, and the attempts begin at one.
func (c *Claim) Exhaust(ctx context.Context, reason string) error {
	return c.end(ctx, Exhausted, nil, reason, true)
}

// ExhaustUnbegun is Exhaust by a holder that has not begun the work, having found that the attempts
// before were enough: this one does not count.
func (c *Claim) ExhaustUnbegun(ctx context.Context, reason string) error {
	return c.end(ctx, Exhausted, nil, reason, false)
}

// Release gives the claim back before the work has begun: the attempt does not count.
func (c *Claim) Release(ctx context.Context) error {
	return c.end(ctx, Released, nil, "", false)
}

// reasonMax is how much of a reason is kept, in bytes.
const reasonMax = 4 << 10

// end writes the last entry of a claim. Begun says whether this holder has begun the work.
func (c *Claim) end(
	ctx context.Context, state State, result []byte, reason string, begun bool,
) error {
	err := checkResult(result)
	if err == nil {
		err = c.write(ctx, func(e *stored) {
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
	// otherwise what is known about the holder before, and what is not, stays so
	if state != Released {
		s.Reason, s.Unknown = clip.To(reason, reasonMax), false
	}
}

func checkResult(result []byte) error {
	if len(result) > ResultMax {
		return fmt.Errorf("a result of %d bytes, %d are allowed: keep it elsewhere and its name here", len(result), ResultMax)
	}
	return nil
}

// write changes the entry, on the condition that it is the one this claim wrote last.
func (c *Claim) write(ctx context.Context, change func(*stored)) error {
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
		return nil // it is known by now that the call whose answer was an error took effect
	case why != nil:
		return why
	case e.State == Held && began.After(deadline):
		return ErrLost
	}
	e.Nonce = rand.Text()
	r, e, err := c.put(ctx, version, e)

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.why != nil: // found out meanwhile in another way
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

// finish says why the claim is over. Its mutex is locked and it has not been over.
func (c *Claim) finish(why error) {
	c.why = why
	close(c.over)
}

// put writes the entry over the version that this claim wrote last. When it finds that the claim
// has been ended already, it returns the entry that did, and the error is ErrEnded unless that was
// to be written.
func (c *Claim) put(
	ctx context.Context, version records.Version, e stored,
) (records.Record, stored, error) {
	w := c.ledger.writeOf(c.key, version, &e)
	for {
		r, err := c.ledger.put(ctx, w, e.Nonce)
		var conflict *records.Conflict
		if !errors.As(err, &conflict) {
			return r, e, err
		}
		// No other holder has this fence. So when it is there, an earlier write of this claim,
		// which was answered with an error, has been carried out after all.
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

// ours returns the entry of a record, and whether it was written under a fence.
func ours(r records.Record, fence uint64) (stored, bool) {
	if r.Version == 0 {
		return stored{}, false
	}
	s, err := decode(r)
	return s, err == nil && s.Fence == fence
}
