package verify

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
	"tenaq/internal/work/sqslimits"
)

// system reads the row about the store as a whole, by which others are judged. A store without
// queues may have none.
func (a *run) system() {
	a.sys = row.System{NextSpace: 1, Clean: true, NextTask: 1}
	found, stamped := false, false
	for k, v := range a.rows(row.Family(row.FamilySystem)) {
		if !bytes.Equal(k, row.SystemKey()) {
			a.report(row.QueueName{}, k, "this row is of no kind that there is")
			continue
		}
		var ok bool
		if a.sys, ok = row.DecodeSystem(v); !ok {
			a.damagedRow(row.QueueName{}, k, "system", v)
			a.sys = row.System{NextSpace: 1<<64 - 1, NextTask: 1<<64 - 1, Boot: 1<<64 - 1,
				Hidden: row.MaxTime, Unowned: true, Fallen: true}
			return
		}
		found, stamped = true, v[0] >= row.StampedVersion
		a.canonical(row.QueueName{}, k, v, a.sys.Encode(nil))
		switch s := &a.sys; {
		case s.NextSpace == 0 || s.NextTask == 0:
			a.report(row.QueueName{}, k, "the next space is %d and the next task %d", s.NextSpace,
				s.NextTask)
		case s.GraceFrom > s.GraceUntil || s.GraceUntil > s.Hidden:
			a.report(row.QueueName{}, k,
				"the grace is from %d until %d, and nothing was hidden until later than %d",
				s.GraceFrom, s.GraceUntil, s.Hidden)
		case s.HeldFrom < 0 || s.Stamp < 0 || s.HeldUntil < 0 || s.HeldFrom == 0 &&
			s.HeldUntil != 0:
			a.report(row.QueueName{}, k,
				"the last stamp is of %d, and expiry is paused from %d until %d", s.Stamp, s.HeldFrom,
				s.HeldUntil)
		}
	}
	if found && (a.sys.Clean || stamped) {
		a.latest = a.sys.Stamp
	}
}

// queues reads the catalogue.
func (a *run) queues() {
	for k, v := range a.rows(row.Family(row.FamilyQueue)) {
		name, ok := row.QueueOf(k)
		stored, known := row.DecodeQueue(v)
		if !ok || !known {
			a.damagedRow(name, k, "queue", v)
			continue
		}
		a.canonical(name, k, v, stored.Encode(nil))
		a.past(name, k, "the deletion of the queue", stored.Deleted)
		if stored.Deleted != 0 {
			continue
		}
		a.read.Queues++
		a.queue(name, k, &stored)
	}
}

func (a *run) queue(name row.QueueName, k []byte, stored *row.Queue) {
	a.past(name, k, "the creation of the queue", stored.Created)
	a.past(name, k, "its last change", stored.Modified)
	a.past(name, k, "its last purge", stored.Purged)
	other, taken := a.spaces[stored.Space]
	switch {
	case taken:
		a.report(name, k, "it is in space %d, and so is queue %s of account %s", stored.Space,
			other.Name, other.Account)
		return
	case stored.Space == 0 || stored.Space >= a.sys.NextSpace:
		a.report(name, k, "it is in space %d, and the next one to be taken is %d", stored.Space,
			a.sys.NextSpace)
	case stored.Incarnation == [16]byte{}:
		a.report(name, k, "it has no incarnation")
	case strings.HasSuffix(name.Name, row.FIFOSuffix) != stored.Attributes.FIFO:
		a.report(name, k, "it is a FIFO queue by its name or by its attributes, but not by both")
	case stored.Modified < stored.Created || stored.Purged != 0 && stored.Purged < stored.Created:
		a.report(name, k, "it was created at %d, changed at %d and purged at %d", stored.Created,
			stored.Modified, stored.Purged)
	case !slices.IsSortedFunc(stored.Tags, func(x, y row.Tag) int {
		return strings.Compare(x.Key, y.Key)
	}):
		a.report(name, k, "its tags are not in order")
	}
	for _, n := range []struct {
		name             string
		value, low, high int64
	}{
		{"DelaySeconds", stored.Attributes.DelaySeconds, 0,
			int64(sqslimits.DelayMax / time.Second)},
		{"MaximumMessageSize", stored.Attributes.MaximumMessageSize, sqslimits.MessageSizeMin,
			sqslimits.MessageBytesMax},
		{"MessageRetentionPeriod", stored.Attributes.MessageRetentionPeriod,
			int64(sqslimits.RetentionMin / time.Second),
			int64(sqslimits.RetentionMax / time.Second)},
		{"ReceiveMessageWaitTimeSeconds", stored.Attributes.ReceiveMessageWaitTimeSeconds, 0,
			int64(sqslimits.WaitMax / time.Second)},
		{"VisibilityTimeout", stored.Attributes.VisibilityTimeout, 0,
			int64(sqslimits.VisibilityMax / time.Second)},
	} {
		if n.value < n.low || n.value > n.high {
			a.report(name, k, "its %s is %d", n.name, n.value)
		}
	}
	a.spaces[stored.Space] = name
	for _, t := range stored.Tags {
		if schedule, ok := extension.ScheduleName(t.Key); ok {
			s := row.Schedule{Queue: name, Name: schedule}
			if _, there := a.get(s.Key()); !there {
				a.report(name, k, "it has the schedule %s, and no row says when that is due", schedule)
			}
		}
	}
	isHistory := func(t row.Tag) bool { return t.Key == extension.History }
	if slices.ContainsFunc(stored.Tags, isHistory) {
		a.pasts[stored.Incarnation] = name
	}
}

