package audit

import (
	"cmp"
	"math"
	"slices"
	"time"
)

type groupKey struct{ queue, group string }

// A group is a message group of one queue.
type group struct {
	groupKey
	stays      []*stay
	deliveries []handedOut
}

// A stay is the time that a message spends in one FIFO queue.
type stay struct {
	group    *group
	message  *message
	sequence string
	by       time.Duration // it had surely entered the queue
	place    int           // among the stays of the group, by sequence number
}

// handedOut is one message in the answer of a receive.
type handedOut struct {
	Span
	stay   *stay
	answer int // number of the answer
	i      int // position in the history, which within an answer is that in the answer
}

// stay returns the stay of a message in a queue that an answer at some time reported.
func (c *checker) stay(m *message, queue, sequence, groupID string, by time.Duration) *stay {
	for _, s := range m.stays {
		if s.group.queue != queue {
			continue
		}
		if s.sequence != sequence {
			c.violate(Sequence, m, "sequence number %s and then %s in queue %s", s.sequence,
				sequence, queue)
		}
		s.by = min(s.by, by)
		return s
	}
	key := groupKey{queue, groupID}
	g := c.groups[key]
	if g == nil {
		g = &group{groupKey: key}
		c.groups[key] = g
		c.inGroups = append(c.inGroups, g)
	}
	s := &stay{group: g, message: m, sequence: sequence, by: by}
	m.stays = append(m.stays, s)
	g.stays = append(g.stays, s)
	return s
}

// checkGroup judges the order of a group.
func (c *checker) checkGroup(g *group) {
	slices.SortStableFunc(g.stays, func(a, b *stay) int {
		return compareSequences(a.sequence, b.sequence)
	})
	for i, s := range g.stays {
		s.place = i
	}
	c.checkSequences(g)
	c.checkLines(g)
}

// compareSequences compares decimal numbers.
func compareSequences(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// checkSequences finds messages that had surely entered the queue before others did whose sequence
// numbers are smaller.
func (c *checker) checkSequences(g *group) {
	latest := time.Duration(math.MinInt64)
	batches := map[int]int{} // the last entry of each batch
	for i, s := range g.stays {
		if i > 0 && s.sequence == g.stays[i-1].sequence {
			c.violate(Sequence, s.message, "sequence number %s, as message %s of the same group",
				s.sequence, g.stays[i-1].message.id)
		}
		if s.by < latest {
			c.violate(Sequence, s.message,
				"sequence number %s at %v, and a smaller one was given in its group after that, at %v", s.sequence, s.by, latest)
		}
		latest = max(latest, c.entered(s))
		if m := s.message; m.batch != 0 && m.body.attempts == 1 && m.body.queue == g.queue {
			if m.entry < batches[m.batch] {
				c.violate(Sequence, m, "sequence number %s, larger than that of a later entry of its batch", s.sequence)
			}
			batches[m.batch] = max(batches[m.batch], m.entry)
		}
	}
}

// entered is the earliest moment at which the stay can have begun.
func (c *checker) entered(s *stay) time.Duration {
	m := s.message
	at := time.Duration(math.MinInt64)
	if m.body != nil {
		at = m.body.from
	}
	for i, d := range m.deliveries {
		if c.isAbove(d.Queue, s.group.queue) {
			at = max(at, c.hiddenForGood(m, i))
		}
	}
	return at
}

// isAbove tells whether messages go from one queue to another when they are dead-lettered, and not
// back.
func (c *checker) isAbove(from, to string) bool {
	_, down := c.ways.path(from, to)
	_, back := c.ways.path(to, from)
	return down && !back
}

// hiddenForGood is until when a delivery surely hid the message from whatever would have ended
// that.
func (c *checker) hiddenForGood(m *message, i int) time.Duration {
	until := c.hiddenUntil(m, m.deliveries[i], m.from[i], Span{math.MaxInt64, math.MaxInt64})
	return max(m.from[i], until-c.tolerance)
}

// left is the earliest moment at which the stay can have ended.
func (c *checker) left(s *stay) time.Duration {
	m, queue := s.message, s.group.queue
	at := time.Duration(math.MaxInt64)
	for _, del := range m.deletes {
		if del.Outcome != Refused && c.handles[del.Handle].Queue == queue {
			at = min(at, del.Call)
		}
	}
	shown, hidden := time.Duration(math.MinInt64), c.entered(s)
	for i, d := range m.deliveries {
		if d.Queue == queue {
			shown, hidden = m.from[i], max(hidden, c.hiddenForGood(m, i))
		}
	}
	if c.mayBeDead(s) {
		at = min(at, hidden)
	}
	at = min(at, max(hidden, c.ways.moved(queue)))
	return max(at, shown)
}

// mayBeDead tells whether the message may have left for the dead-letter queue. When all queues are
// drained it is found there then, unless a client has moved it on. One that no client tried to
// delete is lost, which is another matter.
func (c *checker) mayBeDead(s *stay) bool {
	m, dead := s.message, c.ways.queues[s.group.queue].DeadLetter
	if dead == "" {
		return false
	}
	return !c.drained || len(m.deletes) == 0 || c.ways.isMovable(dead) ||
		slices.ContainsFunc(m.deliveries, func(d *Delivery) bool {
			return d.Queue != s.group.queue
		})
}

// checkLines holds the answer of each receive against the line of messages: whatever stands before
// what it delivered had left by then, or is in the answer too and before it.
func (c *checker) checkLines(g *group) {
	lefts := make([]time.Duration, len(g.stays))
	for i, s := range g.stays {
		lefts[i] = c.left(s)
	}
	m := newMaxima(lefts)
	slices.SortFunc(g.deliveries, func(a, b handedOut) int {
		return cmp.Or(cmp.Compare(a.answer, b.answer), cmp.Compare(a.i, b.i))
	})
	for rest := g.deliveries; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].answer == rest[0].answer {
			n++
		}
		c.checkAnswer(g, m, rest[:n])
		rest = rest[n:]
	}
}

