package enginetest

import "tenaq/internal/engine"

// group is the messages of a group, in order.
func (q *modelQueue) group(name string) (found []*modelMessage) {
	for _, msg := range q.messages {
		if msg.entry.Group.Value == name {
			found = append(found, msg)
		}
	}
	return found
}

// release makes what is in flight of a group receivable. [V1-11]
func (m *Model) release(q *modelQueue, op *engine.ReleaseGroup) *engine.Error {
	if !q.fifo() {
		return modelBadValue(q.name.Name, "queue",
			"It is not a FIFO queue: only those have message groups.")
	}
	m.settle(q)
	group := q.group(op.Group)
	op.Holds = m.free(q, op.Group)
	if len(group) == 0 && op.Holds == 0 {
		return modelBadValue(op.Group, "group", "The group has no messages: list the groups of the queue.")
	}
	op.Released = 0
	for _, msg := range group {
		if msg.kind == inFlight && msg.at > m.now {
			m.hide(msg, 0)
			msg.changed = true
			op.Released++
		}
	}
	return nil
}
