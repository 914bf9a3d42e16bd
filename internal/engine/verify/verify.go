// Package verify reads every row of a store and reports faults: rows that do not decode to their
// last byte, that no version of this program writes, or that contradict each other. The indexes,
// counters and low-water keys of the engine must agree with the rows that they summarize.
//
// It needs only the rows, so it also finds mistakes of the engine that wrote them.
//
// It reads the rows in the order of their keys and compares two indexes by the sums of the hashes
// of their rows. Its memory therefore does not grow with the number of messages: it takes some
// hundred bytes per queue. Only if two sums differ does it look up single rows, to name them.
//
// A finding never shows the contents of a row, which may be a customer's data.
package verify

import (
	"bytes"
	"fmt"
	"iter"

	"tenaq/internal/engine/key"
	"tenaq/internal/engine/row"
)

// A Verifier verifies the rows of a store that has no writer.
type Verifier struct {
	Store row.Reader

	// Found is called with each finding.
	Found func(Finding)

	// Try runs a part of the work and returns the error of the disk that ended it, if one did.
	// Leave it nil for a store whose reads do not fail.
	Try func(part func()) error

	// Progress, if set, is called every 65536 rows.
	Progress func(Read)
}

// A Finding is one thing that is wrong with the rows of a store.
type Finding struct {
	Queue row.QueueName // zero for what belongs to none
	Key   []byte        // of the row, nil when it is about several
	Text  string        // what is wrong, as a part of a sentence
}

// Read is how much was read.
type Read struct {
	Queues, Messages, Rows, Bytes int64
}

// progressEvery is how many rows are read between two reports of progress.
const progressEvery = 1 << 16

// Run reads the whole store.
func (a Verifier) Run() Read {
	r := &run{Verifier: a, latest: row.MaxTime, spaces: make(map[uint64]row.QueueName),
		pasts: make(map[[16]byte]row.QueueName)}
	r.part(row.QueueName{}, r.system)
	r.part(row.QueueName{}, r.queues)
	r.part(row.QueueName{}, r.sources)
	r.part(row.QueueName{}, r.tasks)
	r.part(row.QueueName{}, r.schedules)
	r.part(row.QueueName{}, r.secret)
	r.part(row.QueueName{}, r.actions)
	r.part(row.QueueName{}, r.documents)
	r.part(row.QueueName{}, r.moved)
	r.part(row.QueueName{}, r.records)
	r.part(row.QueueName{}, r.unknown)
	r.eachSpace()
	r.histories()
	return r.read
}

// A run is a Verifier while it runs.
type run struct {
	Verifier
	read   Read
	found  int64
	sys    row.System
	latest int64                      // no time that has passed is later
	spaces map[uint64]row.QueueName   // of the queues, until they have been read
	pasts  map[[16]byte]row.QueueName // of the queues with a history, by incarnation
}

// part runs a part of the work. When a disk error ends it, the other parts still run.
func (a *run) part(queue row.QueueName, f func()) {
	if a.Try == nil {
		f()
		return
	}
	if err := a.Try(f); err != nil {
		a.report(queue, nil, "rows cannot be read, and those behind them were not looked at: %v",
			err)
	}
}

func (a *run) report(queue row.QueueName, k []byte, format string, args ...any) {
	a.found++
	a.Found(Finding{queue, bytes.Clone(k), fmt.Sprintf(format, args...)})
}

// rows yields the rows of a span and counts them.
func (a *run) rows(s row.Span) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range a.Store.Scan(s.Lo, s.Hi) {
			a.read.Rows++
			a.read.Bytes += int64(len(k) + len(v))
			if a.Progress != nil && a.read.Rows%progressEvery == 0 {
				a.Progress(a.read)
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

func (a *run) get(k []byte) ([]byte, bool) { return a.Store.Get(nil, k) }

// past checks a time that has passed.
func (a *run) past(queue row.QueueName, k []byte, what string, at int64) {
	if at < 0 || at > a.latest {
		a.report(queue, k, "%s is at %d, and the latest time there can be is %d", what, at,
			a.latest)
	}
}

// canonical checks that a value is what this version writes. Values of older versions are not
// compared. The finding says where the value differs, and not what is there.
func (a *run) canonical(queue row.QueueName, k, v, want []byte) {
	if len(v) == 0 || v[0] != want[0] || bytes.Equal(v, want) {
		return
	}
	at := 0
	for at < min(len(v), len(want)) && v[at] == want[at] {
		at++
	}
	a.report(queue, k, "it says what is never written so: from byte %d of %d on it is not what this program writes", at, len(v))
}

func (a *run) damagedRow(queue row.QueueName, k []byte, kind string, v []byte) {
	if len(v) == 0 {
		a.report(queue, k, "this %s row cannot be read: it is empty", kind)
		return
	}
	a.report(queue, k, "this %s row cannot be read: it has %d bytes and is of version %d", kind,
		len(v), v[0])
}

// eachSpace verifies the spaces in their order, and finds those that belong to no queue.
func (a *run) eachSpace() {
	at := []byte{row.FamilySpace}
	for {
		var space uint64
		some, ok := false, false
		var first []byte
		a.part(row.QueueName{}, func() {
			for k := range a.Store.Scan(at, []byte{row.FamilySpace + 1}) {
				first, some = bytes.Clone(k), true
				space, _, ok = key.Uint64(k[1:])
				return
			}
		})
		if !some {
			break
		}
		queue, known := a.spaces[space]
		switch {
		case !ok:
			a.report(row.QueueName{}, first, "this row is of no kind that there is")
			at = append(first, 0)
			continue
		case known:
			delete(a.spaces, space)
			a.part(queue, func() { a.space(queue, space) })
		default:
			a.part(row.QueueName{}, func() { a.stray(space, first) })
		}
		if at = row.WholeSpace(space).Hi; at == nil {
			break
		}
	}
	for space, queue := range a.spaces { // order does not matter: each is a finding of its own
		a.report(queue, row.QueueKey(queue), "the queue is in space %d, which has no rows", space)
	}
}

// stray reports a space that belongs to no queue.
func (a *run) stray(space uint64, first []byte) {
	n := 0
	for range a.rows(row.WholeSpace(space)) {
		n++
	}
	a.report(row.QueueName{}, first,
		"this row and %d behind it are in space %d, which no queue has", n-1, space)
}

// A cursor is a scan that is taken forward by hand, beside another one.
type cursor struct {
	pull func() (k, v []byte, ok bool)
	stop func()
	k, v []byte // of the row it is at
	ok   bool   // there is one
}

func (a *run) cursor(s row.Span) *cursor {
	c := &cursor{}
	c.pull, c.stop = iter.Pull2(a.rows(s))
	c.next()
	return c
}

func (c *cursor) next() { c.k, c.v, c.ok = c.pull() }
