package engine

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"tenaq/internal/work/sqslimits"
)

// Message move tasks: they empty a dead-letter queue in the background. A task is a row, and each step of
// it is one command: what a step moves and how far the task has come are written in one batch, so that no
// stop at any moment loses a message or moves one twice. [MOVE-14]

// taskStatus is what a task shows as its status.
type taskStatus byte

const (
	taskRunning taskStatus = iota + 1
	taskCompleted
	taskCancelling
	taskCancelled
	taskFailed
)

var taskNames = [...]string{"", "RUNNING", "COMPLETED", "CANCELLING", "CANCELLED", "FAILED"}

func (s taskStatus) known() bool  { return s >= taskRunning && s <= taskFailed }
func (s taskStatus) active() bool { return s == taskRunning || s == taskCancelling }

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

// A task is a move task, as its row has it.
type task struct {
	number uint64
	source QueueName

	id          [16]byte
	destination QueueName // zero when each message goes back to where it came from
	rate        int64     // messages a second; zero for as fast as possible
	started     int64
	status      taskStatus
	failure     string
	moved       int64
	toMove      int64
	limit       uint64 // messages with this number or a later one came after the start [MOVE-24]
	due         int64  // when the next message may move, in microseconds
	stepped     int64  // when the last step was
}

func (t *task) encode(b enc) []byte {
	b.byte(rowVersion)
	b.raw(t.id[:])
	b.string(t.destination.Account)
	b.string(t.destination.Name)
	b.int(t.rate)
	b.int(t.started)
	b.byte(byte(t.status))
	b.string(t.failure)
	b.int(t.moved)
	b.int(t.toMove)
	b.uint(t.limit)
	b.int(t.due)
	b.int(t.stepped)
	return b
}

func decodeTask(value []byte) (t task, ok bool) {
	d := dec{b: value}
	d.version(rowVersion)
	t.id = d.id()
	t.destination = QueueName{Account: d.string(), Name: d.string()}
	t.rate, t.started, t.status = d.int(), d.int(), taskStatus(d.byte())
	t.failure = d.string()
	t.moved, t.toMove, t.limit, t.due, t.stepped = d.int(), d.int(), d.uint(), d.int(), d.int()
	return t, d.done() && t.status.known()
}

// loadTasks reads the tasks that are not over.
func (e *Engine) loadTasks() {
	for k, v := range e.rows.store.Scan([]byte{familyActive}, []byte{familyActive + 1}) {
		number, source, ok := decodeActive(k, v)
		var t task
		if ok {
			value, found := e.rows.get(taskKey(source, number))
			t, ok = decodeTask(value)
			ok = ok && found
		}
		if !ok {
			e.rows.damaged("active task", k)
		}
		t.number, t.source = number, source
		e.tasks = append(e.tasks, &t)
	}
}

// saveTask writes a task, and takes it off the active ones when it is over.
func (e *Engine) saveTask(t *task) {
	e.rows.set(taskKey(t.source, t.number), t.encode(e.rows.scratch()))
	if !t.status.active() {
		e.dropTask(t)
	}
}

func (e *Engine) dropTask(t *task) {
	e.rows.delete(activeKey(t.number))
	e.tasks = slices.DeleteFunc(e.tasks, func(other *task) bool { return other == t })
}

// activeTask returns the task of a queue that is not over, nil when there is none.
func (e *Engine) activeTask(source QueueName) *task {
	for _, t := range e.tasks {
		if t.source == source {
			return t
		}
	}
	return nil
}

// removeTasks forgets the tasks of a queue that is being deleted.
func (e *Engine) removeTasks(source QueueName) {
	prefix := taskPrefix(source)
	e.rows.deleteRange(span{lo: prefix, hi: nextKey(prefix)})
	if t := e.activeTask(source); t != nil {
		e.dropTask(t)
	}
}

// tasksOf returns the tasks of a queue, the newest first.
func (e *Engine) tasksOf(source QueueName) (tasks []*task) {
	prefix := taskPrefix(source)
	for k, v := range e.scan(span{lo: prefix, hi: nextKey(prefix)}) {
		t, ok := decodeTask(v)
		number, known := taskNumber(k)
		if !ok || !known {
			e.rows.damaged("task", k)
		}
		t.number, t.source = number, source
		tasks = append(tasks, &t)
	}
	return tasks
}

// A MoveTask is what a listing shows of a move task.
type MoveTask struct {
	Handle      string // only while it is running [MOVE-17]
	Status      string // RUNNING, COMPLETED, CANCELLING, CANCELLED or FAILED
	Source      string // ARN of the dead-letter queue
	Destination string // ARN; empty when each message goes back to where it came from
	Rate        int64  // messages a second; zero for as fast as possible
	Started     int64  // Unix milliseconds
	Moved       int64
	ToMove      int64  // how many messages the queue had when the task started
	Failure     string // why it failed [MOVE-18]
}

func (e *Engine) showTask(t *task) MoveTask { // [MOVE-16]
	shown := MoveTask{
		Status:  taskNames[t.status],
		Source:  e.arn(t.source),
		Rate:    t.rate,
		Started: t.started,
		Moved:   t.moved,
		ToMove:  t.toMove,
		Failure: t.failure,
	}
	if t.destination != (QueueName{}) {
		shown.Destination = e.arn(t.destination)
	}
	if t.status == taskRunning {
		shown.Handle = sealTask(t.id, shown.Source)
	}
	return shown
}

// A taskHandle is what a TaskHandle holds. [MOVE-8]
type taskHandle struct {
	ID     string `json:"taskId"`
	Source string `json:"sourceArn"`
}

func sealTask(id [16]byte, source string) string {
	b, _ := json.Marshal(taskHandle{MessageID(id).String(), source}) // strings can always be encoded
	return base64.StdEncoding.EncodeToString(b)
}

