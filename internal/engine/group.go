package engine

import (
	"iter"
	"slices"
	"strings"
)

// Message groups of FIFO queues. A group is a line of messages in the order of their numbers, and what
// can be received of it depends on its first message: a group whose first message is hidden is locked,
// however many wait behind it. [FIFO-17]
//
// The rows follow from that. The group row knows the first message and how many there are; every other
// message has a line row; and the head index has one entry per group, the place of its first message in
// time. A receive looks at the head index alone to find groups that it can take from, so a locked group
// with a million messages costs it nothing, and a million groups cost it no more than one.

// A headClass tells apart why the first message of a group has the time it has.
type headClass byte

const (
	headFresh  headClass = 0 // never handed out: receivable since it was sent, or the queue's delay later
	headPlaced headClass = 1 // it stands in due: receivable since its place there
)

// headIndexes hold the first message of every group by time: fresh ones by the time they were sent, to
// which the delay of the queue is added when it is read, because a change of it acts on messages that
// are there. [FIFO-11]
var headIndexes = [...]index[string]{
	headFresh:  {name: "head", kind: kindHead, sub: []byte{byte(headFresh)}, read: decodeHead},
	headPlaced: {name: "head", kind: kindHead, sub: []byte{byte(headPlaced)}, read: decodeHead},
}

func encodeHead(b enc, group string) []byte {
	b.byte(rowVersion)
	b.string(group)
	return b
}

func decodeHead(value []byte) (group string, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
	group = d.string()
	return group, d.done()
}

// A line is one message of a group.
type line struct {
	seq  uint64
	sent int64
}

func encodeLine(b enc, sent int64) []byte {
	b.byte(rowVersion)
	b.int(sent)
	return b
}

func decodeLine(value []byte) (sent int64, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
	sent = d.int()
	return sent, d.done()
}

// A group is a group in memory: its row, and a window on its lines.
type group struct {
	name   string
	row    groupRow
	stored groupRow // as the store has it; zero when it has none

	lines   []line // the first messages of the group, row.first in front
	written uint64 // rows.applies when a line row was last written
	changed bool   // in queue.changed
	turn    uint64 // of the last use
	counted int    // in queue.lineRoom
}

// A groupRow is what the store knows about a group that has messages.
type groupRow struct {
	count   uint64
	first   line
	class   headClass
	at      int64  // place of the first message in the head index
	last    line   // the last message of the group; zero when that is not known
	founder uint64 // the message with which the group began: the only one without a line row
	placed  uint64 // no message behind this one has ever been in due
}

func (r *groupRow) pos() pos { return pos{at: r.at, seq: r.first.seq} }

func (r *groupRow) encode(b enc) []byte {
	b.byte(rowVersion)
	b.uint(r.count)
	b.uint(r.first.seq)
	b.int(r.first.sent)
	b.byte(byte(r.class))
	b.int(r.at)
	b.uint(r.last.seq)
	b.int(r.last.sent)
	b.uint(r.founder)
	b.uint(r.placed)
	return b
}

func decodeGroupRow(value []byte) (r groupRow, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
	r.count = d.uint()
	r.first = line{d.uint(), d.int()}
	r.class, r.at = headClass(d.byte()), d.int()
	r.last = line{d.uint(), d.int()}
	r.founder, r.placed = d.uint(), d.uint()
	return r, d.done() && r.count > 0 && r.class <= headPlaced
}

// whole reports whether every line of the group is in memory.
func (g *group) whole() bool { return uint64(len(g.lines)) == g.row.count }

