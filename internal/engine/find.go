package engine

import (
	"iter"

	"tenaq/internal/engine/key"
	"tenaq/internal/engine/row"
)

// Find looks for the message with an id, or for the one of a lineage, in all queues of an account.
// Like Peek, it counts, hides and moves nothing. It reads a few rows, however deep the queues are.
// [ID-8]
type Find struct {
	Account string
	ID      MessageID // of the message, or of its lineage

	after QueueName // up to here, queues of an older store have their owner rows

	// The answer. Without a queue there is no such message.
	Queue   QueueName
	Message Peeked
	Mark    string // of the message, for Follow
	Now     int64  // when it was looked for
}

func (op *Find) apply(e *Engine, _ *Command) *Error {
	op.Queue, op.Message, op.Mark, op.Now = QueueName{}, Peeked{}, "", e.now
	if e.sys.Unowned {
		op.after = e.ownAll(op.after)
		return ErrAgain
	}
	for _, at := range e.placesOf(op.ID) {
		q := e.queueAt(op, at)
		if q == nil {
			continue
		}
		if !e.ready(q) || !e.settleDelayed(q, settleStep) {
			return ErrAgain
		}
		if found, ok := e.look(q, at.Seq); ok { // it may just have expired
			op.Queue, op.Message = q.name, found
			op.Mark = (&mark{q.row.Incarnation, at.Space, at.Seq, found.Arrived, found.ID}).seal()
			return nil
		}
	}
	return nil
}

// placesOf returns where a message may be: where it moved, and where its id says.
func (e *Engine) placesOf(id MessageID) (places []row.Place) {
	for k, v := range e.rowOf(row.MovedKey(id)) {
		_, at := e.decodeMoved(k, v)
		places = append(places, at)
	}
	return append(places, e.sys.IDKey.Place(id))
}

// queueAt returns the queue that has the message at a place; nil if it is not there, or belongs to
// another account.
func (e *Engine) queueAt(op *Find, at row.Place) *queue {
	for k, v := range e.rowOf(row.SeqKey(at.Space, row.KindMessage, at.Seq)) {
		m, _ := e.decodeMessage(k, v)
		if m.ID != op.ID && m.Lineage != op.ID {
			return nil // the id was made elsewhere, or the message moved on
		}
		for k, v := range e.rowOf(row.OwnerKey(at.Space)) {
			name := decoded(&e.rows, "owner", k, v, row.DecodeOwner)
			if q, err := e.lookup(name); err == nil && q.row.Space == at.Space &&
				name.Account == op.Account {
				return q
			}
		}
	}
	return nil
}

// rowOf yields the row with a key, if it is there. Unlike a point read it sees the open batch,
// which may have rows that are not in memory.
func (e *Engine) rowOf(k []byte) iter.Seq2[[]byte, []byte] {
	return e.scan(row.Span{Lo: k, Hi: key.Next(k)})
}
