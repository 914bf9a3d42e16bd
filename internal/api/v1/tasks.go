package v1

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/engine"
)

// A filter says which messages a task takes: those that fit all of its parts. [TASK-1]
type filter struct {
	ID          part              `json:"id,omitempty" doc:"message id or lineage id"`
	Group       part              `json:"group,omitempty" doc:"message group"`
	Source      part              `json:"source,omitempty" doc:"the queue that the messages came from"`
	From        *time.Time        `json:"from,omitempty" doc:"sent at this time or later"`
	Before      *time.Time        `json:"before,omitempty" doc:"sent before this time"`
	ReceivesMin uint64            `json:"receivesMin,omitempty"`
	ReceivesMax *uint64           `json:"receivesMax,omitempty" doc:"at least 1"`
	Attributes  map[string]string `json:"attributes,omitempty" doc:"user attributes with their values"`
	Text        part              `json:"text,omitempty" doc:"a part of the body"`
	Kind        part              `json:"kind,omitempty" doc:"kind of the reason, from /v1/queues/{queue}/reasons"`
	Reason      part              `json:"reason,omitempty" doc:"a part of the reason why the message failed"`
	Outcome     part              `json:"outcome,omitempty" enum:"deleted,expired,dead_lettered,moved,parked,replaced,removed" doc:"of a replay; from and before are then when it ended"`
	Key         part              `json:"key,omitempty" doc:"of a replay: key of the work"`
}

// A part of a filter is a text. It must not be empty: an empty part would select every message,
// while its sender, such as a script whose variable is not set, means a few.
type part string

func (p *part) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, (*string)(p)); err != nil {
		return err
	}
	if *p == "" {
		return errors.New("a part of the filter is empty: leave it out to take messages with any value")
	}
	return nil
}

// A destination is the name of a queue to which messages go. It must not be empty: a request
// without it sends them elsewhere, which a sender whose variable is not set does not mean.
type destination string

func (d *destination) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, (*string)(d)); err != nil {
		return err
	}
	if *d == "" {
		return errors.New("to is empty: name a queue, or leave it out")
	}
	return nil
}

// ofEngine returns the filter as the engine has it.
func (f *filter) ofEngine() (in engine.TaskFilter, err error) {
	if f.ID != "" {
		id, err := hex.DecodeString(strings.ReplaceAll(string(f.ID), "-", ""))
		if err == nil && len(id) == len(in.ID) {
			in.ID = [16]byte(id)
		}
		if in.ID == [16]byte{} { // of no message; to the engine, zero is any
			return in, errValue("id", string(f.ID), "a message id or a lineage id")
		}
	}
	if f.From != nil {
		in.From = f.From.UnixMilli()
	}
	if f.Before != nil {
		if in.To = f.Before.UnixMilli(); in.To <= 0 {
			return in, errValue("before", f.Before.Format(time.RFC3339Nano),
				"a time after 1970-01-01T00:00:00Z")
		}
	}
	if f.ReceivesMax != nil {
		if in.ReceivesMax = *f.ReceivesMax; in.ReceivesMax == 0 {
			return in, errValue("receivesMax", "0", "a number from 1")
		}
	}
	in.Group, in.Source, in.Text = string(f.Group), string(f.Source), string(f.Text)
	in.Kind, in.Reason, in.Key = string(f.Kind), string(f.Reason), string(f.Key)
	if err := f.readOutcome(&in); err != nil {
		return in, err
	}
	in.ReceivesMin = f.ReceivesMin
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		in.Attributes = append(in.Attributes,
			engine.TaskAttribute{Name: name, Value: f.Attributes[name]})
	}
	return in, nil
}

// shownFilter is the filter of a task, nil when it takes every message.
func shownFilter(in *engine.TaskFilter) *filter {
	if in.All() {
		return nil
	}
	f := &filter{Group: part(in.Group), Text: part(in.Text), Key: part(in.Key),
		Source:      part(in.Source[strings.LastIndex(in.Source, ":")+1:]),
		ReceivesMin: in.ReceivesMin, Kind: part(in.Kind), Reason: part(in.Reason),
		Outcome: part(in.Outcome.String()), Attributes: make(map[string]string)}
	if in.ID != [16]byte{} {
		f.ID = part(engine.MessageID(in.ID).String())
	}
	if in.ReceivesMax != 0 {
		f.ReceivesMax = &in.ReceivesMax
	}
	f.From, f.Before = timeOf(in.From), timeOf(in.To)
	for _, a := range in.Attributes {
		f.Attributes[a.Name] = a.Value
	}
	return f
}