// checkAnswer judges what one receive delivered of a group.
func (c *checker) checkAnswer(g *group, lefts *maxima, answer []handedOut) {
	next := 0 // place in the line
	for _, d := range answer {
		s := d.stay
		if s.place > 0 {
			c.report.Ordered++
		}
		if s.place < next {
			c.violate(Order, s.message,
				"sequence number %s behind a larger one of its group in one answer, at %v to %v",
				s.sequence, d.Call, d.Return)
			return
		}
		if i, left := lefts.in(next, s.place); i >= 0 && left > d.Return+c.tolerance {
			until := "its delete"
			if left < math.MaxInt64 {
				until = left.String()
			}
			before := g.stays[i]
			c.violate(Order, s.message,
				"delivery at %v to %v with sequence number %s, before which message %s with %s of group %q is in the queue until %s at least",
				d.Call, d.Return, s.sequence, before.message.id, before.sequence, g.group, until)
			return
		}
		next = s.place + 1
	}
}

// maxima answers where the largest value of any range is.
type maxima struct {
	values []time.Duration
	tree   []int // tree[n+i] is i; each above is the better one of its two children
}

func newMaxima(values []time.Duration) *maxima {
	n := len(values)
	m := &maxima{values: values, tree: make([]int, 2*n)}
	for i := range n {
		m.tree[n+i] = i
	}
	for i := n - 1; i > 0; i-- {
		m.tree[i] = m.better(m.tree[2*i], m.tree[2*i+1])
	}
	return m
}

func (m *maxima) better(i, j int) int {
	if i < 0 || j >= 0 && m.values[j] > m.values[i] {
		return j
	}
	return i
}

// in returns the index and the value of the largest in [from, to), or -1 when there is none.
func (m *maxima) in(from, to int) (int, time.Duration) {
	best := -1
	n := len(m.values)
	for l, r := from+n, to+n; l < r; l, r = l/2, r/2 {
		if l%2 == 1 {
			best = m.better(best, m.tree[l])
			l++
		}
		if r%2 == 1 {
			r--
			best = m.better(best, m.tree[r])
		}
	}
	if best < 0 {
		return -1, 0
	}
	return best, m.values[best]
}
