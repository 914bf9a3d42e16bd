// Package audit decides whether queues kept their promises, from what their clients saw.
//
// A History holds what was asked and answered, with the times between which each operation
// happened, all by one monotonic clock. Check is a pure function from a History to a Report. It
// trusts nothing that the server says about itself; Counted and Recorded compare that with what
// clients saw. A history that correct queues could produce has no violation: an operation happened
// at some moment between its call and its return, and one without an answer may have happened at
// any time after its call, or never. So each Violation is certain, up to Options.Tolerance.
//
// Most rules concern one message, one body or one message group each, so the cost is that of
// sorting, plus, for each message, the product of the numbers of its deliveries and its visibility
// changes, which are few.
//
// What it knows of FIFO queues, dead-letter queues and move tasks:
//
//   - A message group is delivered in the order of its sequence numbers, and these are in the order
//     of the sends. A message that is delivered proves that each one before it in its group had
//     left by then, or came with the same answer.
//   - Sends of a FIFO queue have deduplication IDs, so that one body is one message, however often
//     it was sent, as long as the window cannot have ended.
//   - A message goes from a queue to its dead-letter queue, and never back, when its receive count
//     proves that it was exhausted.
//   - A move task gives a message a new ID, so only its body identifies it. Each body ends as often
//     as it was stored: with fewer ends a message was lost, with more it was duplicated.
//   - A task that selects takes messages to its destination, or deletes them, by their bodies. One
//     body that replaces another counts as the same one.
//   - A consumer can give a message back with a verdict: a release takes the receive back, and
//     poison is dead before it is exhausted.
//
// A retention period can end messages. A message that may have expired need not be there at the
// end; one that must have expired is never delivered.
//
// It leaves to others: purges, repeated receive attempts, duplicates that were recognized for too
// long, and the number of messages that are left, which only the server can count.
package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Rule is a promise that can be broken.
type Rule string

// The rules.
const (
	// Lost: a message that was acknowledged or delivered is there until a client tries to delete
	// it, or until its retention period may be over, whatever queue it has come to meanwhile.
	// Judged only in histories that are Drained.
	Lost Rule = "lost"

	// Invented: what is delivered was sent, byte for byte, under that message ID, group and
	// deduplication ID, to a queue from which it can have come, and by a send that was not refused.
	Invented Rule = "invented"

	// Multiplied: one attempt to send stores at most one message, and a move makes one out of one.
	Multiplied Rule = "multiplied"

	// InFlight: a message is not delivered while it is surely hidden by an earlier delivery.
	InFlight Rule = "in flight"

	// Deleted: a message is not delivered after a delete that surely removed it was acknowledged.
	Deleted Rule = "deleted"

	// Counts: the receive count begins at 1 or above and grows with each delivery, in a dead-letter
	// queue too.
	Counts Rule = "counts"

	// Fixed: the times of the send and of the first receive are the same in all deliveries, and no
	// receipt handle is given twice.
	Fixed Rule = "fixed"

	// Order: a message is not delivered while an earlier one of its group has surely not left the
	// queue, be it hidden or never delivered, unless that one comes with it and before it.
	Order Rule = "order"

	// Sequence: a message has one sequence number in a queue, in the answers to its sends and in
	// all its deliveries. Within a group no two have the same, and it grows from one send to the
	// next.
	Sequence Rule = "sequence"

	// Deduplicated: sends with one deduplication ID, close together, are answered with one message
	// ID, and no other message comes of them.
	Deduplicated Rule = "deduplicated"

	// DeadLetter: a message is delivered by a queue as often as the queue allows and no more, by
	// the dead-letter queue only when it was exhausted before, and never again by a queue that it
	// has left.
	DeadLetter Rule = "dead letter"

	// Delayed: a message is not delivered before the delay that it was sent with is over.
	Delayed Rule = "delayed"

	// Expired: a message is not delivered after the retention period of its queue is surely over.
	Expired Rule = "expired"

	// Selected: a message comes to another queue by a task only if that was started before, and its
	// filter finds the message.
	Selected Rule = "selected"

	// Confirmed: tasks that delete remove no more messages than were confirmed.
	Confirmed Rule = "confirmed"

	// Counted: what a task says in the end that it took is what has left its source and come to its
	// destination.
	Counted Rule = "counted"

	// Replaced: a message is not delivered after it was replaced, and the one that replaces it has
	// the other body.
	Replaced Rule = "replaced"

	// Recorded: a message that has left a queue with a history has its outcome there, once, with
	// the reasons that its consumers gave; and no other message has one.
	Recorded Rule = "recorded"
)

