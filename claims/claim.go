package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"tenaq/records"
)

// A Claim is the right to do the work of one key, until it is ended, or lost. Its methods may be called
// from any goroutine; exactly one of Complete, Fail and Release ends it.
type Claim struct {
	ledger *Ledger
	key    string
	before *Entry

	writing sync.Mutex // held during a write, for as long as the store takes

	mu       sync.Mutex
	entry    stored          // as it was written last
	version  records.Version // of that write
	deadline time.Time       // until when the holder may rely on the claim, by the monotonic clock
	over     error           // ErrLost, or errEnded
}

// errEnded is what a holder is told that goes on after it has ended its claim.
var errEnded = errors.New("the claim has been ended already")

// Key is what was claimed.
func (c *Claim) Key() string { return c.key }

// Fence is the fencing token of the claim: larger than that of every earlier claim on the key, and fixed.
// Give it to every system that can compare it with the largest it has seen.
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

// TakenOver returns the entry of the holder before when that one was lost, so that nobody knows how far it
// came; nil when there is no such doubt.
func (c *Claim) TakenOver() *Entry { return c.before }

// Entry is what the ledger says about the key, as this claim wrote it last.
func (c *Claim) Entry() Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.entryOf(records.Record{Key: c.ledger.cfg.Prefix + c.key, Version: c.version}, &c.entry)
}

// Deadline is until when the holder may rely on the claim unless it renews it. It lies before the end of
// the lease, by the monotonic clock of this process.
func (c *Claim) Deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline
}

// Renew makes the lease begin again. It returns ErrLost when the claim is no longer current, or when
// Deadline has passed: then it is too late to be sure. After any other error the claim may still be held
// until Deadline.
func (c *Claim) Renew(ctx context.Context) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	began := time.Now()
	if began.After(c.Deadline()) {
		return fmt.Errorf("renew the claim on %q: %w", c.key, ErrLost)
	}
	if err := c.write(ctx, func(*stored) {}); err != nil {
		return fmt.Errorf("renew the claim on %q: %w", c.key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = began.Add(c.ledger.safe())
	return nil
}

// Complete records that the work is done, with a result for all who ask later. It returns ErrLost when the
// claim is no longer current: then the work has been done under a fence that others may have refused, and
// somebody else is doing it.
func (c *Claim) Complete(ctx context.Context, result []byte) error {
	return c.end(ctx, Completed, result, "")
}

// Fail records that the work did not succeed, and why. The key can be claimed again at once.
func (c *Claim) Fail(ctx context.Context, reason string) error {
	return c.end(ctx, Failed, nil, reason)
}

// Release gives the claim back before the work has begun: the attempt does not count.
func (c *Claim) Release(ctx context.Context) error {
	return c.end(ctx, Released, nil, "")
}

// reasonMax is how much of a reason is kept, in bytes.
const reasonMax = 4 << 10

// end writes the last entry of a claim.
func (c *Claim) end(ctx context.Context, state State, result []byte, reason string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.write(ctx, func(e *stored) {
		e.State, e.Result, e.Reason, e.LeaseMS = state, result, cut(reason, reasonMax), 0
		if state == Released {
			e.Attempts-- // what is unknown about the holder before stays unknown
		} else {
			e.Unknown = false
		}
	})
	if err != nil {
		return fmt.Errorf("end the claim on %q as %s: %w", c.key, state, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = errEnded
	return nil
}

// write changes the entry, on the condition that it is the one this claim wrote last. The caller holds
// c.writing.
func (c *Claim) write(ctx context.Context, change func(*stored)) error {
	c.mu.Lock()
	e, version, over := c.entry, c.version, c.over
	c.mu.Unlock()
	if over != nil {
		return over
	}
	change(&e)
	e.Nonce = rand.Text()
	w := records.Write{Key: c.ledger.cfg.Prefix + c.key, Value: e.encode(), If: version, TTL: c.ledger.cfg.Retention}
	r, err := c.ledger.put(ctx, w, e.Nonce)
	var conflict *records.Conflict
	if errors.As(err, &conflict) {
		// Nobody else has this fence. So an earlier write of this claim, which was answered with an
		// error, has been carried out after all.
		switch state, ours := c.ours(conflict.Current, e.Fence); {
		case ours && state == Held:
			w.If = conflict.Current.Version
			if r, err = c.ledger.put(ctx, w, e.Nonce); errors.As(err, &conflict) {
				err = ErrLost
			}
		case ours && state == e.State:
			r, err = conflict.Current, nil
		default:
			err = ErrLost
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.entry, c.version = e, r.Version
	case errors.Is(err, ErrLost):
		c.over = ErrLost
	}
	return err
}

// ours reports whether a record was written under this claim's fence, and the state that it has.
func (c *Claim) ours(r records.Record, fence uint64) (State, bool) {
	if r.Version == 0 {
		return "", false
	}
	s, err := decode(r)
	return s.State, err == nil && s.Fence == fence
}

// cut shortens s to at most n bytes, at the end of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
