package engine

import (
	"cmp"

	"tenaq/internal/engine/row"
)

// MoveStep takes a bounded number of messages for one active task: the one that has waited longest
// among those with something to do.
type MoveStep struct {
	Most int // messages that it takes, 0 for movesMax, which is never exceeded
}

func (op *MoveStep) apply(e *Engine, c *Command) *Error {
	var next *task
	for _, t := range e.tasks {
		if t.nextStep() <= e.now && (next == nil || t.before(next)) {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	most := movesMax
	if op.Most > 0 {
		most = min(op.Most, movesMax)
	}
	if !e.stepTask(next, most, c.Seed) {
		return ErrAgain
	}
	return nil
}

// NextMove returns when, in Unix milliseconds, the next MoveStep has something to do; false for
// never.
func (e *Engine) NextMove() (at int64, ok bool) {
	at = row.MaxTime
	for _, t := range e.tasks {
		at = min(at, t.nextStep())
	}
	return at, at < row.MaxTime
}

// before orders tasks by how long they have waited for a step.
func (t *task) before(other *task) bool {
	return cmp.Or(cmp.Compare(t.Stepped, other.Stepped), cmp.Compare(t.Number, other.Number)) < 0
}

// nextStep is when the task has something to do: when its rate allows the next message, or when it
// times out; row.MaxTime for never.
func (t *task) nextStep() int64 {
	end := int64(row.MaxTime)
	if !t.Selects { // [MOVE-22]
		end = t.Started + taskTimeMax
	}
	switch {
	case t.Status == row.TaskCancelling:
		return t.Stepped
	case t.Paused: // [TASK-12]
		return end
	case t.Rate == 0:
		return max(t.Stepped, t.waits)
	}
	return min(max((t.Due+999)/1000, t.waits), end)
}

// allowance is how many messages may move now, at most most, so that they are spread over each
// second. [MOVE-13]
func (t *task) allowance(now int64, most int) (n int) {
	if t.Rate == 0 {
		return most
	}
	if behind := now*1000 - t.Due; behind >= 0 {
		n = int(min(behind, taskArrearMax)*t.Rate/1_000_000) + 1
	}
	return min(n, most)
}

// writes reports whether the task writes messages again. One that deletes makes room.
func (t *task) writes() bool { return t.Work != TaskDelete }

// spend notes that n messages have moved. After a stall, the task makes up for only part of the
// lost time, because its rate must not become a flood. [MOVE-26]
func (t *task) spend(n int, now int64) {
	t.Moved += int64(n)
	if t.Rate > 0 {
		t.Due = max(t.Due, now*1000-taskArrearMax) + int64(n)*1_000_000/t.Rate
	}
}

// stepTask carries a task one step further, by at most most messages, and reports whether it could.
func (e *Engine) stepTask(t *task, most int, seed [16]byte) bool {
	end := func(status row.TaskStatus, failure string) bool {
		t.Status, t.Failure, t.Paused, t.Stepped = status, failure, false, e.now
		e.saveTask(t)
		return true
	}
	source, err := e.lookup(t.Source)
	switch {
	case err != nil:
		return end(row.TaskFailed, failureNoQueue)
	case t.Status == row.TaskCancelling:
		return end(row.TaskCancelled, "")
	case !t.Selects && e.now >= t.Started+taskTimeMax:
		return end(row.TaskFailed, failureTimeout)
	case t.writes() && e.noHistory: // [TASK-23]
		t.waits = e.now + waitForDisk
		return true
	case !e.ready(source) || t.Selects && !e.settleDelayed(source, settleStep) ||
		source.fair != nil && !e.settle(source, settleStep):
		return false
	case t.Work == TaskReplay:
		return e.stepReplay(source, t, most, seed)
	case t.Selects:
		e.stepSelection(source, t, most, seed)
		return true
	}
	t.Stepped = e.now
	moves, fresh, failure := e.pickMoves(source, t, most)
	// Everything has been read; from here on the step writes.
	source.fresh.pop(fresh)
	for i, m := range moves {
		e.redrive(source, m.to, m.message, m.to.row.Attributes.Delay(), identity(seed, i))
	}
	t.spend(len(moves), e.now)
	switch {
	case failure != "":
		return end(row.TaskFailed, failure)
	case len(moves) == 0:
		return end(row.TaskCompleted, "")
	}
	e.saveTask(t)
	return true
}

// A move is a message that a task moves, and where to.
type move struct {
	*message
	to *queue
}

// pickMoves chooses what a step moves: the messages that a receive would find now, and that were
// there when the task started. [MOVE-12, MOVE-24, MOVE-25] Failure says why the task cannot
// continue after them. Fresh is what walk returns.
func (e *Engine) pickMoves(
	q *queue, t *task, most int,
) (moves []move, fresh int, failure string) {
	looks, size, allowed := 0, int64(0), t.allowance(e.now, most)
	fresh = e.walk(q, 0, nil, func(m *message) verdict {
		if looks++; looks > looksMax {
			return walkEnd
		}
		if m.Seq >= t.Limit {
			return walkOver
		}
		if size += m.Size; len(moves) == allowed || len(moves) > 0 && size > moveBytesMax {
			return walkEnd
		}
		name := t.Destination
		if name == (QueueName{}) { // [MOVE-9]
			known := false
			if name, known = e.queueOfARN(m.Source); !known {
				failure = failureNoSource
				return walkEnd
			}
		}
		to, err := e.lookup(name)
		if err != nil {
			failure = failureNoQueue
			return walkEnd
		}
		moves = append(moves, move{m, to})
		return walkGone
	})
	if len(moves) > 0 {
		picked := make([]*message, len(moves))
		for i, m := range moves {
			picked[i] = m.message
		}
		e.checkPicked(q, picked)
		e.flush() // so that their contents can be read
	}
	return moves, fresh, failure
}

// redrive moves a message to another queue as a new one. It keeps the lineage of the message. The
// new id is made from random. [MOVE-11]
func (e *Engine) redrive(from, to *queue, m *message, delay int64, random MessageID) {
	e.transfer(from, to, m, e.redriven(to, m, random, m.Size, delay), row.OutcomeMoved)
	e.tally(from).Moved.Add(1)
	e.stir(to)
}

// redriven returns the new message that a message becomes in another queue. It has a delay, in
// milliseconds, if that is a standard queue.
func (e *Engine) redriven(to *queue, m *message, random MessageID, size, delay int64) *message {
	id, _ := e.sys.IDKey.New(random, row.Place{Space: to.row.Space, Seq: to.st.NextSeq})
	moved := &message{Meta: row.NewMeta(0, id, e.now, size), hasMeta: true}
	moved.Lineage, moved.Meta.Generation, moved.Redrives, moved.FirstSent = m.Lineage,
		m.Meta.Generation, m.Redrives+1, m.FirstSent
	moved.Group, moved.Dedup, moved.Replayed = m.Group, m.Dedup, m.Replayed
	if delay > 0 && !to.fifo() {
		moved.Flags |= row.FlagScheduled
		moved.Delivery = row.Delivery{At: e.now + delay, Kind: row.DueDelayed}
	}
	return moved
}
