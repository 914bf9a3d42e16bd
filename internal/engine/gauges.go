package engine

// Gauges reads where the messages of a few queues are. Queues that do not exist are left out. Like
// a Peek it changes no answer.
type Gauges struct {
	Queues []QueueName // at most GaugesMax

	Gauges []Gauge // the answer, in the order of Queues
}

// GaugesMax is how many queues one Gauges may name. The writer brings each of them up to date.
const GaugesMax = 64

func (op *Gauges) apply(e *Engine, _ *Command) *Error {
	if len(op.Queues) > GaugesMax {
		return errNumber(int64(len(op.Queues)), "queues", "Must be at most 64.")
	}
	op.Gauges = nil
	written := e.TurnBytes()
	for _, name := range op.Queues {
		q, err := e.lookup(name)
		if err != nil {
			continue
		}
		if !e.settled(q) || e.TurnBytes()-written > moveBytesMax {
			return ErrAgain
		}
		g, _ := e.gauge(q)
		op.Gauges = append(op.Gauges, g)
	}
	return nil
}
