package engine

import (
	"bytes"
	"slices"
	"strings"

	"tenaq/internal/key"
	"tenaq/internal/work/sqslimits"
)

// What an audit says about the rows that are in no space.

func family(f byte) span { return span{lo: []byte{f}, hi: []byte{f + 1}} }

// secretLen is the length of the server's row: a version and a key of 32 bytes.
const (
	familySecret = 0x03
	secretLen    = 1 + 32
)

// system reads the row about the store as a whole, by which others are judged. A store without queues may have none.
func (a *audit) system() {
	a.sys = system{nextSpace: 1, clean: true, nextTask: 1}
	found, stamped := false, false
	for k, v := range a.rows(family(familySystem)) {
		if !bytes.Equal(k, systemKey()) {
			a.report(QueueName{}, k, "this row is of no kind that there is")
			continue
		}
		var ok bool
		if a.sys, ok = decodeSystem(v); !ok {
			a.damagedRow(QueueName{}, k, "system", v)
			a.sys = system{nextSpace: 1<<64 - 1, nextTask: 1<<64 - 1, boot: 1<<64 - 1, hidden: maxTime}
			return
		}
		found, stamped = true, v[0] >= stampedVersion
		a.canonical(QueueName{}, k, v, a.sys.encode(nil))
		switch s := &a.sys; {
		case s.nextSpace == 0 || s.nextTask == 0:
			a.report(QueueName{}, k, "the next space is %d and the next task %d", s.nextSpace, s.nextTask)
		case s.graceFrom > s.graceUntil || s.graceUntil > s.hidden:
			a.report(QueueName{}, k, "the grace is from %d until %d, and nothing was hidden until later than %d", s.graceFrom, s.graceUntil, s.hidden)
		case s.heldFrom < 0 || s.stamp < 0 || s.heldUntil < 0 || s.heldFrom == 0 && s.heldUntil != 0:
			a.report(QueueName{}, k, "the last stamp is of %d, and expiry is held from %d until %d", s.stamp, s.heldFrom, s.heldUntil)
		}
	}
	if found && (a.sys.clean || stamped) {
		a.latest = a.sys.stamp
	}
}

// queues reads the catalogue.
func (a *audit) queues() {
	for k, v := range a.rows(family(familyQueue)) {
		name, ok := queueNameOf(k)
		row, known := decodeQueueRow(v)
		if !ok || !known {
			a.damagedRow(name, k, "queue", v)
			continue
		}
		a.canonical(name, k, v, row.encode(nil))
		a.past(name, k, "the deletion of the queue", row.deleted)
		if row.deleted != 0 {
			continue
		}
		a.read.Queues++
		a.queue(name, k, &row)
	}
}

func (a *audit) queue(name QueueName, k []byte, row *queueRow) {
	a.past(name, k, "the creation of the queue", row.created)
	a.past(name, k, "its last change", row.modified)
	a.past(name, k, "its last purge", row.purged)
	other, taken := a.spaces[row.space]
	switch {
	case taken:
		a.report(name, k, "it is in space %d, and so is queue %s of account %s", row.space, other.Name, other.Account)
		return
	case row.space == 0 || row.space >= a.sys.nextSpace:
		a.report(name, k, "it is in space %d, and the next one to be taken is %d", row.space, a.sys.nextSpace)
	case row.incarnation == [16]byte{}:
		a.report(name, k, "it has no incarnation")
	case strings.HasSuffix(name.Name, fifoSuffix) != row.attributes.FIFO:
		a.report(name, k, "it is a FIFO queue by its name or by its attributes, but not by both")
	case row.modified < row.created || row.purged != 0 && row.purged < row.created:
		a.report(name, k, "it was created at %d, changed at %d and purged at %d", row.created, row.modified, row.purged)
	case !slices.IsSortedFunc(row.tags, func(x, y Tag) int { return strings.Compare(x.Key, y.Key) }):
		a.report(name, k, "its tags are not in order")
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"DelaySeconds", row.attributes.DelaySeconds},
		{"MaximumMessageSize", row.attributes.MaximumMessageSize},
		{"MessageRetentionPeriod", row.attributes.MessageRetentionPeriod},
		{"ReceiveMessageWaitTimeSeconds", row.attributes.ReceiveMessageWaitTimeSeconds},
		{"VisibilityTimeout", row.attributes.VisibilityTimeout},
	} {
		if err := findAttribute(n.name).set(nil, new(Attributes), decimal(n.value)); err != nil {
			a.report(name, k, "its %s is %d", n.name, n.value)
		}
	}
	a.spaces[row.space] = name
}

