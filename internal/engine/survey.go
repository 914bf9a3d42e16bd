package engine

// Survey reads where the messages of a few queues are, those behind After in the order of their names: all queues
// have to be told about, also those that nobody asks for. Result.Queues holds the last queue it is done with, and
// nothing after the last queue.
type Survey struct {
	After QueueName
	Max   int
}

// A Gauge is where the messages of a queue are at one moment.
type Gauge struct {
	Queue                      QueueName
	Visible, InFlight, Delayed int64

	// Age is how many milliseconds ago the oldest message was sent, zero when there is none. A dead letter is as old
	// as it was in the queue it comes from, unless that is a FIFO queue. [DLQ-25, DLQ-26]
	Age int64
}

func (op Survey) apply(e *Engine, _ *Command) (Result, error) {
	var names []QueueName
	more := false
	for name := range e.namesIn(queuesBehind(op.After)) {
		if len(names) == op.Max {
			more = true
			break
		}
		names = append(names, name)
	}
	var res Result
	done := op.After
	for _, name := range names {
		q, err := e.lookup(name)
		if err != nil {
			continue
		}
		if !e.ready(q) || !e.settle(q, settleStep) || !e.settleDelayed(q, settleStep) {
			more = true
			break
		}
		res.Gauges = append(res.Gauges, Gauge{
			Queue: name, Visible: q.st.live - q.st.delayed - q.st.inFlight, InFlight: q.st.inFlight, Delayed: q.st.delayed, Age: e.age(q),
		})
		done = name
	}
	if more {
		res.Queues = []QueueName{done}
	}
	return res, nil
}

// age is how long ago the oldest message of a queue was sent. The messages are in the order in which they came,
// among which the dead letters have a place of their own.
func (e *Engine) age(q *queue) int64 {
	if q.st.live == 0 {
		return 0
	}
	sent := e.now
	if id, s := e.oldestSegment(q); s != nil {
		lo, hi := max(s.first, id<<segmentBits), min((id+1)<<segmentBits, q.st.nextSeq)
		for k, v := range e.scan(seqSpan(q.row.space, kindMessage, lo, hi)) {
			m := e.decodeMeta(k, v)
			sent = m.base
			break
		}
	}
	if originIndex.load(e, q, &q.origin, 0) {
		sent = min(sent, q.origin.at(0).at)
	}
	return max(e.now-sent, 0)
}
