package engine

import (
	"iter"
	"slices"
	"strings"

	"tenaq/internal/engine/row"
)

// Message groups of FIFO queues. A group is a line of messages in the order of their numbers. What
// can be received of it depends on its first message: if that is hidden, the group is locked,
// however many messages wait behind it. [FIFO-17]
//
// A dead letter may hold a group. [HOLD-1] File held.go says how.
//
// So the group row knows the first message and the number of messages, every other message has a
// line row, and the head index has one entry per group: the place of its first message in time. A
// receive finds its groups in the head index alone. A locked group with a million messages costs it
// nothing, and a million groups cost it no more than one.

// A group is a group in memory: its row, and a window on its lines.
type group struct {
	name   string
	row    row.Group
	stored row.Group // as the store has it; zero when it has none

	lines   []row.Line // the first messages of the group, row.first in front
	written uint64     // rows.applies when a line row was last written
	changed bool       // in queue.changed
	turn    uint64     // of the last use
	counted int        // in queue.lineRoom
}

// whole reports whether every line of the group is in memory.
func (g *group) whole() bool { return uint64(len(g.lines)) == g.row.Count }

// group returns the group of that name, which may be empty.
func (e *Engine) group(q *queue, name string) *group {
	g := q.groups.of[name]
	if g == nil {
		g = &group{name: strings.Clone(name), turn: e.turn - 1}
		k := row.GroupKey(q.row.Space, name)
		var ok bool
		if g.row, ok = read(&e.rows, "group", k, row.DecodeGroup); ok {
			g.stored = g.row
			if g.lines = g.row.Ahead(); len(g.lines) == 0 && g.row.Count > 0 {
				g.lines = append(g.lines, g.row.First)
			}
		}
		q.groups.put(g.name, g)
	}
	if g.turn != e.turn {
		g.turn = e.turn
		q.usedGroups = append(q.usedGroups, g)
	}
	return g
}

// change marks a group whose row has to be written.
func (q *queue) change(g *group) {
	if !g.changed {
		g.changed = true
		q.changed = append(q.changed, g)
	}
}

// saveGroups writes the rows of the groups that have changed.
func (e *Engine) saveGroups(q *queue) {
	space := q.row.Space
	for _, g := range q.changed {
		g.changed = false
		now, old := &g.row, &g.stored
		if old.Exists() && (!now.Exists() || now.Class != old.Class || now.Pos() != old.Pos()) {
			e.rows.delete(row.HeadRows[old.Class].Key(space, old.Pos()))
		}
		switch {
		case !now.Exists() && old.Exists():
			e.rows.delete(row.GroupKey(space, g.name))
		case now.Exists():
			if !old.Exists() || now.Class != old.Class || now.Pos() != old.Pos() {
				e.rows.set(row.HeadRows[now.Class].Key(space, now.Pos()),
					row.EncodeHead(e.rows.scratch(), g.name))
			}
			e.rows.set(row.GroupKey(space, g.name), now.Encode(e.rows.scratch()))
		}
		g.stored = g.row
	}
	q.changed = q.changed[:0]
}

// linesMax bounds the lines of one group that are read at a time.
const linesMax = 256

// loadLines makes sure that the first n messages of a group are in memory, or all of them.
func (e *Engine) loadLines(q *queue, g *group, n int) {
	ahead := g.row.Ahead()
	if len(g.lines) < len(ahead) {
		g.lines = ahead
	}
	if n > 1 && len(g.lines) == 1 && g.row.Count == 2 && g.row.Last.Seq != 0 {
		g.lines = append(g.lines, g.row.Last)
	}
	for len(g.lines) < n && !g.whole() {
		limit := max(n-len(g.lines), min(e.cfg.Window, linesMax))
		from := uint64(0)
		if len(g.lines) > len(ahead) {
			from = g.lines[len(g.lines)-1].Seq + 1
		}
		rows := row.LineSpan(q.row.Space, g.name, from)
		scan := e.rows.store.Scan
		if g.written == e.rows.applies { // in the open batch may be lines of this group
			scan = func(lo, hi []byte) iter.Seq2[[]byte, []byte] {
				return e.scan(row.Span{Lo: lo, Hi: hi})
			}
		}
		for k, v := range scan(rows.Lo, rows.Hi) {
			sent, ok := row.DecodeLine(v)
			if !ok || row.LineSeq(k) < from {
				e.rows.damaged("line", k)
			}
			g.lines = append(g.lines, row.Line{Seq: row.LineSeq(k), Sent: sent})
			if limit--; limit == 0 {
				break
			}
		}
		if limit > 0 && !g.whole() {
			e.rows.damaged("group", row.GroupKey(q.row.Space, g.name))
		}
	}
}

