package engine

import (
	"slices"

	"tenaq/internal/engine/row"
)

// Priorities. On a queue with the tag, messages of level 0 are where they always are: fresh or in
// due. A message of a higher level enters through an index of the same form as due that its level
// has for itself, and stays there until it is removed. So the order within each index is that of
// time, a timeout ends without a write, and a receive compares no more than the first entries of
// ten indexes and of the fresh messages.
//
// Waiting raises all messages alike. So the one to be received next is the one with the earliest
// rank: the time since which it is available, less a step for each level. Nothing about the step is
// stored, and another step holds at once. [EXT-46 to EXT-50]

// priorityAttribute is the message attribute that names the level.
const priorityAttribute = "tenaq.priority"

// levelOf returns the level that the attributes of a message name, or what is wrong with it.
func levelOf(attributes []Attribute) (level byte, wrong *Error) {
	for _, a := range attributes {
		if a.Name != priorityAttribute {
			continue
		}
		value := a.String
		if row.IsBinary(a.Type) {
			value = a.Type
		} else if len(value) == 1 && '0' <= value[0] && value[0] <= '9' {
			return value[0] - '0', nil
		}
		return 0, errValue(value, priorityAttribute, "Must be a whole number from 0 to 9, of the "+
			"type Number or String. 9 is the most urgent.")
	}
	return 0, nil
}

// levelIn is levelOf for a message that moves, which cannot be refused.
func levelIn(attributes []Attribute) byte {
	level, _ := levelOf(attributes)
	return level
}

// carriedLevel returns the level of a message that moves with the content it has.
func (e *Engine) carriedLevel(from, to *queue, m *message, carried []byte) byte {
	if to.ext.Priority == 0 {
		return 0
	}
	c, ok := row.DecodeContentHead(carried)
	if !ok {
		e.rows.damaged("content", row.SeqKey(from.row.Space, row.KindMessage, m.Seq))
	}
	return levelIn(c.Attributes)
}

// giveLevel gives a new message its level. One above 0 enters through the index of its level, also
// if it is available at once.
func (e *Engine) giveLevel(q *queue, m *message, level byte) {
	if m.Level = 0; level == 0 || q.ext.Priority == 0 {
		return
	}
	if m.Source == e.arn(q.name) {
		// A dead letter of its own queue moves again at the next receive. It must not come before
		// what can be delivered. [EXT-51]
		return
	}
	if m.Level = level; !m.Scheduled() {
		m.Flags |= row.FlagScheduled
		m.At, m.Kind = e.now, row.DueReturned
	}
	if q.st.LevelLow == nil {
		q.st.LevelLow, q.stDirty = make([]row.Pos, row.LevelMax), true
		q.forgetLevels()
	}
}

// forgetLevels drops the windows on the levels.
func (q *queue) forgetLevels() {
	q.levels = nil
	for i := range q.st.LevelLow {
		q.levels = append(q.levels, windowOf(&row.LevelRows[i], q, &q.st.LevelLow[i]))
	}
}

// dueOf returns the window on the index in which messages of a level wait.
func (q *queue) dueOf(level byte) *window[row.DueKind] {
	if level == 0 {
		return &q.due
	}
	return &q.levels[level-1]
}

// dueBetween returns the first entries from lo to hi of all levels, at most limit of them, by time.
func (e *Engine) dueBetween(q *queue, lo, hi row.Pos, limit int) []entry[row.DueKind] {
	found := q.due.between(e, lo, hi, limit)
	if len(q.levels) == 0 {
		return found
	}
	for i := range q.levels {
		found = append(found, q.levels[i].between(e, lo, hi, limit)...)
	}
	slices.SortFunc(found, func(a, b entry[row.DueKind]) int { return a.Compare(b.Pos) })
	return found[:min(len(found), limit)]
}

// A dueWalk visits what is available in due and in the levels, by rank.
type dueWalk struct {
	step  int64
	taken [1 + row.LevelMax]int // entries of each level that were visited

	// unexpired, while expiry is paused, has the entries of the levels, from 1 on, without those
	// that expired before they were ever handed out: they would hide the others. [CLOCK-7]
	unexpired [][]entry[row.DueKind]
}

// A ranked is an entry of a level, and where it is in the order of receives.
type ranked struct {
	row.Pos
	level int
	rank  row.Pos
}

func (e *Engine) dueFrom(q *queue, step int64) (w dueWalk) {
	w.step = step
	if e.expiryPaused {
		lo := row.LastAt(e.now - q.row.Attributes.Retention()).Next()
		for i := range q.levels {
			w.unexpired = append(w.unexpired,
				q.levels[i].between(e, lo, row.LastAt(e.now), looksMax))
		}
	}
	return w
}

// first returns the available entry with the earliest rank; false if there is none.
func (w *dueWalk) first(e *Engine, q *queue) (found ranked, ok bool) {
	if i := w.taken[0]; q.due.load(e, i) && q.due.at(i).At <= e.now {
		found, ok = ranked{Pos: q.due.at(i).Pos, rank: q.due.at(i).Pos}, true
	}
	for i := range q.levels {
		next, there := w.next(e, q, i)
		if !there || next.At > e.now {
			continue
		}
		rank := row.Pos{At: next.At - int64(i+1)*w.step, Seq: next.Seq}
		if !ok || rank.Less(found.rank) {
			found, ok = ranked{next, i + 1, rank}, true
		}
	}
	return found, ok
}

// next returns the next entry of the level i+1.
func (w *dueWalk) next(e *Engine, q *queue, i int) (p row.Pos, ok bool) {
	n := w.taken[i+1]
	if w.unexpired != nil {
		if n < len(w.unexpired[i]) {
			return w.unexpired[i][n].Pos, true
		}
		return p, false
	}
	if l := &q.levels[i]; l.load(e, n) {
		return l.at(n).Pos, true
	}
	return p, false
}
