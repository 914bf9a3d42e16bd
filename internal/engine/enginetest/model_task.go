package enginetest

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine"
	"tenaq/internal/work/fingerprint"
)

// name is the id of a task.
func (t *modelTask) name() string { return fmt.Sprintf("%s:%d", t.source.Name, t.number) }

// view shows a task as /v1 does.
func (t *modelTask) view() engine.TaskView {
	v := engine.TaskView{ID: t.name(), Queue: t.source.Name, Status: t.Status, Failure: t.Failure,
		Done: t.Moved, Skipped: t.skipped, Expected: t.ToMove, Rate: t.Rate, Started: t.Started,
		SQS: t.selects == nil}
	if s := t.selects; s != nil {
		v.Work, v.To, v.Filter, v.Most, v.Confirm = s.Work, s.To, s.Filter, s.Most, s.Confirm
		v.By, v.Note, v.Newest, v.Delay, v.Edit = s.By, s.Note, s.Newest, s.Delay, s.Edit
		v.Missing = s.Missing
		if s.Work == engine.TaskReplay && v.To == v.Queue {
			v.To = ""
		}
	} else if t.Destination != "" {
		v.To = queueOfARN(t.Destination)
	}
	if t.paused {
		v.Status = "PAUSED"
	}
	if !t.active() {
		v.Ended = t.stepped
	}
	return v
}

func (m *Model) note(account, by, name, about, text string) {
	m.log = append(m.log, engine.Action{Number: uint64(len(m.log) + 1), At: m.now,
		Account: account, By: by, Name: name, About: about, Text: text})
}

func (m *Model) listActions(op *engine.ListActions) {
	op.Actions, op.Next = nil, 0
	for _, a := range slices.Backward(m.log[max(len(m.log)-1000, 0):]) {
		switch {
		case op.Before != 0 && a.Number >= op.Before:
		case len(op.Actions) == op.Max:
			op.Next = op.Actions[op.Max-1].Number
			return
		default:
			op.Actions = append(op.Actions, a)
		}
	}
}

func (m *Model) startSelection(q *modelQueue, op *engine.StartTask) *engine.Error {
	replay := op.Work == engine.TaskReplay
	if replay {
		if no := m.checkReplay(q, op.To); no != nil {
			return no
		}
	} else if no := m.checkTask(q, op); no != nil {
		return no
	}
	if earlier := m.tasksOf(q.name); len(earlier) > 0 && earlier[0].active() {
		return modelRefusal(engine.CodeConflict, "The task %s of this queue has not ended. "+
			"A queue has one task at a time: wait for its end, or cancel it.", earlier[0].name())
	}
	t := m.newTask(q)
	t.MoveTask = engine.MoveTask{Status: "RUNNING", Rate: op.Rate, Started: m.now,
		ToMove: cmp.Or(op.Expected, op.Confirm)}
	if replay {
		t.last = uint64(len(q.outcomes))
	} else if t.ToMove == 0 && op.Filter.All() {
		t.ToMove = int64(q.count(available, m.now))
	}
	if op.Most > 0 && t.ToMove > op.Most {
		t.ToMove = op.Most
	}
	asked := *op
	t.selects = &asked
	if op.Newest {
		t.place = t.last + 1
	}
	op.Task = t.view()
	work := []string{"move", "delete", "park", "replay"}[op.Work]
	if edits(&op.Edit) {
		work = "edit and " + work
	}
	m.note(q.name.Account, op.By, "StartTask", t.name(), work+" "+op.Note)
	return nil
}

func edits(e *engine.TaskEdit) bool { return e.HasBody || len(e.Set)+len(e.Removed) > 0 }

