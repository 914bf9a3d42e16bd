// Package audit tells from what the clients of a queue saw whether the queue kept its promises.
//
// A History holds what was asked and answered, with the times between which each operation happened, all
// by one monotonic clock. Check is a pure function from a History to a Report. It trusts nothing that the
// server says about itself, and whatever could have come about in a correct queue is no violation: an
// operation happened at some moment between its call and its return, one without an answer may have
// happened at any time from its call on, or never. So each Violation is certain, up to Options.Tolerance.
//
// The rules concern one message each, so the cost is that of sorting, plus, for each message, the
// product of the numbers of its deliveries and its visibility changes, which are few.
//
// It knows standard queues. The order of FIFO queues, deduplication, delays, retention and dead-letter
// queues are for others to judge, and so is how many messages are left: only the server can count what
// nobody receives.
package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Rule is a promise that can be broken.
type Rule string

// The rules.
const (
	// Lost: a message whose send was acknowledged is there until somebody tries to delete it. Judged only
	// in histories that are Drained.
	Lost Rule = "lost"

	// Invented: what is delivered was sent, byte for byte and under that message ID, and by a send that was
	// not refused.
	Invented Rule = "invented"

	// Multiplied: one attempt to send stores at most one message.
	Multiplied Rule = "multiplied"

	// InFlight: a message is not delivered while it is surely hidden by an earlier delivery.
	InFlight Rule = "in flight"

	// Deleted: a message is not delivered after a delete that surely removed it was acknowledged.
	Deleted Rule = "deleted"

	// Counts: the receive count begins at 1 or above and grows with each delivery.
	Counts Rule = "counts"

	// Fixed: the times of the send and of the first receive are the same in all deliveries, and no receipt
	// handle is given twice.
	Fixed Rule = "fixed"
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
	Copies       int // messages beyond the first of their body, which sends without an answer may leave
	Deliveries   int
	Repeated     int // deliveries of a message that had been delivered before, which is what Check can judge
	Violations   []Violation
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
	// Tolerance is how far the clocks of client and server may drift apart within one visibility timeout:
	// 20 ms when zero.
	Tolerance time.Duration
}

// Check judges a history.
func Check(h *History, o Options) *Report {
	c := &checker{
		tolerance: cmp.Or(o.Tolerance, 20*time.Millisecond),
		bodies:    map[string]*body{},
		messages:  map[string]*message{},
		handles:   map[string]*Delivery{},
	}
	c.index(h)
	for _, b := range c.inOrder {
		c.checkBody(b)
	}
	for _, m := range c.received {
		c.checkMessage(m)
	}
	if h.Drained {
		c.checkLoss(h)
	}
	return &c.report
}

type checker struct {
	tolerance time.Duration
	report    Report

	bodies   map[string]*body
	inOrder  []*body // as they were sent, so that reports are the same each time
	messages map[string]*message
	received []*message // messages that were delivered, in that order
	handles  map[string]*Delivery
}

// A body is what identifies an order, a job, whatever it was that somebody sent. It may be in the queue
// more than once, as several messages.
type body struct {
	text     string
	attempts int           // that may each have stored a message
	from     time.Duration // when the first of them began
	ids      []string      // of messages with this body, acknowledged or delivered
	acked    bool
}

type message struct {
	id         string
	body       *body
	acked      bool
	deliveries []*Delivery
	changes    []*Change
	deletes    []*Delete
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
		c.indexSend(&h.Sends[i])
	}
	for i := range h.Deliveries {
		c.indexDelivery(&h.Deliveries[i])
	}
	for i := range h.Changes {
		if d := c.handles[h.Changes[i].Handle]; d != nil {
			m := c.messages[d.MessageID]
			m.changes = append(m.changes, &h.Changes[i])
		}
	}
	for i := range h.Deletes {
		if d := c.handles[h.Deletes[i].Handle]; d != nil {
			m := c.messages[d.MessageID]
			m.deletes = append(m.deletes, &h.Deletes[i])
		}
	}
	c.report.Deliveries = len(h.Deliveries)
}

func (c *checker) indexSend(s *Send) {
	b := c.bodies[s.Body]
	if b == nil {
		b = &body{text: s.Body, from: s.Call}
		c.bodies[s.Body] = b
		c.inOrder = append(c.inOrder, b)
	}
	b.from = min(b.from, s.Call)
	switch s.Outcome {
	case Refused:
		return
	case Unknown:
		c.report.Unanswered++
	case Done:
		if !b.acked {
			b.acked = true
			c.report.Acknowledged++
		}
		m := c.message(s.MessageID)
		if m.acked {
			c.violate(Multiplied, m, "two sends were answered with this message ID")
			break
		}
		m.acked, m.body = true, b
		b.ids = append(b.ids, s.MessageID)
	}
	b.attempts += max(1, s.Attempts)
}

func (c *checker) indexDelivery(d *Delivery) {
	m := c.message(d.MessageID)
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
		b.ids = append(b.ids, d.MessageID)
	case m.body != b:
		c.violate(Invented, m, "delivered with the body of another message: %.100q", d.Body)
	}
}

func (c *checker) message(id string) *message {
	m := c.messages[id]
	if m == nil {
		m = &message{id: id}
		c.messages[id] = m
	}
	return m
}

func (c *checker) checkBody(b *body) {
	c.report.Copies += max(0, len(b.ids)-1)
	if b.attempts > 0 && len(b.ids) > b.attempts {
		c.violate(Multiplied, &message{id: b.ids[len(b.ids)-1], body: b}, "%d messages came from %d attempts to send", len(b.ids), b.attempts)
	}
}

