package engine

import (
	"cmp"

	"tenaq/internal/engine/history"
	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// A replay sends past messages again: those that its filter finds among the outcomes in the history
// of a queue. It is a task that selects; only what one step does differs, which is in this file and
// in replayed.go. [REPLAY-1]
//
// A lineage lives in one message at a time, because it names one place [ID-8]. So a replay leaves
// out a lineage that a queue has, and reads a history to find out which outcome of a lineage is its
// end.

// TaskReplay sends past messages again.
const TaskReplay = row.TaskReplay

// Why a replay fails. [REPLAY-12]
const failureNoHistory = "HistoryRemoved"

// checkReplay refuses a replay that cannot be, and returns where its messages go.
func (e *Engine) checkReplay(q *queue, op *StartTask) (to QueueName, err *Error) {
	if q.past == nil {
		return to, errNoHistory(q)
	}
	if err := checkReplayFilter(&op.Filter, op.Missing); err != nil {
		return to, err
	}
	if op.To == "" || op.To == q.name.Name {
		return to, nil
	}
	to = QueueName{Account: q.name.Account, Name: op.To}
	destination, err := e.lookup(to)
	switch {
	case err != nil:
		return to, errNoTarget(op.To)
	case destination.fifo() != q.fifo():
		return to, errValue(op.To, "to",
			"Source and destination must be queues of the same type.")
	}
	return to.Clone(), nil
}

// checkReplayFilter refuses parts of a filter that a replay does not have.
func checkReplayFilter(f *TaskFilter, missing bool) *Error {
	switch {
	case f.Source != "":
		return errValue(f.Source, "source", "A replay has no such filter.")
	case f.ReceivesMin != 0 || f.ReceivesMax != 0:
		return errNumber(int64(max(f.ReceivesMin, f.ReceivesMax)), "receives",
			"A replay has no such filter.")
	case len(f.Key) > historyKeyMax:
		return errNumber(int64(len(f.Key)), "key", "Must have at most 512 bytes.")
	case missing && f.Outcome == row.OutcomeDeleted:
		return errValue(f.Outcome.String(), "outcome",
			"What a consumer has deleted is completed: leave missing out to do it again.")
	}
	return nil
}

// checkNoReplay refuses what only a replay has.
func checkNoReplay(f *TaskFilter, missing bool) *Error {
	switch {
	case missing:
		return errValue("true", "missing", "Only a replay knows what is missing.")
	case f.Key != "":
		return errValue(f.Key, "key", "Only a replay selects by the key of the work.")
	case f.Outcome != 0:
		return errValue(f.Outcome.String(), "outcome", "Only a replay selects by outcomes.")
	}
	return nil
}

func errNoHistory(q *queue) *Error {
	return refuse(CodeUnsupported, "Queue "+q.name.Name+" keeps no history. Set its tag "+
		extension.History+", for example to 7d.")
}

// next is the number of the next outcome.
func (h *past) next() uint64 {
	if len(h.buckets) == 0 {
		return 1
	}
	return h.buckets[len(h.buckets)-1].End()
}

// endReplay ends the replay of a queue whose history was removed, so that it never reads another
// history, which begins with the same numbers. [REPLAY-12]
func (e *Engine) endReplay(q *queue) {
	if t := e.activeTask(q.name); t != nil && t.Work == TaskReplay {
		t.Status, t.Failure, t.Paused, t.Stepped = row.TaskFailed, failureNoHistory, false, e.now
		e.saveTask(t)
	}
}

// Bounds on what one Apply looks at for a replay. What it reads of contents is bounded like that of
// every task.
const (
	replayLooks = 512 // outcomes, and buckets in which a lineage is looked up
	laterMax    = 64  // later outcomes of one lineage
)

// A replaying is a walk over the outcomes of a history for those that a replay sends. It is
// bounded, keeps nothing in memory, and writes nothing of its own.
type replaying struct {
	history.Walk
	e       *Engine
	to      *queue
	filter  *TaskFilter
	missing bool

	looks int
	reads int64 // bytes of contents
	skips ReplaySkips
	waits *queue // has to become ready first; else nil
}

// ReplaySkips counts the outcomes that the filter of a replay finds and that it does not send.
type ReplaySkips struct {
	Live    int64 // a queue has a message of the lineage [REPLAY-5]
	Later   int64 // the lineage has a later outcome that counts [REPLAY-6]
	Refused int64 // the destination does not take so large a message [REPLAY-11]
}

// Total is how many they are.
func (s *ReplaySkips) Total() int64 { return s.Live + s.Later + s.Refused }

// A past message is one that a replay sends.
type pastMessage struct {
	*history.Past
	content    row.Content // as it is sent
	size       int64
	was        uint64 // its generation
	generation uint64 // the latest one that is known, and then that in which it is sent
	fence      uint64
}

// replayFrom returns a walk over the outcomes after a place of a queue that is ready, and makes
// its rows readable.
func (e *Engine) replayFrom(
	q, to *queue, f *TaskFilter, missing bool, place, horizon uint64,
) *replaying {
	e.flush()
	view := q.past.view(q.row.Incarnation, e.trusted())
	return &replaying{
		Walk: history.Walk{View: &view, Reader: e.rows.store, Fault: e.cfg.Fault, From: f.From,
			To: f.To, Place: place, Before: horizon},
		e: e, to: to, filter: f, missing: missing, looks: replayLooks, reads: taskReads,
	}
}

// run calls visit for each message that the replay sends, until it returns false: then the place
// stays in front of its outcome. It reports whether the walk has come to its end.
func (r *replaying) run(visit func(*pastMessage) bool) (whole bool) {
	return r.Run(func(p *history.Past) bool {
		if r.looks <= 0 {
			return false
		}
		r.looks--
		if !r.selects(p) {
			return true
		}
		if r.reads < p.Size && r.reads < taskReads {
			return false
		}
		r.reads -= p.Size
		c := p.Content()
		if !r.contains(p, &c) {
			return true
		}
		was := max(p.Generation, writtenGeneration(c.Attributes))
		m := &pastMessage{Past: p, content: c, was: was, generation: was,
			fence: p.Meta.Fence + uint64(p.Deliveries)}
		switch live := r.live(p.Meta.Lineage); {
		case r.waits != nil:
			return false
		case live:
			r.skips.Live++
			return true
		case !r.isLast(m):
			r.skips.Later++
			return true
		}
		if r.prepare(m); m.size > r.to.row.Attributes.MaximumMessageSize {
			r.skips.Refused++
			return true
		}
		return visit(m)
	})
}

// selects reports whether the filter finds an outcome, as far as its metadata say, and the replay
// is about outcomes of its kind. [REPLAY-3, REPLAY-4]
func (r *replaying) selects(p *history.Past) bool {
	f := r.filter
	return (f.Outcome == 0 && p.Kind != row.OutcomeRemoved || f.Outcome == p.Kind) &&
		!(r.missing && p.Kind == row.OutcomeDeleted) &&
		(f.ID == [16]byte{} || f.ID == [16]byte(p.ID) || f.ID == p.Meta.Lineage) &&
		(f.Key == "" || f.Key == p.Key) && (f.Group == "" || f.Group == p.Group)
}

// contains reports whether the filter finds the rest of an outcome.
func (r *replaying) contains(p *history.Past, c *row.Content) bool {
	if r.filter.OfReason() {
		a := &row.Attempt{Text: written(c.Attributes, "reason")}
		if p.Story != nil {
			a = cmp.Or(p.Story.Reason(), a)
		}
		if !takesReason(r.filter, a) {
			return false
		}
	}
	return takesContent(r.filter, c)
}

// movesOn reports whether an outcome says that the message went on to another place, which is not
// the end of its work.
func movesOn(kind row.OutcomeKind) bool {
	switch kind {
	case row.OutcomeDeadLettered, row.OutcomeMoved, row.OutcomeParked, row.OutcomeReplaced:
		return true
	}
	return false
}

// isLast reports whether no later outcome of the lineage counts instead of this one, and follows
// what later ones say of its generation and its fence. [REPLAY-6, REPLAY-7]
//
// After its message has ended, only a replay gives a lineage another one. So the index is read only
// in buckets that have outcomes of replayed messages, unless the message went on.
func (r *replaying) isLast(m *pastMessage) bool {
	on, last, seen := movesOn(m.Kind), true, 0
	r.looks -= r.Later(row.MessageID(m.Meta.Lineage), m.Number, func(b *row.Bucket) bool {
		return on || b.Replayed > 0
	}, func(p *history.Past) bool {
		seen++
		m.generation = max(m.generation, p.Generation)
		m.fence = max(m.fence, p.Meta.Fence+uint64(p.Deliveries))
		last = !on && !r.missing && seen < laterMax && !r.sends(p)
		return last
	})
	return last
}

// sends reports whether the replay comes to an outcome and its filter finds it.
func (r *replaying) sends(p *history.Past) bool {
	if p.Number >= r.Before || !r.Matches(&p.Outcome) || !r.selects(p) {
		return false
	}
	if !r.filter.OfContent() && !r.filter.OfReason() {
		return true
	}
	r.reads -= p.Size
	c := p.Content()
	return r.contains(p, &c)
}

// live reports whether a queue has a message of a lineage. If it is one that has just expired, the
// queue that has it becomes ready first. [REPLAY-5]
func (r *replaying) live(lineage row.MessageID) bool {
	e := r.e
	places := []row.Place{e.sys.IDKey.Place(lineage)}
	k := row.MovedKey(lineage)
	if value, ok := e.rows.get(k); ok {
		_, at := e.decodeMoved(k, value)
		places = append(places, at)
	}
	for _, at := range places {
		k := row.SeqKey(at.Space, row.KindMessage, at.Seq)
		value, ok := e.rows.get(k)
		if !ok {
			continue
		}
		m, _ := e.decodeMessage(k, value)
		if row.MessageID(m.Lineage) != lineage {
			continue // the id was made elsewhere
		}
		owner, ok := read(&e.rows, "owner", row.OwnerKey(at.Space), row.DecodeOwner)
		if !ok {
			return true // of an older store
		}
		q, err := e.lookup(owner)
		if err != nil || q.row.Space != at.Space {
			continue // it has fallen
		}
		if e.expiryPaused || !m.Expired(e.now, q.row.Attributes.Retention()) {
			return true
		}
		r.waits = q
		return false
	}
	return false
}

// stepReplay carries a replay one step further: what it sends, and how far it has come, are one
// change. It reports whether it could. [TASK-9]
func (e *Engine) stepReplay(q *queue, t *task, most int, seed [16]byte) bool {
	to := q
	if t.Destination != (QueueName{}) {
		other, err := e.lookup(t.Destination)
		if to = other; err != nil {
			t.Status, t.Failure, t.Stepped = row.TaskFailed, failureNoQueue, e.now
			e.saveTask(t)
			return true
		}
	}
	r := e.replayFrom(q, to, &t.Filter, t.Missing, t.Place, t.Limit)
	var sent []*pastMessage
	allowed, size := t.allowance(e.now, most), int64(0)
	whole := r.run(func(m *pastMessage) bool {
		if t.Most > 0 && t.Moved+int64(len(sent)) == t.Most {
			return false
		}
		if size += m.size; len(sent) == allowed || len(sent) > 0 && size > moveBytesMax {
			return false
		}
		sent = append(sent, m)
		return true
	})
	if r.waits != nil {
		e.ready(r.waits)
		return false
	}
	// Everything has been read; from here on the step writes.
	for i, m := range sent {
		e.sendAgain(to, m, t.Missing, identity(seed, i))
	}
	t.Place, t.Skipped, t.Stepped = r.Place, t.Skipped+r.skips.Total(), e.now
	t.spend(len(sent), e.now)
	if whole || t.Most > 0 && t.Moved == t.Most {
		t.Status = row.TaskCompleted
	}
	// In the batch of what is sent, or a crash would send it twice. [REPLAY-2]
	e.saveTask(t)
	return true
}

// replay counts what a replay would send. [REPLAY-10]
func (op *CountTask) replay(e *Engine, q *queue, after uint64) *Error {
	start := &StartTask{Work: TaskReplay, To: op.To, Filter: op.Filter, Missing: op.Missing,
		Newest: op.Newest, Edit: op.Edit}
	if err := checkOptions(q, start); err != nil {
		return err
	}
	name, err := e.checkReplay(q, start)
	if err != nil {
		return err
	}
	to := q
	if name != (QueueName{}) {
		if to, err = e.lookup(name); err != nil {
			return err
		}
	}
	if !e.ready(q) {
		return ErrAgain
	}
	r := e.replayFrom(q, to, &op.Filter, op.Missing, after, q.past.next())
	op.Count, op.Bytes, op.Outcomes, op.Next = 0, 0, nil, ""
	whole := r.run(func(m *pastMessage) bool {
		if op.Most > 0 && op.Count == op.Most {
			return false
		}
		op.Count++
		op.Bytes += m.size
		if len(op.Outcomes) < CountSamples {
			op.Outcomes = append(op.Outcomes, Outcome{Outcome: m.Outcome, Content: m.content})
		}
		return true
	})
	if r.waits != nil {
		e.ready(r.waits)
		return ErrAgain
	}
	op.Skips, op.Skipped = r.skips, r.skips.Total()
	if !whole {
		op.Next = sealPlace(amongOutcomes, q.row.Incarnation, r.Place)
	}
	return nil
}
