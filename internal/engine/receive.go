package engine

import (
	"slices"

	"tenaq/internal/engine/kept"
	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// A Delivery is one message as a receive hands it out. Read its content with ReadContent after the
// turn is committed.
type Delivery struct {
	Space, Seq   uint64
	Generation   uint32 // of the handle
	Received     int64  // in the handle; 0 on FIFO queues, where attempts repeat handles
	ID           MessageID
	Lineage      MessageID // the id with which it was first sent; another one after a redrive
	Size         int64     // as SQS counts it, in bytes
	Sent         int64     // milliseconds, as all times here
	Receives     uint32
	FirstReceive int64 // zero for never
	Group        string
	Dedup        string
	Sequence     Sequence
	Source       string // ARN of the queue it was dead-lettered from, if it was
	Story        *Story // if it was asked for and there is one

	// Of the lineage: its generation, which only an intended replay of completed work raises; the
	// number of this delivery among all deliveries, or of the latest one; and the first send.
	// [ID-3, ID-4, ID-5]
	LineageGeneration, Fence uint64
	FirstSent                int64
}

// ReceiveMessage hands out up to Max messages and hides them.
type ReceiveMessage struct {
	Queue      QueueName
	Max        Int
	Visibility Int      // seconds
	Wait       Int      // seconds
	AttemptID  Text     // ReceiveRequestAttemptId
	System     []string // names of the system attributes that are wanted, which apply only checks

	// Room is how many bytes of messages may be handed out; unset for no bound. A message that does
	// not fit stays as it is, and so do all behind it. [RCV-24]
	Room Int

	horizon horizon // of dead-lettering, kept while the operation is submitted again

	Received // the answer
}

// Received is what a receive answers. Times are in milliseconds.
type Received struct {
	Messages    []Delivery
	Incarnation [16]byte       // what their handles are bound to
	Kept        *kept.Contents // contents of messages that move before they are read

	// NoRoom says that there is a message, and Room leaves none for it.
	NoRoom bool

	// WaitFor is how long an empty receive is willing to wait, and NextReady when, as far as is
	// known, time alone will make a message receivable; zero for never.
	WaitFor, NextReady int64
}

// Class makes it more important than a send.
func (op *ReceiveMessage) Class() Class { return ClassReceive }

// fits reports whether size bytes of messages may be handed out.
func (op *ReceiveMessage) fits(size int64) bool { return !op.Room.Set || size <= op.Room.Value }

// sizeOf returns how many bytes some messages have together.
func sizeOf(messages []*message) (size int64) {
	for _, m := range messages {
		size += m.Size
	}
	return size
}

// systemAttributes are the names that a receive may ask for. [RCV-9]
var systemAttributes = []string{
	"All", "ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount", "AWSTraceHeader",
	"DeadLetterQueueSourceArn",
	"MessageDeduplicationId", "MessageGroupId", "SenderId", "SentTimestamp", "SequenceNumber",
	"TenaqFence", "TenaqFirstSent", "TenaqGeneration", "TenaqLineageId", // [ID-6]
}

func (op *ReceiveMessage) check(q *queue) *Error {
	switch {
	case op.Max.Set && (op.Max.Value < 1 || op.Max.Value > sqslimits.ReceiveMax): // [RCV-1]
		return errNumber(op.Max.Value, "MaxNumberOfMessages",
			"Must be between 1 and 10, if provided.")
	case op.Wait.Set && (op.Wait.Value < 0 || op.Wait.Value > waitMax): // [RCV-3]
		return errNumber(op.Wait.Value, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
	case op.Visibility.Set &&
		(op.Visibility.Value < 0 || op.Visibility.Value > visibilityMax): // [RCV-2]
		return errNumber(op.Visibility.Value, "VisibilityTimeout",
			"Must be >= 0 and <= 43200, if provided.")
	case op.isAttempt(q) && !isIDText(op.AttemptID.Value): // [DEDUP-22]
		return errIDText(op.AttemptID.Value, "ReceiveRequestAttemptId")
	}
	for _, name := range op.System {
		if !slices.Contains(systemAttributes, name) && !slices.Contains(reasonAttributes, name) {
			return errUnknownAttribute(name)
		}
	}
	return nil
}

func (op *ReceiveMessage) apply(e *Engine, _ *Command) *Error {
	op.Received = Received{}
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if err := op.check(q); err != nil {
		return err
	}
	if !e.ready(q) {
		return ErrAgain
	}
	if q.fair != nil && !e.settle(q, settleStep) {
		return ErrAgain
	}
	op.Incarnation = q.row.Incarnation
	op.WaitFor = op.Wait.or(q.row.Attributes.ReceiveMessageWaitTimeSeconds) * 1000 // [POLL-1]
	visibility := op.Visibility.or(q.row.Attributes.VisibilityTimeout) * 1000      // [VIS-4]
	if q.ext.Paused {
		// Only the end of the pause makes a message receivable. [EXT-1]
		op.horizon = horizon{}
		return nil
	}
	limit := e.inFlightMax(q)
	room := limit - q.st.InFlight
	if room < sqslimits.ReceiveMax { // [LIM-1]
		// Some of those in flight may only count because the counters have not followed yet.
		// [LIM-6]
		if !e.settle(q, settleStep) {
			return ErrAgain
		}
		room = max(limit-q.st.InFlight, 0)
	}
	if op.isAttempt(q) {
		if again := e.repeat(q, op.attempt(), room); again != nil {
			if !op.fits(sizeOf(again)) {
				op.NoRoom = true
				return nil
			}
			op.Kept = e.kept
			for _, m := range again {
				e.unschedule(q, m)
				m.LastReceive = e.now
				e.hide(q, m, e.untilRetry(q, m, e.now+visibility)) // [DEDUP-20]
				op.add(e, q, m)
			}
			return nil
		}
	}
	if room == 0 && op.WaitFor == 0 && !q.fifo() &&
		q.ext.MaxInFlight == 0 { // [LIM-2, LIM-3, FIFO-29, EXT-8]
		return refuse(CodeOverLimit,
			"Too many messages have been received without being deleted.\n"+
				"Please delete your received messages or let them timeout before receiving more.")
	}
	want, next := e.affords(q, min(op.Max.or(1), room)) // [LIM-5, EXT-12]
	if next != 0 {
		op.horizon, op.NextReady = horizon{}, next // [EXT-14]
		return nil
	}
	found := e.pick(q, op, int(want))
	if len(found.picked) == 0 && len(found.dead) == 0 {
		op.horizon = horizon{}
		op.NoRoom = found.noRoom
		op.NextReady = e.nextReady(q, room == 0)
		return nil
	}
	// The command has read everything. From here on it writes.
	for _, m := range found.dead {
		e.deadLetter(q, found.target, m)
	}
	if found.more {
		op.horizon.groups = found.groups()
	}
	if found.more || len(found.picked) == 0 {
		// An empty answer needs the time of the next message, and the indexes cannot be searched
		// after a write.
		return ErrAgain
	}
	op.horizon = horizon{}
	op.Kept = e.kept
	e.checkPicked(q, found.picked)
	e.spend(q, len(found.picked))
	q.fresh.pop(found.fresh)
	for _, m := range found.picked {
		e.deliver(q, m, e.now+visibility)
		op.add(e, q, m)
	}
	if op.isAttempt(q) {
		e.noteAttempt(q, op.attempt(), found.picked)
	}
	return nil
}

// reasonAttributes are shown only to callers that name them. [NACK-16]
var reasonAttributes = []string{"TenaqReason", "TenaqVerdict"}

// add adds a message to the answer.
func (op *ReceiveMessage) add(e *Engine, q *queue, m *message) {
	d := e.show(q, m)
	if slices.ContainsFunc(op.System, func(name string) bool {
		return slices.Contains(reasonAttributes, name)
	}) {
		if s := e.storyOf(q, m); s != nil {
			d.Story = s.Clone()
		}
	}
	op.Messages = append(op.Messages, d)
}

// show describes a message as a receive hands it out.
func (e *Engine) show(q *queue, m *message) Delivery {
	e.tally(q).Received.Add(1)
	d := q.show(&m.Meta, &m.Delivery)
	if !q.fifo() {
		d.Received = m.LastReceive
	}
	return d
}

// show describes a message by its rows.
func (q *queue) show(m *row.Meta, v *row.Delivery) Delivery {
	return Delivery{
		Space:        q.row.Space,
		Seq:          m.Seq,
		Generation:   v.Generation,
		ID:           m.ID,
		Lineage:      m.Lineage,
		Size:         m.Size,
		Sent:         m.Sent,
		Receives:     v.Receives,
		FirstReceive: v.FirstReceive,
		Group:        m.Group,
		Dedup:        m.Dedup,
		Sequence:     q.sequence(m.Seq),
		Source:       m.Source,

		LineageGeneration: m.Generation,
		Fence:             m.Fence + uint64(v.Generation),
		FirstSent:         m.FirstSent,
	}
}

// found is what a receive has found.
type found struct {
	picked  []*message // to be delivered
	fresh   int        // how many entries of the fresh window they reach into
	dead    []*message // received too often: to be moved
	target  *queue     // where to
	more    bool       // there may be more to be moved, and nothing is delivered before
	stopped string     // when there is more: the group of the message that is to be moved next
	noRoom  bool       // the next message to be delivered does not fit
}

// groups are the groups to be visited first when the receive continues.
func (f *found) groups() (names []string) {
	for _, m := range f.picked {
		names = append(names, m.Group)
	}
	return slices.Compact(append(names, f.stopped))
}

// isFull reports whether enough messages of a group were picked. A walk visits the messages of a
// group together.
func (f *found) isFull(group string, most int64) bool {
	n := int64(len(f.picked))
	return n >= most && f.picked[n-most].Group == group
}

// pick chooses up to want messages, in the order in which they became available. On the way it
// collects those that have to move instead. [DLQ-2, DLQ-21] It changes nothing.
func (e *Engine) pick(q *queue, op *ReceiveMessage, want int) (f found) {
	h := op.horizon.of(q)
	if want == 0 {
		return f
	}
	f.target = e.deadTarget(q)
	size, past, picked := int64(0), 0, int64(0)
	f.fresh = e.walk(q, q.ext.Priority, h.groups, func(m *message) verdict {
		switch most := q.ext.MaxInFlightPerGroup; {
		case most == 0:
		case q.fair != nil && e.isFull(q, m, f.picked, most):
			return walkEnd // the other groups have as many in flight [EXT-44]
		case q.fair == nil && f.isFull(m.Group, most):
			return walkPast // [EXT-10]
		}
		if f.target == nil || !q.exhausted(m) {
			if picked += m.Size; !op.fits(picked) {
				f.noRoom = true
				return walkEnd
			}
			if f.picked = append(f.picked, m); len(f.picked) == want {
				return walkLast
			}
			return walkOn
		}
		if m.Seq >= h.next { // [DLQ-37]
			if past++; past > looksMax {
				// of a queue that is its own dead-letter queue, with nothing but such messages
				return walkEnd
			}
			return walkPast
		}
		holds := q.holdsBehind(f.target)
		if holds && !e.isFirst(q, m) {
			return walkPast // [HOLD-2]
		}
		if size += m.Size; len(f.dead) == movesMax || len(f.dead) > 0 && size > moveBytesMax {
			f.more, f.stopped = true, m.Group
			return walkEnd
		}
		if f.dead = append(f.dead, m); holds {
			e.prepareHold(q, m, 1)
			return walkPast
		}
		return walkGone
	})
	if len(f.dead) > 0 {
		e.flush() // so that their contents can be read
	}
	return f
}

// deliver hides a picked message until its timeout ends, and counts the receive.
// [VIS-1, RCV-11, RCV-12]
func (e *Engine) deliver(q *queue, m *message, end int64) {
	if m.hasDelivery {
		e.countTimeout(q, m)
		e.unschedule(q, m)
	} else {
		if q.fair != nil {
			e.freshLeaves(q, m)
		}
		e.unfresh(q, &m.Meta)
		m.Elder, m.Moved, m.Story = m.IsElder(), m.Away, e.storyOf(q, m) != nil
	}
	m.Apart = m.Apart || m.Flags&row.FlagInline == 0
	m.Receives++
	m.Delivery.Generation++
	m.LastReceive, m.Changed = e.now, false
	if t := e.tally(q); m.FirstReceive == 0 {
		m.FirstReceive = e.now
		t.AddFirst(e.now - m.Sent)
	} else {
		t.Redelivered.Add(1)
	}
	e.hide(q, m, e.untilRetry(q, m, end))
	if q.fair != nil {
		e.served(q, m)
	}
}

// countTimeout counts the last delivery of a message that leaves its place, if the delivery timed
// out. [METRIC-21]
func (e *Engine) countTimeout(q *queue, m *message) {
	switch t := e.tally(q); {
	case !m.hasDelivery || m.Kind != row.DueInFlight:
	case m.Changed:
		t.TimedOutChanged.Add(1)
	default:
		t.TimedOut.Add(1)
	}
}

// hide puts a message that has no place into due, until a time. Now means that it is available at
// once. [VIS-3, VIS-6]
func (e *Engine) hide(q *queue, m *message, until int64) {
	e.checkHidden(q, m, until)
	m.At, m.Kind = until, row.DueInFlight
	if until <= e.now {
		m.Kind = row.DueReturned
	}
	e.noteHidden(until)
	e.schedule(q, m)
}