// checkTask refuses an order, a delay, an edit or a destination that a task cannot have.
func (m *Model) checkTask(q *modelQueue, op *engine.StartTask) *engine.Error {
	delay := fmt.Sprint(op.Delay.Value)
	switch {
	case op.Newest && q.fifo() && op.Work != engine.TaskDelete:
		return modelBadValue("newest", "order", "The messages of a group leave a FIFO "+
			"queue in their order. Leave the order out, and select the messages with a filter.")
	case op.Delay.Set && op.Work != engine.TaskMove:
		return modelBadValue(delay, "delayMs", "Only a move delays messages.")
	case op.Delay.Value > 0 && q.fifo():
		return modelBadValue(delay, "delayMs", "A FIFO queue takes no message with a delay of "+
			"its own. Leave the delay out.")
	case op.Delay.Value < 0 || op.Delay.Value > 900_000:
		return modelBadValue(delay, "delayMs", "Must be between 0 and 900000.")
	case edits(&op.Edit) && op.Work != engine.TaskMove:
		work := []string{"move", "delete", "park"}[op.Work]
		return modelBadValue(work, "do", "Only a move edits messages.")
	case op.Edit.Changes("tenaq"):
		return modelBadValue("tenaq", "attributes", "A task does not change the identity of its "+
			"messages. Replace them one by one.")
	}
	if op.To == "" {
		return nil
	}
	to := m.queues[engine.QueueName{Account: q.name.Account, Name: op.To}]
	switch {
	case to == nil:
		return modelBadValue(op.To, "to", "There is no such queue.")
	case to == q:
		return modelBadValue(op.To, "to", "Source and destination must be different queues.")
	case to.fifo() != q.fifo():
		return modelBadValue(op.To, "to",
			"Source and destination must be queues of the same type.")
	}
	return nil
}

// edited is what a message becomes on its way to a queue; false if the queue refuses that.
func edited(to *modelQueue, msg *modelMessage, by *engine.TaskEdit) (e engine.Entry, ok bool) {
	e = msg.entry
	e.Delay, e.Dedup = engine.Int{}, engine.Text{}
	if to != nil && to.fifo() {
		e.Dedup = engine.Text{Value: msg.dedup, Set: true}
	}
	if by.HasBody {
		e.Body.Value, e.BodyMD5 = by.Body, md5Of(by.Body)
	}
	e.Attributes = nil
	for _, a := range msg.entry.Attributes {
		if !by.Changes(a.Name) {
			e.Attributes = append(e.Attributes, a)
		}
	}
	for _, a := range by.Set {
		sent := engine.EntryAttribute{Name: a.Name, String: engine.Text{Value: a.String},
			Type: engine.Text{Value: a.Type, Set: true}, Binary: a.Binary}
		e.Attributes = append(e.Attributes, sent)
	}
	return e, to == nil || to.check(e, "") == nil
}

// stepSelection looks at up to 512 messages, and takes up to 100 of those that match.
func (m *Model) stepSelection(t *modelTask, q *modelQueue, most int64) {
	op := t.selects
	allowed, taken, size := t.allowance(m.now, most), int64(0), int64(0)
	failure := ""
	looked := slices.Clone(q.messages)
	whole := m.selectFrom(walk{&op.Filter, op.Work == engine.TaskPark ||
		op.Work == engine.TaskMove && op.To == "", op.Newest, edits(&op.Edit)},
		&t.place, looked, t.last,
		func(msg *modelMessage) bool {
			var to *modelQueue
			done := t.Moved + taken
			known := true
			if op.Work != engine.TaskDelete {
				if to = m.sourceQueue(q, msg); op.To != "" {
					to = m.queues[engine.QueueName{Account: q.name.Account, Name: op.To}]
				}
				known = to != nil
			}
			bytes, entry, accepted := sizeOf(&msg.entry), msg.entry, true
			if edits(&op.Edit) {
				entry, accepted = edited(to, msg, &op.Edit)
				bytes = max(bytes, sizeOf(&entry))
			}
			size += bytes
			switch {
			case !m.canTake(q, looked, msg) || overtakes(q, op, msg):
				size -= bytes
				t.skipped++
				return true
			case op.Most > 0 && done == op.Most:
				return false
			case op.Confirm > 0 && done == op.Confirm:
				failure = "MoreThanConfirmed"
				return false
			case taken == allowed || taken > 0 && size > 4<<20:
				return false
			case !known && op.To != "":
				failure = string(engine.CodeNoQueue)
				return false
			case !known || !accepted:
				t.skipped++
				return true
			}
			taken++
			switch op.Work {
			case engine.TaskMove:
				delay, outcome := to.number("DelaySeconds")*1000, "moved"
				if op.Delay.Set {
					delay = op.Delay.Value
				}
				if edits(&op.Edit) {
					outcome = "replaced"
				}
				m.moveBack(q, to, msg, entry, delay, outcome)
			case engine.TaskPark:
				m.park(q, to, msg)
			case engine.TaskDelete:
				q.remove(msg)
				m.end(q, msg, "removed", engine.QueueName{})
				m.countTimeout(q, msg)
				m.of(q).Deleted.Add(1)
			}
			return true
		})
	t.spend(taken, m.now)
	switch {
	case failure != "":
		t.end("FAILED", failure)
	case whole || op.Most > 0 && t.Moved == op.Most:
		t.end("COMPLETED", "")
	}
}

