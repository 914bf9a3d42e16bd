package engine

import (
	"fmt"
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Nack ends receives with a reason: negative acknowledgement. Unlike ChangeMessageVisibility, it
// takes only the handle of the newest receive, because a consumer that lost its message must not
// take it away from the next one. [NACK-1 to NACK-9]
type Nack struct {
	Queue   QueueName
	Entries []NackEntry

	Outcomes []*Error // the answer, for each entry; nil is success
}

// A NackEntry ends the receive of one message.
type NackEntry struct {
	Handle  Handle
	Verdict Verdict
	Class   string // of the error, at most ClassMax bytes; may be empty
	Text    string // at most ReasonMax bytes; may be empty
	Delay   int64  // milliseconds until the message is visible again
}

// A Verdict says what happens to a message that is given back.
type Verdict string

const (
	Retry   Verdict = "retry"   // it is visible again after the delay
	Poison  Verdict = "poison"  // it moves to the dead-letter queue at once
	Release Verdict = "release" // like Retry, and the receive does not count
)

// Limits of a reason, in bytes. [NACK-3]
const (
	ClassMax  = 128
	ReasonMax = 1024
)

// endings says how each verdict is recorded.
var endings = map[Verdict]row.Ending{Retry: row.EndRetried, Poison: row.EndPoison,
	Release: row.EndReleased}

// Class says that it is as important as a change of visibility. [DUR-25]
func (*Nack) Class() Class { return ClassVisibility }

func (op *Nack) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if err := op.check(); err != nil {
		return err
	}
	target := e.deadTarget(q)
	if !e.ready(q) {
		return ErrAgain
	}
	e.prepareNacks(q, op.Entries)
	op.Outcomes = make([]*Error, len(op.Entries))
	for i := range op.Entries {
		op.Outcomes[i] = e.nack(q, target, &op.Entries[i])
	}
	return nil
}

// check refuses entries that are wrong whatever messages there are. [NACK-2, NACK-3]
func (op *Nack) check() *Error {
	if n := len(op.Entries); n > sqslimits.BatchMax {
		return invalid(fmt.Sprintf("entries has %d elements. Send at most %d.", n,
			sqslimits.BatchMax))
	}
	for i := range op.Entries {
		n := &op.Entries[i]
		switch _, known := endings[n.Verdict]; {
		case n.Handle.Text == "":
			return errMissing(fmt.Sprintf("entries[%d].receiptHandle", i))
		case !known:
			return errValue(string(n.Verdict), fmt.Sprintf("entries[%d].verdict", i),
				"Must be retry, poison or release.")
		case len(n.Class) > ClassMax:
			return errNumber(int64(len(n.Class)), fmt.Sprintf("the length of entries[%d].class", i),
				"Must be at most 128 bytes.")
		case len(n.Text) > ReasonMax:
			return errNumber(int64(len(n.Text)), fmt.Sprintf("the length of entries[%d].text", i),
				"Must be at most 1024 bytes.")
		case n.Delay < 0 || n.Delay > visibilityMax*1000:
			return errNumber(n.Delay, fmt.Sprintf("entries[%d].delayMs", i),
				"Must be between 0 and 43200000.")
		case n.Delay > 0 && n.Verdict == Poison:
			return errNumber(n.Delay, fmt.Sprintf("entries[%d].delayMs", i),
				"Must be 0 with the verdict poison.")
		}
	}
	return nil
}

// prepareNacks reads what the entries need before the first write of the command.
func (e *Engine) prepareNacks(q *queue, entries []NackEntry) {
	if slices.ContainsFunc(entries, func(n NackEntry) bool { return n.Verdict == Poison }) {
		e.flush() // so that the contents can be read
		for i := range entries {
			if m, err := e.resolve(q, &entries[i].Handle); err == nil && m != nil {
				e.needMeta(q, m)
				e.prepareLeave(q, m, len(entries))
			}
		}
	}
	e.stir(q)
}

// nack carries out one entry. It checks everything before it writes.
func (e *Engine) nack(q, target *queue, n *NackEntry) *Error {
	m, err := e.resolve(q, &n.Handle)
	switch {
	case err != nil:
		return err.ofHandleEntry(&n.Handle)
	case m == nil: // [NACK-7]
		return errValue(n.Handle.echo(), "receiptHandle", "The message no longer exists in the queue.")
	case m.Delivery.Generation != n.Handle.Generation:
		return errValue(n.Handle.echo(), "receiptHandle",
			"The message was received again, and only the newest receipt handle can end its receive.")
	}
	switch earlier := e.nackOf(q, m); earlier { // [NACK-8]
	case 0:
	case endings[n.Verdict]:
		return nil
	default:
		return errValue(string(n.Verdict), "verdict",
			"The receive was already ended with another verdict.")
	}
	if err := e.errExpired(q, m, &n.Handle); err != nil {
		return err
	}
	until := e.now + n.Delay
	switch {
	case n.Verdict == Poison && (target == nil || target == q): // [NACK-5]
		return invalid("The queue " + q.name.Name + " has no dead-letter queue for a poison message. " +
			"Set a RedrivePolicy that names another queue, or use the verdict retry.")
	case until > m.LastReceive+visibilityMax*1000: // [VIS-11]
		return errNumber(n.Delay, "delayMs",
			"The message would be hidden for more than 43200000 milliseconds after its receive.")
	}
	e.tell(q, m, endings[n.Verdict], n.Class, n.Text)
	if n.Verdict == Poison {
		m.Kind = row.DueReturned // it has not timed out
		e.moveDead(q, target, m)
		return nil
	}
	e.unschedule(q, m)
	m.Changed = true
	if n.Verdict == Release { // [NACK-6]
		m.Receives--
	}
	e.hide(q, m, until)
	return nil
}
