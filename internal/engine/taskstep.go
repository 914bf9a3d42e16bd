package engine

import (
	"slices"

	"tenaq/internal/engine/row"
)

// failureConfirm is why a delete fails that finds more messages than were confirmed. [TASK-6]
const failureConfirm = "MoreThanConfirmed"

// A picked message is one that a step of a task takes, and the queue that it goes to; nil when it
// is deleted.
type picked struct {
	*message
	to     *queue
	source string // ARN of the queue that it came from, if the task asks for it
	draft  *Draft // of what is sent in its place, if the task edits
}

// stepSelection carries a task that selects one step further: what it takes, and how far it has
// come, are one change. [TASK-9]
func (e *Engine) stepSelection(q *queue, t *task, most int, seed [16]byte) {
	s := e.selectFrom(q, &t.Filter, t.Place, t.Limit, t.sources())
	s.newest, s.contents = t.Newest, !t.Edit.None()
	var taken []picked
	failure, skipped := "", int64(0)
	allowed, size := t.allowance(e.now, most), int64(0)
	ofGroup := make(map[string]int) // of a FIFO queue: how many are taken
	whole := s.run(func(m *selected) bool {
		done := t.Moved + int64(len(taken))
		switch {
		case !m.receivable || !e.inOrder(q, t, m.meta, ofGroup[m.meta.Group]):
			skipped++
			return true
		case t.Most > 0 && done == t.Most:
			return false
		case t.Confirm > 0 && done == t.Confirm:
			failure = failureConfirm
			return false
		}
		var draft *Draft
		bytes := m.meta.Size
		if s.contents {
			draft = new(NewDraft(Edited(m.content, &t.Edit)))
			bytes = max(bytes, draft.size)
		}
		if size += bytes; len(taken) == allowed || len(taken) > 0 && size > moveBytesMax {
			return false
		}
		to, ok, gone := e.destinationOf(q, t, m.source)
		switch {
		case gone:
			failure = failureNoQueue
			return false
		case !ok || draft != nil && draft.checkInPlace(to, m.meta) != nil:
			skipped++
			return true
		}
		taken = append(taken, picked{&message{Meta: *m.meta}, to, m.source, draft})
		if q.fifo() {
			ofGroup[m.meta.Group]++
		}
		return true
	})
	e.loadPicked(q, taken)
	for _, m := range taken {
		e.checkAvailable(q, m.message)
	}
	// Everything has been read; from here on the step writes.
	for i, m := range taken {
		e.take(q, t, m, identity(seed, i))
	}
	e.passRemoved(q, taken)
	t.Place, t.Skipped, t.Stepped = s.place, t.Skipped+skipped, e.now
	t.spend(len(taken), e.now)
	switch {
	case failure != "":
		t.Status, t.Failure = row.TaskFailed, failure
	case whole || t.Most > 0 && t.Moved == t.Most:
		t.Status = row.TaskCompleted
	}
	e.saveTask(t)
}

// inOrder reports whether a message may move before those that it would leave behind. A task that
// moves all messages of a FIFO queue takes one only behind all others of its group, of which it has
// taken some already. [TASK-19]
func (e *Engine) inOrder(q *queue, t *task, m *row.Meta, taken int) bool {
	if !q.fifo() || t.Work == TaskDelete || !t.Filter.All() {
		return true
	}
	g := e.group(q, m.Group)
	e.loadLines(q, g, taken+1)
	return len(g.lines) > taken && g.lines[taken].Seq == m.Seq
}

// destinationOf returns the queue that a task moves a message to; nil for a delete. A message whose
// source is unknown or was deleted stays. [TASK-5] Gone says that the queue that the task names was
// deleted.
func (e *Engine) destinationOf(q *queue, t *task, source string) (to *queue, ok, gone bool) {
	if t.Work == TaskDelete {
		return nil, true, false
	}
	if t.Destination != (QueueName{}) {
		to, err := e.lookup(t.Destination)
		return to, err == nil, err != nil
	}
	to = e.sourceQueue(q, source)
	return to, to != nil, false
}

// sources reports whether the task asks where each message came from.
func (t *task) sources() bool {
	return t.Work == TaskPark || t.Work == TaskMove && t.Destination == (QueueName{})
}

