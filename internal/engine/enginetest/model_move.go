package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine"
)

// A modelTask is a move task, or one that selects.
type modelTask struct {
	engine.MoveTask
	number  int
	source  engine.QueueName
	last    uint64 // the newest message of the source when the task started [MOVE-24]
	due     int64  // with a rate: when the next message may move, in microseconds
	stepped int64  // when it was stepped last
	paused  bool

	selects *engine.StartTask // what was asked for; nil for a move task
	place   uint64            // the last message that it has looked at
	skipped int64
}

func (t *modelTask) active() bool { return t.Status == "RUNNING" || t.Status == "CANCELLING" }

func (t *modelTask) end(status, failure string) {
	t.Status, t.Failure, t.paused = status, failure, false
}

// resource finds the queue that an ARN names.
func (m *Model) resource(arn, parameter string) (*modelQueue, *engine.Error) {
	if q := m.queues[m.byARN(arn)]; q != nil {
		return q, nil
	}
	return nil, modelRefusal(engine.CodeNoResource,
		"The resource that you specified for the %s parameter doesn't exist.", parameter)
}

// tasksOf returns the tasks of a queue, the newest first.
func (m *Model) tasksOf(source engine.QueueName) (tasks []*modelTask) {
	for _, t := range slices.Backward(m.tasks) {
		if t.source == source {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

func (m *Model) startTask(op *engine.StartMessageMoveTask) *engine.Error {
	q, no := m.resource(op.Source.Value, "SourceArn")
	if no != nil {
		return no
	}
	if sources, _ := m.page("", engine.Int{}, func(other *modelQueue) bool {
		return m.pointsTo(other, q.name)
	}); len(sources) == 0 {
		return modelRefusal(engine.CodeInvalidParameter,
			"Source queue must be configured as a Dead Letter Queue.")
	}
	if op.Destination.Set {
		to, no := m.resource(op.Destination.Value, "DestinationArn")
		switch {
		case no != nil:
			return no
		case to == q:
			return modelBadValue(op.Destination.Value, "DestinationArn",
				"Source and destination must be different queues.")
		case to.fifo() != q.fifo():
			return modelBadValue(op.Destination.Value, "DestinationArn",
				"Source and destination must be queues of the same type.")
		}
	}
	earlier := m.tasksOf(q.name)
	if len(earlier) > 0 && earlier[0].active() {
		return modelRefusal(engine.CodeInvalidParameter, "There is already a task running. "+
			"Only one active task is allowed for a source queue arn at a given time.")
	}
	t := m.newTask(q)
	t.MoveTask = engine.MoveTask{
		Handle:      fmt.Sprintf("%d of %s", t.number, m.arn(q.name)),
		Status:      "RUNNING",
		Source:      m.arn(q.name),
		Destination: op.Destination.Value,
		Rate:        op.Rate.Value,
		Started:     m.now,
		ToMove:      int64(q.count(available, m.now)),
	}
	op.Task = t.MoveTask
	return nil
}

// newTask gives a queue another task, and forgets the oldest of eleven.
func (m *Model) newTask(q *modelQueue) *modelTask {
	m.settle(q)
	if earlier := m.tasksOf(q.name); len(earlier) == 10 {
		m.tasks = slices.DeleteFunc(m.tasks, func(t *modelTask) bool { return t == earlier[9] })
	}
	m.tasked++
	t := &modelTask{number: m.tasked, source: q.name, last: q.seq, due: m.now * 1000,
		stepped: m.now}
	m.tasks = append(m.tasks, t)
	return t
}

func (m *Model) listTasks(op *engine.ListMessageMoveTasks) *engine.Error {
	q, no := m.resource(op.Source.Value, "SourceArn")
	if no != nil {
		return no
	}
	size := 1
	if op.MaxResults.Set {
		size = int(op.MaxResults.Value)
	}
	op.Tasks = nil
	for _, t := range m.tasksOf(q.name) {
		if len(op.Tasks) == size {
			break
		}
		if t.selects != nil {
			continue
		}
		shown := t.MoveTask
		if t.Status != "RUNNING" {
			shown.Handle = ""
		}
		op.Tasks = append(op.Tasks, shown)
	}
	return nil
}

func (m *Model) cancelTask(op *engine.CancelMessageMoveTask) *engine.Error {
	number, source, ok := strings.Cut(op.Handle.Value, " of ")
	if !ok {
		return modelRefusal(engine.CodeInvalidParameter,
			"Value for parameter TaskHandle is invalid.")
	}
	q, no := m.resource(source, "SourceArn")
	if no != nil {
		return no
	}
	for _, t := range m.tasksOf(q.name) {
		if strconv.Itoa(t.number) == number && t.active() && t.selects == nil {
			t.Status, t.paused = "CANCELLING", false
			op.Moved = t.Moved
			return nil
		}
	}
	return modelRefusal(engine.CodeNoResource, "Task does not exist.")
}

// step lets one task go on: of those that have something to do, the one that was stepped longest
// ago, by at most most messages.
func (m *Model) step(most int64) {
	var ready []*modelTask
	for _, t := range m.tasks {
		waits := t.Status == "RUNNING" && (t.paused || t.Rate > 0 && t.due > m.now*1000)
		if t.active() && (!waits || m.tooOld(t)) {
			ready = append(ready, t)
		}
	}
	if len(ready) > 0 {
		m.stepTask(slices.MinFunc(ready, func(a, b *modelTask) int {
			return cmp.Or(cmp.Compare(a.stepped, b.stepped), cmp.Compare(a.number, b.number))
		}), most)
	}
}

// tooOld reports whether a task has had its 36 hours. [MOVE-22]
func (m *Model) tooOld(t *modelTask) bool {
	return t.selects == nil && m.now-t.Started >= 36*3600*1000
}

func (m *Model) stepTask(t *modelTask, most int64) {
	q := m.queues[t.source]
	t.stepped = m.now
	switch {
	case t.Status == "CANCELLING":
		t.end("CANCELLED", "")
		return
	case m.tooOld(t):
		t.end("FAILED", "TaskTimedOut")
		return
	}
	m.settle(q)
	if t.selects != nil && t.selects.Work == engine.TaskReplay {
		m.stepReplay(t, q, most)
		return
	}
	if t.selects != nil {
		m.stepSelection(t, q, most)
		return
	}
	moved, failure := m.move(t, q, t.allowance(m.now, most))
	t.spend(moved, m.now)
	switch {
	case failure != "":
		t.end("FAILED", failure)
	case moved == 0:
		t.end("COMPLETED", "")
	}
}

// spend notes what a step has taken.
func (t *modelTask) spend(taken, now int64) {
	t.Moved += taken
	if t.Rate > 0 {
		t.due = max(t.due, now*1000-100_000) + taken*1_000_000/t.Rate
	}
}

// allowance is how many messages a task may move now: with a rate those that are due. [MOVE-13]
func (t *modelTask) allowance(now, most int64) int64 {
	if t.Rate == 0 {
		return most
	}
	return min(most, min(now*1000-t.due, 100_000)*t.Rate/1_000_000+1)
}

// move moves up to allowed of the messages that were there when the task started and that a receive
// would find among the first thousand. It returns how many, and why the task cannot go on after
// them. [MOVE-9 to MOVE-12, MOVE-24, MOVE-25]
func (m *Model) move(t *modelTask, q *modelQueue, allowed int64) (moved int64, failure string) {
	found := m.receivable(q, m.now, 0)
	over := make(map[string]bool) // groups of a FIFO or fair queue
	size := int64(0)
	for _, msg := range found[:min(len(found), 1000)] {
		name := q.tenant(msg)
		if q.fifo() {
			name = msg.entry.Group.Value
		}
		if msg.seq > t.last || (q.fifo() || q.is(fairTag)) && over[name] {
			over[name] = name != ""
			continue
		}
		size += sizeOf(&msg.entry)
		if moved == allowed || moved > 0 && size > 4<<20 {
			break
		}
		to := t.Destination
		if to == "" {
			to = msg.source
		}
		target := m.queues[m.byARN(to)]
		switch {
		case to == "":
			return moved, "CouldNotDetermineMessageSource"
		case target == nil:
			return moved, string(engine.CodeNoQueue)
		}
		m.moveBack(q, target, msg, msg.entry, target.number("DelaySeconds")*1000, "moved")
		moved++
	}
	return moved, failure
}

// moveBack makes a message a new one in another queue, and gives the old one an outcome. [MOVE-11]
func (m *Model) moveBack(
	q, to *modelQueue, msg *modelMessage, entry engine.Entry, delay int64, outcome string,
) *modelMessage {
	q.remove(msg)
	m.end(q, msg, outcome, to.name)
	m.countTimeout(q, msg)
	m.of(q).Moved.Add(1)
	m.of(to).Arrived.Add(1)
	moved := &modelMessage{
		id:        m.identity(),
		lineage:   msg.lineage,
		sent:      m.now,
		firstSent: msg.firstSent,
		fence:     msg.fence,
		base:      m.now,
		dedup:     msg.dedup,
		entry:     entry,
		attempts:  msg.attempts,
		replayed:  msg.replayed,

		lineageGeneration: msg.lineageGeneration,
	}
	m.enter(to, moved, 0)
	msg.carry(q, to, moved)
	moved.at = m.now + delay
	return moved
}