func (m *Model) park(q, to *modelQueue, msg *modelMessage) *modelMessage {
	q.remove(msg)
	m.end(q, msg, "parked", to.name)
	m.countTimeout(q, msg)
	m.of(q).Moved.Add(1)
	m.of(to).Arrived.Add(1)
	moved := *msg
	if moved.source == "" && to != q {
		moved.source = m.arn(q.name)
		if source := m.sourceQueue(q, msg); source != nil {
			moved.source = m.arn(source.name)
		}
	}
	moved.base, moved.origin = m.now, !to.fifo() && moved.source != ""
	m.enter(to, &moved, 0)
	msg.carry(q, to, &moved)
	moved.kind = available
	return &moved
}

// A walk says which messages selectFrom finds, what it reads of each, and in which order.
type walk struct {
	*engine.TaskFilter
	sources, newest, contents bool
}

// selectFrom calls visit for the messages after a place, up to a last one, that a filter finds,
// until it returns false. It reports whether it has come to the last one.
func (m *Model) selectFrom(
	f walk, place *uint64, messages []*modelMessage, last uint64,
	visit func(*modelMessage) bool,
) (whole bool) {
	looks, reads := 512, int64(4<<20)
	messages = slices.Clone(messages)
	if f.newest {
		slices.Reverse(messages)
	}
	for _, msg := range messages {
		if msg.seq > last || f.newest && msg.seq >= *place || !f.newest && msg.seq <= *place {
			continue
		}
		if looks == 0 {
			return false
		}
		found := matches(f.TaskFilter, msg)
		if found && (f.OfContent() || msg.source == "" && (f.sources || f.Source != "") ||
			f.contents) {
			size := sizeOf(&msg.entry)
			if reads < size && reads < 4<<20 {
				return false
			}
			reads -= size
			found = matchesContent(f.TaskFilter, msg)
		}
		if found && f.OfReason() {
			found = matchesReason(f.TaskFilter, msg)
		}
		if found && !visit(msg) {
			return false
		}
		looks--
		*place = msg.seq
	}
	return true
}

func matches(f *engine.TaskFilter, msg *modelMessage) bool {
	id := engine.MessageID(f.ID)
	switch receives := uint64(msg.receives); {
	case id != engine.MessageID{} && id != msg.id && id != msg.lineage,
		f.Group != "" && f.Group != msg.entry.Group.Value,
		f.Source != "" && f.Source != cmp.Or(msg.source, written(msg, "source")),
		msg.sent < f.From || f.To != 0 && msg.sent >= f.To,
		receives < f.ReceivesMin || f.ReceivesMax != 0 && receives > f.ReceivesMax:
		return false
	}
	return true
}

func matchesContent(f *engine.TaskFilter, msg *modelMessage) bool {
	for _, wanted := range f.Attributes {
		if !slices.ContainsFunc(msg.entry.Attributes, func(a engine.EntryAttribute) bool {
			return a.Name == wanted.Name && !strings.HasPrefix(a.Type.Value, "Binary") &&
				a.String.Value == wanted.Value
		}) {
			return false
		}
	}
	return strings.Contains(msg.entry.Body.Value, f.Text)
}

// written is a field that a worker wrote into a dead letter.
func written(msg *modelMessage, field string) (text string) {
	for _, a := range msg.entry.Attributes {
		if fields, err := url.ParseQuery(a.String.Value); a.Name == "tenaq" && err == nil &&
			fields.Get("v") == "1" {
			text = fields.Get(field)
		}
	}
	return text
}

// overtakes reports whether a task that moves all of a FIFO queue would leave behind a message of
// the same group that came before this one.
func overtakes(q *modelQueue, op *engine.StartTask, msg *modelMessage) bool {
	return q.fifo() && op.Work != engine.TaskDelete && op.Filter.All() &&
		slices.ContainsFunc(q.messages, func(other *modelMessage) bool {
			return other.place < msg.place && other.entry.Group.Value == msg.entry.Group.Value
		})
}

// sourceQueue is the queue that a message goes back to, nil if there is none.
func (m *Model) sourceQueue(q *modelQueue, msg *modelMessage) *modelQueue {
	name := queueOfARN(cmp.Or(msg.source, written(msg, "source")))
	if to := m.queues[engine.QueueName{Account: q.name.Account, Name: name}]; to != nil &&
		to.fifo() == q.fifo() {
		return to
	}
	return nil
}

