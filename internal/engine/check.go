package engine

import "tenaq/internal/invariant"

// This file checks the promises that a single command could break. The checks compare numbers that
// are at hand, and always run. A check that fails stops the program before the turn is committed.
// [DUR-34]

// broken stops the program.
func broken(format string, args ...any) {
	invariant.Fail(format, args...)
}

// checkState asserts what holds for a queue between any two commands.
func (e *Engine) checkState(q *queue) {
	s := &q.st
	if s.Delayed < 0 || s.InFlight < 0 || s.Delayed+s.InFlight > s.Live {
		broken("queue %s: %d live messages, %d delayed, %d in flight", q.name.Name, s.Live,
			s.Delayed, s.InFlight)
	}
	if s.Cursor > s.NextSeq || s.Mixed > s.NextSeq || s.LastFresh >= s.NextSeq {
		broken("queue %s: cursor %d, mixed %d, last fresh %d, next %d", q.name.Name, s.Cursor,
			s.Mixed, s.LastFresh, s.NextSeq)
	}
}

// checkNew asserts that a new message has a number that no other message had, behind all others.
func (e *Engine) checkNew(q *queue, m *message) {
	if m.Seq == 0 || m.Seq != q.st.NextSeq-1 {
		broken("queue %s: a new message has the number %d, and the next one is %d", q.name.Name,
			m.Seq, q.st.NextSeq)
	}
}

// checkPicked asserts, before messages are handed out or moved by a task, that each message exists,
// is available and has not expired. Messages of a group must be its first ones, in order.
func (e *Engine) checkPicked(q *queue, picked []*message) {
	for i, m := range picked {
		e.checkAvailable(q, m)
		if q.fifo() {
			e.checkPrefix(q, picked[:i], m)
		}
	}
}

// checkAvailable asserts that a message exists, is available and has not expired.
func (e *Engine) checkAvailable(q *queue, m *message) {
	since := m.Sent
	if q.fifo() {
		since += q.row.Attributes.Delay()
	}
	if m.hasDelivery {
		since = m.At
	}
	switch {
	case m.gone || m.Seq == 0 || m.Seq >= q.st.NextSeq:
		broken("queue %s: message %d is handed out, which is not there; the next one is %d",
			q.name.Name, m.Seq, q.st.NextSeq)
	case since > e.now:
		broken("queue %s: message %d is handed out at %d, and cannot be received until %d",
			q.name.Name, m.Seq, e.now, since)
	case m.Expired(e.now, q.row.Attributes.Retention()):
		broken("queue %s: message %d is handed out at %d, and has expired", q.name.Name, m.Seq,
			e.now)
	}
}

// checkPrefix asserts that a message is the next one of its group after those picked before.
func (e *Engine) checkPrefix(q *queue, before []*message, m *message) {
	place := 0
	for _, b := range before {
		if b.Group == m.Group {
			place++
		}
	}
	if g := e.group(q, m.Group); place >= len(g.lines) || g.lines[place].Seq != m.Seq {
		broken("queue %s: message %d is handed out as number %d of its group", q.name.Name, m.Seq,
			place)
	}
}

// checkHidden asserts that no delivery hides a message for longer than SQS allows. [VIS-11]
func (e *Engine) checkHidden(q *queue, m *message, until int64) {
	if until > m.LastReceive+visibilityMax*1000 {
		broken("queue %s: message %d was received at %d and is hidden until %d", q.name.Name, m.Seq,
			m.LastReceive, until)
	}
}

// A balance is how many messages two queues, which may be the same, have together. No move changes
// it. [DLQ-34]
type balance struct {
	from, to *queue
	live     int64
}

func balanceOf(from, to *queue) balance { return balance{from, to, from.st.Live + to.st.Live} }

func (b balance) check() {
	if live := b.from.st.Live + b.to.st.Live; live != b.live {
		broken("queues %s and %s: %d messages before a move, %d after it", b.from.name.Name,
			b.to.name.Name, b.live, live)
	}
}
