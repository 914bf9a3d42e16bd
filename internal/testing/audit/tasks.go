package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A place is where a message can be, and with which body.
type place struct{ queue, text string }

// A vanished is what is known of messages that ended although no client deleted them.
type vanished struct {
	tasks []int // by which they can have been deleted
	count int
	one   *message
}

// hasTasks tells whether anything but deliveries and move tasks takes messages out of queues.
func (c *checker) hasTasks() bool { return len(c.history.Tasks)+len(c.history.Replacements) > 0 }

func (t *Task) finds(at place) bool {
	return t.Outcome != Refused && t.Source == at.queue && strings.Contains(at.text, t.Selects)
}

// places returns where messages of a body can have come to, and when at the earliest.
func (c *checker) places(b *body) map[place]time.Duration {
	at := map[place]time.Duration{{b.queue, b.text}: b.from}
	for next := []place{{b.queue, b.text}}; len(next) > 0; next = next[1:] {
		from, since := next[0], at[next[0]]
		pass := func(to place, when time.Duration) {
			when = max(when, since)
			if known, ok := at[to]; !ok || when < known {
				at[to] = when
				next = append(next, to)
			}
		}
		if dead := c.ways.queues[from.queue].DeadLetter; dead != "" {
			pass(place{dead, from.text}, since)
		}
		for i := range c.history.Moves {
			if m := &c.history.Moves[i]; m.Outcome != Refused && m.Source == from.queue {
				for _, to := range c.ways.targets(m) {
					pass(place{to, from.text}, m.Call)
				}
			}
		}
		for i := range c.history.Tasks {
			if t := &c.history.Tasks[i]; t.Do != DeleteWork && t.finds(from) {
				pass(place{t.Destination, from.text}, t.Call)
			}
		}
		for _, r := range b.replaced {
			if r.Queue == from.queue && r.Body == from.text {
				pass(place{r.Destination, r.Gives}, r.Call)
			}
		}
	}
	return at
}

// checkSelected finds deliveries by queues to which no task can have taken the message. Queues to
// which no way leads at all are another matter.
func (c *checker) checkSelected(b *body) {
	if !c.hasTasks() || b.attempts == 0 {
		return
	}
	at := c.places(b)
	for _, m := range b.messages {
		for _, d := range m.deliveries {
			since, ok := at[place{d.Queue, d.Body}]
			if _, known := c.cost(m, d.Queue); !known || ok && since <= d.Return {
				continue
			}
			c.violate(Selected, m, "delivered by queue %s at %v to %v, to which no task that finds it had been started", d.Queue, d.Call, d.Return)
			return
		}
	}
}

// deletedByTasks takes note of messages of a body that no client deleted, if tasks can have deleted
// them. It reports whether there is such a task.
func (c *checker) deletedByTasks(b *body, count int, one *message) bool {
	if !c.hasTasks() {
		return false
	}
	var tasks []int
	for at := range c.places(b) { // the order does not matter
		for i := range c.history.Tasks {
			if t := &c.history.Tasks[i]; t.Do == DeleteWork && t.finds(at) {
				tasks = append(tasks, i)
			}
		}
	}
	if len(tasks) == 0 {
		return false
	}
	slices.Sort(tasks)
	tasks = slices.Compact(tasks)
	key := fmt.Sprint(tasks)
	if c.vanished[key] == nil {
		c.vanished[key] = &vanished{tasks: tasks, one: one}
	}
	c.vanished[key].count += count
	return true
}

// checkTasks judges the tasks by what all of them did together.
func (c *checker) checkTasks() {
	for i := range c.history.Tasks {
		if t := &c.history.Tasks[i]; t.Do == DeleteWork && t.Ended && t.Done > t.Confirm {
			c.violate(Confirmed, &message{id: t.ID}, "the task says that it deleted %d messages, and %d were confirmed", t.Done, t.Confirm)
		}
	}
	if !c.drained {
		return
	}
	for _, of := range sortedKeys(c.vanished) {
		c.checkConfirmed(c.vanished[of])
	}
	for _, name := range sortedKeys(c.ways.queues) {
		if c.isCounted(name) && c.checkCounted(name) {
			return // what is missing in one queue is too much in another
		}
	}
}