func matchesReason(f *engine.TaskFilter, msg *modelMessage) bool {
	class, text := "", written(msg, "reason")
	for _, a := range msg.attempts {
		if verdict := a.How.String(); (verdict == "retry" || verdict == "poison") &&
			a.Class+a.Text != "" {
			class, text = a.Class, a.Text
		}
	}
	reason := class + text
	if class != "" && text != "" {
		reason = class + ": " + text
	}
	return (f.Kind == "" || f.Kind == fingerprint.Of(reason)) &&
		strings.Contains(reason, f.Reason)
}

// canTake reports whether a message can be received. In a FIFO queue, none before it in its group
// may be hidden or delayed.
func (m *Model) canTake(q *modelQueue, messages []*modelMessage, msg *modelMessage) bool {
	if q.due(msg) > m.now || q.expired(msg, m.now) ||
		m.isHeld(q, msg) {
		return false
	}
	return !q.fifo() || !slices.ContainsFunc(messages, func(before *modelMessage) bool {
		return before.place < msg.place && before.entry.Group.Value == msg.entry.Group.Value &&
			q.due(before) > m.now
	})
}

func (m *Model) countTask(q *modelQueue, op *engine.CountTask) *engine.Error {
	back := op.To == "" && (op.Back || edits(&op.Edit))
	task := &engine.StartTask{To: op.To, Newest: op.Newest, Edit: op.Edit}
	if op.To == "" && !back {
		task.Work = engine.TaskDelete
	}
	place, _ := q.openPlace(op.After)
	if op.Replay {
		return m.countReplay(q, op, place)
	}
	if no := m.checkTask(q, task); no != nil {
		return no
	}
	m.settle(q)
	op.Count, op.Bytes, op.Skipped, op.Samples, op.Next = 0, 0, 0, nil, ""
	if op.Newest && op.After == "" {
		place = q.seq + 1
	}
	visit := func(msg *modelMessage) bool {
		to := m.queues[engine.QueueName{Account: q.name.Account, Name: op.To}]
		if back {
			to = m.sourceQueue(q, msg)
		}
		_, accepted := edited(to, msg, &op.Edit)
		if !m.canTake(q, q.messages, msg) || back && to == nil ||
			edits(&op.Edit) && !accepted {
			op.Skipped++
			return true
		}
		if op.Count == op.Most && op.Most > 0 {
			return false
		}
		op.Count++
		op.Bytes += sizeOf(&msg.entry)
		if len(op.Samples) < engine.CountSamples {
			op.Samples = append(op.Samples, engine.Peeked{Delivery: q.delivery(msg, nil),
				Place: q.place(msg.seq)})
		}
		return true
	}
	whole := m.selectFrom(walk{&op.Filter, back, op.Newest, edits(&op.Edit)}, &place,
		q.messages, q.seq, visit)
	if !whole {
		op.Next = q.place(place)
	}
	return nil
}

// place is the place of a message; openPlace reads one.
func (q *modelQueue) place(seq uint64) string { return fmt.Sprintf("%d/%x", seq, q.incarnation) }

func (q *modelQueue) openPlace(text string) (seq uint64, ok bool) {
	number, incarnation, _ := strings.Cut(text, "/")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, err == nil && incarnation == fmt.Sprintf("%x", q.incarnation)
}

func (m *Model) listAll(op *engine.ListTasks) {
	tasks := slices.Clone(m.tasks)
	if !op.Active {
		slices.SortFunc(tasks, func(a, b *modelTask) int {
			return cmp.Or(cmp.Compare(a.source.Name, b.source.Name),
				cmp.Compare(b.number, a.number))
		})
	}
	op.Tasks, op.Next = nil, ""
	behind := op.After == ""
	for _, t := range tasks {
		if behind && (op.Queue == "" || t.source.Name == op.Queue) && (!op.Active || t.active()) {
			if !op.Active && len(op.Tasks) == op.Max {
				op.Next = op.Tasks[op.Max-1].ID
				return
			}
			op.Tasks = append(op.Tasks, t.view())
		}
		behind = behind || t.name() == op.After
	}
}