// sources compares the index of sources with the redrive policies.
func (a *audit) sources() {
	r := relation{
		audit: a, name: "source",
		owners: family(familyQueue), rows: family(familySource),
		wants: func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			name, ok := queueNameOf(k)
			row, known := decodeQueueRow(v)
			target := row.attributes.Redrive
			return sourceKey(target.Target, name.Name), []byte{rowVersion}, ok && known && target != (Redrive{})
		},
		owner: func(k, _ []byte) ([]byte, bool) {
			name, ok := sourceOf(k)
			return queueKey(name), ok
		},
	}
	for k, v := range a.Store.Scan(r.owners.lo, r.owners.hi) {
		r.expect(r.wants(k, v))
	}
	r.all(func(k, v []byte) {
		if _, ok := sourceOf(k); !ok {
			a.damagedRow(QueueName{}, k, "source", v)
		}
	})
	r.settle()
}

// taskOf reads a task with its number and its queue.
func taskOf(k, v []byte) (t task, ok bool) {
	if t, ok = decodeTask(v); !ok || len(k) == 0 {
		return t, false
	}
	account, rest, ok1 := key.String(k[1:])
	name, rest, ok2 := key.String(rest)
	t.source = QueueName{Account: account, Name: name}
	t.number, ok = taskNumber(k)
	return t, ok && ok1 && ok2 && len(rest) == 8
}

// tasks looks at the move tasks, and compares those that are not over with the index of active ones.
func (a *audit) tasks() {
	r := relation{
		audit: a, name: "active",
		owners: family(familyTask), rows: family(familyActive),
		wants: func(k, v []byte) (wantKey, wantValue []byte, ok bool) {
			t, ok := taskOf(k, v)
			return activeKey(t.number), encodeActive(nil, t.source), ok && t.status.active()
		},
		owner: func(k, v []byte) ([]byte, bool) {
			number, source, ok := decodeActive(k, v)
			return taskKey(source, number), ok
		},
	}
	var last QueueName
	kept, active := 0, 0
	for k, v := range a.rows(r.owners) {
		t, ok := taskOf(k, v)
		if !ok {
			a.damagedRow(QueueName{}, k, "task", v)
			continue
		}
		a.canonical(t.source, k, v, t.encode(nil))
		a.task(k, &t)
		if t.source != last {
			last, kept, active = t.source, 0, 0
		}
		if kept++; kept > sqslimits.TasksKept {
			a.report(t.source, k, "this is task %d of the queue, which keeps %d", kept, sqslimits.TasksKept)
		}
		if t.status.active() {
			if active++; active > 1 {
				a.report(t.source, k, "this is the second task of the queue that is not over")
			}
		}
		r.expect(r.wants(k, v))
	}
	r.all(func(k, v []byte) {
		if _, _, ok := decodeActive(k, v); !ok || len(k) != 9 {
			a.damagedRow(QueueName{}, k, "active", v)
		}
	})
	r.settle()
}

func (a *audit) task(k []byte, t *task) {
	a.past(t.source, k, "the start of the task", t.started)
	a.past(t.source, k, "its last step", t.stepped)
	value, ok := a.get(queueKey(t.source))
	row, known := decodeQueueRow(value)
	if !ok || known && row.deleted != 0 {
		a.report(t.source, k, "it is a task of a queue that does not exist")
		return
	}
	switch {
	case t.number == 0 || t.number >= a.sys.nextTask:
		a.report(t.source, k, "it is task %d, and the next one to be made is %d", t.number, a.sys.nextTask)
	case t.moved < 0 || t.toMove < 0 || t.rate < 0 || t.rate > sqslimits.TaskRateMax || t.stepped < t.started || t.id == [16]byte{}:
		a.report(t.source, k, "it has moved %d of %d at the rate %d, and stepped at %d after a start at %d",
			t.moved, t.toMove, t.rate, t.stepped, t.started)
	case (t.failure != "") != (t.status == taskFailed):
		a.report(t.source, k, "it is %s and the failure is %q", taskNames[t.status], t.failure)
	case known:
		value, _ := a.get(stateKey(row.space))
		if st, ok := decodeState(value); ok && (t.limit == 0 || t.limit > st.nextSeq) {
			a.report(t.source, k, "it moves messages before %d, and the next one of the queue is %d", t.limit, st.nextSeq)
		}
	}
}

// secret looks at the server's row.
func (a *audit) secret() {
	for k, v := range a.rows(family(familySecret)) {
		switch {
		case len(k) != 1:
			a.report(QueueName{}, k, "this row is of no kind that there is")
		case len(v) != secretLen || v[0] != rowVersion:
			a.damagedRow(QueueName{}, k, "secret", v)
		}
	}
}

// unknown finds the rows of families that there are not.
func (a *audit) unknown() {
	for _, gap := range []span{{[]byte{familyActive + 1}, []byte{familySpace}}, {[]byte{familySpace + 1}, nil}} {
		for k := range a.rows(gap) {
			a.report(QueueName{}, k, "this row is of no kind that there is")
		}
	}
}
