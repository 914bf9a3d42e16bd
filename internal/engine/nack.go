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

	// TrailTo is the only dead-letter queue in which a trail is written; the zero value is any.
	TrailTo QueueName

	// The answer: for each entry, nil is success. Target is the dead-letter queue, the zero value
	// if there is none.
	Outcomes []*Error
	Target   QueueName
}

// A NackEntry ends the receive of one message.
type NackEntry struct {
	Handle  Handle
	Verdict Verdict
	Class   string // of the error, at most ClassMax bytes; may be empty
	Text    string // at most ReasonMax bytes; may be empty
	Delay   int64  // milliseconds until the message is visible again; 0 for what the queue says

	// Trail, if set, becomes the attribute tenaq of a message that moves, whose retention starts
	// again. Only Poison and Exhausted move one. [NACK-18]
	Trail Text
}

// A Verdict says what happens to a message that is given back.
type Verdict string

const (
	Retry     Verdict = "retry"     // it is visible again after the delay
	Poison    Verdict = "poison"    // it moves to the dead-letter queue at once
	Exhausted Verdict = "exhausted" // it moves too, after a failure like any other
	Release   Verdict = "release"   // like Retry, and the receive does not count
)

// moves reports whether a message with the verdict moves to the dead-letter queue.
func (v Verdict) moves() bool { return v == Poison || v == Exhausted }

// Limits of a reason, in bytes. [NACK-3]
const (
	ClassMax  = 128
	ReasonMax = 1024
)

// endings says how each verdict is recorded.
var endings = map[Verdict]row.Ending{Retry: row.EndRetried, Poison: row.EndPoison,
	Exhausted: row.EndRetried, Release: row.EndReleased}

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
	if op.Target = (QueueName{}); target != nil {
		op.Target = target.name
	}
	if !e.ready(q) {
		return ErrAgain
	}
	e.prepareNacks(q, op.Entries)
	op.Outcomes = make([]*Error, len(op.Entries))
	for i := range op.Entries {
		if op.Entries[i].Trail.Set && op.TrailTo != (QueueName{}) && op.TrailTo != op.Target {
			op.Outcomes[i] = invalid("The dead-letter queue of " + q.name.Name + " has changed.")
			continue
		}
		op.Outcomes[i] = e.nack(q, target, &op.Entries[i])
	}
	return nil
}

// check refuses entries that are wrong no matter which messages there are. [NACK-2, NACK-3]
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
				"Must be retry, poison, exhausted or release.")
		case len(n.Class) > ClassMax:
			return errNumber(int64(len(n.Class)), fmt.Sprintf("the length of entries[%d].class", i),
				"Must be at most 128 bytes.")
		case len(n.Text) > ReasonMax:
			return errNumber(int64(len(n.Text)), fmt.Sprintf("the length of entries[%d].text", i),
				"Must be at most 1024 bytes.")
		case n.Delay < 0 || n.Delay > visibilityMax*1000:
			return errNumber(n.Delay, fmt.Sprintf("entries[%d].delayMs", i),
				"Must be between 0 and 43200000.")
		case n.Delay > 0 && n.Verdict.moves():
			return errNumber(n.Delay, fmt.Sprintf("entries[%d].delayMs", i),
				"Must be 0 with the verdict "+string(n.Verdict)+".")
		case n.Trail.Set && !n.Verdict.moves():
			return errValue(string(n.Verdict), fmt.Sprintf("entries[%d].verdict", i),
				"Must be poison or exhausted with a trail.")
		}
	}
	return nil
}

// prepareNacks reads what the entries need before the first write of the command.
func (e *Engine) prepareNacks(q *queue, entries []NackEntry) {
	if slices.ContainsFunc(entries, func(n NackEntry) bool { return n.Verdict.moves() }) {
		e.flush() // so that the contents can be read
		for i := range entries {
			if m, err := e.resolve(q, &entries[i].Handle); err == nil && m != nil {
				e.needMeta(q, m)
				e.prepareLeave(q, m, len(entries))
				if q.ext.HoldGroup {
					e.prepareHold(q, m, len(entries))
				}
			}
		}
	}
	e.stir(q)
}

