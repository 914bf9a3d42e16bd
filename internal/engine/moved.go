package engine

import (
	"bytes"

	"tenaq/internal/engine/row"
)

// How a message is found by its id. The id carries the place that the message had when it got it. A
// message that moves, as a dead letter or with a task, has a row in moved for its lineage, and for
// its own id if that names another place. [ID-8, ID-9] The space of a place names its queue in its
// owner row.

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
// remove these, from the first id on. A sweep in progress goes on, or queues that come and go would
// keep it from ever ending.
func (s *system) fell() { s.Again, s.Fallen, s.dirty = s.Fallen, true, true }

// movedLooks is how many rows in moved one Apply looks at.
const movedLooks = 1024

// sweepMoved looks at a few rows in moved and removes those that name spaces that have fallen.
func (e *Engine) sweepMoved() {
	s := &e.sys
	if !s.Fallen {
		return
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
	if looks < movedLooks {
		s.Fallen, s.Again, s.Swept = s.Again, false, MessageID{}
	}
	s.dirty = true
}

func (e *Engine) decodeMoved(k, v []byte) (id MessageID, at row.Place) {
	id, at, ok := row.DecodeMoved(k, v)
	if !ok {
		e.rows.damaged("moved", k)
	}
	return id, at
}
