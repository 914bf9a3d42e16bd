package engine

import (
	"cmp"

	"tenaq/internal/engine/row"
)

// Replace takes one message out of a queue and sends another content in its place: edit and send.
// The new message has the lineage of the old one and goes to its source, or to another queue. Both
// happen, or neither. [TASK-17]
type Replace struct {
	Queue QueueName
	Place string // of the message: Peeked.Place
	To    string // a queue of the same account; empty for the source of the message
	Draft Draft  // its group may be absent, and is then that of the message
	By    string

	Sent Sent // the answer
}

// Class and Size are those of SendMessage.
func (op *Replace) Class() Class { return ClassSend }
func (op *Replace) Size() int64  { return op.Draft.size }

func (op *Replace) apply(e *Engine, c *Command) *Error {
	if op.Draft.noBody {
		return errMissing("body")
	}
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	seq, ok := openPlace(q.row.Incarnation, op.Place)
	if !ok || seq == 0 {
		return errValue(op.Place, "place", "It is not the place of a message in this queue.")
	}
	if !e.ready(q) || !e.settleDelayed(q, settleStep) {
		return ErrAgain
	}
	meta, err := e.replaceable(q, seq)
	if err != nil {
		return err
	}
	to, err := e.replaceIn(q, op.To, meta)
	if err != nil {
		return err
	}
	d := op.Draft
	if err := d.checkInPlace(to, meta); err != nil {
		return err
	}
	old := []picked{{message: &message{Meta: *meta}, to: to}}
	e.loadPicked(q, old)
	// Everything has been read; from here on it writes.
	moved := e.sendInPlace(q, to, old[0].message, &d, to.row.Attributes.Delay(),
		identity(c.Seed, 0))
	e.passRemoved(q, old)
	if q.fifo() {
		e.stir(q)
	}
	op.Sent = Sent{ID: moved.ID, Sequence: to.sequence(moved.Seq)}
	e.log(q.name.Account, op.By, "Replace", q.name.Name, meta.ID.String()+" by "+
		moved.ID.String()+" in "+to.name.Name)
	return nil
}

// replaceable returns a message that is there and not in flight.
func (e *Engine) replaceable(q *queue, seq uint64) (*row.Meta, *Error) {
	one := peek{Peek: &Peek{Max: 1}, e: e, q: q, place: seq - 1, looks: 1,
		gates: make(map[string]uint64)}
	metas, _ := one.metas(seq, seq+1)
	if len(metas) == 0 || metas[0].Expired(e.now, q.row.Attributes.Retention()) {
		return nil, refuse(CodeNoResource, "The message is gone: it was deleted, moved or has "+
			"expired. List the messages of the queue again.")
	}
	one.take(metas)
	if one.Messages[0].State == StateInFlight {
		return nil, refuse(CodeConflict, "The message is in flight: a consumer has received it. "+
			"Try again when it has returned.")
	}
	return &metas[0], nil
}

// replaceIn returns the queue that a replaced message goes to: as a task moves it. [TASK-2]
func (e *Engine) replaceIn(q *queue, to string, m *row.Meta) (*queue, *Error) {
	name, known := QueueName{Account: q.name.Account, Name: to}, true
	if to == "" {
		name, known = e.queueOfARN(cmp.Or(m.Source, e.writtenSource(q, m)))
		if !known || name.Account != q.name.Account {
			return nil, refuse(CodeConflict,
				"It is not known where the message came from: name a queue in \"to\".")
		}
	}
	target, err := e.lookup(name)
	switch {
	case err != nil:
		return nil, err
	case target.fifo() != q.fifo():
		return nil, errValue(name.Name, "to",
			"Source and destination must be queues of the same type.")
	}
	return target, nil
}

// writtenSource returns the source that a worker wrote into a message.
func (e *Engine) writtenSource(q *queue, m *row.Meta) string {
	c, ok := row.DecodeContent(e.contentOf(q, &message{Meta: *m}))
	if !ok {
		e.rows.damaged("content", row.SeqKey(q.row.Space, row.KindMessage, m.Seq))
	}
	return written(c.Attributes, "source")
}
