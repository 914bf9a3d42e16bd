package engine

import "tenaq/internal/invariant"

// This file says what no command may do, whatever was asked and whatever the code elsewhere believes: the promises,
// as far as one command can be seen to break them. The checks cost comparisons of numbers that are at hand, and
// always run: a broken one stops the program before the turn is committed. [DUR-34]

// broken stops the program.
func broken(format string, args ...any) {
	invariant.Fail(format, args...)
}

// checkState asserts what must hold of a queue between any two commands.
func (e *Engine) checkState(q *queue) {
	s := &q.st
	if s.delayed < 0 || s.inFlight < 0 || s.delayed+s.inFlight > s.live {
		broken("queue %s: %d live messages, %d delayed, %d in flight", q.name.Name, s.live, s.delayed, s.inFlight)
	}
	if s.cursor > s.nextSeq || s.mixed > s.nextSeq || s.lastFresh >= s.nextSeq {
		broken("queue %s: cursor %d, mixed %d, last fresh %d, next %d", q.name.Name, s.cursor, s.mixed, s.lastFresh, s.nextSeq)
	}
}

// checkNew asserts that a message enters under a number that no other ever had, and behind all others of its group.
func (e *Engine) checkNew(q *queue, m *message) {
	if m.seq == 0 || m.seq != q.st.nextSeq-1 {
		broken("queue %s: a new message has the number %d, and the next one is %d", q.name.Name, m.seq, q.st.nextSeq)
	}
}

// checkPicked asserts, before anything is handed out or moved by a task, that each message is there, may be had now, and
// has not outlived its retention; and that those of a group are the first ones of it, in their order.
func (e *Engine) checkPicked(q *queue, picked []*message) {
	retention, delay := q.row.attributes.retention(), int64(0)
	if q.fifo() {
		delay = q.row.attributes.delay()
	}
	for i, m := range picked {
		since := m.sent + delay
		if m.hasDelivery {
			since = m.at
		}
		switch {
		case m.gone || m.seq == 0 || m.seq >= q.st.nextSeq:
			broken("queue %s: message %d is handed out, which is not there; the next one is %d", q.name.Name, m.seq, q.st.nextSeq)
		case since > e.now:
			broken("queue %s: message %d is handed out at %d, and cannot be received until %d", q.name.Name, m.seq, e.now, since)
		case m.expired(e.now, retention):
			broken("queue %s: message %d is handed out at %d, and has expired", q.name.Name, m.seq, e.now)
		}
		if q.fifo() {
			e.checkPrefix(q, picked[:i], m)
		}
	}
}

// checkPrefix asserts that the message is the next of its group behind those of it that were picked before.
func (e *Engine) checkPrefix(q *queue, before []*message, m *message) {
	place := 0
	for _, b := range before {
		if b.group == m.group {
			place++
		}
	}
	if g := e.group(q, m.group); place >= len(g.lines) || g.lines[place].seq != m.seq {
		broken("queue %s: message %d is handed out as number %d of its group", q.name.Name, m.seq, place)
	}
}

// checkHidden asserts that no delivery hides a message for longer than one may. [VIS-11]
func (e *Engine) checkHidden(q *queue, m *message, until int64) {
	if until > m.lastReceive+visibilityMax*1000 {
		broken("queue %s: message %d was received at %d and is hidden until %d", q.name.Name, m.seq, m.lastReceive, until)
	}
}

// A balance is how many messages two queues, which may be one, have together: no move changes it. [DLQ-34]
type balance struct {
	from, to *queue
	live     int64
}

func balanceOf(from, to *queue) balance { return balance{from, to, from.st.live + to.st.live} }

func (b balance) check() {
	if live := b.from.st.live + b.to.st.live; live != b.live {
		broken("queues %s and %s: %d messages before a move, %d after it", b.from.name.Name, b.to.name.Name, b.live, live)
	}
}
