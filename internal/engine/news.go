package engine

import "tenaq/internal/engine/row"

// News reports on queues like Survey, but only on queues that may have changed since its last
// report and on queues that have messages. An unused queue therefore costs nothing.
//
// It continues a Survey with Watch that has covered all queues. It reports each change once, so
// News is for one caller. The caller repeats News until More is false, and makes a new Survey if an
// answer was lost.
//
// Unlike every other answer, this one depends on the memory of the engine: an engine that was
// opened later knows of no Survey and reports nothing.
type News struct {
	Max int // queues in one report

	// The answer: queues, those that are gone, and whether there are more to report.
	Gauges []Gauge
	Gone   []QueueName
	More   bool
}

// news are the queues that News has yet to report, the longest waiting first. They are kept by
// name, because a queue may leave memory before it is reported.
type news struct {
	watched bool // News is asked for
	names   []QueueName
	has     map[QueueName]bool // those in names
	left    int                // of names, in this round of News
}

// note makes News report a queue.
func (e *Engine) note(q *queue) {
	q.noted = true
	if n := &e.news; !n.has[q.name] {
		n.has[q.name] = true
		n.names = append(n.names, q.name)
	}
}

// next removes the first queue, which was reported.
func (n *news) next() {
	delete(n.has, n.names[0])
	n.names = n.names[1:]
	n.left--
	if len(n.names) == 0 { // give back what many new queues have taken
		n.names, n.has = nil, make(map[QueueName]bool)
	}
}

// watch makes News report every queue that is used from now on.
func (e *Engine) watch() {
	if !e.news.watched {
		e.news = news{watched: true, has: make(map[QueueName]bool)}
	}
}

func (op *News) apply(e *Engine, _ *Command) *Error {
	op.Gauges, op.Gone = nil, nil
	n := &e.news
	if n.left == 0 {
		n.left = len(n.names)
	}
	written := e.TurnBytes()
	for looks := 0; n.left > 0 && len(op.Gauges)+len(op.Gone) < op.Max && looks <= looksMax &&
		e.TurnBytes()-written <= moveBytesMax; {
		name := n.names[0]
		stored, ok := e.known(name)
		if !ok {
			n.next()
			op.Gone = append(op.Gone, name)
			continue
		}
		q := e.stale(name, stored)
		if q != nil && !e.settled(q) {
			break
		}
		n.next()
		g, looked := emptyGauge(name, &stored), 0
		if q != nil {
			g, looked = e.gauge(q)
			e.note(q)
		} else if q := e.queues[name]; q != nil {
			q.noted = false
		}
		op.Gauges = append(op.Gauges, g)
		looks += looked
	}
	op.More = n.left > 0
	return nil
}

// known returns the row of a queue that exists.
func (e *Engine) known(name QueueName) (stored row.Queue, ok bool) {
	if q := e.queues[name]; q != nil {
		return q.row, !q.gone
	}
	stored, ok = e.rows.queue(name)
	return stored, ok && stored.Deleted == 0
}