func openTask(text string) (h taskHandle, ok bool) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return h, false
	}
	return h, h.ID != "" && h.Source != ""
}

// TaskSource returns the ARN of the queue whose move task a handle says it is for.
func TaskSource(handle string) (arn string, ok bool) {
	h, ok := openTask(handle)
	return h.Source, ok
}

// StartMessageMoveTask begins to empty a dead-letter queue.
type StartMessageMoveTask struct {
	Account             string // of the caller
	Source, Destination Text   // ARNs
	Rate                Int    // messages a second
}

// checkARN refuses what is not an ARN. [MOVE-4]
func checkARN(arn, parameter string) *Error {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[0] != "arn" || slices.Contains(parts, "") {
		return refuse(CodeInvalidParameter, "You must use this format to specify the "+parameter+
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
	return nil, refuse(CodeNoResource, "The resource that you specified for the "+parameter+" parameter doesn't exist.")
}

func (op StartMessageMoveTask) apply(e *Engine, c *Command) (Result, error) {
	if err := op.check(); err != nil {
		return Result{}, err
	}
	source, err := e.queueByARN(op.Account, op.Source.Value, "SourceArn")
	if err != nil {
		return Result{}, err
	}
	if !e.isDeadLetterQueue(source.name) { // [MOVE-1]
		return Result{}, refuse(CodeInvalidParameter, "Source queue must be configured as a Dead Letter Queue.")
	}
	t := &task{
		number:  e.sys.nextTask,
		source:  source.name,
		id:      identity(c.Seed, 0),
		rate:    op.Rate.Value,
		started: e.now,
		status:  taskRunning,
		limit:   source.st.nextSeq,
		due:     e.now * 1000,
		stepped: e.now,
	}
	if op.Destination.Set {
		destination, err := e.queueByARN(op.Account, op.Destination.Value, "DestinationArn")
		switch {
		case err != nil:
			return Result{}, err
		case destination == source: // [MOVE-7]
			return Result{}, errValue(op.Destination.Value, "DestinationArn", "Source and destination must be different queues.")
		case destination.fifo() != source.fifo():
			return Result{}, errValue(op.Destination.Value, "DestinationArn", "Source and destination must be queues of the same type.")
		}
		t.destination = destination.name
	}
	if e.activeTask(source.name) != nil { // [MOVE-5]
		return Result{}, refuse(CodeInvalidParameter, "There is already a task running. "+
			"Only one active task is allowed for a source queue arn at a given time.")
	}
	active := 0
	for _, other := range e.tasks {
		if other.source.Account == op.Account {
			active++
		}
	}
	if active >= tasksActive { // [MOVE-23]
		return Result{}, refuse(CodeOverLimit, "The maximum number of active message move tasks is 100.")
	}
	if !e.ready(source) || !e.settle(source, settleStep) || !e.settleDelayed(source, settleStep) {
		return Result{Again: true}, nil
	}
	t.toMove = source.visible()
	if old := e.tasksOf(source.name); len(old) >= sqslimits.TasksKept {
		for _, old := range old[sqslimits.TasksKept-1:] {
			e.rows.delete(taskKey(old.source, old.number))
		}
	}
	e.sys.nextTask++
	e.sys.dirty = true
	e.tasks = append(e.tasks, t)
	e.rows.set(activeKey(t.number), encodeActive(e.rows.scratch(), t.source))
	e.saveTask(t)
	return Result{Tasks: []MoveTask{e.showTask(t)}}, nil
}

// check refuses parameters that are wrong whatever queues there are.
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
		return errNumber(op.Rate.Value, "MaxNumberOfMessagesPerSecond", "Must be between 1 and 500, if provided.")
	}
	return nil
}

// ListMessageMoveTasks lists the latest move tasks of a queue. [MOVE-15]
type ListMessageMoveTasks struct {
	Account    string
	Source     Text // ARN
	MaxResults Int
}

func (op ListMessageMoveTasks) apply(e *Engine, _ *Command) (Result, error) {
	if !op.Source.Set {
		return Result{}, errMissing("SourceArn")
	}
	if err := checkARN(op.Source.Value, "SourceArn"); err != nil {
		return Result{}, err
	}
	limit := op.MaxResults.or(1)
	if limit < 1 || limit > sqslimits.TasksKept {
		return Result{}, errNumber(limit, "MaxResults", "Must be between 1 and 10, if provided.")
	}
	q, err := e.queueByARN(op.Account, op.Source.Value, "SourceArn")
	if err != nil {
		return Result{}, err
	}
	var res Result
	for _, t := range e.tasksOf(q.name) {
		if int64(len(res.Tasks)) == limit {
			break
		}
		res.Tasks = append(res.Tasks, e.showTask(t))
	}
	return res, nil
}

// CancelMessageMoveTask stops a move task. [MOVE-19]
type CancelMessageMoveTask struct {
	Account string
	Handle  Text
}

func (op CancelMessageMoveTask) apply(e *Engine, _ *Command) (Result, error) {
	if !op.Handle.Set {
		return Result{}, errMissing("TaskHandle")
	}
	h, ok := openTask(op.Handle.Value)
	if !ok { // [MOVE-20]
		return Result{}, refuse(CodeInvalidParameter, "Value for parameter TaskHandle is invalid.")
	}
	q, err := e.queueByARN(op.Account, h.Source, "SourceArn")
	if err != nil {
		return Result{}, err
	}
	t := e.activeTask(q.name)
	if t == nil || MessageID(t.id).String() != h.ID { // [MOVE-21]
		return Result{}, refuse(CodeNoResource, "Task does not exist.")
	}
	t.status = taskCancelling
	e.saveTask(t)
	return Result{Moved: t.moved}, nil
}