// A Violation is one breach of a rule.
type Violation struct {
	Rule      Rule
	MessageID string
	Body      string
	Detail    string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: message %s %q: %s", v.Rule, v.MessageID, v.Body, v.Detail)
}

// A Report is the result of an audit.
type Report struct {
	Acknowledged int // bodies of which a send was acknowledged
	Unanswered   int // sends that got no answer, and may be stored or not
	// messages beyond the first of their body, which sends without an answer may leave
	Copies     int
	Deliveries int
	// deliveries of a message that had been delivered before, which is what Check can judge
	Repeated int

	Duplicates int // sends that were answered with a message that an earlier one had stored
	Ordered    int // deliveries of messages that had others before them in their group
	// messages that were delivered by another queue than at first or than they were sent to
	DeadLettered int
	Moved        int // messages that only a move task can have made
	Delayed      int // messages that were sent with a delay and delivered

	Violations []Violation
}

// Count returns the number of violations of the given rules.
func (r *Report) Count(rules ...Rule) int {
	n := 0
	for _, v := range r.Violations {
		if slices.Contains(rules, v.Rule) {
			n++
		}
	}
	return n
}

// Options say how to judge.
type Options struct {
	// Tolerance is how far the clocks of client and server may drift apart within one visibility
	// timeout: 20 ms when zero.
	Tolerance time.Duration

	// Lateness is how long after the end of its retention period a message may still be delivered:
	// 5 s when zero.
	Lateness time.Duration
}

// Check judges a history.
func Check(h *History, o Options) *Report {
	c := &checker{
		tolerance: cmp.Or(o.Tolerance, 20*time.Millisecond),
		lateness:  cmp.Or(o.Lateness, 5*time.Second),
		drained:   h.Drained,
		end:       h.End,
		history:   h,
		ways:      newWays(h),
		bodies:    map[string]*body{},
		messages:  map[string]*message{},
		handles:   map[string]*Delivery{},
		groups:    map[groupKey]*group{},
		vanished:  map[string]*vanished{},
	}
	c.index(h)
	for _, m := range c.received {
		c.checkMessage(m)
	}
	for _, b := range c.inOrder {
		c.checkBody(b)
	}
	for _, g := range c.inGroups {
		c.checkGroup(g)
	}
	c.checkTasks()
	c.checkReplacements()
	c.checkEndings()
	return &c.report
}

type checker struct {
	tolerance time.Duration
	lateness  time.Duration
	drained   bool
	end       time.Duration // of the history
	history   *History
	ways      *ways
	report    Report

	bodies   map[string]*body
	inOrder  []*body // as they were sent, so that reports are the same each time
	messages map[string]*message
	received []*message // messages that were delivered, in that order
	handles  map[string]*Delivery
	groups   map[groupKey]*group
	inGroups []*group // in the order in which they were first heard of

	vanished map[string]*vanished // by the tasks that can have deleted them
}

// A body is what identifies an order, a job, whatever the client sent. It may be in the queue
// more than once, as several messages.
type body struct {
	text         string
	queue        string // it was sent to
	group, dedup string
	delay        time.Duration // that all its sends asked for at least
	attempts     int           // that may each have stored a message
	from         time.Duration // when the first of them began
	messages     []*message    // with this body, acknowledged or delivered
	acked        bool
	replaced     []*Replacement // that began with it, or with what replaced it
}

type message struct {
	id         string
	text       string // of its deliveries; it differs from that of body when it replaces another
	body       *body
	acked      bool
	by         time.Duration // it was surely stored: an answer that shows it was there
	batch      int           // of an answered send, which stored it unless there were others
	entry      int           // of that batch, by its position in the history
	deliveries []*Delivery
	changes    []*Change
	nacks      []*Nack
	deletes    []*Delete
	stays      []*stay // in FIFO queues

	// Found by following it through its deliveries.
	from    []time.Duration // the earliest moment at which each can have happened
	removed bool            // a delete has surely removed it, from the queue
	left    string          // of this name
}

