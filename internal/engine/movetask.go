package engine

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Tasks take messages out of a queue in the background. A task is a row, and each of its steps is
// one command. What becomes of the messages and the progress of the task are written in one batch,
// so a stop never loses a message or moves one twice. [MOVE-14, TASK-9]
//
// This file has the message move tasks of SQS. Those that select messages start in tasks.go; they
// share the rest, such as rows, steps and rates.

// Why tasks fail. [MOVE-10, MOVE-18, MOVE-22]
const (
	failureNoSource = "CouldNotDetermineMessageSource"
	failureNoQueue  = string(CodeNoQueue)
	failureTimeout  = "TaskTimedOut"
)

const (
	taskTimeMax   = int64(sqslimits.TaskTimeMax / millisecond)
	tasksActive   = 100     // of one account [MOVE-23]
	taskArrearMax = 100_000 // microseconds that a step makes up for [MOVE-26]
)

// A task is a task in memory.
type task struct {
	row.Task

	waits int64 // it does nothing before this time: the disk is nearly full [TASK-23]
}

// loadTasks reads the tasks that are not over.
func (e *Engine) loadTasks() {
	for k, v := range e.rows.store.Scan([]byte{row.FamilyActive}, []byte{row.FamilyActive + 1}) {
		number, source, ok := row.DecodeActive(k, v)
		var t row.Task
		if ok {
			value, found := e.rows.get(row.TaskKey(source, number))
			t, ok = row.DecodeTask(value)
			ok = ok && found
		}
		if !ok {
			e.rows.damaged("active task", k)
		}
		t.Number, t.Source = number, source
		e.tasks = append(e.tasks, &task{Task: t})
	}
}

// saveTask writes a task. A task that is over is no longer active.
func (e *Engine) saveTask(t *task) {
	e.rows.set(row.TaskKey(t.Source, t.Number), t.Encode(e.rows.scratch()))
	if !t.Status.Active() {
		e.dropTask(t)
	}
}

func (e *Engine) dropTask(t *task) {
	e.rows.delete(row.ActiveKey(t.Number))
	e.tasks = slices.DeleteFunc(e.tasks, func(other *task) bool { return other == t })
}

// activeTask returns the task of a queue that is not over, nil when there is none.
func (e *Engine) activeTask(source QueueName) *task {
	for _, t := range e.tasks {
		if t.Source == source {
			return t
		}
	}
	return nil
}

// removeTasks forgets the tasks of a queue that is being deleted.
func (e *Engine) removeTasks(source QueueName) {
	e.rows.deleteRange(row.Below(row.TaskPrefix(source)))
	if t := e.activeTask(source); t != nil {
		e.dropTask(t)
	}
}

// tasksOf returns the tasks of a queue, the newest first.
func (e *Engine) tasksOf(source QueueName) (tasks []*task) {
	for k, v := range e.scan(row.Below(row.TaskPrefix(source))) {
		t, ok := row.TaskOf(k, v)
		if !ok {
			e.rows.damaged("task", k)
		}
		tasks = append(tasks, &task{Task: t})
	}
	return tasks
}

// A MoveTask is a move task as a listing shows it.
type MoveTask struct {
	Handle      string // only while it is running [MOVE-17]
	Status      string // RUNNING, COMPLETED, CANCELLING, CANCELLED or FAILED
	Source      string // ARN of the dead-letter queue
	Destination string // ARN; empty if each message returns to its source
	Rate        int64  // messages a second; zero for as fast as possible
	Started     int64  // Unix milliseconds
	Moved       int64
	ToMove      int64  // how many messages the queue had when the task started
	Failure     string // why it failed [MOVE-18]
}

func (e *Engine) showTask(t *task) MoveTask { // [MOVE-16]
	shown := MoveTask{
		Status:  row.TaskNames[t.Status],
		Source:  e.arn(t.Source),
		Rate:    t.Rate,
		Started: t.Started,
		Moved:   t.Moved,
		ToMove:  t.ToMove,
		Failure: t.Failure,
	}
	if t.Destination != (QueueName{}) {
		shown.Destination = e.arn(t.Destination)
	}
	if t.Status == row.TaskRunning {
		shown.Handle = sealTask(t.ID, shown.Source)
	}
	return shown
}

// A taskHandle is what a TaskHandle holds. [MOVE-8]
type taskHandle struct {
	ID     string `json:"taskId"`
	Source string `json:"sourceArn"`
}

func sealTask(id [16]byte, source string) string {
	// strings can always be encoded
	b, _ := json.Marshal(taskHandle{MessageID(id).String(), source})
	return base64.StdEncoding.EncodeToString(b)
}

func openTask(text string) (h taskHandle, ok bool) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return h, false
	}
	return h, h.ID != "" && h.Source != ""
}

// TaskSource returns the ARN of the source queue that a task handle names.
func TaskSource(handle string) (arn string, ok bool) {
	h, ok := openTask(handle)
	return h.Source, ok
}

// StartMessageMoveTask begins to empty a dead-letter queue.
type StartMessageMoveTask struct {
	Account             string // of the caller
	Source, Destination Text   // ARNs
	Rate                Int    // messages a second

	Task MoveTask // the answer
}