// checkConfirmed compares what is gone with what was confirmed, for some tasks and all that only
// they can have deleted.
func (c *checker) checkConfirmed(v *vanished) {
	gone, confirmed := 0, 0
	for _, i := range v.tasks {
		confirmed += c.history.Tasks[i].Confirm
	}
	isOther := func(i int) bool { return !slices.Contains(v.tasks, i) }
	for _, with := range c.vanished {
		if !slices.ContainsFunc(with.tasks, isOther) {
			gone += with.count
		}
	}
	if gone > confirmed {
		c.violate(Confirmed, v.one, "%d messages are gone that only %d tasks can have deleted, to which %d were confirmed",
			gone, len(v.tasks), confirmed)
	}
}

// isCounted tells whether all is known of what came to a queue and left it: tasks that have ended,
// sends and deletes, but neither dead letters nor move tasks nor the end of a period.
func (c *checker) isCounted(name string) bool {
	q := c.ways.queues[name]
	if q.DeadLetter != "" || q.Retention != 0 {
		return false
	}
	for _, other := range c.ways.queues {
		if other.DeadLetter == name {
			return false
		}
	}
	for i := range c.history.Moves {
		m := &c.history.Moves[i]
		if m.Source == name || slices.Contains(c.ways.targets(m), name) {
			return false
		}
	}
	touched := false
	for _, t := range c.history.Tasks {
		if t.Outcome == Refused || t.Source != name && t.Destination != name {
			continue
		}
		if touched = true; !t.Ended {
			return false
		}
	}
	return touched
}

// A tally is how many messages there were, at least and at most.
type tally struct{ least, most int }

func (t *tally) add(surely, perhaps int) { t.least, t.most = t.least+surely, t.most+perhaps }

// checkCounted compares how many messages came to a queue with how many left it, and reports
// whether they differ.
func (c *checker) checkCounted(name string) bool {
	var in, out tally
	for _, b := range c.inOrder {
		if b.queue != name {
			continue
		}
		acked := 0
		for _, m := range b.messages {
			if m.acked {
				acked++
			}
		}
		in.add(acked, b.attempts)
	}
	for _, b := range c.inOrder {
		for _, m := range b.messages {
			if m.removed && m.left == name {
				out.add(1, 1)
			} else if !m.removed && c.mayHaveLeft(m, name) {
				out.add(0, 1)
			}
		}
	}
	for _, t := range c.history.Tasks {
		if t.Outcome != Refused && t.Destination == name && t.Do != DeleteWork {
			in.add(t.Done, t.Done)
		}
		if t.Outcome != Refused && t.Source == name {
			out.add(t.Done, t.Done)
		}
	}
	for _, r := range c.history.Replacements {
		surely, perhaps := 0, 1
		switch r.Outcome {
		case Refused:
			continue
		case Done:
			surely = 1
		}
		if r.Destination == name {
			in.add(surely, perhaps)
		}
		if r.Queue == name {
			out.add(surely, perhaps)
		}
	}
	if in.most >= out.least && out.most >= in.least {
		return false
	}
	c.violate(Counted, &message{id: name}, "%d to %d messages came to the queue, by what was sent and what tasks say, and %d to %d left it",
		in.least, in.most, out.least, out.most)
	return true
}

// mayHaveLeft tells whether a client has tried to delete the message in a queue.
func (c *checker) mayHaveLeft(m *message, queue string) bool {
	return slices.ContainsFunc(m.deletes, func(d *Delete) bool {
		return d.Outcome != Refused && c.handles[d.Handle].Queue == queue
	})
}

// indexReplacement makes two bodies one: whatever replaces a message ends in its place.
func (c *checker) indexReplacement(r *Replacement) {
	b := c.bodies[r.Body]
	if b == nil || r.Outcome == Refused {
		return
	}
	c.bodies[r.Gives] = b
	b.replaced = append(b.replaced, r)
}

// checkReplacements judges each replacement by the deliveries of both messages.
func (c *checker) checkReplacements() {
	for i := range c.history.Replacements {
		r := &c.history.Replacements[i]
		if old := c.messages[r.MessageID]; old != nil && r.Outcome == Done {
			for _, d := range old.deliveries {
				if d.Call > r.Return {
					c.violate(Replaced, old, "delivery %d at %v to %v, although replaced at %v to %v",
						d.Count, d.Call, d.Return, r.Call, r.Return)
					break
				}
			}
		}
		if m := c.messages[r.NewID]; m != nil && m.text != "" && m.text != r.Gives {
			c.violate(Replaced, m, "delivered with %.100q, and it replaced message %s with %.100q",
				m.text, r.MessageID, r.Gives)
		}
	}
}
