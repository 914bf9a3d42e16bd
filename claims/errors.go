package claims

import (
	"errors"
	"fmt"
	"time"
)

// ErrLost is what a holder is told whose claim is no longer current: its lease ran out, and somebody else
// may be at work. Nothing was written.
var ErrLost = errors.New("the claim was lost: its lease ran out before it was renewed or ended")

// ErrEnded is what a holder is told that goes on after its claim has been ended. Claim.Entry says how; first
// Claim.Ended has to be asked if CompleteIn said so.
var ErrEnded = errors.New("the claim has been ended already")

// Busy is what Acquire answers when another holder may be at work.
type Busy struct {
	Entry

	// RetryIn is how long to wait before it makes sense to try again: the rest of the holder's lease.
	RetryIn time.Duration
}

// Error says when to try again.
func (b *Busy) Error() string {
	return fmt.Sprintf("%q is claimed by %s: try again in %v", b.Key, b.Owner, b.RetryIn)
}

// Done is what Acquire answers when the work is completed.
type Done struct{ Entry }

// Error says who completed the work.
func (d *Done) Error() string { return fmt.Sprintf("%q was completed by %s", d.Key, d.Owner) }

// NeedsPerson is what Acquire answers when the key is parked: a holder was lost, nobody knows how far it
// came, and the policy is not to guess. Ledger.Reopen or Ledger.Settle end that.
type NeedsPerson struct{ Entry }

// Error says what to do.
func (p *NeedsPerson) Error() string {
	return fmt.Sprintf("%q is parked (%s): find out how far it came, then reopen it or settle it as done", p.Key, p.Reason)
}

// UsedUp is what Acquire answers when the message has had its attempts: it belongs with the dead letters.
type UsedUp struct{ Entry }

// Error says why the last attempt did not succeed.
func (u *UsedUp) Error() string {
	return fmt.Sprintf("the attempts of message %s at %q are used up (%d): %s", u.Message, u.Key, u.Attempts, u.Reason)
}
