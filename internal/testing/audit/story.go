package audit

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// indexNack takes a nack for a change of the visibility timeout: poison hides its message from the
// queue that it leaves, and shows it in another at once.
func (c *checker) indexNack(n *Nack) {
	d := c.handles[n.Handle]
	if d == nil {
		return
	}
	m := c.messages[d.MessageID]
	m.nacks = append(m.nacks, n)
	m.changes = append(m.changes, &Change{Span: n.Span, Outcome: n.Outcome, Handle: n.Handle,
		Visibility: n.Delay})
}

// isReleased tells whether a delivery may have been taken back before another one.
func (m *message) isReleased(d, before *Delivery) bool {
	return slices.ContainsFunc(m.nacks, func(n *Nack) bool {
		return n.Verdict == Release && n.Outcome != Refused && n.Handle == d.Handle &&
			n.Call < before.Return
	})
}

// isPoison tells whether a consumer may have said so before some time.
func (m *message) isPoison(before time.Duration) bool {
	return slices.ContainsFunc(m.nacks, func(n *Nack) bool {
		return n.Verdict == Poison && n.Outcome != Refused && n.Call < before
	})
}

// checkPoison finds deliveries by a queue that a message has left as poison. What is parked in it
// may come back.
func (c *checker) checkPoison(m *message) {
	for _, n := range m.nacks {
		if n.Verdict != Poison || n.Outcome != Done {
			continue
		}
		queue := c.handles[n.Handle].Queue
		if _, back := c.ways.path(c.ways.queues[queue].DeadLetter, queue); back {
			continue
		}
		for _, d := range m.deliveries {
			if d.Queue == queue && d.Call > n.Return {
				c.violate(DeadLetter, m, "delivery %d by queue %s at %v to %v, although it was poison at %v to %v",
					d.Count, queue, d.Call, d.Return, n.Call, n.Return)
				return
			}
		}
	}
}

// last are the outcomes that end a message: afterwards, no message has its id.
var last = []string{"deleted", "expired", "moved", "replaced", "removed"}

// checkEndings compares the histories of the queues with what clients saw, when everything has left
// the queues.
func (c *checker) checkEndings() {
	if !c.drained || !c.hasHistory() {
		return
	}
	type key struct{ queue, id string }
	here, ends := map[key][]*Ending{}, map[string]*Ending{}
	for i := range c.history.Endings {
		e := &c.history.Endings[i]
		k := key{e.Queue, e.MessageID}
		here[k] = append(here[k], e)
		m := cmp.Or(c.messages[e.MessageID], &message{id: e.MessageID})
		if !slices.Contains(last, e.How) {
			continue
		}
		if other := ends[e.MessageID]; other != nil {
			c.violate(Recorded, m, "%s in the history of %s, and %s in that of %s", other.How,
				other.Queue, e.How, e.Queue)
			return
		}
		ends[e.MessageID] = e
		if e.How == "deleted" && !c.mayHaveLeft(m, e.Queue) {
			c.violate(Recorded, m, "deleted in the history of %s, which no client asked for",
				e.Queue)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.messages)) {
		m := c.messages[id]
		for _, queue := range c.seenIn(m) {
			found := here[key{queue, id}]
			deleted := slices.IndexFunc(found, func(e *Ending) bool { return e.How == "deleted" })
			switch {
			case len(found) == 0:
				c.violate(Recorded, m, "neither in queue %s nor in its history", queue)
			case m.removed && m.left == queue && deleted < 0:
				c.violate(Recorded, m, "deleted, and %s in the history of %s", found[0].How, queue)
			case deleted >= 0:
				c.checkSaid(m, found[deleted])
			}
		}
	}
}

func (c *checker) hasHistory() bool {
	for _, q := range c.ways.queues {
		if q.History {
			return true
		}
	}
	return false
}

// seenIn returns the queues with a history in which a message surely was.
func (c *checker) seenIn(m *message) (queues []string) {
	if m.acked && c.ways.queues[m.body.queue].History {
		queues = append(queues, m.body.queue)
	}
	for _, d := range m.deliveries {
		if c.ways.queues[d.Queue].History {
			queues = append(queues, d.Queue)
		}
	}
	return distinct(queues)
}

// attemptsKept is how many attempts the story of a message has.
const attemptsKept = 5

// checkSaid compares the story of a message with what its consumers said, if all of that is kept. A
// release, and what a later receive of the same number said, take the place of each other.
func (c *checker) checkSaid(m *message, e *Ending) {
	if len(m.changes) > attemptsKept {
		return
	}
	for _, n := range m.nacks {
		if n.Verdict == Release && n.Outcome != Refused {
			return
		}
	}
	for _, n := range m.nacks {
		if got := count(e.Said, n.Text); n.Outcome == Done && n.Text != "" && got != 1 {
			c.violate(Recorded, m, "its history has the reason %q %d times, and it was answered",
				n.Text, got)
			return
		}
	}
	for _, text := range e.Said {
		if text != "" && !slices.ContainsFunc(m.nacks, func(n *Nack) bool {
			return n.Text == text && n.Outcome != Refused
		}) && m.acked {
			c.violate(Recorded, m, "its history has the reason %q, which no client gave", text)
			return
		}
	}
}

func count(texts []string, text string) (n int) {
	for _, t := range texts {
		if t == text {
			n++
		}
	}
	return n
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