// timeOf is a time in Unix milliseconds; nil for never.
func timeOf(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// A task is a task as /v1 shows it. [TASK-11]
type task struct {
	ID       string     `json:"id" doc:"the queue and a number, such as orders-dlq:17"`
	Do       string     `json:"do" enum:"move,delete,park,replay"`
	Queue    string     `json:"queue"`
	To       string     `json:"to,omitempty" doc:"absent when each message goes to its source, and in a replay to the queue itself"`
	Missing  bool       `json:"missing,omitempty" doc:"a replay sends only what was never completed"`
	Filter   *filter    `json:"filter,omitempty" doc:"absent when the task takes every message"`
	State    string     `json:"state" enum:"RUNNING,PAUSED,COMPLETED,CANCELLING,CANCELLED,FAILED"`
	Done     int64      `json:"done" doc:"messages taken, or sent again, so far"`
	Expected int64      `json:"expected,omitempty" doc:"messages; absent when that is unknown"`
	Skipped  int64      `json:"skipped" doc:"messages that the filter finds and that had to stay"`
	Limit    int64      `json:"limit,omitempty"`
	Confirm  int64      `json:"confirm,omitempty"`
	Rate     int64      `json:"rate,omitempty" doc:"messages a second; absent for no limit"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended,omitempty"`
	By       string     `json:"by,omitempty" doc:"who started it"`
	Note     string     `json:"note,omitempty"`
	Reason   string     `json:"reason,omitempty" doc:"why it failed; DiskReserve while it waits because the disk is nearly full"`
	SQS      bool       `json:"sqs,omitempty" doc:"it was started with StartMessageMoveTask"`

	Order string     `json:"order,omitempty" enum:"newest" doc:"absent when it begins with the oldest message"`
	Delay *int64     `json:"delayMs,omitempty" doc:"of the messages that it moves; absent for that of their queue"`
	Edit  *shownEdit `json:"edit,omitempty" doc:"absent when messages stay as they are"`
}

// A shownEdit says what the edit of a task changes, and not into what. [TASK-22]
type shownEdit struct {
	Body    bool     `json:"body" doc:"messages get another body"`
	Set     []string `json:"set,omitempty" doc:"names of user attributes"`
	Removed []string `json:"removed,omitempty" doc:"names of user attributes"`
}

var works = []string{engine.TaskMove: "move", engine.TaskDelete: "delete", engine.TaskPark: "park",
	engine.TaskReplay: "replay"}

func shownTask(v *engine.TaskView) task {
	t := task{ID: v.ID, Do: works[v.Work], Queue: v.Queue, To: v.To,
		Filter: shownFilter(&v.Filter), State: v.Status, Done: v.Done, Expected: v.Expected,
		Skipped: v.Skipped, Limit: v.Most, Confirm: v.Confirm, Rate: v.Rate,
		Started: *timeOf(v.Started), Ended: timeOf(v.Ended), By: v.By, Note: v.Note,
		Reason: v.Failure, SQS: v.SQS, Missing: v.Missing}
	if v.Newest {
		t.Order = newest
	}
	if v.Delay.Set {
		t.Delay = &v.Delay.Value
	}
	if !v.Edit.None() {
		t.Edit = &shownEdit{Body: v.Edit.HasBody, Removed: v.Edit.Removed}
		for _, a := range v.Edit.Set {
			t.Edit.Set = append(t.Edit.Set, a.Name)
		}
	}
	return t
}

// newest is the order of a task that begins with the latest message. [TASK-20]
const newest = "newest"

// allow refuses what the caller may not do with a queue. [TASK-18]
func (c *call) allow(queue string, actions ...string) error {
	for _, action := range actions {
		if err := c.cfg.Policies.Allow(c.principal, c.request, action,
			c.queue(queue)); err != nil {
			return err
		}
	}
	return nil
}

// allowTo refuses to move messages to a queue, or to where each came from if that is empty.
// [TASK-18]
func (c *call) allowTo(queue string) error {
	if queue != "" {
		return c.allow(queue, "sqs:SendMessage")
	}
	return c.cfg.Policies.AllowReturn(c.principal, c.request, c.do)
}

// by is who asks, for the action log: the name of a key, and behind it in parentheses the user that
// a proxy named. No key has a space in its name. [CONSOLE-21]
func (c *call) by() string {
	id, user, _, _ := c.principal.Key()
	by := cmp.Or(user, id, "unsigned")
	if person := c.principal.ProxyUser(); person != "" {
		by += " (" + person + ")"
	}
	return by
}

// proxyUserOf returns the user in what by has returned; empty for none.
func proxyUserOf(by string) string {
	_, user, _ := strings.Cut(strings.TrimSuffix(by, ")"), " (")
	return user
}

type tasksIn struct {
	Queue string `query:"queue"`
	State string `query:"state" enum:"active" doc:"active: only tasks that have not ended"`
	After string `query:"after" doc:"next of the page before"`
	Limit int    `query:"limit" range:"1,100" default:"50"`
}

// A taskList is a page of GET /v1/tasks.
type taskList struct {
	Tasks []task `json:"tasks"`
	Next  string `json:"next,omitempty"`
}

// tasks answers GET /v1/tasks: the latest tasks of each queue, or those that have not ended. Tasks
// of queues that deny the caller are left out, and next does not name one. [TASK-18]
func (c *call) tasks(in tasksIn) (taskList, error) {
	list := taskList{Tasks: []task{}}
	if err := c.allow(in.Queue, c.route.right()); err != nil {
		return list, err
	}
	op := &engine.ListTasks{Account: c.principal.Account(), Queue: in.Queue,
		Active: in.State == "active", After: in.After, Max: engine.TasksPage}
	for range taskTurns {
		if err := c.do(op); err != nil {
			return list, err
		}
		for i := range op.Tasks {
			if c.allow(op.Tasks[i].Queue, c.route.right()) == nil {
				list.Tasks = append(list.Tasks, shownTask(&op.Tasks[i]))
			}
		}
		if op.After = op.Next; op.Next == "" || len(list.Tasks) >= in.Limit {
			break
		}
	}
	list.Next = op.Next
	if n := len(list.Tasks); !op.Active && (n > in.Limit || n == in.Limit && op.Next != "") {
		list.Tasks = list.Tasks[:in.Limit]
		list.Next = list.Tasks[in.Limit-1].ID
	}
	return list, nil
}

// taskTurns bounds the turns of the broker for one page, if the caller may see few tasks.
const taskTurns = 100

type startIn struct {
	Queue    string      `json:"queue"`
	Do       string      `json:"do" enum:"move,delete,park,replay"`
	To       destination `json:"to,omitempty" doc:"name of a queue; absent to move each message to its source, and to replay to the queue itself"`
	Filter   filter      `json:"filter,omitzero" doc:"absent for every message"`
	Missing  bool        `json:"missing,omitempty" doc:"replay only what was never completed"`
	Rate     int64       `json:"rate,omitempty" range:"0,10000" doc:"messages a second; 0 for no limit"`
	Limit    int64       `json:"limit,omitempty" doc:"messages that it takes at most; 0 for all"`
	Expected int64       `json:"expected,omitempty" doc:"messages, for the progress"`
	Confirm  int64       `json:"confirm,omitempty" doc:"messages that a delete removes at most"`
	Note     string      `json:"note,omitempty" doc:"why, at most 500 bytes"`
	Order    string      `json:"order,omitempty" enum:"oldest,newest" doc:"which messages it takes first; absent for oldest"`
	Delay    *int64      `json:"delayMs,omitempty" doc:"until a moved message can be received, at most 900000; absent for the delay of its queue"`
	Edit     edit        `json:"edit,omitzero" doc:"what changes in each moved message; absent for nothing"`
}

// startTask answers POST /v1/tasks. [TASK-1]
func (c *call) startTask(in startIn) (task, error) {
	if err := c.allowTask(&in); err != nil {
		return task{}, err
	}
	if in.Do == "" {
		return task{}, errValue("do", "", "move, delete, park or replay")
	}
	if err := checkLine("note", in.Note); err != nil {
		return task{}, err
	}
	f, err := in.Filter.ofEngine()
	if err != nil {
		return task{}, err
	}
	op := &engine.StartTask{Queue: c.queue(in.Queue), To: string(in.To), Filter: f,
		Work: engine.TaskWork(slices.Index(works, in.Do)), Rate: in.Rate, Most: in.Limit,
		Expected: in.Expected, Confirm: in.Confirm, Missing: in.Missing, By: c.by(),
		Note: in.Note, Newest: in.Order == newest, Edit: in.Edit.ofEngine()}
	if in.Delay != nil {
		op.Delay = engine.Int{Value: *in.Delay, Set: true}
	}
	if !op.Edit.None() {
		if err := c.allow(in.Queue, "tenaq:ReplaceMessage"); err != nil {
			return task{}, err
		}
	}
	if err := c.do(op); err != nil {
		return task{}, err
	}
	return shownTask(&op.Task), nil
}

type countIn struct {
	Queue  string      `json:"queue"`
	Filter filter      `json:"filter,omitzero"`
	After  string      `json:"after,omitempty" doc:"next of the count before"`
	Limit  int64       `json:"limit,omitempty" doc:"the count ends at this number of messages"`
	Back   bool        `json:"back,omitempty" doc:"count for a move of each message to its source"`
	To     destination `json:"to,omitempty" doc:"count for a move of all messages to this queue, or a replay"`
	Order  string      `json:"order,omitempty" enum:"oldest,newest" doc:"which messages it counts and shows first"`
	Edit   edit        `json:"edit,omitzero" doc:"show the samples as this edit leaves them; without to, for a move of each message to its source"`

	Do      string `json:"do,omitempty" enum:"replay" doc:"count for a replay"`
	Missing bool   `json:"missing,omitempty" doc:"of what was never completed"`
}

// A taskCount is the answer to POST /v1/tasks/count.
type taskCount struct {
	Count    int64     `json:"count" doc:"messages that a task would take now"`
	Bytes    int64     `json:"bytes"`
	Skipped  int64     `json:"skipped" doc:"messages that the filter finds and that cannot be taken now"`
	Looked   int64     `json:"looked" doc:"messages that this request has looked at; 0 of a replay"`
	Complete bool      `json:"complete" doc:"the count has come to the end of the queue"`
	Next     string    `json:"next,omitempty"`
	Samples  []message `json:"samples" doc:"up to three of the messages, as an edit leaves them"`

	// Of a replay:
	Skips    *ReplaySkips `json:"skips,omitempty" doc:"why outcomes that the filter finds would not be sent"`
	Outcomes []outcome    `json:"outcomes,omitempty" doc:"up to three messages that a replay would send, instead of samples"`
}

const (
	// sampleBody is how much of the body of a sample is shown, in bytes.
	sampleBody = 1024

	// countSteps is how many steps of 512 messages a count takes: about 2 ms of processor time.
	// The caller continues.
	countSteps = 6
)

// countTask answers POST /v1/tasks/count, which changes nothing. [TASK-8]
func (c *call) countTask(in countIn) (taskCount, error) {
	count := taskCount{Samples: []message{}}
	rights := []string{c.route.right()}
	if in.Do != "" {
		rights = append(rights, searchHistory)
	}
	if err := c.allow(in.Queue, rights...); err != nil {
		return count, err
	}
	f, err := in.Filter.ofEngine()
	if err != nil {
		return count, err
	}
	if in.To != "" {
		if err := c.allowTo(string(in.To)); err != nil {
			return count, err
		}
	}
	op := &engine.CountTask{Queue: c.queue(in.Queue), Filter: f, After: in.After,
		Most: in.Limit, Back: in.Back, To: string(in.To), Newest: in.Order == newest,
		Edit: in.Edit.ofEngine(), Replay: in.Do != "", Missing: in.Missing}
	if in.Limit < 0 {
		return count, errValue("limit", strconv.FormatInt(in.Limit, 10), "a number of messages")
	}
	var samples []engine.Peeked
	for range countSteps {
		if err := c.do(op); err != nil {
			return count, err
		}
		count.Count, count.Bytes, count.Skipped, count.Looked = count.Count+op.Count,
			count.Bytes+op.Bytes, count.Skipped+op.Skipped, count.Looked+op.Looked
		samples = append(samples, op.Samples...)
		count.addReplay(op)
		op.After, op.Most = op.Next, in.Limit-count.Count
		if op.Next == "" || in.Limit > 0 && op.Most == 0 {
			break
		}
	}
	count.Next, count.Complete = op.Next, op.Next == ""
	samples = samples[:min(len(samples), engine.CountSamples)]
	edits, size := !op.Edit.None(), int64(0)
	for i := range samples {
		if size = max(size, samples[i].Size); edits && i > 0 { // attributes are shown whole
			size += samples[i].Size
		}
	}
	if err := c.reserve(size); err != nil {
		return count, err
	}
	for i := range samples {
		m := c.shown(&samples[i])
		content, ok := c.cfg.Broker.ReadContent(samples[i].Delivery)
		if !ok {
			continue
		}
		if edits {
			m.change(&content, &op.Edit)
		}
		m.add(&content, sampleBody)
		count.Samples = append(count.Samples, m)
	}
	return count, nil
}

// change makes a message and its content what an edit leaves of them. [TASK-22]
func (m *message) change(content *engine.Content, by *engine.TaskEdit) {
	after := engine.Edited(content, by)
	content.Body, m.Size = after.Body.Value, new(engine.NewDraft(after)).Bytes()
	m.Attributes = make(map[string]attribute)
	for _, a := range after.Attributes {
		m.Attributes[a.Name] = attribute{a.Type.Value, a.String.Value, a.Binary}
	}
}

type taskIn struct {
	Task string `path:"task"`
}

// queueOf is the queue of a task, which its id begins with.
func queueOf(task string) string {
	queue, _, _ := strings.Cut(task, ":")
	return queue
}

// oneTask answers GET /v1/tasks/{task}.
func (c *call) oneTask(in taskIn) (task, error) {
	if err := c.allow(queueOf(in.Task), c.route.right()); err != nil {
		return task{}, err
	}
	op := &engine.ShowTask{Account: c.principal.Account(), ID: in.Task}
	if err := c.do(op); err != nil {
		return task{}, err
	}
	return shownTask(&op.Task), nil
}

// changeIn says why. That it is read from a body of JSON keeps web pages from sending it.
type changeIn struct {
	Task string `path:"task"`
	Note string `json:"note,omitempty" doc:"why, for the action log"`
}

// changeTask carries out a change. [TASK-12 to TASK-15]
func (c *call) changeTask(op engine.ChangeTask) (task, error) {
	if err := c.allow(queueOf(op.ID), c.route.right()); err != nil {
		return task{}, err
	}
	if err := checkLine("note", op.Note); err != nil {
		return task{}, err
	}
	op.Account, op.By = c.principal.Account(), c.by()
	if err := c.do(&op); err != nil {
		return task{}, err
	}
	return shownTask(&op.Task), nil
}

// pauseTask answers POST /v1/tasks/{task}/pause.
func (c *call) pauseTask(in changeIn) (task, error) {
	return c.changeTask(engine.ChangeTask{ID: in.Task, Change: engine.PauseTask, Note: in.Note})
}

// resumeTask answers POST /v1/tasks/{task}/resume.
func (c *call) resumeTask(in changeIn) (task, error) {
	return c.changeTask(engine.ChangeTask{ID: in.Task, Change: engine.ResumeTask, Note: in.Note})
}

// cancelTask answers POST /v1/tasks/{task}/cancel.
func (c *call) cancelTask(in changeIn) (task, error) {
	return c.changeTask(engine.ChangeTask{ID: in.Task, Change: engine.CancelTask, Note: in.Note})
}

type rateIn struct {
	Task string `path:"task"`
	Rate int64  `json:"rate" range:"0,10000" doc:"messages a second; 0 for no limit"`
}

// setTaskRate answers POST /v1/tasks/{task}/rate.
func (c *call) setTaskRate(in rateIn) (task, error) {
	return c.changeTask(engine.ChangeTask{ID: in.Task, Change: engine.SetTaskRate, Rate: in.Rate})
}

type actionsIn struct {
	Before int64 `query:"before" doc:"next of the page before"`
	Limit  int   `query:"limit" range:"1,100" default:"50"`
}

// An Action is an entry of the action log. [TASK-16]
type Action struct {
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	By     string    `json:"by" doc:"name of the key, and the proxyUser in parentheses"`
	Action string    `json:"action"`
	About  string    `json:"about" doc:"a task or a queue"`
	Text   string    `json:"text,omitempty"`

	ProxyUser string `json:"proxyUser,omitempty" doc:"user of a proxy who acted as the key"`
}

// An ActionList is a page of GET /v1/actions, the latest action first.
type ActionList struct {
	Actions []Action `json:"actions"`
	Next    uint64   `json:"next,omitempty"`
}

// actions answers GET /v1/actions. What was done to queues that deny the caller is left out.
// [TASK-18]
func (c *call) actions(in actionsIn) (ActionList, error) {
	list := ActionList{Actions: []Action{}}
	op := &engine.ListActions{Account: c.principal.Account(), Before: uint64(max(in.Before, 0)),
		Max: engine.ActionsPage}
	for {
		if err := c.do(op); err != nil {
			return list, err
		}
		for i := range op.Actions {
			a := &op.Actions[i]
			if !elsewhere[a.Name] && c.allow(queueOf(a.About), c.route.right()) != nil {
				continue
			}
			if len(list.Actions) == in.Limit {
				list.Next = list.Actions[in.Limit-1].Number
				return list, nil
			}
			list.Actions = append(list.Actions, Action{a.Number, *timeOf(a.At), a.By, a.Name,
				a.About, strings.TrimSpace(a.Text), proxyUserOf(a.By)})
		}
		if op.Before = op.Next; op.Next == 0 { // the log is short [TASK-16]
			return list, nil
		}
	}
}

// elsewhere are the actions that are not about a queue or a task of one.
var elsewhere = map[string]bool{"ManageClaims": true, "ManageOutbox": true, "SilenceAlarms": true,
	"AcknowledgeAlarm": true, "TestAction": true, "SignIn": true, "SignOut": true}
