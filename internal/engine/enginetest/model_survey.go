package enginetest

import (
	"slices"
	"strings"

	"tenaq/internal/engine"
	"tenaq/internal/observe/tally"
)

// of returns what counts for a queue.
func (m *Model) of(q *modelQueue) *tally.Queue { return m.tally.Of(q.name.Account, q.name.Name) }

// Tally implements Machine.
func (m *Model) Tally() *tally.Queues { return m.tally }

// countReceive counts a message that is handed out, before it is.
func (m *Model) countReceive(q *modelQueue, msg *modelMessage) {
	m.countTimeout(q, msg)
	m.of(q).Received.Add(1)
	if msg.first != 0 {
		m.of(q).Redelivered.Add(1)
	}
}

// countTimeout counts the last delivery of a message if it ended by its timeout. [METRIC-21]
func (m *Model) countTimeout(q *modelQueue, msg *modelMessage) {
	switch {
	case msg.kind != inFlight:
	case msg.changed:
		m.of(q).TimedOutChanged.Add(1)
	default:
		m.of(q).TimedOut.Add(1)
	}
}

// survey reports all queues at once.
func (m *Model) survey() (gauges []engine.Gauge) {
	for name, q := range m.queues { // order does not matter: sorted below
		m.settle(q)
		g := engine.Gauge{
			Queue:             name,
			Visible:           int64(q.count(available, m.now)),
			InFlight:          int64(q.count(inFlight, m.now)),
			Delayed:           int64(q.count(delayed, m.now)),
			AWSAge:            q.awsAge(m.now),
			FIFO:              q.fifo(),
			VisibilityTimeout: q.number("VisibilityTimeout") * 1000,
			Retention:         q.number("MessageRetentionPeriod") * 1000,
			DeadLetterTarget:  m.redrive(q.attributes["RedrivePolicy"]).target.Name,
		}
		for _, msg := range q.messages {
			if msg.late() { // [EXT-27]
				g.Age = max(g.Age, m.now-msg.base)
			} else {
				g.Age = max(g.Age, m.now-msg.firstSent) // [METRIC-9]
			}
			g.Kept = max(g.Kept, m.now-msg.base) // [METRIC-23]
		}
		if q.is(fairTag) {
			q.quiet(m.now, &g)
		}
		gauges = append(gauges, g)
	}
	slices.SortFunc(gauges, func(a, b engine.Gauge) int {
		return strings.Compare(a.Queue.Name, b.Queue.Name)
	})
	return gauges
}

// awsAge is the age that SQS shows. [METRIC-5 to METRIC-8]
func (q *modelQueue) awsAge(now int64) int64 {
	const looks, segments, segment = 256, 16, 4096
	seen := make(map[uint64]bool)
	var last, first *modelMessage
	i, late := 0, int64(0)
	for _, msg := range q.messages {
		if msg.origin && (first == nil || msg.base < first.base) {
			first = msg
		}
	}
	if first != nil && first.late() && first.here < 3 { // [EXT-27]
		late = max(now-first.base, 0)
	}
	for _, msg := range q.messages {
		if msg.late() {
			continue
		}
		if seen[msg.seq/segment] = true; i == looks || len(seen) > segments {
			return max(now-last.arrived, late)
		}
		if last = msg; q.fifo() || msg.here < 3 {
			return max(now-msg.arrived, late)
		}
		i++
	}
	return late
}