func (c *checker) violate(rule Rule, m *message, format string, args ...any) {
	v := Violation{Rule: rule, MessageID: m.id, Detail: fmt.Sprintf(format, args...)}
	if m.body != nil {
		v.Body = m.body.text
	}
	c.report.Violations = append(c.report.Violations, v)
}

// index finds out which operations concern which message.
func (c *checker) index(h *History) {
	for i := range h.Sends {
		c.indexSend(&h.Sends[i], i)
	}
	for i := range h.Replacements {
		c.indexReplacement(&h.Replacements[i])
	}
	for i := range h.Deliveries {
		c.indexDelivery(&h.Deliveries[i], i)
	}
	for i := range h.Changes {
		if d := c.handles[h.Changes[i].Handle]; d != nil {
			m := c.messages[d.MessageID]
			m.changes = append(m.changes, &h.Changes[i])
		}
	}
	for i := range h.Nacks {
		c.indexNack(&h.Nacks[i])
	}
	for i := range h.Deletes {
		if d := c.handles[h.Deletes[i].Handle]; d != nil {
			m := c.messages[d.MessageID]
			m.deletes = append(m.deletes, &h.Deletes[i])
		}
		c.end = max(c.end, h.Deletes[i].Return)
	}
	c.report.Deliveries = len(h.Deliveries)
}

func (c *checker) indexSend(s *Send, i int) {
	b := c.bodies[s.Body]
	if b == nil {
		b = &body{text: s.Body, queue: s.Queue, group: s.Group, dedup: s.Dedup, from: s.Call,
			delay: s.Delay}
		c.bodies[s.Body] = b
		c.inOrder = append(c.inOrder, b)
	}
	b.from, b.delay = min(b.from, s.Call), min(b.delay, s.Delay)
	c.end = max(c.end, s.Return)
	if s.Outcome == Refused {
		return
	}
	b.attempts += max(1, s.Attempts)
	if s.Outcome == Unknown {
		c.report.Unanswered++
		return
	}
	if !b.acked {
		b.acked = true
		c.report.Acknowledged++
	}
	c.indexAnswer(s, b, i)
}

// indexAnswer takes in what an answered send says of its message.
func (c *checker) indexAnswer(s *Send, b *body, i int) {
	m := c.message(s.MessageID, s.Return)
	switch {
	case !m.acked:
		m.acked, m.body, m.batch, m.entry = true, b, s.Batch, i
		b.messages = append(b.messages, m)
	case s.Dedup == "" || m.body != b:
		c.violate(Multiplied, m, "two sends were answered with this message ID")
		return
	default:
		c.report.Duplicates++
	}
	if c.ways.queues[s.Queue].FIFO {
		c.stay(m, s.Queue, s.Sequence, s.Group, s.Return)
	}
}

func (c *checker) indexDelivery(d *Delivery, i int) {
	m := c.message(d.MessageID, d.Return)
	c.end = max(c.end, d.Return)
	if len(m.deliveries) == 0 {
		c.received = append(c.received, m)
	} else {
		c.report.Repeated++
	}
	m.deliveries = append(m.deliveries, d)
	if c.handles[d.Handle] != nil {
		c.violate(Fixed, m, "receipt handle %s was given before", d.Handle)
	} else {
		c.handles[d.Handle] = d
	}
	switch b := c.bodies[d.Body]; {
	case b == nil:
		c.violate(Invented, m, "delivered with a body that nobody sent: %.100q", d.Body)
	case b.attempts == 0:
		c.violate(Invented, m, "delivered although its send was refused")
	case m.body == nil:
		m.body = b
		b.messages = append(b.messages, m)
	case m.body != b || m.text != "" && m.text != d.Body:
		c.violate(Invented, m, "delivered with the body of another message: %.100q", d.Body)
	}
	m.text = d.Body
	if c.ways.queues[d.Queue].FIFO {
		s := c.stay(m, d.Queue, d.Sequence, d.Group, d.Return)
		answer := d.Receive
		if answer == 0 {
			answer = -1 - i
		}
		s.group.deliveries = append(s.group.deliveries,
			handedOut{Span: d.Span, stay: s, answer: answer, i: i})
	}
}

// message returns what is known of a message that was surely there at some time before by.
func (c *checker) message(id string, by time.Duration) *message {
	m := c.messages[id]
	if m == nil {
		m = &message{id: id, by: by}
		c.messages[id] = m
	}
	m.by = min(m.by, by)
	return m
}