// newest returns the message of a handle of its newest receive. It refuses any other handle,
// because another consumer may be processing the message, or have deleted it. [NACK-7]
func (e *Engine) newest(q *queue, h *Handle) (*message, *Error) {
	m, err := e.resolve(q, h)
	switch {
	case err != nil:
		return nil, err.ofHandleEntry(h)
	case m == nil:
		return nil, errGone()
	case m.Delivery.Generation != h.Generation:
		return nil, refuse(CodeConflict,
			"The message was received again, and only the newest receipt handle can end its "+
				"receive.")
	}
	return m, nil
}

// nack carries out one entry. It checks everything before it writes.
func (e *Engine) nack(q, target *queue, n *NackEntry) *Error {
	m, err := e.newest(q, &n.Handle)
	if err != nil {
		return err
	}
	switch earlier := e.nackOf(q, m); { // [NACK-8]
	case earlier == 0:
	case earlier == endings[n.Verdict] && !n.Verdict.moves():
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
	case n.Verdict.moves() && (target == nil || target == q): // [NACK-5]
		return invalid("The queue " + q.name.Name + " has no dead-letter queue for the message. " +
			"Set a RedrivePolicy that names another queue, or use the verdict retry.")
	case until > m.LastReceive+visibilityMax*1000: // [VIS-11]
		return errNumber(n.Delay, "delayMs",
			"The message would be hidden for more than 43200000 milliseconds after its receive.")
	}
	var changed *rewritten
	if n.Trail.Set {
		if changed, err = e.withTrail(q, target, m, n.Trail.Value); err != nil {
			return err
		}
	}
	e.tell(q, m, endings[n.Verdict], n.Class, n.Text)
	if n.Verdict.moves() {
		m.Kind = row.DueReturned // it has not timed out
		e.moveDead(q, target, m, changed)
		return nil
	}
	e.unschedule(q, m)
	m.Changed = true
	switch {
	case n.Verdict == Release: // [NACK-6]
		m.Receives--
	case n.Delay == 0:
		until = e.untilRetry(q, m, until) // [EXT-18, EXT-19]
	}
	e.hide(q, m, until)
	return nil
}

// withTrail returns the content of a message with another value of the attribute tenaq, which is
// checked like an attribute of a message that is sent to the queue to. [NACK-18]
func (e *Engine) withTrail(q, to *queue, m *message, trail string) (*rewritten, *Error) {
	attribute := EntryAttribute{Name: trailAttribute, Type: Text{Value: "String", Set: true},
		String: Text{Value: trail, Set: true}}
	if err := attribute.check(); err != nil {
		return nil, err
	}
	e.prepareEnd(q, m)
	e.needMeta(q, m)
	carried := e.contentOf(q, m)
	c, ok := row.DecodeContent(carried)
	if !ok {
		e.rows.damaged("content", row.SeqKey(q.row.Space, row.KindMessage, m.Seq))
	}
	set := Attribute{Name: trailAttribute, Type: "String", String: trail}
	size := m.Size + int64(len(trail))
	i := slices.IndexFunc(c.Attributes, func(a Attribute) bool { return a.Name == trailAttribute })
	switch {
	case i >= 0:
		a := &c.Attributes[i]
		size += int64(len(set.Type) - len(a.Type) - len(a.String) - len(a.Binary))
		*a = set
	case len(c.Attributes) == sqslimits.AttributesMax: // [MA-1]
		return nil, invalid("The message has ten attributes and no room for a trail.")
	default:
		size += int64(len(set.Name) + len(set.Type))
		c.Attributes = append(c.Attributes, set)
	}
	if limit := to.row.Attributes.MaximumMessageSize; size > limit { // [SIZE-3]
		return nil, invalid("With the trail, the message has " + decimal(size) +
			" bytes, and the queue " + to.name.Name + " takes at most " + decimal(limit) + ".")
	}
	return &rewritten{carried, content{c.EncodeHead(), c.Body, levelIn(c.Attributes)}, size}, nil
}
