package engine

import (
	"slices"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Held groups. On a FIFO queue with the tag tenaq:fifo-on-dead-letter, a dead letter holds its
// group: nothing of it is delivered until the dead letter is back or gone. [HOLD-1]
//
// The row of the group has a slot for the dead letter, in the order of the group. It names the
// place of the dead letter, which is a message of another queue. That message has a hold row beside
// it, which names the group. So whatever removes a dead letter ends its hold in the same batch, and
// a message that comes back finds its slot. A slot whose dead letter is gone would hold its group
// forever: package verify looks for those.
//
// A held group stands in a class of heads of its own. Receives do not read it.

// noHold is what a message has that holds no group.
var noHold = new(row.Hold)

// holdsStep is how many holds one Apply ends.
const holdsStep = 100

// holdsBehind reports whether the dead letters of a queue hold their groups. [HOLD-1, HOLD-9]
func (q *queue) holdsBehind(target *queue) bool {
	return q.ext.HoldGroup && target != nil && target != q
}

// isFirst reports whether a message is the first one of its group.
func (e *Engine) isFirst(q *queue, m *message) bool {
	return e.group(q, m.Group).row.First.Seq == m.Seq
}

// prepareHold reads what slotFor and leave need for up to n messages of a group.
func (e *Engine) prepareHold(q *queue, m *message, n int) {
	e.loadLines(q, e.group(q, m.Group), sqslimits.ReceiveMax+n)
}

// slotFor returns the index of the slot that a message gets when it becomes a dead letter. Messages
// before it get slots as well: their numbers would not say that they stand before it.
func (e *Engine) slotFor(q *queue, m *message) (at int) {
	g := e.group(q, m.Group)
	if at = g.row.SlotOf(0, m.Seq); at >= 0 {
		return at
	}
	front := slices.Clone(g.row.Front)
	for _, l := range g.lines[len(g.row.Ahead()):] {
		if l.Seq == m.Seq {
			g.row.Front = front
			return len(front)
		}
		if l.Seq != g.row.Founder {
			e.rows.delete(row.LineKey(q.row.Space, g.name, l.Seq))
			g.written = e.rows.applies
		}
		front = append(front, row.Slot{Seq: l.Seq, Sent: l.Sent})
	}
	broken("queue %s: message %d is to hold group %s, and is not among its first ones", q.name.Name,
		m.Seq, g.name)
	return 0
}

// beginHold gives a message that has moved to the dead-letter queue its slot. M is what it was.
func (e *Engine) beginHold(q, to *queue, m, moved *message, at int) {
	g := e.group(q, m.Group)
	if !g.row.IsHeld() {
		if g.row.Count > 0 {
			e.unlead(q, g)
		}
		g.row.Class, g.row.At, g.row.Held = row.HeadHeld, e.now, m.Seq
	}
	g.row.Front = slices.Insert(slices.Clone(g.row.Front), at,
		row.Slot{Space: to.row.Space, Seq: moved.Seq})
	q.change(g)
	e.setHold(to, moved, &row.Hold{Queue: q.name, Group: g.name})
	if !e.sys.Holds {
		e.sys.Holds, e.sys.dirty = true, true
	}
}

// setHold writes the hold row of a message.
func (e *Engine) setHold(q *queue, m *message, h *row.Hold) {
	m.held, m.heldIn = h, e.turn
	e.rows.set(row.SeqKey(q.row.Space, row.KindHold, m.Seq), h.Encode(e.rows.scratch()))
}

// holdOf returns which group a message holds, whose metadata must be known; nil for none.
func (e *Engine) holdOf(q *queue, m *message) *row.Hold {
	if !q.fifo() || m.Source == "" {
		return nil
	}
	if m.held == nil || m.heldIn != e.turn {
		m.held, m.heldIn = noHold, e.turn
		k := e.rows.seqKey(q.row.Space, row.KindHold, m.Seq)
		if h, ok := read(&e.rows, "hold", k, row.DecodeHold); ok {
			m.held = &h
		}
	}
	if m.held == noHold {
		return nil
	}
	return m.held
}

// forgetHold removes the hold row of a message.
func (e *Engine) forgetHold(q *queue, m *message) {
	m.held, m.heldIn = noHold, e.turn
	e.rows.delete(row.SeqKey(q.row.Space, row.KindHold, m.Seq))
}

// dropHold removes the hold row of a message that stays in its queue. What is in memory must not
// remove it again: what a command writes depends on the rows alone.
func (e *Engine) dropHold(space, seq uint64) {
	e.rows.delete(row.SeqKey(space, row.KindHold, seq))
	for _, q := range e.touched {
		if m := q.msgs.of[seq]; q.row.Space == space && m != nil {
			m.held, m.heldIn = noHold, e.turn
		}
	}
}

// letGo ends the hold of a message that is removed, if it holds a group. [HOLD-5]
func (e *Engine) letGo(q *queue, m *message) {
	if h := e.holdOf(q, m); h != nil {
		e.forgetHold(q, m)
		e.endHold(h, q.row.Space, m.Seq)
	}
}

// slotIn returns the group that a hold names and the index of the slot of a dead letter there;
// false if it has none, because the hold was ended or the queue is gone.
func (e *Engine) slotIn(h *row.Hold, space, seq uint64) (q *queue, g *group, at int, ok bool) {
	q, err := e.lookup(h.Queue)
	if err != nil {
		return nil, nil, 0, false
	}
	g = e.group(q, h.Group)
	at = g.row.SlotOf(space, seq)
	return q, g, at, at >= 0
}

// endHold removes the slot of a dead letter.
func (e *Engine) endHold(h *row.Hold, space, seq uint64) {
	if q, g, at, ok := e.slotIn(h, space, seq); ok {
		e.setFront(q, g, slices.Delete(slices.Clone(g.row.Front), at, at+1))
	}
}

// setFront changes the slots of a held group. Without a dead letter, it is held no more.
func (e *Engine) setFront(q *queue, g *group, front []row.Slot) {
	g.row.Front = front
	q.change(g)
	switch {
	case g.row.Count == 0:
	case g.row.IsHeld():
		g.row.First = g.lines[0]
	default:
		e.lead(q, g, e.lineOf(q, g, g.lines[0]))
	}
	if !g.row.IsHeld() {
		e.stir(q)
	}
}

// carryHold is called before a message moves. It says where the message enters, if it holds a group
// and comes back to it [HOLD-3], or which hold it keeps, if it is put behind its own queue.
func (e *Engine) carryHold(from, to *queue, m, moved *message) (kept *row.Hold) {
	h := e.holdOf(from, m)
	if h == nil || moved.Group != h.Group {
		return nil
	}
	switch _, _, _, ok := e.slotIn(h, from.row.Space, m.Seq); {
	case !ok:
	case to.name == h.Queue:
		moved.back = row.Slot{Space: from.row.Space, Seq: m.Seq}
		e.forgetHold(from, m)
	case to == from && moved.Source != "":
		e.forgetHold(from, m)
		return h
	}
	return nil
}

// keepHold gives a message that was put behind its own queue its hold again.
func (e *Engine) keepHold(q *queue, before uint64, moved *message, h *row.Hold) {
	if source, g, at, ok := e.slotIn(h, q.row.Space, before); ok {
		g.row.Front = slices.Clone(g.row.Front)
		g.row.Front[at].Seq = moved.Seq
		source.change(g)
		e.setHold(q, moved, h)
	}
}

// rejoin puts a message that came back into the slot that its dead letter had.
func (e *Engine) rejoin(q *queue, g *group, l row.Line, back row.Slot) {
	at := g.row.SlotOf(back.Space, back.Seq)
	if at < 0 {
		broken("queue %s: message %d comes back to group %s, which has no slot for it", q.name.Name,
			l.Seq, g.name)
	}
	front := slices.Clone(g.row.Front)
	front[at] = row.Slot{Seq: l.Seq, Sent: l.Sent}
	ahead := g.row.Ahead()
	if len(g.lines) < len(ahead) {
		g.lines = ahead
	}
	before := 0
	for _, s := range front[:at] {
		if !s.Dead() {
			before++
		}
	}
	g.lines = slices.Insert(g.lines, before, l)
	g.row.Count++
	e.setFront(q, g, front)
}

// free ends the holds of a group, and returns how many dead letters held it. [HOLD-6]
func (e *Engine) free(q *queue, g *group) (n int) {
	var front []row.Slot
	for _, s := range g.row.Front {
		if s.Dead() {
			e.dropHold(s.Space, s.Seq)
			n++
		} else {
			front = append(front, s)
		}
	}
	if n > 0 {
		e.setFront(q, g, front)
	}
	return n
}

// freeAll ends the holds of a queue, a few in each Apply, and reports whether none is left.
// [HOLD-7]
func (e *Engine) freeAll(q *queue) (done bool) {
	index := &row.HeadRows[row.HeadHeld]
	var names []string
	for k, v := range e.scan(index.From(q.row.Space, row.Pos{})) {
		names = append(names, entryOf(e, index, k, v).value)
		if len(names) == holdsStep {
			break
		}
	}
	for _, name := range names {
		e.free(q, e.group(q, name))
	}
	e.rows.boundary()
	return len(names) < holdsStep
}

// letAllGo ends the holds of the dead letters in a queue that is purged or deleted, a few in each
// Apply, and reports whether none is left. [HOLD-8]
func (e *Engine) letAllGo(q *queue) (done bool) {
	type held struct {
		row.Hold
		seq uint64
	}
	var found []held
	span := row.SeqSpan(q.row.Space, row.KindHold, 0, q.st.NextSeq)
	for k, v := range e.scan(span) {
		found = append(found, held{decoded(&e.rows, "hold", k, v, row.DecodeHold), row.SeqOf(k)})
		if len(found) == holdsStep {
			break
		}
	}
	for i := range found {
		e.dropHold(q.row.Space, found[i].seq)
		e.endHold(&found[i].Hold, q.row.Space, found[i].seq)
	}
	e.rows.boundary()
	return len(found) < holdsStep
}
