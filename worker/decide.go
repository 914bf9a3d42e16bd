package worker

import (
	"errors"
	"fmt"
	"time"

	"tenaq/claims"
)

// The pure function decide decides about a message, and carryOut carries out the verdict.

// A deed is what the worker does with a message.
type deed int

const (
	handle   deed = iota // call the handler
	giveBack             // make it receivable again
	remove               // delete it
	bury                 // move it to the dead-letter queue
	abandon              // do nothing: its lease or its claim is lost
)

// A verdict is a deed with its details.
type verdict struct {
	do     deed
	end    claims.State  // how to end the claim, if there is one; empty leaves it
	after  time.Duration // of giveBack: the pause before the message can be received again
	reason string        // for the dead letter, the ledger and Outcome.Reason

	failed error // the error of a failed attempt, or nil
	told   Kind  // what else to report; empty for nothing
	err    error // goes with told
}

// facts are all that a verdict depends on.
type facts struct {
	ended error // why the lease or the claim has ended; nil while both are held

	// Before the handler:
	unknown   error           // the ledger could not be asked
	unfetched error           // the body cannot be fetched now
	unnamed   error           // nothing says which work the message belongs to
	invalid   error           // why the message can never be claimed
	refused   *claims.Refused // the ledger gave no claim

	// Of the handler:
	handled bool  // it has returned err, or err says why there is no body
	stopped error // why its context ended before it returned
	err     error

	claimed  bool
	before   string // why the previous attempt ended, if claimed
	attempt  int    // the number of this one
	attempts int    // maximum number
	dead     bool   // there is a dead-letter queue

	retry time.Duration // the pause after a failed attempt
	pause time.Duration // the pause when the ledger or a store cannot be used
}

// decide returns the verdict about a message.
func decide(f facts) verdict {
	switch {
	case f.handled:
		return decideHandled(f)
	case f.unknown != nil:
		return letGo(f.pause, "the ledger cannot be used: "+f.unknown.Error())
	case f.ended != nil:
		return verdict{do: abandon, told: Lost, err: f.ended}
	case f.unfetched != nil:
		return letGo(f.pause, f.unfetched.Error())
	case f.unnamed != nil:
		return f.deadLetter(claims.Exhausted, Poison(f.unnamed),
			"it is unknown what work the message belongs to: "+f.unnamed.Error())
	case f.invalid != nil:
		return f.deadLetter(claims.Exhausted, Poison(f.invalid), f.invalid.Error())
	case f.refused != nil:
		return decideRefused(f)
	case f.attempt <= f.attempts || !f.dead:
		return verdict{do: handle}
	case f.claimed: // the handler has begun all allowed attempts
		return f.deadLetter(unbegun, nil,
			fmt.Sprintf("%d attempts, of which the last was cut short: %s", f.attempts, f.before))
	}
	return f.deadLetter("", nil,
		fmt.Sprintf("%d receives, and no worker recorded why they failed", f.attempt-1))
}

// unbegun ends a claim as claims.Exhausted without counting its attempt.
const unbegun claims.State = "exhausted, unbegun"

// decideRefused returns the verdict about a message without a claim.
func decideRefused(f facts) verdict {
	switch f.refused.Why {
	case claims.Busy:
		return verdict{do: giveBack, after: f.refused.RetryIn, told: Busy, err: f.refused}
	case claims.Done:
		return verdict{do: remove, told: Duplicate, err: f.refused}
	case claims.UsedUp:
		return f.deadLetter("", nil, f.refused.Reason)
	}
	return f.deadLetter("", nil, f.refused.Error())
}

// decideHandled returns the verdict about a message whose handler has returned.
func decideHandled(f facts) verdict {
	if f.err == nil {
		return verdict{do: remove, end: claims.Completed, told: Done}
	}
	if _, ok := errors.AsType[*unavailableError](f.err); ok {
		return letGo(f.pause, f.err.Error())
	}
	switch {
	case f.stopped == ErrLost && f.ended != ErrLost:
		return letGo(0, "another message of its batch was lost")
	case f.stopped == ErrLost: // the claim ends, so that the next worker need not wait for it
		return verdict{do: abandon, end: claims.Failed, reason: ErrLost.Error(), told: Lost,
			err: f.err}
	case f.stopped == ErrDraining:
		return letGo(0, reasonStopping)
	}
	if later, ok := errors.AsType[*laterError](f.err); ok {
		return letGo(later.after, later.reason)
	}
	reason := f.err.Error()
	if f.stopped != nil && !errors.Is(f.err, f.stopped) {
		reason = fmt.Sprintf("%v: %v", f.stopped, f.err)
	}
	if IsPoison(f.err) || f.attempt >= f.attempts {
		return f.deadLetter(claims.Exhausted, f.err, reason)
	}
	return verdict{do: giveBack, end: claims.Failed, after: f.retry, reason: reason, failed: f.err}
}

// Reasons for giving back messages that no handler has begun.
const (
	reasonStopping = "the worker stops"
	reasonBehind   = "an earlier message of its group is not settled"
)

// letGo gives the message back without counting an attempt.
func letGo(after time.Duration, reason string) verdict {
	return verdict{do: giveBack, end: claims.Released, after: after, reason: reason, told: Deferred}
}

// deadLetter moves the message to the dead-letter queue. If there is none, the message is tried
// again.
func (f *facts) deadLetter(end claims.State, failed error, reason string) verdict {
	if !f.dead {
		return verdict{do: giveBack, end: claims.Failed, after: f.retry, reason: reason,
			failed: failed}
	}
	return verdict{do: bury, end: end, reason: reason, failed: failed}
}
