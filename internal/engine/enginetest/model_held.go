package enginetest

import "slices"

// A modelHold is the group that a dead letter holds: of a queue between two purges. Zero is none.
type modelHold struct {
	incarnation [16]byte
	space       uint64
	group       string
	place       uint64 // of the dead letter in the group

	since modelRank // when, and by which message, the group began to be held
}

func (h modelHold) of(q *modelQueue) bool {
	return h.incarnation == q.incarnation && h.space == q.space
}

// heldBy returns the dead letters that hold a group: it looks at every message there is. [HOLD-1]
func (m *Model) heldBy(q *modelQueue, group string) (letters []*modelMessage) {
	for _, other := range m.queues { // order does not matter: they are counted
		for _, msg := range other.messages {
			if msg.holds.of(q) && msg.holds.group == group {
				letters = append(letters, msg)
			}
		}
	}
	return letters
}

func (m *Model) isHeld(q *modelQueue, msg *modelMessage) bool {
	return q.fifo() && len(m.heldBy(q, msg.entry.Group.Value)) > 0
}

// open returns the groups of a queue that are not held.
func (m *Model) open(q *modelQueue) [][]*modelMessage {
	return slices.DeleteFunc(q.groups(), func(g []*modelMessage) bool { return m.isHeld(q, g[0]) })
}

// free ends the holds of a group. [HOLD-6]
func (m *Model) free(q *modelQueue, group string) (n int) {
	for _, msg := range m.heldBy(q, group) {
		msg.holds = modelHold{}
		n++
	}
	return n
}

// freeAll ends all holds of a queue. [HOLD-7]
func (m *Model) freeAll(q *modelQueue) {
	for _, other := range m.queues { // order does not matter: each is changed by itself
		for _, msg := range other.messages {
			if msg.holds.of(q) {
				msg.holds = modelHold{}
			}
		}
	}
}

// holds reports whether dead letters of a queue hold their groups. [HOLD-1, HOLD-9]
func (m *Model) holds(q *modelQueue) bool {
	target := m.queues[m.redrive(q.attributes["RedrivePolicy"]).target]
	return q.is(onDeadLetterTag) && target != nil && target != q
}

// carry gives a message that has moved its place again if it comes back to its group. [HOLD-3] If
// it stays in its queue it keeps its hold, and otherwise it has none. [HOLD-5]
func (msg *modelMessage) carry(from, to *modelQueue, moved *modelMessage) {
	h := msg.holds
	moved.holds = modelHold{}
	switch {
	case h == modelHold{}:
	case h.of(to):
		moved.place = h.place
	case from == to && moved.source != "":
		moved.holds = h
	}
}
