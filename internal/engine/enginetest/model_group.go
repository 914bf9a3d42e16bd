package enginetest

import (
	"cmp"
	"fmt"
	"slices"

	"tenaq/internal/engine"
)

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

// A modelRank is where a group stands in the order of groups at a moment: in a part of it, and
// there by a time. [V1-10, HOLD-10]
type modelRank struct {
	part int // held, locked, locked by the delay of the queue, the same two not locked
	at   int64
	seq  uint64
}

func (r modelRank) compare(other modelRank) int {
	return cmp.Or(cmp.Compare(r.part, other.part), cmp.Compare(r.at, other.at),
		cmp.Compare(r.seq, other.seq))
}

// A modelGroupPage says where a page of groups begins, and at which moment the first page was.
type modelGroupPage struct {
	behind     modelRank
	now, fresh int64 // a place, and a send, after it is locked
}

// groupNames returns the groups that have messages or are held.
func (m *Model) groupNames(q *modelQueue) (names []string) {
	for _, group := range q.groups() {
		names = append(names, group[0].entry.Group.Value)
	}
	for _, other := range m.queues { // order does not matter: it is sorted
		for _, msg := range other.messages {
			if msg.holds.of(q) {
				names = append(names, msg.holds.group)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// peekGroup shows a group, and says where it stands.
func (m *Model) peekGroup(
	q *modelQueue, name string, at modelGroupPage,
) (g engine.PeekedGroup, rank modelRank) {
	g = engine.PeekedGroup{Group: name, State: engine.StateVisible}
	i := slices.IndexFunc(q.groups(), func(group []*modelMessage) bool {
		return group[0].entry.Group.Value == name
	})
	if i >= 0 {
		group := q.groups()[i]
		first := group[0]
		g.Messages, g.First.ID, g.VisibleAt = uint64(len(group)), first.id, q.due(first)
		if first.kind == delayed { // it was never handed out
			rank = modelRank{4, first.sent, first.seq}
			if first.sent > at.fresh {
				rank.part = 2
			}
		} else {
			rank = modelRank{3, first.at, first.seq}
			if first.at > at.now {
				rank.part = 1
			}
		}
		if kind := q.state(first, m.now); kind == inFlight {
			g.State = engine.StateInFlight
		} else if kind == delayed {
			g.State = engine.StateDelayed
		}
	}
	letters := m.heldBy(q, name)
	slices.SortFunc(letters, func(a, b *modelMessage) int {
		return cmp.Compare(a.holds.place, b.holds.place)
	})
	for _, letter := range letters {
		g.State, g.VisibleAt = engine.StateHeld, letter.holds.since.at
		rank = letter.holds.since
		g.HeldBy = append(g.HeldBy, engine.Holder{Queue: m.whereIs(letter), ID: letter.id})
	}
	return g, rank
}

// whereIs returns the queue that a message is in.
func (m *Model) whereIs(msg *modelMessage) (found engine.QueueName) {
	for name, q := range m.queues { // order does not matter: it is in one of them
		if slices.Contains(q.messages, msg) {
			found = name
		}
	}
	return found
}

// peekGroups shows the groups of a queue. All pages have the order of the first one.
func (m *Model) peekGroups(q *modelQueue, op *engine.PeekGroups) *engine.Error {
	at := modelGroupPage{modelRank{part: -1}, m.now, m.now - q.number("DelaySeconds")*1000}
	of := fmt.Sprintf("%x", q.incarnation)
	if !q.fifo() {
		return modelBadValue(q.name.Name, "queue",
			"It is not a FIFO queue: only those have message groups.")
	}
	if op.After != "" {
		var queue string
		_, err := fmt.Sscan(op.After, &queue, &at.behind.part, &at.behind.at, &at.behind.seq,
			&at.now, &at.fresh)
		if err != nil || queue != of {
			return modelBadValue(op.After, "after", "It is not a place in the groups of this queue.")
		}
	}
	m.settle(q)
	type ranked struct {
		engine.PeekedGroup
		modelRank
	}
	var found []ranked
	for _, name := range m.groupNames(q) {
		g, rank := m.peekGroup(q, name, at)
		if op.Group == name || op.Group == "" && rank.compare(at.behind) > 0 &&
			(!op.Locked || rank.part <= 2) {
			found = append(found, ranked{g, rank})
		}
	}
	slices.SortFunc(found, func(a, b ranked) int { return a.compare(b.modelRank) })
	op.Groups, op.Next = nil, ""
	if len(found) > op.Max {
		found = found[:op.Max]
		last := found[op.Max-1]
		op.Next = fmt.Sprintln(of, last.part, last.at, last.seq, at.now, at.fresh)
	}
	for _, g := range found {
		if !op.Locked || g.State != engine.StateVisible {
			op.Groups = append(op.Groups, g.PeekedGroup)
		}
	}
	return nil
}