// group returns the group of that name, which may be empty.
func (e *Engine) group(q *queue, name string) *group {
	g := q.groups[name]
	if g == nil {
		g = &group{name: strings.Clone(name), turn: e.turn - 1}
		k := groupKey(q.row.space, name)
		if value, ok := e.rows.get(k); ok {
			if g.row, ok = decodeGroupRow(value); !ok {
				e.rows.damaged("group", k)
			}
			g.stored = g.row
			g.lines = append(g.lines, g.row.first)
		}
		q.groups[g.name] = g
		q.groupOrder = append(q.groupOrder, g.name)
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
	space := q.row.space
	for _, g := range q.changed {
		g.changed = false
		now, old := &g.row, &g.stored
		if old.count > 0 && (now.count == 0 || now.class != old.class || now.pos() != old.pos()) {
			e.rows.delete(headIndexes[old.class].key(space, old.pos()))
		}
		switch {
		case now.count == 0 && old.count > 0:
			e.rows.delete(groupKey(space, g.name))
		case now.count > 0:
			if old.count == 0 || now.class != old.class || now.pos() != old.pos() {
				e.rows.set(headIndexes[now.class].key(space, now.pos()), encodeHead(e.rows.scratch(), g.name))
			}
			e.rows.set(groupKey(space, g.name), now.encode(e.rows.scratch()))
		}
		g.stored = g.row
	}
	q.changed = q.changed[:0]
}

// linesMax bounds the lines of one group that are read at a time.
const linesMax = 256

// loadLines makes sure that the first n messages of a group are in memory, or all of them.
func (e *Engine) loadLines(q *queue, g *group, n int) {
	if n > 1 && len(g.lines) == 1 && g.row.count == 2 && g.row.last.seq != 0 {
		g.lines = append(g.lines, g.row.last)
	}
	for len(g.lines) < n && !g.whole() {
		limit := max(n-len(g.lines), min(e.cfg.Window, linesMax))
		from := g.lines[len(g.lines)-1].seq + 1
		rows := lineSpan(q.row.space, g.name, from)
		scan := e.rows.store.Scan
		if g.written == e.rows.applies { // in the open batch may be lines of this group
			scan = func(lo, hi []byte) iter.Seq2[[]byte, []byte] { return e.scan(span{lo, hi}) }
		}
		for k, v := range scan(rows.lo, rows.hi) {
			sent, ok := decodeLine(v)
			if !ok || lineSeq(k) < from {
				e.rows.damaged("line", k)
			}
			g.lines = append(g.lines, line{lineSeq(k), sent})
			if limit--; limit == 0 {
				break
			}
		}
		if limit > 0 && !g.whole() {
			e.rows.damaged("group", groupKey(q.row.space, g.name))
		}
	}
}

// join puts a message that has just entered the queue at the end of its group.
func (e *Engine) join(q *queue, m *message) {
	g := e.group(q, m.group)
	l := line{m.seq, m.sent}
	if m.hasDelivery {
		g.row.placed = m.seq
	}
	g.row.last = l
	if g.row.count == 0 {
		g.row.founder = m.seq
		g.lines = append(g.lines[:0], l)
		g.row.count = 1
		e.lead(q, g, m)
		return
	}
	e.rows.set(lineKey(q.row.space, g.name, m.seq), encodeLine(e.rows.scratch(), l.sent))
	g.written = e.rows.applies
	if g.whole() && len(g.lines) < linesMax {
		g.lines = append(g.lines, l)
	}
	g.row.count++
	q.change(g)
}

// lead makes the first line of a group its head. M is the message, nil when it is one that was never
// handed out.
func (e *Engine) lead(q *queue, g *group, m *message) {
	g.row.first = g.lines[0]
	g.row.class, g.row.at = headFresh, g.row.first.sent
	if m != nil && m.hasDelivery {
		g.row.class, g.row.at = headPlaced, m.at
	}
	x := g.row.class
	q.heads[x].insert(entry[string]{g.row.pos(), g.name})
	if g.row.pos().less(q.st.headLow[x]) {
		q.st.headLow[x], q.stDirty = g.row.pos(), true
	}
	q.change(g)
}

// unlead takes a group out of the head index.
func (e *Engine) unlead(q *queue, g *group) {
	x, p := g.row.class, g.row.pos()
	q.heads[x].remove(p)
	q.st.headLow[x], q.stDirty = q.heads[x].low(p), true
	q.change(g)
}

// placed notes that a message of a group has been given a place in due.
func (e *Engine) placed(q *queue, m *message) {
	g := e.group(q, m.group)
	if m.seq > g.row.placed {
		g.row.placed = m.seq
		q.change(g)
	}
	if g.row.count > 0 && g.row.first.seq == m.seq {
		e.unlead(q, g)
		e.lead(q, g, m)
	}
}

// lineOf returns the message of a line, nil when it was never handed out.
func (e *Engine) lineOf(q *queue, g *group, l line) *message {
	if l.seq > g.row.placed {
		return nil
	}
	return e.find(q, l.seq)
}

// leave takes a message out of its group. The two first lines of the group must be in memory when the
// message is the first one. When it was, the next one can be received from now on.
func (e *Engine) leave(q *queue, m *meta) {
	g := e.group(q, m.group)
	if g.row.count == 0 {
		broken("queue %s: message %d leaves the empty group %s", q.name.Name, m.seq, g.name)
	}
	if m.seq != g.row.founder {
		e.rows.delete(lineKey(q.row.space, g.name, m.seq))
		g.written = e.rows.applies
	}
	if m.seq == g.row.last.seq {
		g.row.last = line{}
	}
	q.change(g)
	if m.seq != g.row.first.seq {
		for i, l := range g.lines {
			if l.seq == m.seq {
				g.lines = append(g.lines[:i], g.lines[i+1:]...)
				break
			}
		}
		g.row.count--
		return
	}
	e.unlead(q, g)
	g.lines = g.lines[1:]
	if g.row.count--; g.row.count == 0 {
		return
	}
	if len(g.lines) == 0 {
		broken("queue %s: group %s has %d messages and none of them is known", q.name.Name, g.name, g.row.count)
	}
	e.lead(q, g, e.lineOf(q, g, g.lines[0]))
}

// prepareLeave reads what leave needs when up to n messages of m's group leave it. It is called before
// the first write of a command.
func (e *Engine) prepareLeave(q *queue, m *message, n int) {
	if q.fifo() {
		e.needMeta(q, m)
		e.loadLines(q, e.group(q, m.group), n+1)
	}
}

// trimGroups forgets groups and lines beyond the window after a turn. Groups that are empty are kept as
// well: to find out again that a group has no row is the most expensive of all lookups.
func (q *queue) trimGroups(window int) {
	for _, g := range q.usedGroups {
		if len(g.lines) > max(window, 1) {
			g.lines = slices.Clone(g.lines[:max(window, 1)])
		}
		q.lineRoom += cap(g.lines) - g.counted
		g.counted = cap(g.lines)
	}
	q.usedGroups = q.usedGroups[:0]
	for len(q.groups) > window {
		if g := q.groups[q.groupOrder[0]]; g != nil {
			q.lineRoom -= g.counted
			delete(q.groups, g.name)
		}
		q.groupOrder = q.groupOrder[1:]
	}
	if len(q.groupOrder) > 2*len(q.groups)+64 {
		q.groupOrder = slices.DeleteFunc(slices.Clone(q.groupOrder), func(name string) bool { return q.groups[name] == nil })
	}
}
