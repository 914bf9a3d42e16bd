package worker

import (
	"fmt"
	"time"
)

// Events are called for what happens to messages. Any of them may be nil. They are called from many
// goroutines and must return quickly. What surrounds the handler belongs in Config.Middleware.
type Events struct {
	// Received: the worker has the message. If the body is kept beside the queue, Body is the
	// pointer until it is fetched, here and in other events, and there is no key before that if
	// Config.Key reads the body.
	Received func(m *Message)

	// Claimed: the ledger was asked for the claim of the message. The error is nil when it gave the
	// claim, a *claims.Refused when it did not, and any other when it could not say. Never called
	// without a ledger.
	Claimed func(m *Message, err error)

	// Outcome: something became of the message. Failed is followed by DeadLettered when the message
	// went to the dead-letter queue; by Deferred or Lost when that was not possible. Otherwise
	// there is one outcome for each time that the message is received.
	Outcome func(m *Message, o Outcome)

	// Renewed: one request renewed the leases of a number of messages, or err says why it did not.
	Renewed func(messages int, err error)

	// QueueError: an operation on the queue failed, for the attempt-th time in a row. The worker
	// tries again. The operation is "receive", "delete", "change the visibility" or "send to the
	// dead-letter queue".
	QueueError func(operation string, attempt int, err error)
}

// A Kind is a kind of Outcome.
type Kind string

const (
	// Done: the work is recorded as completed, after Took. The message is deleted next.
	Done Kind = "done"

	// Duplicate: the work was completed earlier; Err is the *claims.Refused. The message is
	// deleted.
	Duplicate Kind = "duplicate"

	// Busy: another handler holds the claim; Err is the *claims.Refused. The message comes back
	// After a pause, or when that handler completes the work in this Worker.
	Busy Kind = "busy"

	// Failed: an attempt has failed with Err, after Took. The message comes back, or is
	// dead-lettered: at once if IsPoison is true of Err, which includes messages whose work is
	// unknown.
	Failed Kind = "failed"

	// Deferred: the message comes back After a pause, for Reason, and no attempt was counted. The
	// handler asked for it (Later, Unavailable), the ledger or the store of bodies could not be
	// used, or the worker stops.
	Deferred Kind = "deferred"

	// DeadLettered: the message is in the dead-letter queue for Reason, with the id DeadID.
	DeadLettered Kind = "dead-lettered"

	// Lost: the lease or the claim was lost; Err says how. The worker does nothing more with the
	// message.
	Lost Kind = "lost"

	// Abandoned: the context of the handler ended with Err, and the handler has not returned. Its
	// lease and its claim are no longer renewed, and its place is not free until it returns.
	Abandoned Kind = "abandoned"
)

// An Outcome is what became of a message.
type Outcome struct {
	Kind   Kind
	Err    error
	Reason string
	DeadID string        // message id in the dead-letter queue
	Took   time.Duration // the time that the handler took
	After  time.Duration // the pause before the message can be received again
}

// String returns the outcome in one line.
func (o Outcome) String() string {
	switch o.Kind {
	case Done:
		return fmt.Sprintf("%s in %v", o.Kind, o.Took)
	case Duplicate:
		return string(o.Kind)
	case Deferred:
		return fmt.Sprintf("%s for %v: %s", o.Kind, o.After, o.Reason)
	case DeadLettered:
		return fmt.Sprintf("%s: %s", o.Kind, o.Reason)
	}
	return fmt.Sprintf("%s: %v", o.Kind, o.Err)
}

// report reports the outcome of a message.
func (w *Worker) report(d *delivery, o Outcome) { w.cfg.Events.Outcome(d.Message, o) }

// setDefaults makes every event safe to call.
func (e *Events) setDefaults() {
	if e.Received == nil {
		e.Received = func(*Message) {}
	}
	if e.Claimed == nil {
		e.Claimed = func(*Message, error) {}
	}
	if e.Outcome == nil {
		e.Outcome = func(*Message, Outcome) {}
	}
	if e.Renewed == nil {
		e.Renewed = func(int, error) {}
	}
	if e.QueueError == nil {
		e.QueueError = func(string, int, error) {}
	}
}