// checkARN refuses what is not an ARN. [MOVE-4]
func checkARN(arn, parameter string) *Error {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[0] != "arn" || slices.Contains(parts, "") {
		return invalid("You must use this format to specify the " + parameter +
			": arn:<partition>:<service>:<region>:<account-id>:<resource-id>")
	}
	return nil
}

// queueByARN returns the queue of the caller that an ARN names. [MOVE-2, MOVE-3]
func (e *Engine) queueByARN(account, arn, parameter string) (*queue, *Error) {
	if name, ok := e.queueOfARN(arn); ok && name.Account == account {
		if q, err := e.lookup(name); err == nil {
			return q, nil
		}
	}
	return nil, refuse(CodeNoResource, "The resource that you specified for the "+parameter+
		" parameter doesn't exist.")
}

func (op *StartMessageMoveTask) apply(e *Engine, c *Command) *Error {
	if err := op.check(); err != nil {
		return err
	}
	source, err := e.queueByARN(op.Account, op.Source.Value, "SourceArn")
	if err != nil {
		return err
	}
	if !e.isDeadLetterQueue(source.name) { // [MOVE-1]
		return invalid("Source queue must be configured as a Dead Letter Queue.")
	}
	t := &task{Task: row.Task{
		Number:  e.sys.NextTask,
		Source:  source.name,
		ID:      identity(c.Seed, 0),
		Rate:    op.Rate.Value,
		Started: e.now,
		Status:  row.TaskRunning,
		Limit:   source.st.NextSeq,
		Due:     e.now * 1000,
		Stepped: e.now,
	}}
	if op.Destination.Set {
		destination, err := e.queueByARN(op.Account, op.Destination.Value, "DestinationArn")
		switch {
		case err != nil:
			return err
		case destination == source: // [MOVE-7]
			return errValue(op.Destination.Value, "DestinationArn",
				"Source and destination must be different queues.")
		case destination.fifo() != source.fifo():
			return errValue(op.Destination.Value, "DestinationArn",
				"Source and destination must be queues of the same type.")
		}
		t.Destination = destination.name
	}
	if e.activeTask(source.name) != nil { // [MOVE-5]
		return invalid("There is already a task running. " +
			"Only one active task is allowed for a source queue arn at a given time.")
	}
	if err := e.checkTasksActive(op.Account); err != nil {
		return err
	}
	if !e.settled(source) {
		return ErrAgain
	}
	t.ToMove = source.visible()
	e.beginTask(t)
	op.Task = e.showTask(t)
	return nil
}

// check refuses parameters that are wrong no matter which queues exist.
func (op *StartMessageMoveTask) check() *Error {
	if !op.Source.Set {
		return errMissing("SourceArn")
	}
	if err := checkARN(op.Source.Value, "SourceArn"); err != nil {
		return err
	}
	if op.Destination.Set {
		if err := checkARN(op.Destination.Value, "DestinationArn"); err != nil {
			return err
		}
	}
	if op.Rate.Set && (op.Rate.Value < 1 || op.Rate.Value > sqslimits.TaskRateMax) { // [MOVE-6]
		return errNumber(op.Rate.Value, "MaxNumberOfMessagesPerSecond",
			"Must be between 1 and 500, if provided.")
	}
	return nil
}

// ListMessageMoveTasks lists the latest move tasks of a queue. [MOVE-15]
type ListMessageMoveTasks struct {
	Account    string
	Source     Text // ARN
	MaxResults Int

	Tasks []MoveTask // the answer, the newest first
}

func (op *ListMessageMoveTasks) apply(e *Engine, _ *Command) *Error {
	if !op.Source.Set {
		return errMissing("SourceArn")
	}
	if err := checkARN(op.Source.Value, "SourceArn"); err != nil {
		return err
	}
	limit := op.MaxResults.or(1)
	if limit < 1 || limit > sqslimits.TasksKept {
		return errNumber(limit, "MaxResults", "Must be between 1 and 10, if provided.")
	}
	q, err := e.queueByARN(op.Account, op.Source.Value, "SourceArn")
	if err != nil {
		return err
	}
	op.Tasks = nil
	for _, t := range e.tasksOf(q.name) {
		if int64(len(op.Tasks)) == limit {
			break
		}
		if !t.Selects {
			op.Tasks = append(op.Tasks, e.showTask(t))
		}
	}
	return nil
}

// CancelMessageMoveTask stops a move task. [MOVE-19]
type CancelMessageMoveTask struct {
	Account string
	Handle  Text

	Moved int64 // the answer: how many messages the task has moved so far
}

func (op *CancelMessageMoveTask) apply(e *Engine, _ *Command) *Error {
	if !op.Handle.Set {
		return errMissing("TaskHandle")
	}
	h, ok := openTask(op.Handle.Value)
	if !ok { // [MOVE-20]
		return invalid("Value for parameter TaskHandle is invalid.")
	}
	q, err := e.queueByARN(op.Account, h.Source, "SourceArn")
	if err != nil {
		return err
	}
	t := e.activeTask(q.name)
	if t == nil || t.Selects || MessageID(t.ID).String() != h.ID { // [MOVE-21]
		return refuse(CodeNoResource, "Task does not exist.")
	}
	t.Status, t.Paused = row.TaskCancelling, false
	e.saveTask(t)
	op.Moved = t.Moved
	return nil
}
