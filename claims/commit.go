package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"tenaq/internal/work/backoff"
	"tenaq/records"
)

// This file completes claims in a transaction that the caller commits, on the database that holds
// the records of the ledger. Package pgclaims does so in PostgreSQL.

// CompleteIn is Complete by a write that the caller commits. It calls put with the store of the
// ledger and the write. Put makes the conditional write in a transaction and answers like Put of
// the store. The record must stay locked from then on until the transaction ends.
//
// If CompleteIn returns nil, the caller may commit:
//
//   - Until the commit, the claim is held as before.
//   - After the commit, the claim is completed. Its other methods learn that from the ledger, or at
//     once if the caller calls committed.
//   - After a rollback, nothing has happened: the claim can be renewed, or ended in any way.
//   - If the outcome of the commit is unknown, call Ended.
//
// After any error, the transaction must not be committed. ErrEnded says that the claim was
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
	// Unlike other writes, this one does not wait for a renewal in progress, which may itself wait
	// for the connection that the transaction uses.
	for {
		r, err := put(ctx, c.ledger.cfg.Store, w)
		if err == nil {
			return func() { c.ended(e, r.Version) }, nil
		}
		conflict, ok := errors.AsType[*records.Conflict](err)
		if !ok {
			return nil, err
		}
		found, ours := ours(conflict.Current, e.Fence)
		switch {
		case ours && found.State == Held:
			w.If = conflict.Current.Version // a renewal came first
		case ours:
			return nil, ErrEnded // perhaps by a write that is not committed yet
		case conflict.Current.Version == 0:
			return nil, fmt.Errorf("%w (its record is not there: is this the database that the ledger is in?)", ErrLost)
		default:
			c.lost()
			return nil, ErrLost
		}
	}
}

// Ended asks the ledger whether the claim has been ended; Entry says how. Call it after a commit
// that returned an error. It waits for the end of the transaction if necessary. So false means that
// the transaction was rolled back, and that the claim can still be renewed or ended. ErrLost means
// that another holder has taken over; then the transaction was rolled back too. After any other
// error, the outcome is still unknown.
func (c *Claim) Ended(ctx context.Context) (bool, error) {
	c.mu.Lock()
	fence, why := c.entry.Fence, c.why
	c.mu.Unlock()
	var found stored
	if why == nil {
		r, err := c.ledger.ask(ctx, c.key)
		if err != nil {
			return false, fmt.Errorf("check whether the claim on %q has been ended: %w", c.key, err)
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

// ask returns the record of a key after every write that has begun, unlike Get. It gets it as the
// answer to a delete that is always refused. A version of zero means that there is no record.
func (l *Ledger) ask(ctx context.Context, key string) (records.Record, error) {
	for try := 1; ; try++ {
		err := l.cfg.Store.Delete(ctx, l.cfg.Prefix+key, 0)
		if conflict, ok := errors.AsType[*records.Conflict](err); ok {
			return conflict.Current, nil
		}
		if try == putTries || backoff.Sleep(ctx, backoff.Jitter(putPause)) != nil {
			return records.Record{}, err
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
	c.finish(ErrLost)
}