// sources compares the index of sources with the redrive policies.
func (a *run) sources() {
	r := relation{
		audit: a, name: "source",
		owners: row.Family(row.FamilyQueue), rows: row.Family(row.FamilySource),
		wants: func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			name, ok := row.QueueOf(k)
			stored, known := row.DecodeQueue(v)
			target := stored.Attributes.Redrive
			return row.SourceKey(target.Target, name.Name), []byte{row.Version}, ok && known &&
				target != (row.Redrive{})
		},
		owner: func(k, _ []byte) ([]byte, bool) {
			name, ok := row.SourceOf(k)
			return row.QueueKey(name), ok
		},
	}
	for k, v := range a.Store.Scan(r.owners.Lo, r.owners.Hi) {
		r.expect(r.wants(k, v))
	}
	r.all(func(k, v []byte) {
		if _, ok := row.SourceOf(k); !ok {
			a.damagedRow(row.QueueName{}, k, "source", v)
		}
	})
	r.settle()
}

// tasks looks at the move tasks, and compares those that are not over with the index of active
// ones.
func (a *run) tasks() {
	r := relation{
		audit: a, name: "active",
		owners: row.Family(row.FamilyTask), rows: row.Family(row.FamilyActive),
		wants: func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			t, ok := row.TaskOf(k, v)
			return row.ActiveKey(t.Number), row.EncodeActive(nil, t.Source), ok && t.Status.Active()
		},
		owner: func(k, v []byte) ([]byte, bool) {
			number, source, ok := row.DecodeActive(k, v)
			return row.TaskKey(source, number), ok
		},
	}
	var last row.QueueName
	kept, active := 0, 0
	for k, v := range a.rows(r.owners) {
		t, ok := row.TaskOf(k, v)
		if !ok {
			a.damagedRow(row.QueueName{}, k, "task", v)
			continue
		}
		a.canonical(t.Source, k, v, t.Encode(nil))
		a.task(k, &t)
		if t.Source != last {
			last, kept, active = t.Source, 0, 0
		}
		if kept++; kept > sqslimits.TasksKept {
			a.report(t.Source, k, "this is task %d of the queue, which keeps %d", kept,
				sqslimits.TasksKept)
		}
		if t.Status.Active() {
			if active++; active > 1 {
				a.report(t.Source, k, "this is the second task of the queue that is not over")
			}
		}
		r.expect(r.wants(k, v))
	}
	r.all(func(k, v []byte) {
		if _, _, ok := row.DecodeActive(k, v); !ok || len(k) != 9 {
			a.damagedRow(row.QueueName{}, k, "active", v)
		}
	})
	r.settle()
}

