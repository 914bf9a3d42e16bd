package audit

import (
	"slices"
	"time"
)

// window is for how long a FIFO queue knows a deduplication ID; and margin is how much earlier its
// end is taken to be, or that of a retention period, for clocks that differ.
const window, margin = 5 * time.Minute, time.Second

// checkBody judges how many messages a body has become.
func (c *checker) checkBody(b *body) {
	if b.dedup == "" {
		c.report.Copies += max(0, min(len(b.messages), b.attempts)-1)
	}
	if !c.checkDuplicates(b) {
		c.checkCopies(b)
	}
	c.checkSelected(b)
	if c.drained {
		c.checkLoss(b)
	}
}

// checkDuplicates finds second messages of one deduplication ID, and reports whether it did. The
// window began at the first send or later, so all that was seen before its earliest end is one
// message.
func (c *checker) checkDuplicates(b *body) bool {
	if b.dedup == "" {
		return false
	}
	var first *message
	for _, m := range b.messages {
		switch {
		case m.by >= b.from+window-margin || !m.acked && !m.isFresh():
		case first == nil:
			first = m
		default:
			c.violate(Deduplicated, m, "stored for deduplication ID %s, as was message %s", b.dedup,
				first.id)
			return true
		}
	}
	return false
}

// isFresh tells whether a message that no send was answered with was stored by one all the same. A
// move task gives messages the deduplication IDs that they had in the dead-letter queue, which are
// others.
func (m *message) isFresh() bool {
	return slices.ContainsFunc(m.deliveries, func(d *Delivery) bool {
		return d.Queue == m.body.queue && d.Dedup == m.body.dedup
	})
}

// checkCopies finds more messages than there were attempts to send. Where tasks move messages, a
// body may have had any number of messages one after the other; but only one of them ends with a
// delete.
func (c *checker) checkCopies(b *body) {
	if b.attempts == 0 || len(b.messages) == 0 {
		return
	}
	last := b.messages[len(b.messages)-1]
	if !c.ways.isMovable(b.queue) {
		if n := len(b.messages); n > b.attempts {
			c.violate(Multiplied, last, "%d messages came from %d attempts to send", n, b.attempts)
		}
		return
	}
	copies, ended, early := b.attempts, 0, 0
	for _, m := range b.messages {
		if !m.removed {
			continue
		}
		last = m
		if ended++; m.by < b.from+window-margin {
			early++
		}
	}
	if b.dedup != "" {
		if early > 1 {
			c.violate(Multiplied, last, "%d messages of one were deleted", early)
			return
		}
		c.report.Moved += max(0, len(b.messages)-1)
	} else {
		c.report.Moved += max(0, len(b.messages)-b.attempts)
	}
	if ended > copies {
		c.violate(Multiplied, last, "%d messages were deleted that came from %d attempts to send",
			ended, copies)
	}
}

// checkLoss finds messages that ended without a delete, and not by their age either.
func (c *checker) checkLoss(b *body) {
	if age := c.ways.retention(b.queue); age > 0 && b.from+age < c.end+margin {
		return
	}
	tried := func(m *message) bool {
		return slices.ContainsFunc(m.deletes, func(d *Delete) bool { return d.Outcome != Refused })
	}
	if !c.ways.isMovable(b.queue) {
		for _, m := range b.messages {
			if !tried(m) {
				c.violate(Lost, m, "there at %v, delivered %d times, never deleted, and not in the queue at the end", m.by, len(m.deliveries))
			}
		}
		return
	}
	// Each that was acknowledged has ended as another one, which a task made of it.
	var lost *message
	acked, ended := 0, 0
	for _, m := range b.messages {
		if m.acked {
			acked++
		}
		if tried(m) {
			ended++
		} else {
			lost = m
		}
	}
	want := max(acked, min(1, len(b.messages)))
	if ended < want && !c.deletedByTasks(b, want-ended, lost) {
		c.violate(Lost, lost, "%d messages of this body were stored at least, and %d deleted; none is in any queue at the end", want, ended)
	}
}
