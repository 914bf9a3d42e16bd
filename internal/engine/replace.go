package engine

import (
	"strings"

	"tenaq/internal/engine/row"
)

// Replace takes one message out of a queue and sends another content in its place: edit and send.
// The new message has the lineage of the old one and goes to its source, or to another queue. Both
// happen, or neither. [TASK-17] A consumer does the same with a message that it has received, such
// as a dead letter that it sends back or parks. [NACK-19]
type Replace struct {
	Queue  QueueName
	Place  string // of the message: Peeked.Place; not needed with a Handle
	Handle Handle // of the newest receive of the message, which ends; without Text, none
	To     string // a queue of the same account; empty for the source of the message
	Park   bool   // the message stays what it is, except for the content [NACK-20]
	Draft  Draft  // its group may be absent, and is then that of the message
	By     string

	Sent    Sent // the answer
	Lineage MessageID
}

// PlaceOf returns the place of the message of a handle, for a Peek.
func PlaceOf(h *Handle) string { return sealPlace(amongMessages, h.Incarnation, h.Seq) }

// Class and Size are those of SendMessage.
func (op *Replace) Class() Class { return ClassSend }
func (op *Replace) Size() int64  { return op.Draft.size }

func (op *Replace) apply(e *Engine, c *Command) *Error {
	if op.Draft.noBody {
		return errMissing("body")
	}
	q, err := e.lookup(op.Queue)
	switch {
	case err != nil:
		return err
	case op.Park && op.To == "":
		return errMissing("to")
	case op.Park && op.Draft.delay.Set:
		return errNumber(op.Draft.delay.Value, "delay", "Must be absent with park.")
	}
	seq, ok := openPlace(amongMessages, q.row.Incarnation, op.Place)
	if op.Handle.Text == "" && (!ok || seq == 0) {
		return errValue(op.Place, "place", "It is not the place of a message in this queue.")
	}
	if !e.ready(q) || !e.settleDelayed(q, settleStep) {
		return ErrAgain
	}
	meta, err := e.replaceable(q, seq, &op.Handle)
	if err != nil {
		return err
	}
	to, source, err := e.replaceIn(q, op.To, meta)
	if err != nil {
		return err
	}
	d := op.Draft
	if err := d.checkInPlace(to, meta); err != nil {
		return err
	}
	old := []picked{{message: &message{Meta: *meta}, to: to, source: source}}
	e.loadPicked(q, old)
	m := old[0].message
	e.prepareEnd(q, m)
	carried := e.contentOf(q, m)
	// Everything has been read; from here on it writes.
	if op.Handle.Text != "" {
		m.Kind = row.DueReturned // it has not timed out
	}
	var moved *message
	if op.Park {
		moved = e.parked(q, old[0])
		moved.Group, moved.Dedup = strings.Clone(d.group.Value), strings.Clone(d.dedup.Value)
		e.hand(q, to, m, moved, row.OutcomeParked, &rewritten{carried, d.content, d.size})
		e.tally(q).Moved.Add(1)
		e.stir(to)
	} else {
		delay := to.row.Attributes.Delay()
		if d.delay.Set {
			delay = d.delay.Value * 1000
		}
		moved = e.sendInPlace(q, to, m, &d, delay, identity(c.Seed, 0))
	}
	e.passRemoved(q, old)
	if q.fifo() || op.Handle.Text != "" {
		e.stir(q) // a group goes on, or there is room at the in-flight limit [LIM-4, EXT-7]
	}
	op.Lineage = moved.Lineage
	op.Sent = Sent{ID: moved.ID, Sequence: to.sequence(moved.Seq),
		Mark: (&mark{to.row.Incarnation, to.row.Space, moved.Seq, e.now, moved.ID}).seal()}
	if op.Handle.Text == "" { // [TASK-16]
		e.log(q.name.Account, op.By, "Replace", q.name.Name, meta.ID.String()+" by "+
			moved.ID.String()+" in "+to.name.Name)
	}
	return nil
}

// replaceable returns the message to replace. Without a handle, it must not be in flight.
func (e *Engine) replaceable(q *queue, seq uint64, h *Handle) (*row.Meta, *Error) {
	if h.Text != "" {
		m, err := e.newest(q, h)
		if err == nil {
			err = e.errExpired(q, m, h)
		}
		if err != nil {
			return nil, err
		}
		e.needMeta(q, m)
		e.flush() // it may have come in this turn, and its content is read
		return &m.Meta, nil
	}
	one := peek{Peek: &Peek{Max: 1}, e: e, q: q, place: seq - 1, looks: 1,
		gates: make(map[string]gate)}
	metas, _ := one.metas(seq, seq+1)
	if len(metas) == 0 || metas[0].Expired(e.now, q.row.Attributes.Retention()) {
		return nil, errGone()
	}
	one.take(metas)
	if one.Messages[0].State == StateInFlight {
		return nil, refuse(CodeConflict, "The message is in flight: a consumer has received it. "+
			"Try again when it has returned.")
	}
	return &metas[0], nil
}

// replaceIn returns the queue that a replaced message goes to, as a task moves it, and the ARN of
// the queue that the message came from. [TASK-2]
func (e *Engine) replaceIn(
	q *queue, to string, m *row.Meta,
) (target *queue, source string, _ *Error) {
	if source = m.Source; source == "" {
		source = e.writtenSource(q, m)
	}
	name, known := QueueName{Account: q.name.Account, Name: to}, true
	if to == "" {
		name, known = e.queueOfARN(source)
		if !known || name.Account != q.name.Account {
			return nil, "", refuse(CodeConflict,
				"It is not known where the message came from: name a queue in \"to\".")
		}
	}
	target, err := e.lookup(name)
	switch {
	case err != nil:
		return nil, "", err
	case target.fifo() != q.fifo():
		return nil, "", errValue(name.Name, "to",
			"Source and destination must be queues of the same type.")
	}
	return target, source, nil
}

// writtenSource returns the source that a worker wrote into a message.
func (e *Engine) writtenSource(q *queue, m *row.Meta) string {
	c, ok := row.DecodeContent(e.contentOf(q, &message{Meta: *m}))
	if !ok {
		e.rows.damaged("content", row.SeqKey(q.row.Space, row.KindMessage, m.Seq))
	}
	return written(c.Attributes, "source")
}
