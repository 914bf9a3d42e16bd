package engine

import "tenaq/internal/engine/row"

// Dead-lettering: a message that was received too often moves to another queue when a consumer
// tries to receive it once more. The move is part of that receive and of its batch, so the message
// is never in two queues or in none. [DLQ-2, DLQ-20, DLQ-34]

// How many messages one Apply moves, for dead letters or for a move task, and about how many bytes
// of content.
const (
	movesMax     = 100
	moveBytesMax = 4 << 20
)

// A horizon is how far the messages of a queue went when a receive began. A queue may be its own
// dead-letter queue, and a receive moves no message twice. [DLQ-37]
type horizon struct {
	space, next uint64

	// groups are the groups of a FIFO queue from which the receive takes messages, and the one in
	// which it stopped. When it continues, it visits them first and in this order, because its
	// moves have changed their places among the groups.
	groups []string
}

// of returns the horizon in q. The first call sets it.
func (h *horizon) of(q *queue) horizon {
	if h.space != q.row.Space {
		*h = horizon{space: q.row.Space, next: q.st.NextSeq}
	}
	return *h
}

// deadTarget returns the dead-letter queue of q, nil when it has none or none that exists. [DLQ-33]
func (e *Engine) deadTarget(q *queue) *queue {
	r := q.row.Attributes.Redrive
	if r == (row.Redrive{}) {
		return nil
	}
	target, err := e.lookup(r.Target)
	if err != nil {
		return nil
	}
	return target
}

// exhausted reports whether a message has been received as often as the redrive policy allows.
func (q *queue) exhausted(m *message) bool {
	r := q.row.Attributes.Redrive
	return r != (row.Redrive{}) && int64(m.Receives) >= r.MaxReceives
}

// deadLetter moves a message that was received too often.
func (e *Engine) deadLetter(from, to *queue, m *message) {
	if !from.exhausted(m) {
		broken("queue %s: message %d becomes a dead letter after %d receives", from.name.Name,
			m.Seq, m.Receives)
	}
	e.moveDead(from, to, m, nil)
}

// A rewritten content is what a message gets when it moves, with its new size. Carried is the old
// one.
type rewritten struct {
	carried []byte
	content content
	size    int64
}

// moveDead moves a message to the dead-letter queue. [DLQ-22 to DLQ-32] With another content, its
// retention starts again, as if its consumer had sent it there. [NACK-18]
func (e *Engine) moveDead(from, to *queue, m *message, c *rewritten) {
	moved := &message{Meta: m.Meta, hasMeta: true}
	if c != nil {
		moved.Base = e.now
	}
	moved.Source = e.arn(from.name)
	if to.fifo() {
		moved.Base = e.now              // [DLQ-26]
		moved.Dedup = moved.ID.String() // [DLQ-27]
	}
	if from.holdsBehind(to) {
		at := e.slotFor(from, m)
		e.hand(from, to, m, moved, row.OutcomeDeadLettered, c)
		e.beginHold(from, to, m, moved, at)
	} else {
		e.hand(from, to, m, moved, row.OutcomeDeadLettered, c)
	}
	e.tally(from).DeadLetters.Add(1)
	if !to.exhausted(moved) || e.deadTarget(to) == nil { // [DLQ-36]
		e.stir(to)
	}
}

// hand moves a message to another queue, or behind its own, as moved, with the receives it has had,
// and with another content unless c is nil. Kind is its outcome.
func (e *Engine) hand(
	from, to *queue, m, moved *message, kind row.OutcomeKind, c *rewritten,
) {
	moved.Flags = row.FlagScheduled
	moved.Arrived, moved.Base = e.now, min(moved.Base, e.now)
	moved.Delivery = row.Delivery{
		At:           e.now,
		Kind:         row.DueReturned,
		Receives:     m.Receives,
		FirstReceive: m.FirstReceive,
		LastReceive:  m.LastReceive,
		Origin:       !to.fifo() && moved.Source != "", // none: put behind its own queue
	}
	if c == nil {
		e.transfer(from, to, m, moved, kind)
	} else {
		moved.Size = c.size
		e.transferAs(from, to, m, moved, kind, c)
	}
	if moved.Origin {
		e.addMark(&to.origin, originPos(moved))
		to.expiry = min(to.expiry, moved.Base+to.row.Attributes.Retention())
	}
}

// transfer removes a message from its queue and enters it into another one as moved. Kind is its
// outcome.
func (e *Engine) transfer(from, to *queue, m, moved *message, kind row.OutcomeKind) {
	e.prepareEnd(from, m)
	carried := e.contentOf(from, m)
	e.transferAs(from, to, m, moved, kind, &rewritten{carried: carried,
		content: content{head: carried, level: e.carriedLevel(from, to, m, carried)}})
}

// transferAs is transfer for a message that gets another content.
func (e *Engine) transferAs(
	from, to *queue, m, moved *message, kind row.OutcomeKind, c *rewritten,
) {
	before, told := balanceOf(from, to), e.storyOf(from, m)
	e.countTimeout(from, m)
	e.keep(from, m, c.carried)
	held := e.carryHold(from, to, m, moved)
	e.remove(from, m, ending{kind, to.name})
	moved.Seq = to.st.NextSeq
	moved.Away, moved.Fence = true, m.Fence+uint64(m.Delivery.Generation) // [ID-4]
	to.st.NextSeq++
	if told != nil { // [NACK-13]
		told.Generation = 0
		e.setStory(to, moved, told)
	}
	e.enter(to, moved, c.content)
	if held != nil {
		e.keepHold(to, m.Seq, moved, held)
	}
	before.check()
	e.tally(to).Arrived.Add(1)
}

// contentOf reads the content of a message, whose row must be visible.
func (e *Engine) contentOf(q *queue, m *message) []byte {
	if m.remains != nil {
		return m.remains.content
	}
	k := row.SeqKey(q.row.Space, row.KindMessage, m.Seq)
	value, ok := e.rows.get(k)
	if !ok {
		e.rows.damaged("message", k)
	}
	_, content := e.decodeWhole(q, k, value)
	return content
}

// decodeWhole reads a message row, and the row of its content if that is not inline.
func (e *Engine) decodeWhole(q *queue, k, value []byte) (m row.Meta, content []byte) {
	if m, content = e.decodeMessage(k, value); m.Flags&row.FlagInline == 0 {
		content = e.contentApart(q, m.Seq)
	}
	return m, content
}

// contentApart reads the content of a message that has a row of its own.
func (e *Engine) contentApart(q *queue, seq uint64) []byte {
	k := row.SeqKey(q.row.Space, row.KindContent, seq)
	value, ok := e.rows.get(k)
	if !ok {
		e.rows.damaged("message", k)
	}
	return value
}
