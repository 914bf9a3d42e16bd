package engine

import (
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// The actions of a task that selects, on each message that it takes. A replay has another file.
// [TASK-2, TASK-4, TASK-5]
const (
	TaskMove   = row.TaskMove
	TaskDelete = row.TaskDelete
	TaskPark   = row.TaskPark
)

type (
	TaskWork      = row.TaskWork
	TaskFilter    = row.TaskFilter
	TaskAttribute = row.TaskAttribute
)

// TaskRateMax bounds the rate of a task that selects, in messages a second, and NoteMax its note,
// in bytes.
const (
	TaskRateMax = row.TaskRateMax
	NoteMax     = 500
)

// StartTask begins to take messages out of a queue: to move, delete or park those that a filter
// finds. [TASK-1]
type StartTask struct {
	Queue    QueueName
	Work     TaskWork
	To       string // a queue of the same account; empty for the source of each message
	Filter   TaskFilter
	Rate     int64 // messages a second; zero for as fast as possible
	Most     int64 // messages; zero for all
	Expected int64 // messages, for the progress; zero when that is unknown
	Confirm  int64 // messages that a delete may remove
	Missing  bool  // a replay sends only what was never completed [REPLAY-4]
	By, Note string

	Newest bool     // it begins with the latest message [TASK-20]
	Delay  Int      // of moved messages, in milliseconds; that of their queue if absent [TASK-21]
	Edit   TaskEdit // of moved messages [TASK-22]

	Task TaskView // the answer
}

// A TaskView is a task as /v1 shows it, however it was started.
type TaskView struct {
	ID      string // of the queue and the number of the task
	Work    TaskWork
	Queue   string
	To      string // empty for the source of each message
	Filter  TaskFilter
	Status  string // RUNNING, PAUSED, COMPLETED, CANCELLING, CANCELLED or FAILED
	Failure string

	Done, Skipped           int64 // messages
	Expected, Most, Confirm int64 // messages; zero for none
	Rate                    int64
	Started, Ended          int64 // Unix milliseconds; Ended is zero until then
	By, Note                string
	SQS                     bool // it was started with StartMessageMoveTask
	Missing                 bool

	Newest bool
	Delay  Int
	Edit   TaskEdit
}

// view shows a task.
func (t *task) view() TaskView {
	v := TaskView{
		ID: t.name(), Work: t.Work, Queue: t.Source.Name, To: t.Destination.Name, Filter: t.Filter,
		Status: row.TaskNames[t.Status], Failure: t.Failure, Done: t.Moved, Skipped: t.Skipped,
		Expected: t.ToMove, Most: t.Most, Confirm: t.Confirm, Rate: t.Rate, Started: t.Started,
		By: t.By, Note: t.Note, SQS: !t.Selects, Missing: t.Missing,
		Newest: t.Newest, Delay: Int{t.Delay, t.Delays}, Edit: t.Edit,
	}
	switch {
	case !t.Status.Active():
		v.Ended = t.Stepped
	case t.Paused && t.Status == row.TaskRunning:
		v.Status = "PAUSED"
	}
	return v
}

// WaitsForDisk is what a task shows as its failure while it waits because the disk is nearly full.
// It is no failure. [TASK-23]
const WaitsForDisk = "DiskReserve"

// waitForDisk is for how long a task waits before it looks again, in milliseconds.
const waitForDisk = 1000

// viewTask shows a task as it is now.
func (e *Engine) viewTask(t *task) TaskView {
	v := t.view()
	if e.noHistory && t.writes() && v.Status == row.TaskNames[row.TaskRunning] {
		v.Failure = WaitsForDisk
	}
	return v
}

// name is how /v1 names a task. No queue has a colon in its name.
func (t *task) name() string { return t.Source.Name + ":" + strconv.FormatUint(t.Number, 10) }

// taskNamed returns the task of an account with a name. [TASK-11]
func (e *Engine) taskNamed(account, name string) (*task, *Error) {
	queue, number, _ := strings.Cut(name, ":")
	n, err := strconv.ParseUint(number, 10, 64)
	source := QueueName{Account: account, Name: queue}
	if t := e.activeTask(source); t != nil && t.Number == n {
		return t, nil
	}
	if err == nil {
		for _, t := range e.tasksOf(source) {
			if t.Number == n {
				return t, nil
			}
		}
	}
	return nil, refuse(CodeNoResource, "There is no task "+name+". List the tasks: a queue keeps "+
		"its latest 10, and none after it was deleted.")
}

func (op *StartTask) apply(e *Engine, c *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	to, err := e.checkTask(q, op)
	if err != nil {
		return err
	}
	if running := e.activeTask(q.name); running != nil { // [TASK-10]
		return refuse(CodeConflict, "The task "+running.name()+" of this queue has not ended. "+
			"A queue has one task at a time: wait for its end, or cancel it.")
	}
	if err := e.checkTasksActive(q.name.Account); err != nil {
		return err
	}
	if !e.settled(q) {
		return ErrAgain
	}
	t := &task{Task: row.Task{
		Number: e.sys.NextTask, Source: q.name, ID: identity(c.Seed, 0), Destination: to,
		Rate: op.Rate, Started: e.now, Status: row.TaskRunning, ToMove: op.expected(q),
		Limit: q.st.NextSeq, Due: e.now * 1000, Stepped: e.now,
		Selects: true, Work: op.Work, Filter: e.bind(op.Filter, q.name.Account), Most: op.Most,
		Confirm: op.Confirm, Missing: op.Missing, By: op.By, Note: op.Note,
		Newest: op.Newest, Delays: op.Delay.Set, Delay: op.Delay.Value, Edit: op.Edit,
	}}
	if op.Work == TaskReplay {
		t.Limit = q.past.next() // it is about outcomes
	}
	what := row.TaskWorks[op.Work]
	if op.Newest {
		t.Place = t.Limit
	}
	if !op.Edit.None() { // what exactly is none of the log's business [TASK-16]
		what = "edit and " + what
	}
	e.beginTask(t)
	op.Task = t.view()
	e.log(q.name.Account, op.By, "StartTask", t.name(), what+" "+op.Note)
	return nil
}

// expected is how many messages the task will take, as far as that is known.
func (op *StartTask) expected(q *queue) int64 {
	n := op.Expected
	switch {
	case n > 0:
	case op.Work == TaskDelete:
		n = op.Confirm
	case op.Filter.All() && op.Work != TaskReplay:
		n = q.visible()
	}
	if op.Most > 0 && n > 0 {
		n = min(n, op.Most)
	}
	return n
}

// checkTask refuses a task that cannot be, and returns where its messages go.
func (e *Engine) checkTask(q *queue, op *StartTask) (to QueueName, err *Error) {
	switch {
	case op.Work > TaskReplay:
		return to, errNumber(int64(op.Work), "do", "Must be move, delete, park or replay.")
	case op.Work == TaskDelete && op.To != "":
		return to, errValue(op.To, "to", "A delete has no destination.")
	case op.Work == TaskPark && op.To == "":
		return to, errMissing("to")
	case op.Work == TaskDelete && op.Confirm < 1: // [TASK-6]
		return to, errNumber(op.Confirm, "confirm",
			"Must be the number of messages to delete: count them first.")
	case op.Work != TaskDelete && op.Confirm != 0:
		return to, errNumber(op.Confirm, "confirm", "Only a delete is confirmed.")
	case op.Rate < 0 || op.Rate > TaskRateMax:
		return to, errNumber(op.Rate, "rate", "Must be between 1 and 10000, if provided.")
	case op.Most < 0:
		return to, errNumber(op.Most, "limit", "Must be positive, if provided.")
	case op.Expected < 0:
		return to, errNumber(op.Expected, "expected", "Must be positive, if provided.")
	case len(op.Note) > NoteMax:
		return to, errNumber(int64(len(op.Note)), "note", "Must have at most 500 bytes.")
	}
	if err := checkFilter(&op.Filter); err != nil {
		return to, err
	}
	if err := checkOptions(q, op); err != nil {
		return to, err
	}
	if op.Work == TaskReplay {
		return e.checkReplay(q, op)
	}
	if err := checkNoReplay(&op.Filter, op.Missing); err != nil || op.To == "" {
		return to, err
	}
	destination, err := e.checkTo(q, op.To)
	if err != nil {
		return to, err
	}
	return destination.name.Clone(), nil
}

// checkTo returns the queue of that name, if a task may move messages there.
func (e *Engine) checkTo(q *queue, name string) (*queue, *Error) {
	to, err := e.lookup(QueueName{Account: q.name.Account, Name: name})
	switch {
	case err != nil:
		return nil, errNoTarget(name)
	case to == q:
		return nil, errValue(name, "to", "Source and destination must be different queues.")
	case to.fifo() != q.fifo():
		return nil, errValue(name, "to",
			"Source and destination must be queues of the same type.")
	}
	return to, nil
}

// errNoTarget does not say that the specified queue does not exist, since two are specified.
func errNoTarget(name string) *Error { return errValue(name, "to", "There is no such queue.") }

// checkOptions refuses an order, a delay or an edit that a task cannot have.
func checkOptions(q *queue, op *StartTask) *Error {
	d := op.Delay
	switch {
	case op.Newest && op.Work == TaskReplay: // [REPLAY-2]
		return errValue("newest", "order", "A replay begins with the oldest outcome.")
	case op.Newest && q.fifo() && op.Work != TaskDelete: // [TASK-20]
		return errValue("newest", "order", "The messages of a group leave a FIFO queue in "+
			"their order. Leave the order out, and select the messages with a filter.")
	case d.Set && op.Work != TaskMove: // [TASK-21]
		return errNumber(d.Value, "delayMs", "Only a move delays messages.")
	case d.Value > 0 && q.fifo():
		return errNumber(d.Value, "delayMs", "A FIFO queue takes no message with a delay of its "+
			"own. Leave the delay out.")
	case d.Value < 0 || d.Value > delayMax*1000:
		return errNumber(d.Value, "delayMs", "Must be between 0 and 900000.")
	case op.Edit.None():
		return nil
	case op.Work != TaskMove: // [TASK-22]
		return errValue(row.TaskWorks[op.Work], "do", "Only a move edits messages.")
	}
	return checkEdit(&op.Edit)
}

// checkTasksActive refuses another task of an account that has many. [MOVE-23]
func (e *Engine) checkTasksActive(account string) *Error {
	active := 0
	for _, other := range e.tasks {
		if other.Source.Account == account {
			active++
		}
	}
	if active >= tasksActive {
		return refuse(CodeOverLimit,
			"The maximum number of active message move tasks is 100.")
	}
	return nil
}

// beginTask takes up a new task, in the place of the oldest one of its queue.
func (e *Engine) beginTask(t *task) {
	if old := e.tasksOf(t.Source); len(old) >= sqslimits.TasksKept {
		for _, old := range old[sqslimits.TasksKept-1:] {
			e.rows.delete(row.TaskKey(old.Source, old.Number))
		}
	}
	e.sys.NextTask++
	e.sys.dirty = true
	e.tasks = append(e.tasks, t)
	e.rows.set(row.ActiveKey(t.Number), row.EncodeActive(e.rows.scratch(), t.Source))
	e.saveTask(t)
}

// ListTasks lists the tasks of an account: queue after queue by name, and of each queue the latest
// task first. Active ones are listed alone, and in the order of their starts.
type ListTasks struct {
	Account string
	Queue   string // of this queue only; empty for all
	Active  bool   // only those that have not ended
	After   string // ID of the last one of the page before; empty to begin
	Max     int    // at most TasksPage

	// The answer: a page, and After of the next one; empty after the last.
	Tasks []TaskView
	Next  string
}

// TasksPage is how many tasks a page may have. It has all active tasks of an account.
const TasksPage = tasksActive

func (op *ListTasks) apply(e *Engine, _ *Command) *Error {
	if op.Max < 1 || op.Max > TasksPage {
		return errNumber(int64(op.Max), "limit", "Must be between 1 and 100.")
	}
	of := QueueName{Account: op.Account, Name: op.Queue}
	op.Tasks, op.Next = nil, ""
	if op.Active {
		for _, t := range e.tasks {
			if t.Source.Account == op.Account && (op.Queue == "" || t.Source == of) {
				op.Tasks = append(op.Tasks, e.viewTask(t))
			}
		}
		return nil
	}
	rows := row.Below(row.TaskPrefix(of))
	if op.Queue == "" {
		rows = row.Below(row.TasksOf(op.Account))
	}
	if op.After != "" {
		name, number, _ := strings.Cut(op.After, ":")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return errValue(op.After, "after", "It is not the id of a task.")
		}
		last := row.TaskKey(QueueName{Account: op.Account, Name: name}, n)
		rows.Lo = slices.MaxFunc([][]byte{rows.Lo, append(last, 0)}, slices.Compare)
	}
	for k, v := range e.scan(rows) {
		t, ok := row.TaskOf(k, v)
		if !ok {
			e.rows.damaged("task", k)
		}
		if len(op.Tasks) == op.Max {
			op.Next = op.Tasks[op.Max-1].ID
			break
		}
		op.Tasks = append(op.Tasks, e.viewTask(&task{Task: t}))
	}
	return nil
}

