package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// Survey reads where the messages of a few queues are, those behind After in the order of their
// names. It covers all queues, used or not. With Watch, News continues where the last Survey ends.
type Survey struct {
	After QueueName
	Max   int
	Watch bool

	// The answer: queues, the last of them, and whether there are others after it.
	Gauges []Gauge
	Last   QueueName
	More   bool
}

// A Gauge is where the messages of a queue are at one moment, with the settings that matter to
// monitoring.
type Gauge struct {
	Queue                      QueueName
	Visible, InFlight, Delayed int64

	// Age is how many milliseconds ago the oldest work in the queue was first sent, to whatever
	// queue; zero if there is none. [METRIC-9]
	Age int64

	// AWSAge is the age that SQS shows as ApproximateAgeOfOldestMessage, in milliseconds; zero if
	// no message counts. [METRIC-5 to METRIC-8]
	AWSAge int64

	// Kept is for how many milliseconds of Retention the message that expires next has been kept.
	// [RET-1, DLQ-25]
	Kept int64

	// Fair is set for a fair queue. Noisy is then how many groups are noisy, and Quiet where the
	// messages of the others are. [METRIC-16]
	Fair  bool
	Noisy int64
	Quiet struct{ Visible, InFlight, Delayed int64 }

	FIFO              bool
	Paused            bool  // no message is delivered [EXT-1]
	VisibilityTimeout int64 // milliseconds
	Retention         int64 // milliseconds
	// name of the dead-letter queue, empty for none; it may have been deleted
	DeadLetterTarget string
}

func (op *Survey) apply(e *Engine, _ *Command) *Error {
	if op.Watch {
		e.watch()
	}
	var rows []catalogued
	op.More = false
	for name, stored := range e.queuesIn(queuesBehind(op.After)) {
		if stored.Deleted != 0 {
			continue
		}
		if len(rows) == op.Max {
			op.More = true
			break
		}
		rows = append(rows, catalogued{name, stored})
	}
	op.Gauges, op.Last = make([]Gauge, 0, len(rows)), op.After
	looks, written := 0, e.TurnBytes()
	for i := range rows {
		c := &rows[i]
		g, looked := emptyGauge(c.name, &c.row), 0
		if q := e.stale(c.name, c.row); q != nil {
			if !e.settled(q) {
				op.More = true
				break
			}
			g, looked = e.gauge(q)
		}
		op.Gauges = append(op.Gauges, g)
		op.Last = c.name
		if looks += looked; looks > looksMax || e.TurnBytes()-written > moveBytesMax {
			op.More = true
			break
		}
	}
	return nil
}

// gauge reads a queue that is settled. Looks is how many messages it has looked at.
func (e *Engine) gauge(q *queue) (g Gauge, looks int) {
	g = emptyGauge(q.name, &q.row)
	g.Visible, g.InFlight, g.Delayed = q.visible(), q.st.InFlight, q.st.Delayed
	g.Age, g.Kept, g.AWSAge, looks = e.ages(q)
	if q.fair != nil {
		e.quiet(q, &g)
	}
	return g, looks
}

// emptyGauge is the gauge of a queue without messages.
func emptyGauge(name QueueName, stored *row.Queue) Gauge {
	a := &stored.Attributes
	_, fair := searchTag(stored.Tags, extension.Fair)
	_, paused := searchTag(stored.Tags, extension.Paused)
	return Gauge{
		Queue: name, Fair: fair, FIFO: a.FIFO, Paused: paused,
		VisibilityTimeout: a.VisibilityTimeout * 1000, Retention: a.Retention(),
		DeadLetterTarget: a.Redrive.Target.Name,
	}
}

// SurveyTasks reads the move tasks of an account that are running or being cancelled, in the order
// of their starts, at most a hundred. [MOVE-23, METRIC-22]
type SurveyTasks struct {
	Account string

	Tasks []MoveTask // the answer
}

func (op *SurveyTasks) apply(e *Engine, _ *Command) *Error {
	op.Tasks = nil
	for _, t := range e.tasks {
		if t.Source.Account == op.Account {
			op.Tasks = append(op.Tasks, e.showTask(t))
		}
	}
	return nil
}
