package audit

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// checkMessage follows a message through its deliveries in the order of their receive counts, in
// which they happened if the counts are what they should be.
func (c *checker) checkMessage(m *message) {
	slices.SortFunc(m.deliveries, func(a, b *Delivery) int {
		return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(a.Return, b.Return))
	})
	slices.SortFunc(m.changes, func(a, b *Change) int { return cmp.Compare(a.Call, b.Call) })
	c.checkInFlight(m)
	c.checkDeleted(m)
	c.checkCounts(m)
	if m.body != nil {
		c.checkDelay(m)
		c.checkPath(m)
		c.checkPoison(m)
	}
	c.checkExpiry(m)
	first := m.deliveries[0]
	for _, d := range m.deliveries[1:] {
		if d.Sent != first.Sent || d.FirstReceive != first.FirstReceive {
			c.violate(Fixed, m, "sent at %d and first received at %d in delivery %d, at %d and %d in delivery %d",
				first.Sent, first.FirstReceive, first.Count, d.Sent, d.FirstReceive, d.Count)
		}
	}
}

// checkInFlight judges each delivery by the one before, and notes the earliest moment at which each
// can have happened. A receive may have waited long for a message, so that its own call says
// little: but it waited at least until the message was sent, its delay over, and until the delivery
// before had ended.
func (c *checker) checkInFlight(m *message) {
	ready := c.ready(m)
	for i, d := range m.deliveries {
		at := max(d.Call, ready)
		if i > 0 {
			before := m.deliveries[i-1]
			hidden := c.hiddenUntil(m, before, m.from[i-1], d.Span)
			if d.Return+c.tolerance < hidden {
				c.violate(InFlight, m, "delivery %d at %v to %v, while hidden by delivery %d until %v at least",
					d.Count, d.Call, d.Return, before.Count, hidden)
			}
			at = max(at, min(hidden-c.tolerance, d.Return))
		}
		m.from = append(m.from, at)
	}
}

// ready is the earliest moment at which a message can have been delivered. What a task has moved
// has no delay any more.
func (c *checker) ready(m *message) time.Duration {
	b := m.body
	switch {
	case b == nil:
		return math.MinInt64
	case b.delay <= c.tolerance, !m.acked && c.ways.isMovable(b.queue):
		return b.from
	}
	return b.from + b.delay - c.tolerance
}

// checkDelay finds deliveries of a message that surely was delayed still.
func (c *checker) checkDelay(m *message) {
	if m.body.delay == 0 {
		return
	}
	c.report.Delayed++
	ready := c.ready(m)
	for _, d := range m.deliveries {
		if d.Return < ready {
			c.violate(Delayed, m, "delivery %d at %v to %v, sent at %v or later with a delay of %v",
				d.Count, d.Call, d.Return, m.body.from, m.body.delay)
			return
		}
	}
}

// checkExpiry finds deliveries of a message that surely had expired. Its period began when it was
// sent, or, in a FIFO queue, when it entered the queue; a dead letter of a standard queue keeps the
// time of its send.
func (c *checker) checkExpiry(m *message) {
	for _, d := range m.deliveries {
		q, by := c.ways.queues[d.Queue], m.by
		if q.Retention == 0 {
			continue
		}
		for _, s := range m.stays {
			if s.group.queue == d.Queue {
				by = s.by
			}
		}
		if d.Call > by+q.Retention+c.lateness {
			c.violate(Expired, m, "delivery %d at %v, although there since %v, in queue %s, which keeps messages for %v",
				d.Count, d.Call, by, d.Queue, q.Retention)
			return
		}
	}
}

// hiddenUntil returns a moment until which a message was surely hidden by delivery d, which
// happened at from or later, as far as it matters to an operation that happened during span.
func (c *checker) hiddenUntil(
	m *message, d *Delivery, from time.Duration, span Span,
) time.Duration {
	// A change lengthens the delivery for sure only when it was acknowledged, came surely after
	// what it changed and surely before span, and found the message still hidden: otherwise a
	// receive whose answer was lost may have come between, and the handle was not the current one
	// any more.
	last, until := d.Span, from+d.Visibility
	for _, ch := range m.changes {
		if ch.Handle == d.Handle && ch.Outcome == Done && ch.Call > last.Return &&
			ch.Return < span.Call &&
			ch.Return+c.tolerance < m.lowered(until, last, ch.Span) {
			last, until = ch.Span, ch.Call+ch.Visibility
		}
	}
	return m.lowered(until, last, span)
}

