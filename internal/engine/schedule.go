package engine

import (
	"cmp"
	"crypto/md5"
	"encoding/json"
	"slices"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// Schedules send messages to their own queue. A row says when the next message of a schedule is
// due. The batch that has the message moves the row on, so a tick is sent once, no matter what
// stops the server. The rows of all queues are in memory in the order of their times, because a
// schedule has work when nothing else uses its queue. [SCHED-6]

// The attributes of the messages. [SCHED-4]
const (
	scheduleAttribute = "tenaq.schedule"
	tickAttribute     = "tenaq.tick"
)

// loadSchedules reads the rows of all schedules.
func (e *Engine) loadSchedules() {
	family := row.Family(row.FamilySchedule)
	for k, v := range e.rows.store.Scan(family.Lo, family.Hi) {
		s, ok := row.ScheduleOf(k, v)
		if !ok {
			e.rows.damaged("schedule", k)
		}
		e.schedules = append(e.schedules, s)
	}
	slices.SortFunc(e.schedules, compareSchedules)
}

func compareSchedules(a, b row.Schedule) int {
	return cmp.Or(cmp.Compare(a.Next, b.Next), strings.Compare(a.Queue.Account, b.Queue.Account),
		strings.Compare(a.Queue.Name, b.Queue.Name), strings.Compare(a.Name, b.Name))
}

// putSchedule gives a schedule another time.
func (e *Engine) putSchedule(s row.Schedule) {
	e.dropSchedule(s)
	i, _ := slices.BinarySearchFunc(e.schedules, s, compareSchedules)
	e.schedules = slices.Insert(e.schedules, i, s)
	e.rows.set(s.Key(), s.Encode(e.rows.scratch()))
}

// dropSchedule removes a schedule from memory, and reports whether it was there.
func (e *Engine) dropSchedule(s row.Schedule) bool {
	i := slices.IndexFunc(e.schedules, func(old row.Schedule) bool {
		return old.Queue == s.Queue && old.Name == s.Name
	})
	if i >= 0 {
		e.schedules = slices.Delete(e.schedules, i, i+1)
	}
	return i >= 0
}

// reschedule follows a change of the tags of a queue. A schedule whose tag stays as it was keeps
// its time. Any other begins with the first tick from now on. [SCHED-8]
func (e *Engine) reschedule(queue QueueName, old, tags []Tag) {
	for _, t := range old {
		name, ok := extension.ScheduleName(t.Key)
		if _, stays := searchTag(tags, t.Key); !ok || stays {
			continue
		}
		s := row.Schedule{Queue: queue, Name: name}
		if e.dropSchedule(s) {
			e.rows.delete(s.Key())
		}
	}
	for _, t := range tags {
		name, ok := extension.ScheduleName(t.Key)
		if !ok || slices.Contains(old, t) {
			continue
		}
		if plan, ok := extension.ReadSchedule(t.Value); ok {
			if next, ok := plan.Next(e.now); ok {
				name = strings.Clone(name)
				e.putSchedule(row.Schedule{Queue: queue.Clone(), Name: name, Next: next})
			}
		}
	}
}

// NextTick returns when, in Unix milliseconds, the next Tick has something to do; false for never.
func (e *Engine) NextTick() (at int64, ok bool) {
	if len(e.schedules) == 0 {
		return 0, false
	}
	return e.schedules[0].Next, true
}

// Tick sends the message of the schedule that has been due for longest, if one is due. A schedule
// that missed ticks sends a message for the last of them alone.
type Tick struct {
	// The answer: the message and its queue, if one was due. [SCHED-7]
	Due   bool
	Queue QueueName
	Entry Entry
	Sent  Sent
}

func (op *Tick) apply(e *Engine, c *Command) *Error {
	at, ok := e.NextTick()
	if op.Due = ok && at <= e.now; !op.Due {
		return nil
	}
	s := e.schedules[0]
	var plan extension.Schedule
	q, err := e.lookup(s.Queue)
	if err == nil {
		plan = q.plan(s.Name)
	}
	tick, some := plan.Last(e.now)
	next, more := plan.Next(e.now)
	if !some || !more {
		// An older program, which leaves this row alone, removed the queue or the tag.
		e.dropSchedule(s)
		e.rows.delete(s.Key())
		op.Due = false
		return nil
	}
	op.Queue, op.Entry = q.name, q.scheduled(s.Name, plan.Body, tick)
	d := NewDraft(op.Entry)
	if err := d.check(q, 0); err != nil {
		broken("queue %s: the message of the schedule %s is refused: %s", s.Queue.Name, s.Name,
			err.Message)
	}
	if !e.ready(q) {
		return ErrAgain
	}
	s.Next = next
	e.putSchedule(s)
	e.stir(q)
	op.Sent = e.send(q, &d, identity(c.Seed, 0))
	return nil
}

// plan returns the schedule of a name that the tags of the queue have; the zero value if they have
// none.
func (q *queue) plan(name string) (plan extension.Schedule) {
	for _, t := range q.row.Tags {
		if n, ok := extension.ScheduleName(t.Key); ok && n == name {
			plan, _ = extension.ReadSchedule(t.Value)
		}
	}
	return plan
}

// scheduled is the message of a schedule for a tick. No queue is too small for it.
// [SCHED-4, SCHED-5]
func (q *queue) scheduled(name, body string, tick int64) Entry {
	at := extension.SayTick(tick)
	if body == "" {
		b, _ := json.Marshal(struct { // of strings, so it cannot fail
			Schedule string `json:"schedule"`
			Tick     string `json:"tick"`
		}{name, at})
		body = string(b)
	}
	str := func(s string) Text { return Text{Value: s, Set: true} }
	entry := Entry{Body: str(body), BodyMD5: md5.Sum([]byte(body)), Sender: q.name.Account,
		Attributes: []EntryAttribute{
			{Name: scheduleAttribute, Type: str("String"), String: str(name)},
			{Name: tickAttribute, Type: str("String"), String: str(at)},
		}}
	if q.fifo() {
		entry.Group, entry.Dedup = str(name), str(name+"/"+at)
	}
	return entry
}
