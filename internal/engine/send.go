package engine

import (
	"strconv"
	"strings"
)

// batchBytesMax is how large the messages of one batch may be together, whatever the queue allows for a
// single one. [BATCH-8]
const batchBytesMax = 1 << 20

// Sent is what became of one message that was to be sent.
type Sent struct {
	ID        MessageID
	Sequence  Sequence
	Duplicate bool   // nothing was stored: ID and Sequence are those of the first message [DEDUP-13]
	Err       *Error // of an entry of a batch; the entry was not stored
}

// SendMessage stores one message.
type SendMessage struct {
	Queue QueueName
	Draft Draft
}

func (op *SendMessage) apply(e *Engine, c *Command) (Result, error) {
	if op.Draft.noBody { // [SEND-1]
		return Result{}, errMissing("MessageBody")
	}
	q, err := e.lookup(op.Queue)
	if err != nil {
		return Result{}, err
	}
	if err := op.Draft.check(q, 0); err != nil {
		return Result{}, err
	}
	if !e.ready(q) {
		return Result{Again: true}, nil
	}
	id := identity(c.Seed, 0)
	e.send(q, &op.Draft, id)
	e.stir(q)
	return Result{Sent: []Sent{{ID: id}}}, nil
}

// SendMessageBatch stores up to ten messages in one step, each of which may be refused for itself.
// [BATCH-10, BATCH-13]
type SendMessageBatch struct {
	Queue  QueueName
	Drafts []Draft
	Given  bool // the request had a list of entries
}

func (op *SendMessageBatch) apply(e *Engine, c *Command) (Result, error) {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return Result{}, err
	}
	ids, size := make([]Text, len(op.Drafts)), int64(0)
	for i := range op.Drafts {
		ids[i] = op.Drafts[i].id
		size += op.Drafts[i].size
	}
	if err := checkBatch("SendMessageBatch", ids, op.Given); err != nil {
		return Result{}, err
	}
	if size > batchBytesMax {
		return Result{}, refuse(CodeBatchTooLong,
			"Batch requests cannot be longer than 1048576 bytes. You have sent "+decimal(size)+" bytes.")
	}
	if !e.ready(q) {
		return Result{Again: true}, nil
	}
	res := Result{Sent: make([]Sent, len(op.Drafts))}
	e.stir(q)
	for i := range op.Drafts {
		if err := op.Drafts[i].check(q, i+1); err != nil {
			res.Sent[i].Err = err
			continue
		}
		res.Sent[i].ID = identity(c.Seed, i)
		e.send(q, &op.Drafts[i], res.Sent[i].ID)
	}
	return res, nil
}

// send stores a message that has been checked.
func (e *Engine) send(q *queue, d *Draft, id MessageID) {
	m := &message{meta: newMeta(q.st.nextSeq, id, e.now, d.size), hasMeta: true}
	m.group = strings.Clone(d.group.Value)
	q.st.nextSeq++
	// The delay becomes part of the message: a later change of the queue's does not reach it. [DELAY-3]
	if delay := d.delay.or(q.row.attributes.DelaySeconds); delay > 0 {
		m.flags |= flagScheduled
		m.delivery = delivery{at: e.now + delay*1000, kind: dueDelayed}
	}
	e.enter(q, m, d.content)
}

// check refuses a draft that the queue does not take. Entry is its number in a batch, 0 for a message
// sent alone; some texts differ. [SEND-13]
func (d *Draft) check(q *queue, entry int) *Error {
	switch {
	case d.noBody: // [BATCH-15]
		return errMissing("SendMessageBatchRequestEntry." + strconv.Itoa(entry) + ".MessageBody")
	case d.group.Set && !isGroupText(d.group.Value): // [SEND-10]
		return errValue(d.group.Value, "MessageGroupId",
			"MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case d.dedup.Set && entry == 0: // [SEND-11]
		return errValue(d.dedup.Value, "MessageDeduplicationId",
			"The request includes a parameter that is not valid for this queue type.")
	case d.dedup.Set: // [BATCH-18]
		return refuse(CodeInvalidParameter, "The request include parameter that is not valid for this queue type")
	case d.delay.Set && (d.delay.Value < 0 || d.delay.Value > 900): // [SEND-4]
		return errNumber(d.delay.Value, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
	case d.attributes != nil:
		return d.attributes
	}
	if limit := q.row.attributes.MaximumMessageSize; d.size > limit { // [SIZE-3, SIZE-4]
		text := "One or more parameters are invalid."
		if entry > 0 { // [BATCH-14]
			text = "One or more parameters cannot be validated."
		}
		return refuse(CodeInvalidParameter, text+" Reason: Message must be shorter than "+decimal(limit)+" bytes.")
	}
	return d.letters
}

// isGroupText reports whether s is 1 to 128 printable ASCII characters without blanks.
func isGroupText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 128
}
