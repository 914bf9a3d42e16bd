package engine

import (
	"encoding/base64"

	"tenaq/internal/engine/row"
)

// Follow reports what became of a message that was sent with SendMessage.Follow: it is still in its
// queue, is a dead letter, or is gone. Follow changes nothing. [PEEK-9]
type Follow struct {
	Queue QueueName
	Mark  string // Sent.Mark

	Fate Fate // the answer
}

// States of a followed message that is no longer in its queue.
const (
	StateDeadLetter MessageState = "dead_letter" // the queue moved it to its dead-letter queue
	StateDeleted    MessageState = "deleted"     // a consumer deleted it
	// it expired, was purged, or was in another queue of the same name
	StateUnknown MessageState = "unknown"
)

// A Fate is what became of a followed message.
type Fate struct {
	State    MessageState
	Receives uint32 // while it is in its queue
}

func (op *Follow) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	m, ok := openMark(op.Mark)
	if !ok {
		return errValue(op.Mark, "mark", "It is not the mark of a message.")
	}
	if !e.ready(q) || !e.settleDelayed(q, settleStep) {
		return ErrAgain
	}
	op.Fate = e.fate(q, &m)
	return nil
}

// fate finds a message by its mark.
func (e *Engine) fate(q *queue, m *mark) Fate {
	if m.incarnation != q.row.Incarnation || m.space != q.row.Space { // deleted or purged since
		return Fate{State: StateUnknown}
	}
	if found, ok := e.look(q, m.seq); ok {
		return Fate{State: found.State, Receives: found.Receives}
	}
	switch {
	case e.now >= m.sent+q.row.Attributes.Retention():
		return Fate{State: StateUnknown}
	case e.isDeadLetter(q, m):
		return Fate{State: StateDeadLetter}
	}
	return Fate{State: StateDeleted}
}

// isDeadLetter reports whether a message that left q is in its dead-letter queue. A message that
// moved has a row in moved. One that moved before there were such rows is in the index of the
// standard queue, which has its dead letters by the time of their send. [DLQ-25, ID-9]
func (e *Engine) isDeadLetter(q *queue, m *mark) bool {
	to := e.deadTarget(q)
	if to == nil {
		return false
	}
	for k, v := range e.rowOf(row.MovedKey(m.id)) {
		_, at := e.decodeMoved(k, v)
		return at.Space == to.row.Space
	}
	if to.fifo() {
		return false
	}
	rows := row.Span{Lo: row.OriginRows.Key(to.row.Space, row.Pos{At: m.sent}),
		Hi: row.OriginRows.Key(to.row.Space, row.LastAt(m.sent))}
	var found []uint64
	for k := range e.scan(rows) {
		found = append(found, row.PosOf(k[row.SpacePrefixLen:]).Seq)
	}
	for _, seq := range found {
		moved := &message{Meta: row.Meta{Seq: seq}}
		if e.needMeta(to, moved); moved.ID == m.id {
			return true
		}
	}
	return false
}

// A mark names a message, even after the message has left the queue.
type mark struct {
	incarnation [16]byte
	space, seq  uint64
	sent        int64
	id          MessageID
}

const markVersion = 1

func (m *mark) parts(c *row.Codec) {
	c.Version(markVersion)
	c.ID(&m.incarnation)
	c.Uint(&m.space, &m.seq)
	c.Int(&m.sent)
	c.ID((*[16]byte)(&m.id))
}

func (m *mark) seal() string {
	var c row.Codec
	m.parts(&c)
	return base64.RawURLEncoding.EncodeToString(c.B)
}

// openMark reads a mark. A mark is not protected against changes: a wrong one names another message
// of the queue, or none.
func openMark(text string) (m mark, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	c := row.Codec{B: b, Reading: true}
	m.parts(&c)
	const later = 1 << 60 // than any number or time that is used
	return m, err == nil && c.Done() && m.seq > 0 && m.seq < later && m.sent >= 0 && m.sent < later
}
