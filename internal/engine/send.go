package engine

import (
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// Sent is the outcome of sending one message.
type Sent struct {
	ID        MessageID
	Sequence  Sequence
	Duplicate bool   // not stored; ID and Sequence are those of the first message [DEDUP-13]
	Told      bool   // the answer is to say that it is a duplicate [EXT-32]
	Again     bool   // not stored; an earlier attempt of the request has stored it [AGAIN-1]
	Mark      string // for Follow, if it was asked for and the message was stored
	Err       *Error // of an entry of a batch, which was not stored
}

// SendMessage stores one message.
type SendMessage struct {
	Queue  QueueName
	Draft  Draft
	Follow bool       // the answer is to have a Mark [PEEK-9]
	Call   Invocation // that it is an attempt of

	Sent Sent // the answer
}

// Class and Size are for the broker, before it takes the operation up. Size is in bytes, as SQS
// counts them.
func (op *SendMessage) Class() Class { return ClassSend }
func (op *SendMessage) Size() int64  { return op.Draft.size }

func (op *SendMessage) apply(e *Engine, c *Command) *Error {
	if op.Draft.noBody { // [SEND-1]
		return errMissing("MessageBody")
	}
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	first, ok := e.answered(q, &op.Call, 1)
	switch {
	case !ok:
		return ErrAgain
	case len(first.IDs) > 0:
		op.Sent = e.sentAgain(q, &first, 0)
		if place := e.sys.IDKey.Place(op.Sent.ID); op.Follow && place.Space == q.row.Space {
			op.Sent.Mark = (&mark{q.row.Incarnation, place.Space, place.Seq, first.At,
				op.Sent.ID}).seal()
		}
		return nil
	}
	if err := op.Draft.check(q, 0); err != nil {
		return err
	}
	if err := op.Draft.checkLater(q, e.now); err != nil {
		return err
	}
	if !e.ready(q) {
		return ErrAgain
	}
	e.stir(q)
	seq := q.st.NextSeq
	op.Sent = e.send(q, &op.Draft, identity(c.Seed, 0))
	e.noteAgain(q, &op.Call, &first, seq, op.Sent)
	if op.Follow && !op.Sent.Duplicate {
		op.Sent.Mark = (&mark{q.row.Incarnation, q.row.Space, seq, e.now, op.Sent.ID}).seal()
	}
	return nil
}

// SendMessageBatch stores up to ten messages in one step. Each of them may be refused by itself.
// [BATCH-10, BATCH-13]
type SendMessageBatch struct {
	Queue  QueueName
	Drafts []Draft
	Given  bool       // the request had a list of entries
	Call   Invocation // that it is an attempt of

	Sent []Sent // the answer, for each draft
}

// Class and Size are those of SendMessage.
func (op *SendMessageBatch) Class() Class { return ClassSend }
func (op *SendMessageBatch) Size() (size int64) {
	for i := range op.Drafts {
		size += op.Drafts[i].size
	}
	return size
}

func (op *SendMessageBatch) apply(e *Engine, c *Command) *Error {
	q, err := openBatch(e, op.Queue, "SendMessageBatch", op.Given, op.Drafts, func(d *Draft) Text {
		return d.id
	})
	if err != nil {
		return err
	}
	if size := op.Size(); size > sqslimits.MessageBytesMax {
		return refuse(CodeBatchTooLong,
			"Batch requests cannot be longer than 1048576 bytes. You have sent "+decimal(size)+
				" bytes.")
	}
	if q.fifo() { // [FIFO-14]
		for i := range op.Drafts {
			if err := op.Drafts[i].checkIDs(q); err != nil {
				return invalid(err.Message)
			}
		}
	}
	first, ok := e.answered(q, &op.Call, len(op.Drafts))
	if !ok || !e.ready(q) {
		return ErrAgain
	}
	op.Sent = make([]Sent, len(op.Drafts))
	e.stir(q)
	seq := q.st.NextSeq
	for i := range op.Drafts {
		if len(first.IDs) > 0 && first.IDs[i] != (MessageID{}) { // [AGAIN-6]
			op.Sent[i] = e.sentAgain(q, &first, i)
			continue
		}
		if err := op.Drafts[i].check(q, i+1); err != nil {
			op.Sent[i].Err = err
			continue
		}
		if err := op.Drafts[i].checkLater(q, e.now); err != nil {
			op.Sent[i].Err = err
			continue
		}
		op.Sent[i] = e.send(q, &op.Drafts[i], identity(c.Seed, i))
	}
	e.noteAgain(q, &op.Call, &first, seq, op.Sent...)
	return nil
}

// send stores a message that has been checked, unless it is a duplicate. Its id is made from
// random. [FIFO-15, DEDUP-17, ID-8]
func (e *Engine) send(q *queue, d *Draft, random MessageID) Sent {
	id, ok := e.sys.IDKey.New(random, row.Place{Space: q.row.Space, Seq: q.st.NextSeq})
	m := &message{Meta: row.NewMeta(q.st.NextSeq, id, e.now, d.size), hasMeta: true}
	m.Away = !ok
	m.FirstSent = d.firstSent(e.now)
	m.Group = strings.Clone(d.group.Value)
	if q.fifo() {
		m.Dedup = d.dedup.Value
		if !d.dedup.Set { // [DEDUP-2, DEDUP-3, DEDUP-18]
			m.Dedup = d.contentKey
		}
		m.Dedup = strings.Clone(m.Dedup)
	}
	if hash, ok := d.key(q, m); ok {
		if first, ok := e.recallSend(q, hash); ok { // [DEDUP-13, DEDUP-15]
			e.tally(q).Deduplicated.Add(1)
			return Sent{ID: first.ID, Sequence: q.sequence(uint64(first.Sequence)),
				Duplicate: true, Told: q.ext.DedupWindow > 0}
		}
		e.memorise(q, hash, row.Dedup{At: e.now, ID: id, Sequence: Sequence(m.Seq)})
	}
	if at, ok := d.deliverAt(q, e.now); ok {
		if at > e.now {
			m.Flags |= row.FlagScheduled
			m.Base = at
			m.Delivery = row.Delivery{At: at, Kind: row.DueDelayed, Origin: true}
		}
	} else if delay := d.delay.or(q.row.Attributes.DelaySeconds); delay > 0 && !q.fifo() {
		// The delay becomes part of the message. A later change of the queue does not apply to it.
		// [DELAY-3]
		m.Flags |= row.FlagScheduled
		m.Delivery = row.Delivery{At: e.now + delay*1000, Kind: row.DueDelayed}
	}
	q.st.NextSeq++
	e.enter(q, m, d.content)
	if m.Origin {
		e.addMark(&q.origin, originPos(m))
	}
	e.tally(q).AddSent(d.size)
	return Sent{ID: id, Sequence: q.sequence(m.Seq)}
}

// key is what the queue remembers the send of a message by, if it remembers it.
func (d *Draft) key(q *queue, m *message) (h row.DedupHash, ok bool) {
	switch {
	case q.fifo() && q.row.Attributes.GroupScope: // [DEDUP-5, DEDUP-6]
		return row.HashOf(row.HashGroup, m.Group, m.Dedup), true
	case q.fifo():
		return row.HashOf(row.HashQueue, "", m.Dedup), true
	}
	return row.HashOf(row.HashQueue, "", d.named.Value), d.named.Set && q.ext.DedupWindow > 0
}

// sequence is the sequence number of a message.
func (q *queue) sequence(seq uint64) Sequence {
	if q.fifo() {
		return Sequence(seq)
	}
	return 0
}

// checkIDs refuses a draft for a FIFO queue that lacks an id.
func (d *Draft) checkIDs(q *queue) *Error {
	switch {
	case !d.group.Set: // [FIFO-8, FIFO-9]
		return errMissing("MessageGroupId")
	case !d.dedup.Set && !q.row.Attributes.ContentBasedDeduplication: // [DEDUP-4]
		return invalid("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	}
	return nil
}

// check refuses a draft that the queue does not take. Entry is its number in a batch, 0 for a
// message sent alone; some texts differ. [SEND-13]
func (d *Draft) check(q *queue, entry int) *Error {
	if d.noBody { // [BATCH-15]
		return errMissingPart("SendMessageBatch", entry-1, "MessageBody")
	}
	if q.fifo() {
		if err := d.checkIDs(q); err != nil {
			return err
		}
	}
	switch {
	case d.group.Set && !isIDText(d.group.Value): // [SEND-10]
		return errIDText(d.group.Value, "MessageGroupId")
	case d.dedup.Set && !q.fifo() && entry == 0: // [SEND-11]
		return errValue(d.dedup.Value, "MessageDeduplicationId",
			"The request include parameter that is not valid for this queue type.")
	case d.dedup.Set && !q.fifo(): // [BATCH-18]
		return invalid("The request include parameter that is not valid for this queue type")
	case d.dedup.Set && !isIDText(d.dedup.Value): // [DEDUP-1]
		return errIDText(d.dedup.Value, "MessageDeduplicationId")
	case q.fifo() && d.delay.Value > 0: // [FIFO-10]
		return errNumber(d.delay.Value, "DelaySeconds",
			"The request include parameter that is not valid for this queue type.")
	case d.delay.Set && (d.delay.Value < 0 || d.delay.Value > delayMax): // [SEND-4]
		return errNumber(d.delay.Value, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
	case d.attributes != nil:
		return d.attributes
	case d.misnamed && !q.fifo() && q.ext.DedupWindow > 0: // [EXT-31]
		return errValue(d.named.Value, dedupAttribute, "It must have the data type String.")
	case d.named.Set && !isIDText(d.named.Value) && !q.fifo() && q.ext.DedupWindow > 0:
		return errIDText(d.named.Value, dedupAttribute)
	case d.level != nil && q.ext.Priority > 0: // [EXT-49]
		return d.level
	}
	if limit := q.row.Attributes.MaximumMessageSize; d.size > limit { // [SIZE-3, SIZE-4]
		text := "One or more parameters are invalid."
		if entry > 0 { // [BATCH-14]
			text = "One or more parameters cannot be validated."
		}
		return invalid(text + " Reason: Message must be shorter than " +
			decimal(limit) + " bytes.")
	}
	return d.letters
}

// isIDText reports whether s is 1 to 128 printable ASCII characters without blanks.
func isIDText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= sqslimits.IDMax
}

func errIDText(value, parameter string) *Error {
	return errValue(value, parameter,
		parameter+" can only include alphanumeric and punctuation characters. 1 to 128 in length.")
}
