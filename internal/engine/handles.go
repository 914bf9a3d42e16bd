package engine

import "strings"

// A receipt handle names one delivery: the message by space and number, the receive by generation.
// The API has checked its seal. This file decides whether the handle is still valid.

// Class says that deletes come last under overload, and visibility changes next to last. [DUR-25]
func (*DeleteMessage) Class() Class                { return ClassDelete }
func (*DeleteMessageBatch) Class() Class           { return ClassDelete }
func (*ChangeMessageVisibility) Class() Class      { return ClassVisibility }
func (*ChangeMessageVisibilityBatch) Class() Class { return ClassVisibility }

// errHandle refuses a handle that is not of this queue. [HND-3, HND-15]
func errHandle(h *Handle) *Error {
	return refuse(CodeInvalidHandle, `The input receipt handle "`+h.echo()+`" is not a valid receipt handle.`)
}

// echo returns the text of the handle for an error, cut to the length that a handle may have.
// [HND-2]
func (h *Handle) echo() string {
	if len(h.Text) > 1024 {
		return strings.ToValidUTF8(h.Text[:1024], "")
	}
	return h.Text
}

// resolve finds the message of a handle; nil without an error if it no longer exists.
func (e *Engine) resolve(q *queue, h *Handle) (*message, *Error) {
	switch {
	case !h.Valid || h.Incarnation != q.row.Incarnation: // [HND-15, HND-19]
		return nil, errHandle(h)
	case h.Space != q.row.Space: // [PURGE-5]
		return nil, nil
	}
	return e.find(q, h.Seq), nil
}

// DeleteMessage removes a message.
type DeleteMessage struct {
	Queue  QueueName
	Handle Handle
}

func (op *DeleteMessage) apply(e *Engine, _ *Command) *Error {
	if op.again(e) {
		return ErrAgain
	}
	return op.carryOut(e)
}

// carryOut deletes the message of a queue that is ready.
func (op *DeleteMessage) carryOut(e *Engine) *Error {
	if op.Handle.Text == "" { // [HND-4]
		return errMissing("ReceiptHandle")
	}
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	e.prepareDeletes(q, &op.Handle)
	return e.delete(q, &op.Handle)
}

// again reports whether the queue has work to do before the delete, so that the operation must be
// submitted again.
func (op *DeleteMessage) again(e *Engine) bool {
	q, err := e.lookup(op.Queue)
	return err == nil && !e.ready(q)
}

// errExpired refuses the handle of a delivery that is over. On a FIFO queue, only the newest
// delivery is valid, and only while it is in flight, because another consumer may already have the
// next messages of the group. On a standard queue, a delivery is over after 12 hours, and with
// strict handles also when there is a newer one.
// [HND-20, FIFO-31, FIFO-33, FIFO-35, EXT-5]
func (e *Engine) errExpired(q *queue, m *message, h *Handle) *Error {
	if m == nil {
		return nil
	}
	newest := m.Delivery.Generation == h.Generation
	if newest && m.At > e.now {
		return nil
	}
	received := m.LastReceive
	if !newest && h.Received != 0 {
		received = h.Received
	}
	if !q.fifo() && e.now < received+visibilityMax*1000 && (newest || !q.ext.StrictHandles) {
		return nil
	}
	return errValue(h.echo(), "ReceiptHandle", "The receipt handle has expired.")
}

// isStrict reports whether tags, and not the type of the queue, make older handles invalid.
func (q *queue) isStrict() bool { return q.ext.StrictHandles && !q.fifo() }