func (m *Model) changeTask(op *engine.ChangeTask) *engine.Error {
	i := slices.IndexFunc(m.tasks, func(t *modelTask) bool { return t.name() == op.ID })
	if i < 0 {
		return modelRefusal(engine.CodeNoResource, "There is no task %s. List the tasks: a queue "+
			"keeps its latest 10, and none after it was deleted.", op.ID)
	}
	t, most, text := m.tasks[i], int64(10_000), ""
	if t.selects == nil {
		most = 500
	}
	if op.Change == engine.SetTaskRate && (op.Rate < 0 || op.Rate > most) {
		return modelBadValue(fmt.Sprint(op.Rate), "rate",
			fmt.Sprintf("Must be between 1 and %d, or 0 for no limit.", most))
	}
	if t.Status != "RUNNING" {
		return modelRefusal(engine.CodeConflict, "The task %s is %s and cannot be changed. "+
			"Start another one for the rest.", op.ID, t.Status)
	}
	switch op.Change {
	case engine.PauseTask:
		t.paused = true
	case engine.ResumeTask:
		t.paused, t.due = false, m.now*1000
	case engine.CancelTask:
		t.paused, t.Status = false, "CANCELLING"
	case engine.SetTaskRate:
		t.Rate, t.due, text = op.Rate, m.now*1000, fmt.Sprintf("%d a second", op.Rate)
	}
	op.Task = t.view()
	m.note(op.Account, op.By, string(op.Change), op.ID, text)
	return nil
}

// replaced returns the message that a replacement takes. [TASK-17, NACK-19]
func (m *Model) replaced(q *modelQueue, op *engine.Replace) (*modelMessage, *engine.Error) {
	if op.Handle.Text != "" {
		m.settle(q)
		msg, no := m.newest(q, op.Handle)
		if no == nil {
			no = q.checkHandle(msg, op.Handle, m.now)
		}
		return msg, no
	}
	seq, ok := q.openPlace(op.Place)
	if !ok {
		return nil, modelBadValue(op.Place, "place",
			"It is not the place of a message in this queue.")
	}
	m.settle(q)
	i := slices.IndexFunc(q.messages, func(msg *modelMessage) bool {
		return msg.seq == seq && !q.expired(msg, m.now)
	})
	switch {
	case i < 0:
		return nil, modelGone()
	case q.state(q.messages[i], m.now) == inFlight:
		return nil, modelRefusal(engine.CodeConflict, "The message is in flight: a consumer has "+
			"received it. Try again when it has returned.")
	}
	return q.messages[i], nil
}

// replace sends another content in the place of a message. [TASK-17]
func (m *Model) replace(q *modelQueue, op *engine.Replace, e engine.Entry) *engine.Error {
	switch {
	case op.Park && op.To == "":
		return modelRefusal(engine.CodeMissingParameter,
			"The request must contain the parameter to.")
	case op.Park && e.Delay.Set:
		return modelBadValue(fmt.Sprint(e.Delay.Value), "delay",
			"Must be absent with park.")
	}
	msg, no := m.replaced(q, op)
	if no != nil {
		return no
	}
	source := cmp.Or(msg.source, written(msg, "source"))
	to := m.queues[engine.QueueName{Account: q.name.Account,
		Name: cmp.Or(op.To, queueOfARN(source))}]
	switch {
	case op.To == "" && source == "":
		return modelRefusal(engine.CodeConflict,
			"It is not known where the message came from: name a queue in \"to\".")
	case to == nil:
		return modelRefusal(engine.CodeNoQueue, "The specified queue does not exist.")
	case to.fifo() != q.fifo():
		return modelBadValue(to.name.Name, "to",
			"Source and destination must be queues of the same type.")
	}
	if !e.Group.Set {
		e.Group = msg.entry.Group
	}
	if to.fifo() && !e.Dedup.Set {
		e.Dedup = engine.Text{Value: msg.dedup, Set: true}
	}
	if no := to.check(e, "are invalid"); no != nil {
		return no
	}
	var moved *modelMessage
	if op.Handle.Text != "" {
		msg.kind = available // it has not timed out
	}
	if e.Group.Value != msg.entry.Group.Value { // [HOLD-5]
		msg.holds = modelHold{}
	}
	if op.Park {
		moved = m.park(q, to, msg)
	} else {
		delay := to.number("DelaySeconds")
		if e.Delay.Set {
			delay = e.Delay.Value
		}
		moved = m.moveBack(q, to, msg, e, delay*1000, "replaced")
	}
	moved.entry, moved.dedup = e, e.Dedup.Value
	op.Sent = engine.Sent{ID: moved.id, Sequence: to.sequence(moved)}
	if op.Handle.Text == "" {
		m.note(q.name.Account, op.By, "Replace", q.name.Name, fmt.Sprintf("%s by %s in %s",
			msg.id, moved.id, to.name.Name))
	}
	return nil
}