// delay is how long the task delays what it moves to a queue. [TASK-21]
func (t *task) delay(to *queue) int64 {
	if t.Delays {
		return t.Delay
	}
	return to.row.Attributes.Delay()
}

// sourceQueue returns the queue that a message of a queue goes back to; nil if it has no source, or
// one that does not exist in the account. [TASK-2, TASK-5]
func (e *Engine) sourceQueue(of *queue, source string) *queue {
	name, ok := e.queueOfARN(source)
	if !ok || name.Account != of.name.Account {
		return nil
	}
	q, err := e.lookup(name)
	if err != nil || q.fifo() != of.fifo() {
		return nil
	}
	return q
}

// loadPicked puts what was picked into memory as remove needs it, and makes its rows readable.
func (e *Engine) loadPicked(q *queue, taken []picked) {
	leaving := make(map[string]int)
	for i, m := range taken {
		taken[i].message = e.messageOf(q, &m.Meta)
		if q.fifo() {
			leaving[m.Group]++
		}
	}
	for _, m := range taken {
		e.prepareLeave(q, m.message, leaving[m.Group])
	}
	if !q.fifo() && !e.expiryPaused {
		// The window then has one that stays, if there is one, for the cursor to move to.
		e.loadFresh(q, len(taken))
	}
	e.flush()
}

// messageOf returns the message of a row.
func (e *Engine) messageOf(q *queue, meta *row.Meta) *message {
	m := e.find(q, meta.Seq)
	switch {
	case m != nil:
	case q.fifo():
		m = e.freshOf(q, meta.Seq)
	case q.fair != nil:
		m = e.freshOf(q, meta.Seq)
		m.inside = true
	default:
		m = &message{inside: true}
	}
	m.Meta, m.hasMeta = *meta, true
	return m
}

// take carries out what a task does with one message.
func (e *Engine) take(q *queue, t *task, m picked, id MessageID) {
	switch {
	case m.draft != nil:
		e.sendInPlace(q, m.to, m.message, m.draft, t.delay(m.to), id)
	case t.Work == TaskMove:
		e.redrive(q, m.to, m.message, t.delay(m.to), id)
	case t.Work == TaskPark:
		e.park(q, m)
	default:
		e.countTimeout(q, m.message)
		e.tally(q).Deleted.Add(1) // no consumer handled it
		e.remove(q, m.message, endRemoved)
	}
}

// park moves a message to a queue where it stays what it was. [TASK-4]
func (e *Engine) park(from *queue, m picked) {
	e.hand(from, m.to, m.message, e.parked(from, m), row.OutcomeParked, nil)
	e.tally(from).Moved.Add(1)
	e.stir(m.to)
}

// parked returns the message that a parked message becomes: it keeps its identities, its source and
// its receives, and its retention starts again. One without a source gets the one that its worker
// wrote into it, or else the queue it was in, so that a task can move it back. [TASK-4]
func (e *Engine) parked(from *queue, m picked) *message {
	moved := &message{Meta: m.Meta, hasMeta: true}
	if moved.Source == "" && m.to != from {
		moved.Source = e.arn(from.name)
		if q := e.sourceQueue(from, m.source); q != nil {
			moved.Source = e.arn(q.name)
		}
	}
	moved.Base = e.now
	return moved
}

// passRemoved drops messages that were removed from between fresh ones from the window of a
// standard queue. The cursor passes them when no fresh message is left before them. While expiry is
// held, there may be some that the window does not show.
func (e *Engine) passRemoved(q *queue, taken []picked) {
	if q.fifo() {
		return
	}
	w := &q.fresh
	live := slices.DeleteFunc(w.entries[w.head:], func(m *message) bool {
		return slices.ContainsFunc(taken, func(gone picked) bool { return gone.Seq == m.Seq })
	})
	w.entries = w.entries[:w.head+len(live)]
	w.pop(0)
	if e.expiryPaused {
		return
	}
	first := q.st.NextSeq
	switch {
	case w.len() > 0:
		first = w.at(0).Seq
	case q.fair != nil:
		first = q.fair.From // the window does not go further
	}
	if first > q.st.Cursor {
		q.st.Cursor, q.stDirty = first, true
	}
}