// delete removes the message of a handle if the handle is of its newest delivery. It does nothing
// if there is a newer one, or if the message no longer exists.
// [HND-5 to HND-9, HND-16, FIFO-34, FIFO-36]
func (e *Engine) delete(q *queue, h *Handle) *Error {
	m, err := e.resolve(q, h)
	if err != nil {
		return err
	}
	if m != nil {
		e.tally(q).AddHandled(e.handled(q, m, h))
	}
	if err := e.errExpired(q, m, h); err != nil {
		if q.isStrict() && m.Delivery.Generation != h.Generation {
			e.tally(q).DeletedStale.Add(1) // [METRIC-17]
		}
		return err
	}
	switch t := e.tally(q); {
	case m == nil:
		t.DeletedGone.Add(1)
	case m.Delivery.Generation != h.Generation:
		t.DeletedStale.Add(1)
	default:
		t.AddDeleted(e.now - m.LastReceive)
		e.remove(q, m, endDeleted)
	}
	return nil
}

// handled returns how many milliseconds ago the message was received with a handle, and whether it
// could be received again since. Handles of FIFO queues have no time: the receive of an older one
// was a visibility timeout before the newest receive, or earlier. [V1-22]
func (e *Engine) handled(q *queue, m *message, h *Handle) (ms int64, late bool) {
	ms = e.now - m.LastReceive
	switch {
	case m.Delivery.Generation == h.Generation:
		return ms, m.At <= e.now
	case h.Received != 0:
		return e.now - h.Received, true
	}
	return ms + q.row.Attributes.VisibilityTimeout*1000, true
}

// prepareDeletes comes before the first delete of a command. A delete can make room at the
// in-flight limit [LIM-4], and on a FIFO queue it can open a group [FIFO-22].
func (e *Engine) prepareDeletes(q *queue, handles ...*Handle) {
	if q.past != nil {
		e.prepareOutcomes(q, handles)
	}
	if !q.fifo() {
		if e.stirFull(q); q.ext.MaxInFlightPerGroup > 0 {
			e.stir(q) // its group may have been full [EXT-44]
		}
		return
	}
	e.stir(q)
	for _, h := range handles {
		if m, err := e.resolve(q, h); err == nil && m != nil {
			e.prepareLeave(q, m, len(handles))
		}
	}
}

// prepareOutcomes reads what outcomes keep of the messages that deletes will remove.
func (e *Engine) prepareOutcomes(q *queue, handles []*Handle) {
	for _, h := range handles {
		m, err := e.resolve(q, h)
		if err == nil && m != nil && m.Delivery.Generation == h.Generation &&
			e.errExpired(q, m, h) == nil {
			e.prepareEnd(q, m)
		}
	}
}

// DeleteMessageBatch removes up to ten messages.
type DeleteMessageBatch struct {
	Queue   QueueName
	Entries []DeleteEntry
	Given   bool

	Outcomes []*Error // the answer, for each entry; nil is success
}

// A DeleteEntry is an entry of a DeleteMessageBatch.
type DeleteEntry struct {
	ID     Text
	Handle Handle
}

func (op *DeleteMessageBatch) apply(e *Engine, _ *Command) *Error {
	q, err := openBatch(e, op.Queue, "DeleteMessageBatch", op.Given, op.Entries,
		func(entry *DeleteEntry) Text {
			return entry.ID
		})
	if err != nil {
		return err
	}
	if !e.ready(q) {
		return ErrAgain
	}
	handles := make([]*Handle, len(op.Entries))
	for i := range op.Entries {
		handles[i] = &op.Entries[i].Handle
	}
	e.prepareDeletes(q, handles...)
	op.Outcomes = make([]*Error, len(op.Entries))
	for i := range op.Entries {
		entry := &op.Entries[i]
		if entry.Handle.Text == "" { // [BATCH-22]
			op.Outcomes[i] = errMissingPart("DeleteMessageBatch", i, "ReceiptHandle")
			continue
		}
		op.Outcomes[i] = e.delete(q, &entry.Handle).ofHandleEntry(&entry.Handle)
		if no := op.Outcomes[i]; no != nil && no.Code == CodeInvalidParameter { // [BATCH-23]
			op.Outcomes[i] = refuse(CodeInvalidHandle, "The receipt handle has expired")
		}
	}
	return nil
}

