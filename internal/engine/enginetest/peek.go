package enginetest

import (
	"fmt"

	"tenaq/internal/engine"
)

// peek looks at every queue from front to end, in pages of an odd size, and compares what it sees
// with what the counters say. That it changes no answer is for the transcript to show.
func (w *World) peek() error {
	for after := ""; ; {
		op := &engine.PeekQueues{Account: accountDefault, After: after, Max: 3}
		if err := w.look(op); err != nil {
			return err
		}
		for _, v := range op.Queues {
			if err := w.peekAt(&v.Gauge); err != nil {
				return fmt.Errorf("peek at %s: %w", v.Queue.Name, err)
			}
		}
		if after = op.Next; after == "" {
			return nil
		}
	}
}

func (w *World) peekAt(g *engine.Gauge) error {
	counts, last, after := make(map[engine.MessageState]int64), uint64(0), ""
	closed := make(map[string]bool) // groups in which a message was met that cannot be received
	for {
		op := &engine.Peek{Queue: g.Queue, After: after, Max: 7}
		if err := w.look(op); err != nil {
			return err
		}
		for _, m := range op.Messages {
			counts[m.State]++
			if m.Seq <= last {
				return fmt.Errorf("message %d comes behind %d", m.Seq, last)
			}
			last = m.Seq
			fifo := m.Sequence != 0
			if blocked := fifo && closed[m.Group] &&
				m.VisibleAt <= w.now; blocked != (m.State == engine.StateBlocked) {
				return fmt.Errorf("message %d of group %s is %s", m.Seq, m.Group, m.State)
			}
			closed[m.Group] = closed[m.Group] || m.VisibleAt > w.now
		}
		if after = op.Next; after == "" {
			break
		}
	}
	visible := counts[engine.StateVisible] + counts[engine.StateBlocked]
	if visible != g.Visible || counts[engine.StateInFlight] != g.InFlight ||
		counts[engine.StateDelayed] != g.Delayed {
		return fmt.Errorf("got the states %v, want %d visible or blocked, %d in flight, %d delayed",
			counts, g.Visible, g.InFlight, g.Delayed)
	}
	return nil
}

// look applies an operation that only reads, at the moment of the last command.
func (w *World) look(op engine.Op) error {
	for range againMax {
		err := w.engine.Apply(engine.Command{Now: w.now, HoldExpiry: w.expiry, Op: op})
		if err != engine.ErrAgain {
			return err
		}
		if err := w.commit(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%T was to be submitted again %d times", op, againMax)
}
