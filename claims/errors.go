package claims

import (
	"errors"
	"fmt"
	"time"
)

// ErrLost says that the claim is no longer current: its lease expired, and another holder may be
// working. Nothing was written.
var ErrLost = errors.New("the claim was lost: its lease expired before it was renewed or ended")

// ErrEnded says that the claim has already been ended. Claim.Entry says how; after CompleteIn, call
// Claim.Ended first.
var ErrEnded = errors.New("the claim has been ended already")

// ErrUnreadable says that the record of a key is not an entry, or one of a later version.
var ErrUnreadable = errors.New("the record is not an entry that this program can read")

// unreadable is an ErrUnreadable that says why, and what to do.
type unreadable struct{ error }

func (unreadable) Is(target error) bool { return target == ErrUnreadable }

// A Refusal is the reason why Acquire gave no claim: errors.Is(err, claims.Done).
type Refusal string

// Error returns the reason.
func (r Refusal) Error() string { return string(r) }

const (
	// Busy: another holder may be working on the key. Try again after Refused.RetryIn.
	Busy Refusal = "busy"

	// Done: the work is completed. Refused.Result is its result.
	Done Refusal = "done"

	// UsedUp: the message has used up its attempts and belongs in the dead-letter queue.
	UsedUp Refusal = "used up"

	// NeedsPerson: the key is parked. A holder was lost, nothing says how far it came, and the
	// policy is not to guess. Ledger.Reopen or Ledger.Settle ends that.
	NeedsPerson Refusal = "parked"
)

// Refused is the error of Acquire when the ledger gives no claim. If the reason alone is enough,
// use errors.Is with a Refusal; errors.AsType[*claims.Refused] returns the rest.
type Refused struct {
	Entry // of the key
	Why   Refusal

	// RetryIn is the rest of the holder's lease if Why is Busy, otherwise zero.
	RetryIn time.Duration
}

// Unwrap returns Why, for errors.Is.
func (r *Refused) Unwrap() error { return r.Why }

// Error says why there is no claim, and what to do.
func (r *Refused) Error() string {
	switch r.Why {
	case Busy:
		return fmt.Sprintf("%q is claimed by %s: try again in %v", r.Key, r.Owner, r.RetryIn)
	case Done:
		return fmt.Sprintf("%q was completed by %s", r.Key, r.Owner)
	case UsedUp:
		return fmt.Sprintf("the attempts of message %s at %q are used up (%d): %s", r.Message,
			r.Key, r.Attempts, r.Reason)
	}
	return fmt.Sprintf("%q is parked (%s): find out how far it came, then reopen it or settle it as done", r.Key, r.Reason)
}
