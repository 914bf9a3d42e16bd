package engine

import (
	"bytes"

	"tenaq/internal/engine/row"
)

// How a message is found by its id. The id carries the place that the message had when it got it.
// What moves, as a dead letter or with a task, has a row in moved for its lineage, and for its own
// id if that names another place. [ID-8, ID-9] The space of a place names its queue in its owner
// row.

// noteMoved writes the rows in moved of a message that enters a queue.
func (e *Engine) noteMoved(q *queue, m *message) {
	for _, id := range m.MovedIDs(&e.sys.IDKey, q.row.Space) {
		e.rows.set(row.MovedKey(id),
			row.EncodeMoved(e.rows.scratch(), row.Place{Space: q.row.Space, Seq: m.Seq}))
	}
}

// forgetMoved removes them with the message, whose metadata must be known.
func (e *Engine) forgetMoved(q *queue, m *message) {
	for _, id := range m.MovedIDs(&e.sys.IDKey, q.row.Space) {
		e.rows.delete(row.MovedKey(id))
	}
}

// own writes the owner row of a space.
func (e *Engine) own(space uint64, name QueueName) {
	e.rows.set(row.OwnerKey(space), row.EncodeOwner(e.rows.scratch(), name))
}

// ownersStep is how many queues one Apply gives their owner rows.
const ownersStep = 512

// ownAll gives the queues behind a name their owner rows, in a store from before there were such
// rows, and returns where to continue. After the last queue, no space is unowned.
func (e *Engine) ownAll(after QueueName) (last QueueName) {
	var found []catalogued
	for name, stored := range e.queuesIn(queuesBehind(after)) {
		found = append(found, catalogued{name, stored})
		if len(found) == ownersStep {
			break
		}
	}
	for i := range found {
		if last = found[i].name; found[i].row.Deleted == 0 {
			e.own(found[i].row.Space, last)
		}
	}
	if len(found) < ownersStep {
		e.sys.Unowned, e.sys.dirty = false, true
	}
	return last
}

// fell notes that a space has fallen, with all its rows but those in moved that name it. Sweeps
// remove these, from the first id on.
func (s *system) fell() { s.Fallen, s.Swept, s.dirty = true, MessageID{}, true }

// movedLooks is how many rows in moved one Apply looks at.
const movedLooks = 1024

// sweepMoved removes rows in moved that name spaces that have fallen. It reports whether it is
// done.
func (e *Engine) sweepMoved() (done bool) {
	s := &e.sys
	if !s.Fallen {
		return true
	}
	rows := row.Family(row.FamilyMoved)
	if s.Swept != (MessageID{}) {
		rows.Lo = append(row.MovedKey(s.Swept), 0)
	}
	var gone [][]byte
	looks, stands := 0, make(map[uint64]bool)
	for k, v := range e.scan(rows) {
		id, at := e.decodeMoved(k, v)
		there, known := stands[at.Space]
		if !known {
			_, there = e.rows.get(row.StateKey(at.Space))
			stands[at.Space] = there
		}
		if !there {
			gone = append(gone, bytes.Clone(k))
		}
		s.Swept = id
		if looks++; looks == movedLooks {
			break
		}
	}
	for _, k := range gone {
		e.rows.delete(k)
	}
	if done = looks < movedLooks; done {
		s.Fallen, s.Swept = false, MessageID{}
	}
	s.dirty = true
	return done
}

func (e *Engine) decodeMoved(k, v []byte) (id MessageID, at row.Place) {
	id, at, ok := row.DecodeMoved(k, v)
	if !ok {
		e.rows.damaged("moved", k)
	}
	return id, at
}