func (a *run) task(k []byte, t *row.Task) {
	a.past(t.Source, k, "the start of the task", t.Started)
	a.past(t.Source, k, "its last step", t.Stepped)
	value, ok := a.get(row.QueueKey(t.Source))
	stored, known := row.DecodeQueue(value)
	if !ok || known && stored.Deleted != 0 {
		a.report(t.Source, k, "it is a task of a queue that does not exist")
		return
	}
	switch {
	case t.Number == 0 || t.Number >= a.sys.NextTask:
		a.report(t.Source, k, "it is task %d, and the next one to be made is %d", t.Number,
			a.sys.NextTask)
	case t.Moved < 0 || t.ToMove < 0 || t.Rate < 0 || t.Rate > rateMax(t) ||
		t.Stepped < t.Started || t.ID == [16]byte{}:
		a.report(t.Source, k, "it has moved %d of %d at the rate %d, and stepped at %d after a start at %d",
			t.Moved, t.ToMove, t.Rate, t.Stepped, t.Started)
	case t.Skipped < 0 || t.Most < 0 || t.Most > 0 && t.Moved > t.Most || t.Confirm < 0 ||
		t.Confirm > 0 && t.Moved > t.Confirm || (t.Work == row.TaskDelete) != (t.Confirm > 0):
		a.report(t.Source, k, "it has taken %d messages and skipped %d, with the limit %d and %d confirmed",
			t.Moved, t.Skipped, t.Most, t.Confirm)
	case t.Paused && t.Status != row.TaskRunning:
		a.report(t.Source, k, "it is paused and %s", row.TaskNames[t.Status])
	case t.Place > t.Limit || t.Place > 0 && t.Place == t.Limit && !t.Newest:
		a.report(t.Source, k, "it has looked at message %d, and stops before %d", t.Place, t.Limit)
	case (t.Failure != "") != (t.Status == row.TaskFailed):
		a.report(t.Source, k, "it is %s and the failure is %q", row.TaskNames[t.Status], t.Failure)
	case known && t.Work != row.TaskReplay: // which counts outcomes, not messages
		value, _ := a.get(row.StateKey(stored.Space))
		if st, ok := row.DecodeState(value); ok && (t.Limit == 0 || t.Limit > st.NextSeq) {
			a.report(t.Source, k, "it moves messages before %d, and the next one of the queue is %d", t.Limit, st.NextSeq)
		}
	}
}

func rateMax(t *row.Task) int64 {
	if t.Selects {
		return row.TaskRateMax
	}
	return sqslimits.TaskRateMax
}

// secret looks at the server's row.
func (a *run) secret() {
	for k, v := range a.rows(row.Family(row.FamilySecret)) {
		switch {
		case len(k) != 1:
			a.report(row.QueueName{}, k, "this row is of no kind that there is")
		case len(v) != row.SecretLen || v[0] != row.Version:
			a.damagedRow(row.QueueName{}, k, "secret", v)
		}
	}
}

// documents looks at the rows whose contents are known to the server only.
func (a *run) documents() {
	for k, v := range a.rows(row.Family(row.FamilyDocument)) {
		_, ok := row.DocumentOf(k)
		document, known := row.DecodeDocument(v)
		if !ok || !known {
			a.damagedRow(row.QueueName{}, k, "document", v)
			continue
		}
		a.canonical(row.QueueName{}, k, v, row.EncodeDocument(nil, document))
	}
}

// actions looks at the action log.
func (a *run) actions() {
	at := make(map[uint64][]byte) // keys, by number
	for k, v := range a.rows(row.Family(row.FamilyAction)) {
		action, ok := row.DecodeAction(v)
		if !ok {
			a.damagedRow(row.QueueName{}, k, "action", v)
			continue
		}
		a.canonical(row.QueueName{}, k, v, action.Encode(nil))
		a.past(row.QueueName{}, k, "the time of the action", action.At)
		if _, ok := row.ActionPlace(k); !ok {
			a.report(row.QueueName{}, k, "the action %d is at no place that there is",
				action.Number)
		}
		if other, twice := at[action.Number]; twice {
			a.report(row.QueueName{}, k, "the action %d is also at %x", action.Number, other)
		}
		at[action.Number] = bytes.Clone(k)
	}
}

// unknown finds the rows of families that there are not.
func (a *run) unknown() {
	a.gaps(row.QueueName{},
		row.Span{Lo: []byte{row.FamilySchedule + 1}, Hi: []byte{row.FamilySpace}},
		row.Span{Lo: []byte{row.FamilyHistory + 1}, Hi: nil})
}

// gaps finds rows between the kinds that there are.
func (a *run) gaps(queue row.QueueName, spans ...row.Span) {
	for _, gap := range spans {
		for k := range a.rows(gap) {
			a.report(queue, k, "this row is of no kind that there is")
		}
	}
}
