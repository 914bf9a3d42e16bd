package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// Extensions are what SQS does not have. A tag of the queue switches one on. [TAG-10] Package
// extension lists them. This file makes a queue follow its tags.

// checkExtension refuses a tag whose extension there is not, or whose value it does not take.
func checkExtension(t Tag, fifo bool) *Error {
	reason, ofValue := extension.Check(t.Key, t.Value, fifo)
	switch {
	case ofValue:
		return errValue(t.Value, t.Key, reason)
	case reason != "":
		return invalid(reason)
	}
	return nil
}

// noExtensions is what every queue without such tags has.
var noExtensions = &extension.Set{}

// readExtensions reads the tags of a queue.
func (q *queue) readExtensions() {
	set := *noExtensions
	for _, t := range q.row.Tags {
		set.Add(t.Key, t.Value)
	}
	if q.ext = noExtensions; set != *noExtensions {
		q.ext = &set
	}
	if set.History == (extension.Bounds{}) {
		q.past = nil
		return
	}
	if q.past == nil {
		q.past = &past{}
	}
	q.past.bounds = set.History
}

// applyExtensions follows the tags of a queue after a change. Polls that wait for messages try
// again, because the answer to them may be another one now.
func (e *Engine) applyExtensions(q *queue) {
	old, kept, window := q.ext, q.past != nil, q.dedupWindow()
	if q.readExtensions(); *q.ext == *old {
		return
	}
	e.stir(q)
	e.rewindow(q, window)
	e.turnFair(q)
	if q.ext.Rate != old.Rate {
		e.beginTokens(q)
	}
	if kept && q.past == nil {
		e.rows.deleteRange(row.WholeHistory(q.row.Incarnation)) // [HIST-4]
		e.endReplay(q)
	}
}