// ShowTask shows one task.
type ShowTask struct {
	Account, ID string

	Task TaskView // the answer
}

func (op *ShowTask) apply(e *Engine, _ *Command) *Error {
	t, err := e.taskNamed(op.Account, op.ID)
	if err != nil {
		return err
	}
	op.Task = e.viewTask(t)
	return nil
}

// ChangeTask pauses, resumes or cancels a task, or gives it another rate. [TASK-12 to TASK-15]
type ChangeTask struct {
	Account, ID string
	Change      TaskChange
	Rate        int64 // for SetTaskRate
	By, Note    string

	Task TaskView // the answer
}

// A TaskChange is what ChangeTask does to a task.
type TaskChange string

// The changes.
const (
	PauseTask   TaskChange = "PauseTask"
	ResumeTask  TaskChange = "ResumeTask"
	CancelTask  TaskChange = "CancelTask"
	SetTaskRate TaskChange = "SetTaskRate"
)

func (op *ChangeTask) apply(e *Engine, _ *Command) *Error {
	t, err := e.taskNamed(op.Account, op.ID)
	if err != nil {
		return err
	}
	most, text := int64(TaskRateMax), op.Note
	if !t.Selects {
		most = sqslimits.TaskRateMax // a listing of SQS shows it
	}
	switch {
	case len(op.Note) > NoteMax:
		return errNumber(int64(len(op.Note)), "note", "Must have at most 500 bytes.")
	case op.Change == SetTaskRate && (op.Rate < 0 || op.Rate > most):
		return errNumber(op.Rate, "rate", "Must be between 1 and "+decimal(most)+
			", or 0 for no limit.")
	case t.Status != row.TaskRunning: // [TASK-15]
		return refuse(CodeConflict, "The task "+t.name()+" is "+row.TaskNames[t.Status]+
			" and cannot be changed. Start another one for the rest.")
	}
	switch op.Change {
	case PauseTask:
		t.Paused = true
	case ResumeTask:
		t.Paused, t.Due = false, e.now*1000
	case CancelTask:
		t.Status, t.Paused = row.TaskCancelling, false
	case SetTaskRate:
		t.Rate, t.Due, text = op.Rate, e.now*1000, decimal(op.Rate)+" a second"
	default:
		return errValue(string(op.Change), "change", "It is not known.")
	}
	e.saveTask(t)
	op.Task = t.view()
	e.log(op.Account, op.By, string(op.Change), t.name(), text)
	return nil
}