// lowered takes into account that every change may have been the last word that is neither surely
// before last nor surely after span, whichever handle it used.
func (m *message) lowered(until time.Duration, last, span Span) time.Duration {
	for _, ch := range m.changes {
		if ch.Outcome != Refused && ch.Call < span.Return && ch.end() >= last.Call {
			until = min(until, ch.Call+ch.Visibility)
		}
	}
	return until
}

// checkDeleted finds deliveries after a delete that surely removed the message: one with the handle
// of a delivery that surely had not ended when the delete was acknowledged.
func (c *checker) checkDeleted(m *message) {
	for _, del := range m.deletes {
		i := slices.IndexFunc(m.deliveries, func(d *Delivery) bool {
			return d.Handle == del.Handle
		})
		with := m.deliveries[i]
		if del.Outcome != Done ||
			del.Return+c.tolerance >= c.hiddenUntil(m, with, m.from[i], del.Span) {
			continue
		}
		m.removed, m.left = true, with.Queue
		for _, d := range m.deliveries {
			if d.Call > del.Return || d.Count > with.Count {
				c.violate(Deleted, m, "delivery %d at %v to %v, although deleted with delivery %d at %v to %v",
					d.Count, d.Call, d.Return, with.Count, del.Call, del.Return)
			}
		}
		return // one verdict a message, however many deletes it had
	}
}

// checkCounts judges the counts by themselves: they differ, and a delivery that was surely over had
// a smaller one than those that came after.
func (c *checker) checkCounts(m *message) {
	var latest time.Duration // of the calls of deliveries with a smaller count
	for i, d := range m.deliveries {
		switch {
		case d.Count < 1:
			c.violate(Counts, m, "receive count %d", d.Count)
		case i > 0 && d.Count == m.deliveries[i-1].Count &&
			!m.isReleased(m.deliveries[i-1], d):
			c.violate(Counts, m, "two deliveries with receive count %d", d.Count)
		case i > 0 && d.Return < latest:
			c.violate(Counts, m, "receive count %d at %v, and a smaller one at %v", d.Count,
				d.Return, latest)
		}
		latest = max(latest, d.Call)
	}
}

// checkPath judges which queues have delivered the message: each as often as it may, and one after
// the other.
func (c *checker) checkPath(m *message) {
	first := m.deliveries[0]
	if first.Queue != m.body.queue || m.deliveries[len(m.deliveries)-1].Queue != first.Queue {
		c.report.DeadLettered++
	}
	// of the calls of deliveries by queues before that of the delivery before
	var left time.Duration
	for i, d := range m.deliveries {
		c.checkArrival(m, d)
		q := c.ways.queues[d.Queue]
		if q.DeadLetter != "" && q.DeadLetter != d.Queue && d.Count > q.MaxReceives {
			c.violate(DeadLetter, m, "receive count %d in queue %s, which allows %d", d.Count,
				d.Queue, q.MaxReceives)
		}
		if i == 0 {
			continue
		}
		before := m.deliveries[i-1]
		if before.Queue != d.Queue {
			for _, e := range m.deliveries[:i] {
				left = max(left, e.Call)
			}
		}
		if _, ok := c.ways.path(before.Queue, d.Queue); !ok {
			c.violate(DeadLetter, m, "delivery %d by queue %s, after delivery %d by queue %s",
				d.Count, d.Queue, before.Count, before.Queue)
		} else if d.Return < left {
			c.violate(DeadLetter, m, "delivery %d by queue %s at %v, and by the queue that it came from at %v", d.Count, d.Queue, d.Return, left)
		}
	}
}

// checkArrival judges how a message can have come to the queue that delivers it.
func (c *checker) checkArrival(m *message, d *Delivery) {
	least, known := c.cost(m, d.Queue)
	switch b := m.body; {
	case !known:
		c.violate(Invented, m, "sent to queue %s and delivered by queue %s", b.queue, d.Queue)
	case least > 0 && d.Count <= least && !m.isPoison(d.Return):
		c.violate(DeadLetter, m, "receive count %d in queue %s, to which it comes after %d receives", d.Count, d.Queue, least)
	case d.Group != b.group:
		c.violate(Invented, m, "sent to group %q and delivered in group %q", b.group, d.Group)
	case d.Queue == b.queue && d.Dedup != b.dedup && (m.acked || !c.ways.isMovable(b.queue)):
		c.violate(Invented, m, "sent with deduplication ID %q and delivered with %q", b.dedup,
			d.Dedup)
	}
}

// cost tells whether a message can have come to a queue, and which receive count it must have
// reached on its way.
func (c *checker) cost(m *message, queue string) (least int, known bool) {
	least = math.MaxInt
	for _, origin := range c.ways.begins(m) {
		if n, ok := c.ways.path(origin, queue); ok {
			known, least = true, min(least, n)
		}
	}
	return least, known
}