// ofHandleEntry gives the refusal of another queue's handle its text for an entry of a batch.
// [BATCH-19]
func (e *Error) ofHandleEntry(h *Handle) *Error {
	if e != nil && e.Code == CodeInvalidHandle && h.Valid {
		return refuse(CodeInvalidHandle, `The receipt handle "`+h.echo()+`" is not valid for this queue.`)
	}
	return e
}

// ChangeMessageVisibility hides a message for Timeout seconds from now. [VIS-2]
type ChangeMessageVisibility struct {
	Queue   QueueName
	Handle  Handle
	Timeout Int
}

func (op *ChangeMessageVisibility) apply(e *Engine, _ *Command) *Error {
	switch {
	case op.Handle.Text == "": // [HND-4]
		return errMissing("ReceiptHandle")
	case !op.Timeout.Set: // [VIS-9]
		return errMissing("VisibilityTimeout")
	}
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if t := op.Timeout.Value; t < 0 || t > visibilityMax { // [VIS-10]
		return errNumber(t, "VisibilityTimeout", "Must be between 0 and 43200.")
	}
	if !e.ready(q) {
		return ErrAgain
	}
	if err := e.changeVisibility(q, &op.Handle, op.Timeout.Value); err != nil {
		return err
	}
	e.stir(q)
	return nil
}

// changeVisibility applies a change of any handle the message ever had: SQS honours older ones on
// standard queues. [HND-11 to HND-14, HND-17]
func (e *Engine) changeVisibility(q *queue, h *Handle, seconds int64) *Error {
	m, err := e.resolve(q, h)
	if err != nil {
		return err
	}
	if m == nil {
		return errValue(h.echo(), "ReceiptHandle",
			"Message does not exist or is not available for visibility timeout change.")
	}
	if err := e.errExpired(q, m, h); err != nil {
		return err
	}
	until := e.now + seconds*1000
	if until > m.LastReceive+visibilityMax*1000 { // [VIS-11, VIS-12]
		return errNumber(seconds, "VisibilityTimeout",
			"Total VisibilityTimeout for the message is beyond the limit [43200 seconds]")
	}
	until = e.untilRetry(q, m, until) // [EXT-18]
	e.tellReturned(q, m, h, until)
	e.unschedule(q, m)
	m.Changed = true
	e.hide(q, m, until)
	return nil
}

// ChangeMessageVisibilityBatch changes up to ten messages.
type ChangeMessageVisibilityBatch struct {
	Queue   QueueName
	Entries []VisibilityEntry
	Given   bool

	Outcomes []*Error // the answer, for each entry; nil is success
}

// A VisibilityEntry is an entry of a ChangeMessageVisibilityBatch.
type VisibilityEntry struct {
	ID      Text
	Handle  Handle
	Timeout Int
}

func (op *ChangeMessageVisibilityBatch) apply(e *Engine, _ *Command) *Error {
	q, err := openBatch(e, op.Queue, "ChangeMessageVisibilityBatch", op.Given, op.Entries,
		func(entry *VisibilityEntry) Text {
			return entry.ID
		})
	if err != nil {
		return err
	}
	if !e.ready(q) {
		return ErrAgain
	}
	op.Outcomes = make([]*Error, len(op.Entries))
	e.stir(q)
	for i := range op.Entries {
		entry := &op.Entries[i]
		switch t := entry.Timeout; {
		case entry.Handle.Text == "": // [BATCH-22]
			op.Outcomes[i] = errMissingPart("ChangeMessageVisibilityBatch", i, "ReceiptHandle")
		case !t.Set:
			op.Outcomes[i] = errMissingPart("ChangeMessageVisibilityBatch", i, "VisibilityTimeout")
		case t.Value < 0 || t.Value > visibilityMax: // [BATCH-20]
			op.Outcomes[i] = errNumber(t.Value, "VisibilityTimeout",
				"VisibilityTimeout must be an integer between 0 and 43200.")
		default:
			op.Outcomes[i] = e.changeVisibility(q, &entry.Handle,
				t.Value).ofHandleEntry(&entry.Handle)
		}
	}
	return nil
}
