package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"tenaq/internal/work/backoff"
	"tenaq/records"
)

// For completions that are part of something larger, which the caller commits: a transaction on the
// database that has the records of the ledger. Package pgclaims does so in PostgreSQL.

// CompleteIn is Complete by a write that the caller commits. Put has to make the write in a
// transaction, on the condition that it names, and to answer like Put of the store, which it is
// given for that. The record has to stay locked from then on until the transaction ends.
//
// When the error is nil the transaction may be committed. Until it is the claim is held as before;
// once it is the claim is completed, of which its other methods hear from the ledger, and at once
// when the caller calls committed. When it is rolled back nothing has happened: the claim can be
// renewed or ended in any way. After a commit without an answer Ended finds out.
//
// After any error the transaction must not be committed. ErrEnded says that the claim has been
// completed by an earlier commit, or in the same transaction.
func (c *Claim) CompleteIn(
	ctx context.Context, result []byte,
	put func(context.Context, records.Store, records.Write) (records.Record, error),
) (committed func(), err error) {
	if committed, err = c.completeIn(ctx, result, put); err != nil {
		return nil, fmt.Errorf("complete the claim on %q in a transaction: %w", c.key, err)
	}
	return committed, nil
}

func (c *Claim) completeIn(
	ctx context.Context, result []byte,
	put func(context.Context, records.Store, records.Write) (records.Record, error),
) (committed func(), err error) {
	if err := checkResult(result); err != nil {
		return nil, err
	}
	c.mu.Lock()
	e, version, why := c.entry, c.version, c.why
	c.mu.Unlock()
	if why != nil {
		return nil, why
	}
	e.end(Completed, result, "")
	e.Nonce = rand.Text()
	w := c.ledger.writeOf(c.key, version, &e)
	// It does not wait for a renewal that is under way, as other writes do: that may itself be
	// waiting for the connection that the transaction has.
	for {
		r, err := put(ctx, c.ledger.store, w)
		var conflict *records.Conflict
		switch {
		case err == nil:
			return func() { c.ended(e, r.Version) }, nil
		case !errors.As(err, &conflict):
			return nil, err
		}
		found, ours := ours(conflict.Current, e.Fence)
		switch {
		case ours && found.State == Held:
			w.If = conflict.Current.Version // a renewal came first
		case ours:
			return nil, ErrEnded // perhaps by a write that is not committed itself
		case conflict.Current.Version == 0:
			return nil, fmt.Errorf("%w (its record is not there: is this the database that the ledger is in?)", ErrLost)
		default:
			c.lost()
			return nil, ErrLost
		}
	}
}

// Ended asks the ledger whether the claim has been ended; Entry says how. It is for after a commit
// that was answered with an error. It waits for the end of the transaction if it has to, so that
// false means that the transaction was rolled back and that the claim is still there to be renewed
// or ended. The error is ErrLost when another holder has taken it over; then the transaction was
// rolled back as well. After any other error it is not known yet.
func (c *Claim) Ended(ctx context.Context) (bool, error) {
	c.mu.Lock()
	fence, why := c.entry.Fence, c.why
	c.mu.Unlock()
	var found stored
	if why == nil {
		r, err := c.ledger.ask(ctx, c.key)
		if err != nil {
			return false, fmt.Errorf("find out whether the claim on %q has been ended: %w", c.key,
				err)
		}
		var current bool
		switch found, current = ours(r, fence); {
		case !current:
			why = ErrLost
			c.lost()
		case found.State == Held:
			return false, nil
		default:
			why = ErrEnded
			c.ended(found, r.Version)
		}
	}
	if why == ErrLost {
		return false, fmt.Errorf("the claim on %q was not ended: %w", c.key, ErrLost)
	}
	return true, nil
}

// ask returns the record of a key behind every write that has begun, as no Get does: it is the
// answer to a write that is refused always. There is no record when its version is zero.
func (l *Ledger) ask(ctx context.Context, key string) (records.Record, error) {
	for try := 1; ; try++ {
		err := l.store.Delete(ctx, l.cfg.Prefix+key, 0)
		var conflict *records.Conflict
		if errors.As(err, &conflict) {
			return conflict.Current, nil
		}
		if try == putTries {
			return records.Record{}, err
		}
		select {
		case <-ctx.Done():
			return records.Record{}, err
		case <-time.After(backoff.Jitter(putPause)):
		}
	}
}

// ended notes that an entry of this claim has ended it.
func (c *Claim) ended(e stored, version records.Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.entry, c.version = e, version
		c.finish(ErrEnded)
	}
}

// lost notes that another holder has written to the record.
func (c *Claim) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.finish(ErrLost)
	}
}
