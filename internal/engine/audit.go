package engine

import (
	"bytes"
	"fmt"
	"iter"

	"tenaq/internal/key"
)

// An Auditor reads every row of a store that nobody writes to, and finds what cannot be: rows that do not decode to
// their last byte, that no program of this kind has written, or that contradict each other. What the engine believes,
// its indexes, its counters and its low-water keys, must be what a look at every row finds.
//
// It goes through the rows in the order of their keys and holds two indexes against each other by the sums of the
// hashes of their rows, so its memory does not grow with the messages: it is some hundred bytes for each queue. Only
// where two sums differ it looks up single rows, to name them.
type Auditor struct {
	Store RowReader

	// Found is told of each thing that is wrong.
	Found func(Finding)

	// Try runs a part of the audit and returns the error of the disk that has ended it, if one has. Nil is for
	// stores whose reads do not fail.
	Try func(part func()) error

	// Progress is told now and then how far it is; nil is nobody.
	Progress func(Audited)
}

// A RowReader is the part of a kv.Store that only reads.
type RowReader interface {
	Get(dst, key []byte) (value []byte, ok bool)
	Scan(lo, hi []byte) iter.Seq2[[]byte, []byte]
}

// A Finding is one thing that is wrong with the rows of a store.
type Finding struct {
	Queue QueueName // zero for what belongs to none
	Key   []byte    // of the row, nil when it is about several
	Text  string    // what is wrong, as a part of a sentence
}

// Audited is how much was read.
type Audited struct {
	Queues, Messages, Rows, Bytes int64
}

// progressEvery is how many rows are read between two reports of progress.
const progressEvery = 1 << 16

// Run audits the store.
func (a Auditor) Run() Audited {
	r := &audit{Auditor: a, latest: maxTime, spaces: make(map[uint64]QueueName)}
	r.part(QueueName{}, r.system)
	r.part(QueueName{}, r.queues)
	r.part(QueueName{}, r.sources)
	r.part(QueueName{}, r.tasks)
	r.part(QueueName{}, r.secret)
	r.part(QueueName{}, r.unknown)
	r.eachSpace()
	return r.read
}

// An audit is an Auditor at work.
type audit struct {
	Auditor
	read   Audited
	found  int64
	sys    system
	latest int64                // no time that has passed is later
	spaces map[uint64]QueueName // of the queues, until they have been audited
}

// part runs a part of the audit. If the disk ends it, the rest of the part is not looked at, and the others are.
func (a *audit) part(queue QueueName, f func()) {
	if a.Try == nil {
		f()
		return
	}
	if err := a.Try(f); err != nil {
		a.report(queue, nil, "rows cannot be read, and those behind them were not looked at: %v", err)
	}
}

func (a *audit) report(queue QueueName, k []byte, format string, args ...any) {
	a.found++
	a.Found(Finding{queue, bytes.Clone(k), fmt.Sprintf(format, args...)})
}

// rows yields the rows of a span and counts them.
func (a *audit) rows(s span) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range a.Store.Scan(s.lo, s.hi) {
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

func (a *audit) get(k []byte) ([]byte, bool) { return a.Store.Get(nil, k) }

// past checks a time that has passed.
func (a *audit) past(queue QueueName, k []byte, what string, at int64) {
	if at < 0 || at > a.latest {
		a.report(queue, k, "%s is at %d, and the latest time there can be is %d", what, at, a.latest)
	}
}

// canonical checks that a value is what the present program would write. Values of older versions are not compared. What a
// row says may be somebody's, so a finding shows where it differs and not what is there.
func (a *audit) canonical(queue QueueName, k, v, want []byte) {
	if len(v) == 0 || v[0] != want[0] || bytes.Equal(v, want) {
		return
	}
	at := 0
	for at < min(len(v), len(want)) && v[at] == want[at] {
		at++
	}
	a.report(queue, k, "it says what is never written so: from byte %d of %d on it is not what this program writes", at, len(v))
}

func (a *audit) damagedRow(queue QueueName, k []byte, kind string, v []byte) {
	if len(v) == 0 {
		a.report(queue, k, "this %s row cannot be read: it is empty", kind)
		return
	}
	a.report(queue, k, "this %s row cannot be read: it has %d bytes and is of version %d", kind, len(v), v[0])
}

// eachSpace audits what is in the spaces, in their order, and finds those that are nobody's.
func (a *audit) eachSpace() {
	at := []byte{familySpace}
	for {
		var space uint64
		some, ok := false, false
		var first []byte
		a.part(QueueName{}, func() {
			for k := range a.Store.Scan(at, []byte{familySpace + 1}) {
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
			a.report(QueueName{}, first, "this row is of no kind that there is")
			at = append(first, 0)
			continue
		case known:
			delete(a.spaces, space)
			a.part(queue, func() { a.space(queue, space) })
		default:
			a.part(QueueName{}, func() { a.stray(space, first) })
		}
		if at = wholeSpace(space).hi; at == nil {
			break
		}
	}
	for space, queue := range a.spaces { // order does not matter: each is a finding of its own
		a.report(queue, queueKey(queue), "the queue is in space %d, which has no rows", space)
	}
}

// stray reports a space that belongs to no queue.
func (a *audit) stray(space uint64, first []byte) {
	n := 0
	for range a.rows(wholeSpace(space)) {
		n++
	}
	a.report(QueueName{}, first, "this row and %d behind it are in space %d, which no queue has", n-1, space)
}

// A cursor is a scan that is taken forward by hand, beside another one.
type cursor struct {
	pull func() (k, v []byte, ok bool)
	stop func()
	k, v []byte // of the row it is at
	ok   bool   // there is one
}

func (a *audit) cursor(s span) *cursor {
	c := &cursor{}
	c.pull, c.stop = iter.Pull2(a.rows(s))
	c.next()
	return c
}

func (c *cursor) next() { c.k, c.v, c.ok = c.pull() }
