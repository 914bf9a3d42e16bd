package engine

// CountTask counts the messages that a task with this filter would take now. It changes nothing.
// One Apply looks at a bounded number of messages, so a count may take several: each continues
// after the one before. [TASK-8]
type CountTask struct {
	Queue  QueueName
	Filter TaskFilter
	After  string // Next of the count before; empty to begin at the front
	Most   int64  // the count ends at this number; 0 for no limit
	Back   bool   // the task moves each message to its source, and skips one without
	To     string // the task moves them to this queue of the account; empty if it is not known
	Newest bool   // it begins with the latest message

	// Edit is what the task does to each message; without To it goes back. Samples are shown as
	// they are.
	Edit TaskEdit

	Replay  bool // the task is a replay, to the same queue if To is empty
	Missing bool // of what was never completed

	// The answer. Skipped messages are found and cannot be taken now.
	Count, Bytes, Skipped int64
	Looked                int64    // messages that it has looked at; 0 of a replay
	Samples               []Peeked // the first ones, at most CountSamples
	Next                  string   // empty when the count is complete

	// Of a replay, instead of Samples:
	Skips    ReplaySkips
	Outcomes []Outcome
}

// CountSamples is how many messages CountTask shows.
const CountSamples = 3

func (op *CountTask) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	among := byte(amongMessages)
	if op.Replay {
		among = amongOutcomes
	}
	after, ok := openPlace(among, q.row.Incarnation, op.After)
	if !ok {
		return errValue(op.After, "after", "It is not a place in this queue.")
	}
	if err := checkFilter(&op.Filter); err != nil {
		return err
	}
	if op.Replay {
		return op.replay(e, q, after)
	}
	if err := checkNoReplay(&op.Filter, op.Missing); err != nil {
		return err
	}
	to, err := e.checkCount(q, op)
	if err != nil {
		return err
	}
	if !e.ready(q) || !e.settleDelayed(q, settleStep) {
		return ErrAgain
	}
	op.Count, op.Bytes, op.Skipped, op.Samples, op.Next = 0, 0, 0, nil, ""
	f := e.bind(op.Filter, q.name.Account)
	edits := !op.Edit.None()
	back := op.To == "" && (op.Back || edits)
	if op.Newest && op.After == "" {
		after = q.st.NextSeq
	}
	s := e.selectFrom(q, &f, min(after, q.st.NextSeq), q.st.NextSeq, back)
	s.newest, s.contents = op.Newest, edits
	whole := s.run(func(m *selected) bool {
		if back {
			to = e.sourceQueue(q, m.source)
		}
		if !m.receivable || back && to == nil || edits &&
			new(NewDraft(Edited(m.content, &op.Edit))).checkInPlace(to, m.meta) != nil {
			op.Skipped++
			return true
		}
		if op.Most > 0 && op.Count == op.Most {
			return false
		}
		op.Count++
		op.Bytes += m.meta.Size
		if len(op.Samples) < CountSamples {
			op.Samples = append(op.Samples, m.shown)
		}
		return true
	})
	op.Looked = int64(taskLooks - s.looks)
	if !whole {
		op.Next = sealPlace(amongMessages, q.row.Incarnation, s.place)
	}
	return nil
}

// checkCount refuses a count for a move that cannot be, and returns where the messages go; nil if
// that differs or is not known.
func (e *Engine) checkCount(q *queue, op *CountTask) (to *queue, err *Error) {
	move := &StartTask{To: op.To, Newest: op.Newest, Edit: op.Edit}
	if op.To == "" && !op.Back && op.Edit.None() {
		move.Work = TaskDelete // or any other work
	}
	if err := checkOptions(q, move); err != nil || op.To == "" {
		return nil, err
	}
	return e.checkTo(q, op.To)
}
