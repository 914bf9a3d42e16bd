package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tenaq/records"
)

// Resume returns the claim on key that has a fence, for a holder that remembers nothing else: a
// script, or a server that acts for its clients. The store must have a clock.
//
// It returns ErrLost if the claim is no longer current. A claim that has been ended is returned as
// well, so that a call which ended it can be repeated. The deadline of the claim is the end of its
// lease.
func (l *Ledger) Resume(ctx context.Context, key string, fence uint64) (*Claim, error) {
	began := time.Now()
	e, s, err := l.read(ctx, key)
	switch {
	case errors.Is(err, ErrNoEntry), err == nil && s.Fence != fence:
		return nil, fmt.Errorf("resume the claim on %q: %w", key, ErrLost)
	case err != nil:
		return nil, err
	case e.Age == records.AgeUnknown:
		return nil, fmt.Errorf("resume the claim on %q: its store has no clock, so keep the claim in memory", key)
	}
	c := l.newClaim(key, s, records.Record{Version: records.Version(fence)}, began)
	c.version = e.Version
	switch left, _ := e.Remaining(); {
	case e.State != Held:
		c.finish(ErrEnded)
	case left == 0:
		c.deadline = time.Time{} // others may take over
	default:
		c.deadline = began.Add(left)
	}
	return c, nil
}