// join puts a message that has just entered the queue at the end of its group.
func (e *Engine) join(q *queue, m *message) {
	g := e.group(q, m.Group)
	l := row.Line{Seq: m.Seq, Sent: m.Sent}
	if m.hasDelivery {
		g.row.Placed = m.Seq
	}
	if m.back != (row.Slot{}) {
		e.rejoin(q, g, l, m.back)
		return
	}
	g.row.Last = l
	if !g.row.Exists() {
		g.row.Founder = m.Seq
		g.lines = append(g.lines[:0], l)
		g.row.Count = 1
		e.lead(q, g, m)
		return
	}
	e.rows.set(row.LineKey(q.row.Space, g.name, m.Seq), row.EncodeLine(e.rows.scratch(), l.Sent))
	g.written = e.rows.applies
	if g.row.Count == 0 { // it is held
		g.row.First = l
	}
	if g.whole() && len(g.lines) < linesMax {
		g.lines = append(g.lines, l)
	}
	g.row.Count++
	q.change(g)
}

// lead makes the first line of a group its head. M is its message, nil if it was never handed out.
func (e *Engine) lead(q *queue, g *group, m *message) {
	g.row.First = g.lines[0]
	q.change(g)
	if g.row.IsHeld() {
		return
	}
	g.row.Class, g.row.At = row.HeadFresh, g.row.First.Sent
	if m != nil && m.hasDelivery {
		g.row.Class, g.row.At = row.HeadPlaced, m.At
	}
	q.heads[g.row.Class].insert(g.row.Pos(), g.name)
}

// unlead takes a group out of the head index.
func (e *Engine) unlead(q *queue, g *group) {
	q.change(g)
	if g.row.Class != row.HeadHeld {
		q.heads[g.row.Class].remove(g.row.Pos())
	}
}

// placed notes that a message of a group has been given a place in due.
func (e *Engine) placed(q *queue, m *message) {
	g := e.group(q, m.Group)
	if m.Seq > g.row.Placed {
		g.row.Placed = m.Seq
		q.change(g)
	}
	if g.row.Count > 0 && g.row.First.Seq == m.Seq {
		e.unlead(q, g)
		e.lead(q, g, m)
	}
}

// lineOf returns the message of a line, nil when it was never handed out.
func (e *Engine) lineOf(q *queue, g *group, l row.Line) *message {
	if l.Seq > g.row.Placed {
		return nil
	}
	return e.find(q, l.Seq)
}

// leave takes a message out of its group. If it is the first one, the next one becomes available,
// and the first two lines of the group must be in memory.
func (e *Engine) leave(q *queue, m *row.Meta) {
	g := e.group(q, m.Group)
	if g.row.Count == 0 {
		broken("queue %s: message %d leaves the empty group %s", q.name.Name, m.Seq, g.name)
	}
	if i := g.row.SlotOf(0, m.Seq); i >= 0 {
		g.row.Front = slices.Delete(slices.Clone(g.row.Front), i, i+1)
	} else if m.Seq != g.row.Founder {
		e.rows.delete(row.LineKey(q.row.Space, g.name, m.Seq))
		g.written = e.rows.applies
	}
	if m.Seq == g.row.Last.Seq {
		g.row.Last = row.Line{}
	}
	q.change(g)
	if m.Seq != g.row.First.Seq {
		for i, l := range g.lines {
			if l.Seq == m.Seq {
				g.lines = append(g.lines[:i], g.lines[i+1:]...)
				break
			}
		}
		g.row.Count--
		return
	}
	e.unlead(q, g)
	g.lines = g.lines[1:]
	if g.row.Count--; g.row.Count == 0 {
		g.row.First = row.Line{}
		return
	}
	if len(g.lines) == 0 {
		broken("queue %s: group %s has %d messages and none of them is known", q.name.Name, g.name,
			g.row.Count)
	}
	e.lead(q, g, e.lineOf(q, g, g.lines[0]))
}

// prepareLeave reads what leave needs for up to n messages of m's group, before the first write of
// the command.
func (e *Engine) prepareLeave(q *queue, m *message, n int) {
	if q.fifo() {
		e.needMeta(q, m)
		e.loadLines(q, e.group(q, m.Group), n+1)
	}
}

// trimGroups forgets groups and lines beyond the window after a turn. It keeps empty groups as
// well, because looking up a group that has no row is the most expensive of all lookups.
func (q *queue) trimGroups(window int) {
	for _, g := range q.usedGroups {
		if len(g.lines) > max(window, 1) {
			g.lines = slices.Clone(g.lines[:max(window, 1)])
		}
		q.lineRoom += cap(g.lines) - g.counted
		g.counted = cap(g.lines)
	}
	q.usedGroups = q.usedGroups[:0]
	q.groups.trim(window, func(g *group) { q.lineRoom -= g.counted })
}
