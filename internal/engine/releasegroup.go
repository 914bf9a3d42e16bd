package engine

import (
	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// ReleaseGroup makes the messages of a group that are in flight receivable at once, for an operator
// whose consumer hangs. The receives stay counted, and the handles of these deliveries end, so the
// hanging consumer cannot delete what another one receives now. [V1-11] If dead letters hold the
// group, that ends. [HOLD-6]
type ReleaseGroup struct {
	Queue QueueName
	Group string

	// The answer: how many messages, and how many dead letters held the group until now.
	Released, Holds int
}

// Class makes it as important as a visibility change, which it is.
func (*ReleaseGroup) Class() Class { return ClassVisibility }

func (op *ReleaseGroup) apply(e *Engine, _ *Command) *Error {
	op.Released, op.Holds = 0, 0
	q, err := e.lookup(op.Queue)
	switch {
	case err != nil:
		return err
	case !q.fifo():
		return errNoGroups(q)
	case !e.ready(q):
		return ErrAgain
	}
	g := e.group(q, op.Group)
	if !g.row.Exists() {
		return errValue(op.Group, "group", "The group has no messages: list the groups of the queue.")
	}
	// Only the first messages can be in flight: those that one receive took from the front.
	// [FIFO-17]
	e.loadLines(q, g, sqslimits.ReceiveMax)
	var held []*message
	for _, l := range g.lines[:min(len(g.lines), sqslimits.ReceiveMax)] {
		if m := e.lineOf(q, g, l); m != nil && m.At > e.now && m.Kind == row.DueInFlight {
			e.needMeta(q, m)
			held = append(held, m)
		}
	}
	for _, m := range held {
		e.unschedule(q, m)
		m.Changed, m.Kind, m.At = true, row.DueReturned, e.now
		e.schedule(q, m) // the grace after a crash may have hidden it for longer than hide allows
	}
	op.Holds = e.free(q, g)
	if op.Released = len(held); op.Released > 0 {
		e.stir(q)
	}
	return nil
}
