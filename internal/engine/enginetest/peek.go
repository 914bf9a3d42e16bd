package enginetest

import (
	"fmt"
	"reflect"

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
	groups := make(map[string]*engine.PeekedGroup)
	closed := make(map[string]bool) // groups in which a message was met that cannot be received
	// Groups with blocked messages that seem not to be, or the other way round. Only messages that
	// came back to their places, whose numbers do not say where they stand, excuse that. [HOLD-3]
	wrong, back := make(map[string]engine.Peeked), make(map[string]bool)
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
			if blocked := fifo && closed[m.Group] && m.VisibleAt <= w.now &&
				m.State != engine.StateHeld; blocked != (m.State == engine.StateBlocked) {
				wrong[m.Group] = m
			}
			back[m.Group] = back[m.Group] || m.Redrives > 0
			if group := groups[m.Group]; fifo && group == nil {
				groups[m.Group] = &engine.PeekedGroup{Group: m.Group, State: m.State,
					VisibleAt: m.VisibleAt, Wait: max(m.VisibleAt-w.now, 0), Messages: 1,
					First: m.Delivery}
			} else if fifo {
				group.Messages++
			}
			closed[m.Group] = closed[m.Group] || m.VisibleAt > w.now
		}
		if after = op.Next; after == "" {
			break
		}
	}
	for name, m := range wrong { // order does not matter: the first is reported
		if !back[name] {
			return fmt.Errorf("message %d of group %s is %s", m.Seq, m.Group, m.State)
		}
	}
	visible := counts[engine.StateVisible] + counts[engine.StateBlocked] + counts[engine.StateHeld]
	if visible != g.Visible || counts[engine.StateInFlight] != g.InFlight ||
		counts[engine.StateDelayed] != g.Delayed {
		return fmt.Errorf("got the states %v, want %d visible or blocked, %d in flight, %d delayed",
			counts, g.Visible, g.InFlight, g.Delayed)
	}
	if !g.FIFO {
		return nil
	}
	return w.peekGroups(g.Queue, groups, back)
}

// peekGroups compares the groups of a queue with those that its messages are in. Locked ones come
// first, each part in order. Of groups that are held, and of those to which messages came back,
// only the number of messages is known.
func (w *World) peekGroups(
	q engine.QueueName, want map[string]*engine.PeekedGroup, back map[string]bool,
) error {
	n, free := 0, false
	for op := (&engine.PeekGroups{Queue: q, Max: 2}); ; op.After = op.Next {
		if err := w.look(op); err != nil {
			return err
		}
		for _, got := range op.Groups {
			held := len(got.HeldBy) > 0
			if held != (got.State == engine.StateHeld) {
				return fmt.Errorf("group %s is %s by %v", got.Group, got.State, got.HeldBy)
			}
			of := want[got.Group]
			switch {
			case of == nil && held && got.Messages == 0:
				continue
			case of != nil && (held || back[got.Group]) && of.Messages == got.Messages:
			case of == nil || !reflect.DeepEqual(*of, got):
				return fmt.Errorf("group %s is %+v, want %+v", got.Group, got, of)
			}
			n++
			if locked := got.State != engine.StateVisible; locked && free {
				return fmt.Errorf("group %s is locked and comes behind one that is not", got.Group)
			} else if free = !locked; len(op.Groups) > op.Max {
				return fmt.Errorf("a page of %d groups", len(op.Groups))
			}
		}
		if op.Next == "" {
			break
		}
	}
	if n != len(want) {
		return fmt.Errorf("got %d groups, want %d", n, len(want))
	}
	return nil
}

// look applies an operation that only reads, at the moment of the last command.
func (w *World) look(op engine.Op) error {
	for range againMax {
		err := w.engine.Apply(engine.Command{Now: w.now, ExpiryPaused: w.expiryPaused, Op: op})
		if err != engine.ErrAgain {
			return err
		}
		if err := w.commit(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%T was to be submitted again %d times", op, againMax)
}
