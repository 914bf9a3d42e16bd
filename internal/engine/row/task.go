package row

import "slices"

// TaskStatus is what a task shows as its status.
type TaskStatus byte

func (s TaskStatus) known() bool { return s >= TaskRunning && s <= TaskFailed }

func (s TaskStatus) Active() bool { return s == TaskRunning || s == TaskCancelling }

const (
	TaskRunning TaskStatus = iota + 1
	TaskCompleted
	TaskCancelling
	TaskCancelled
	TaskFailed
)

var TaskNames = [...]string{"", "RUNNING", "COMPLETED", "CANCELLING", "CANCELLED", "FAILED"}

// TaskWork is what a task does with each message that it takes.
type TaskWork byte

func (w TaskWork) known() bool { return w <= TaskReplay }

const (
	TaskMove   TaskWork = iota // to where it came from, or to a queue, as a redrive
	TaskDelete                 // for ever
	TaskPark                   // to a queue, where it stays what it was
	TaskReplay                 // an outcome of the history of the queue, as a new message
)

var TaskWorks = [...]string{"move", "delete", "park", "replay"}

// TaskRateMax bounds the rate of a task that selects.
const TaskRateMax = 10_000

// A Task is a task: it takes messages from a queue, step by step. One that was started over SQS
// takes those that a receive would find. One that selects takes those that match its filter, in the
// order of their numbers or against it, and looks at each once. One that replays does so with the
// outcomes in the history of its queue: Limit, Place and Filter are about these.
type Task struct {
	Number uint64
	Source QueueName

	ID          [16]byte
	Destination QueueName // zero when each message goes back to where it came from
	Rate        int64     // messages a second; zero for as fast as possible
	Started     int64
	Status      TaskStatus
	Failure     string
	Moved       int64  // or deleted, or parked
	ToMove      int64  // how many are expected; zero when that is unknown
	Limit       uint64 // messages with this number or a later one came after the start [MOVE-24]
	Due         int64  // when the next message may move, in microseconds
	Stepped     int64  // when the last step was

	Paused bool
	// The rest is of tasks that select.
	Selects bool
	Work    TaskWork
	Filter  TaskFilter
	Most    int64  // it completes after so many messages; zero for all
	Confirm int64  // it fails when there are more than so many to delete; zero for any number
	Place   uint64 // what it has looked at, up to or, if Newest, from this number
	Skipped int64  // messages that match and had to stay
	By      string // who started it
	Note    string
	Missing bool // a replay sends only what was never completed

	Newest bool  // it begins with the message that came last
	Delays bool  // Delay counts, and not that of the queue where a message goes
	Delay  int64 // of moved messages, in milliseconds
	Edit   TaskEdit
}

// A TaskEdit is how a task changes each message on its way.
type TaskEdit struct {
	HasBody bool
	Body    string
	BodyMD5 [16]byte
	Set     []Attribute // user attributes, after those that stay
	Removed []string    // names of user attributes
}

// None reports whether the edit changes nothing.
func (e *TaskEdit) None() bool { return !e.HasBody && len(e.Set) == 0 && len(e.Removed) == 0 }

// Changes reports whether the edit sets or removes a user attribute.
func (e *TaskEdit) Changes(name string) bool {
	return slices.Contains(e.Removed, name) ||
		slices.ContainsFunc(e.Set, func(a Attribute) bool { return a.Name == name })
}

// A TaskFilter says which messages a task takes. A part that is zero says nothing.
type TaskFilter struct {
	ID          [16]byte // of the message, or of its lineage
	Group       string
	Source      string // ARN of the queue that it was dead-lettered from
	From, To    int64  // it was sent at From or later, and before To; an outcome ended then
	ReceivesMin uint64
	ReceivesMax uint64
	Attributes  []TaskAttribute
	Text        string // a part of the body
	Kind        string // fingerprint of the reason why it failed
	Reason      string // a part of that reason

	// Of a replay:
	Key     string // of the work
	Outcome OutcomeKind
}

// A TaskAttribute is a user attribute with its value.
type TaskAttribute struct{ Name, Value string }

// All reports whether the filter finds every message.
func (f *TaskFilter) All() bool {
	return f.ID == [16]byte{} && f.Group == "" && f.Source == "" && f.From == 0 && f.To == 0 &&
		f.ReceivesMin == 0 && f.ReceivesMax == 0 && f.Key == "" && f.Outcome == 0 &&
		!f.OfContent() && !f.OfReason()
}

// OfContent reports whether the filter looks at more than metadata.
func (f *TaskFilter) OfContent() bool { return len(f.Attributes) > 0 || f.Text != "" }

// OfReason reports whether the filter looks at why messages failed.
func (f *TaskFilter) OfReason() bool { return f.Kind != "" || f.Reason != "" }

func (t *Task) Encode(b []byte) []byte { return encode(b, t, (*Task).parts) }

// Versions of the rows of tasks: of those that replay, those that have an order, a delay or an
// edit, and those that select by reasons. Others that select, or are paused, are of version 2, and
// all others of version 1.
const (
	taskOfReason    = 3
	taskWithOptions = 4
	taskVersion     = 5
)

func (t *Task) parts(c *Codec) {
	write := byte(Version)
	switch {
	case t.Work == TaskReplay:
		write = taskVersion
	case t.Newest || t.Delays || !t.Edit.None():
		write = taskWithOptions
	case t.Filter.OfReason():
		write = taskOfReason
	case t.Selects || t.Paused:
		write = 2
	}
	version := c.version(write, taskVersion)
	c.ID(&t.ID)
	c.string(&t.Destination.Account, &t.Destination.Name)
	c.Int(&t.Rate, &t.Started)
	c.Byte((*byte)(&t.Status))
	c.string(&t.Failure)
	c.Int(&t.Moved, &t.ToMove)
	c.Uint(&t.Limit)
	c.Int(&t.Due, &t.Stepped)
	if version < 2 {
		return
	}
	c.bool(&t.Paused, &t.Selects)
	if !t.Selects {
		return
	}
	c.Byte((*byte)(&t.Work))
	c.Int(&t.Most, &t.Confirm)
	c.Uint(&t.Place)
	c.Int(&t.Skipped)
	c.string(&t.By, &t.Note)
	f := &t.Filter
	c.ID(&f.ID)
	c.string(&f.Group, &f.Source)
	c.Int(&f.From, &f.To)
	c.Uint(&f.ReceivesMin, &f.ReceivesMax)
	list(c, &f.Attributes, func(a *TaskAttribute) { c.string(&a.Name, &a.Value) })
	c.string(&f.Text)
	if version >= taskOfReason {
		c.string(&f.Kind, &f.Reason)
	}
	if version >= taskWithOptions {
		c.bool(&t.Newest, &t.Delays)
		c.Int(&t.Delay)
		edit := &t.Edit
		c.bool(&edit.HasBody)
		c.string(&edit.Body)
		c.ID(&edit.BodyMD5)
		list(c, &edit.Set, func(a *Attribute) { a.parts(c) })
		list(c, &edit.Removed, func(name *string) { c.string(name) })
	}
	if version >= taskVersion {
		c.bool(&t.Missing)
		c.string(&f.Key)
		c.Byte((*byte)(&f.Outcome))
	}
}

func DecodeTask(value []byte) (t Task, ok bool) {
	ok = decode(value, &t, (*Task).parts)
	return t, ok && t.Status.known() && t.Work.known() &&
		(t.Filter.Outcome == 0 || t.Filter.Outcome.known())
}