func (c *checker) checkLoss(h *History) {
	for i := range h.Sends {
		s := &h.Sends[i]
		if s.Outcome != Done {
			continue
		}
		m := c.messages[s.MessageID]
		deleted := func(d *Delete) bool { return d.Outcome != Refused }
		if !slices.ContainsFunc(m.deletes, deleted) {
			c.violate(Lost, m, "acknowledged at %v, delivered %d times, never deleted, and not in the queue at the end", s.Return, len(m.deliveries))
		}
	}
}

// checkMessage follows a message through its deliveries in the order of their receive counts, in which
// they happened if the counts are what they should be.
func (c *checker) checkMessage(m *message) {
	slices.SortFunc(m.deliveries, func(a, b *Delivery) int {
		return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(a.Return, b.Return))
	})
	slices.SortFunc(m.changes, func(a, b *Change) int { return cmp.Compare(a.Call, b.Call) })
	from := c.checkInFlight(m)
	c.checkDeleted(m, from)
	c.checkCounts(m)
	first := m.deliveries[0]
	for _, d := range m.deliveries[1:] {
		if d.Sent != first.Sent || d.FirstReceive != first.FirstReceive {
			c.violate(Fixed, m, "sent at %d and first received at %d in delivery %d, at %d and %d in delivery %d",
				first.Sent, first.FirstReceive, first.Count, d.Sent, d.FirstReceive, d.Count)
		}
	}
}

// checkInFlight judges each delivery by the one before, and returns the earliest moment at which each can
// have happened. A receive may have waited long for a message, so that its own call says little: but it
// waited at least until the message was sent and until the delivery before had ended.
func (c *checker) checkInFlight(m *message) (from []time.Duration) {
	sent := time.Duration(math.MinInt64)
	if m.body != nil {
		sent = m.body.from
	}
	for i, d := range m.deliveries {
		at := max(d.Call, sent)
		if i > 0 {
			before := m.deliveries[i-1]
			hidden := c.hiddenUntil(m, before, from[i-1], d.Span)
			if d.Return+c.tolerance < hidden {
				c.violate(InFlight, m, "delivery %d at %v to %v, while hidden by delivery %d until %v at least",
					d.Count, d.Call, d.Return, before.Count, hidden)
			}
			at = max(at, min(hidden-c.tolerance, d.Return))
		}
		from = append(from, at)
	}
	return from
}

// hiddenUntil returns a moment until which a message was surely hidden by delivery d, which happened at
// from or later, as far as it matters to an operation that happened during span.
func (c *checker) hiddenUntil(m *message, d *Delivery, from time.Duration, span Span) time.Duration {
	// A change lengthens the delivery for sure only when it was acknowledged, came surely after what it
	// changed and surely before span, and found the message still hidden: otherwise a receive whose answer
	// was lost may have come between, and the handle was not the current one any more.
	last, until := d.Span, from+d.Visibility
	for _, ch := range m.changes {
		if ch.Handle == d.Handle && ch.Outcome == Done && ch.Call > last.Return && ch.Return < span.Call &&
			ch.Return+c.tolerance < m.lowered(until, last, ch.Span) {
			last, until = ch.Span, ch.Call+ch.Visibility
		}
	}
	return m.lowered(until, last, span)
}

// lowered takes into account that every change may have been the last word that is neither surely before
// last nor surely after span, whichever handle it used.
func (m *message) lowered(until time.Duration, last, span Span) time.Duration {
	for _, ch := range m.changes {
		if ch.Outcome != Refused && ch.Call < span.Return && ch.end() >= last.Call {
			until = min(until, ch.Call+ch.Visibility)
		}
	}
	return until
}

// checkDeleted finds deliveries after a delete that surely removed the message: one with the handle of a
// delivery that surely had not ended when the delete was acknowledged.
func (c *checker) checkDeleted(m *message, from []time.Duration) {
	for _, del := range m.deletes {
		i := slices.IndexFunc(m.deliveries, func(d *Delivery) bool { return d.Handle == del.Handle })
		with := m.deliveries[i]
		if del.Outcome != Done || del.Return+c.tolerance >= c.hiddenUntil(m, with, from[i], del.Span) {
			continue
		}
		for _, d := range m.deliveries {
			if d.Call > del.Return || d.Count > with.Count {
				c.violate(Deleted, m, "delivery %d at %v to %v, although deleted with delivery %d at %v to %v",
					d.Count, d.Call, d.Return, with.Count, del.Call, del.Return)
			}
		}
		return // one verdict a message, however many deletes it had
	}
}

// checkCounts judges the counts by themselves: they differ, and a delivery that was surely over had a
// smaller one than those that came after.
func (c *checker) checkCounts(m *message) {
	var latest time.Duration // of the calls of deliveries with a smaller count
	for i, d := range m.deliveries {
		switch {
		case d.Count < 1:
			c.violate(Counts, m, "receive count %d", d.Count)
		case i > 0 && d.Count == m.deliveries[i-1].Count:
			c.violate(Counts, m, "two deliveries with receive count %d", d.Count)
		case i > 0 && d.Return < latest:
			c.violate(Counts, m, "receive count %d at %v, and a smaller one at %v", d.Count, d.Return, latest)
		}
		latest = max(latest, d.Call)
	}
}
