package enginetest

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tenaq/internal/engine"
)

// due is when a message is, was or will be available. One of a FIFO queue that was never handed out
// waits for the delay that the queue has now; any other has a time of its own. [FIFO-11]
func (q *modelQueue) due(msg *modelMessage) int64 {
	if q.fifo() && msg.kind == delayed {
		return msg.sent + q.number("DelaySeconds")*1000
	}
	return msg.at
}

// state is which of the three counters a message belongs to.
func (q *modelQueue) state(msg *modelMessage, now int64) modelKind {
	if q.due(msg) <= now {
		return available
	}
	return msg.kind
}

func (q *modelQueue) expired(msg *modelMessage, now int64) bool {
	return now-msg.base >= q.number("MessageRetentionPeriod")*1000
}

// settle does to a queue what time has done since it was last used.
func (m *Model) settle(q *modelQueue) {
	if q.boot != m.boot && m.now < m.graceUntil {
		q.boot = m.boot
		for _, msg := range q.messages {
			if msg.kind == inFlight && msg.at > m.graceFrom && msg.at < m.graceUntil {
				msg.at = m.graceUntil
			}
		}
	}
	if !m.hold {
		n := len(q.messages)
		for m.expireOrigins(q) || m.expireFront(q) {
		}
		m.of(q).Expired.Add(int64(n - len(q.messages)))
	}
}

// expiryPiece is how many messages expire in a row before others get their turn. It decides about
// the order of their outcomes alone.
const expiryPiece = 256

// expireOrigins removes messages of a standard queue that came with the time of another queue, the
// oldest first.
func (m *Model) expireOrigins(q *modelQueue) (more bool) {
	var over []*modelMessage
	for _, msg := range q.messages {
		if !q.fifo() && msg.origin && q.expired(msg, m.now) {
			over = append(over, msg)
		}
	}
	slices.SortStableFunc(over, func(a, b *modelMessage) int { return cmp.Compare(a.base, b.base) })
	for _, msg := range over[:min(len(over), expiryPiece)] {
		m.expire(q, msg)
	}
	m.expireFront(q)
	return len(over) > 0
}

// expireFront removes messages from the front.
func (m *Model) expireFront(q *modelQueue) (more bool) {
	for n := 0; n < expiryPiece; n++ {
		i := slices.IndexFunc(q.messages, func(msg *modelMessage) bool { return !msg.late() })
		if i < 0 || !q.expired(q.messages[i], m.now) {
			return more
		}
		m.expire(q, q.messages[i])
		more = true
	}
	return more
}

// late reports whether a message was sent with a long delay: its retention counts from the end of
// it. [EXT-26]
func (msg *modelMessage) late() bool { return msg.base > msg.arrived }

func (m *Model) expire(q *modelQueue, msg *modelMessage) {
	m.end(q, msg, "expired", engine.QueueName{})
	q.remove(msg)
}

// send stores a message. Wrong says what a message is that is too large.
func (m *Model) send(q *modelQueue, e engine.Entry, wrong string) engine.Sent {
	if no := q.check(e, wrong); no != nil {
		return engine.Sent{Err: no}
	}
	at, later, no := q.deliverAt(&e, m.now)
	if no != nil {
		return engine.Sent{Err: no}
	}
	m.settle(q)
	if q.dedups(e) {
		if first, ok := m.duplicate(q, e); ok {
			m.of(q).Deduplicated.Add(1)
			return engine.Sent{ID: first.id, Sequence: first.sequence, Duplicate: true,
				Told: q.is(windowTag)}
		}
	}
	delay := e.Delay
	if !delay.Set || q.fifo() {
		delay.Value = q.number("DelaySeconds")
	}
	wait := delay.Value * 1000
	if later {
		wait = max(at-m.now, 0)
	}
	id := m.identity()
	msg := &modelMessage{id: id, lineage: id, sent: m.now, firstSent: m.firstSent(&e), base: m.now,
		dedup: q.dedupID(e), entry: e}
	m.of(q).AddSent(sizeOf(&e))
	m.enter(q, msg, 0)
	if msg.at += wait; later && wait > 0 {
		msg.base, msg.origin = at, true
	}
	if q.dedups(e) {
		m.remember(q, e, msg)
	}
	return engine.Sent{ID: msg.id, Sequence: q.sequence(msg)}
}

// workKey is the key of the work of a message.
func workKey(e *engine.Entry) string {
	for _, a := range e.Attributes {
		if fields, err := url.ParseQuery(a.String.Value); a.Name == "tenaq" && err == nil &&
			fields.Get("v") == "1" {
			return fields.Get("key")
		}
	}
	return ""
}

// firstSent is when the work of a message was first sent. [METRIC-24]
func (m *Model) firstSent(e *engine.Entry) int64 {
	for _, a := range e.Attributes {
		fields, err := url.ParseQuery(a.String.Value)
		if a.Name != "tenaq" || err != nil || fields.Get("v") != "1" {
			continue
		}
		if at, err := strconv.ParseInt(fields.Get("first-sent"), 10, 64); err == nil && at > 0 {
			return min(max(at, m.now-(365*24*time.Hour).Milliseconds()), m.now)
		}
	}
	return m.now
}

// enter puts a new message at the end of a queue.
func (m *Model) enter(q *modelQueue, msg *modelMessage, delay int64) {
	q.seq++
	msg.seq, msg.place = q.seq, q.seq
	msg.at, msg.kind = m.now+delay*1000, delayed
	msg.arrived, msg.here = m.now, 0
	msg.ended, msg.told = "", false
	q.found(msg, m.now)
	msg.level = 0
	if q.is(priorityTag) && msg.source != m.arn(q.name) { // [EXT-50, EXT-51]
		msg.level = max(modelLevel(&msg.entry), 0)
	}
	q.messages = append(q.messages, msg)
}

func (q *modelQueue) check(e engine.Entry, wrong string) *engine.Error {
	if no := q.lacksID(e); no != nil {
		return no
	}
	d := e.Delay.Value
	if q.fifo() && d > 0 {
		return modelRefusal(engine.CodeInvalidParameter,
			"Value %d for parameter DelaySeconds is invalid. "+
				"Reason: The request include parameter that is not valid for this queue type.", d)
	}
	if d < 0 || d > 900 {
		return modelRefusal(engine.CodeInvalidParameter,
			"Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", d)
	}
	if id := workID(e); q.is(windowTag) && !q.fifo() && id.Set && len(id.Value) > 128 {
		return modelBadValue(id.Value, "tenaq.dedup-id", "tenaq.dedup-id can only include "+
			"alphanumeric and punctuation characters. 1 to 128 in length.")
	}
	if modelLevel(&e) < 0 && q.is(priorityTag) { // [EXT-49]
		return modelBadValue(levelText(&e), "tenaq.priority",
			"Must be a whole number from 0 to 9, of the type Number or String. 9 is the most urgent.")
	}
	if limit := q.number("MaximumMessageSize"); sizeOf(&e) > limit {
		return modelRefusal(engine.CodeInvalidParameter,
			"One or more parameters %s. Reason: Message must be shorter than %d bytes.", wrong,
			limit)
	}
	return nil
}

func (m *Model) receive(q *modelQueue, op *engine.ReceiveMessage) *engine.Error {
	op.Received = engine.Received{}
	or := func(i engine.Int, def int64) int64 {
		if i.Set {
			return i.Value
		}
		return def
	}
	op.Incarnation = q.incarnation
	op.WaitFor = or(op.Wait, q.number("ReceiveMessageWaitTimeSeconds")) * 1000
	visibility := or(op.Visibility, q.number("VisibilityTimeout"))
	if q.is(pausedTag) { // [EXT-1]
		return nil
	}
	room := max(q.most(inFlightTag, m.cfg.InFlightMax)-int64(q.count(inFlight, m.now)), 0)
	if op.AttemptID.Set && q.fifo() {
		if again := m.repeat(q, op.AttemptID.Value, room); again != nil {
			for _, msg := range again {
				msg.last = m.now
				m.of(q).Received.Add(1)
				m.hideReceived(q, msg, visibility*1000)
				op.Messages = append(op.Messages, q.delivery(msg, op.System))
			}
			return nil
		}
	}
	if room == 0 && op.WaitFor == 0 && !q.fifo() && !q.is(inFlightTag) {
		return modelRefusal(engine.CodeOverLimit,
			"Too many messages have been received without being deleted.\n"+
				"Please delete your received messages or let them timeout before receiving more.")
	}
	want := min(or(op.Max, 1), room)
	if q.is(rateTag) && want > 0 { // [EXT-12, EXT-14]
		n, next := q.tokens(m.now)
		if want = min(want, n); n == 0 {
			op.NextReady = next
			return nil
		}
	}
	picked := m.pick(q, int(want))
	q.serve(picked, m.now)
	if q.is(rateTag) && len(picked) > 0 {
		q.handed = append(q.handed, modelHand{m.now, int64(len(picked))})
	}
	for _, msg := range picked {
		m.countReceive(q, msg)
		msg.receives++
		msg.here++
		msg.generation++
		msg.fence++
		msg.last, msg.changed, msg.ended, msg.told = m.now, false, "", false
		if msg.first == 0 {
			msg.first = m.now
		}
		m.hideReceived(q, msg, visibility*1000)
		op.Messages = append(op.Messages, q.delivery(msg, op.System))
	}
	if len(picked) == 0 {
		op.NextReady = m.nextReady(q, m.now, room == 0)
	} else if op.AttemptID.Set && q.fifo() {
		m.rememberAttempt(q, op.AttemptID.Value, picked)
	}
	return nil
}

// pick chooses up to want messages in the order in which they are handed out. On the way it moves
// those that were received too often. [DLQ-2, DLQ-21]
func (m *Model) pick(q *modelQueue, want int) (picked []*modelMessage) {
	if q.is(fairTag) {
		return m.pickFair(q, want)
	}
	moved, passed := 0, make(map[string]bool)
	for _, msg := range m.receivable(q, m.now, q.step()) {
		switch {
		case len(picked) >= want:
			return picked
		case passed[msg.entry.Group.Value], !q.hasRoom(picked, msg):
		case m.exhausted(q, msg):
			if m.holds(q) {
				passed[msg.entry.Group.Value] = true
				if !q.isFirst(msg) { // [HOLD-2]
					continue
				}
			}
			if m.broken = m.movesMax > 0 && moved == m.movesMax; m.broken {
				return nil
			}
			m.deadLetter(q, msg)
			moved++
		default:
			picked = append(picked, msg)
		}
	}
	return picked
}

// receivable returns what a receive without any limit would find, in order. Step is for how long a
// message waits for another level; 0 if levels have no effect.
func (m *Model) receivable(q *modelQueue, now, step int64) (ready []*modelMessage) {
	switch {
	case q.fifo():
		return m.receivableByGroup(q, now)
	case q.is(fairTag):
		return q.inTurn(now)
	}
	past := 0
	for _, msg := range q.inOrder(now, step) {
		if !q.expired(msg, now) {
			ready = append(ready, msg)
		} else if msg.level > 0 && msg.at <= now-q.number("MessageRetentionPeriod")*1000 {
			continue // no receive looks at it
		} else if msg.placed() || msg.at > msg.arrived {
			if past++; past > modelLooksMax {
				break
			}
		}
	}
	return ready
}

// modelLooksMax is how many expired messages that were handed out a receive passes over while
// expiry is paused. [CLOCK-7]
const modelLooksMax = 1000

// inOrder returns what would be available if nothing expired, in order.
func (q *modelQueue) inOrder(now, step int64) (all []*modelMessage) {
	for _, msg := range q.messages {
		if q.due(msg) <= now {
			all = append(all, msg)
		}
	}
	slices.SortFunc(all, func(a, b *modelMessage) int { // [EXT-46]
		return cmp.Or(cmp.Compare(q.due(a)-a.level*step, q.due(b)-b.level*step),
			cmp.Compare(a.seq, b.seq))
	})
	return all
}

// placed reports whether a message has a time of its own: it was handed out or dead-lettered here.
func (msg *modelMessage) placed() bool { return msg.here > 0 || msg.source != "" }

// earlier orders messages by the time they became available, and then by their number.
func (q *modelQueue) earlier(a, b *modelMessage) int {
	return cmp.Or(cmp.Compare(q.due(a), q.due(b)), cmp.Compare(a.seq, b.seq))
}

// nextReady is when time alone will make a message receivable.
func (m *Model) nextReady(q *modelQueue, now int64, full bool) (at int64) {
	waiting := q.messages
	if q.fifo() {
		waiting = nil
		for _, group := range m.open(q) {
			waiting = append(waiting, group[0])
		}
		for _, msg := range q.messages {
			if full && msg.kind == inFlight {
				waiting = append(waiting, msg) // it makes room [LIM-4]
			}
		}
	}
	for _, msg := range waiting {
		if due := q.due(msg); due > now && (at == 0 || due < at) {
			at = due
		}
	}
	return at
}

func (q *modelQueue) delivery(msg *modelMessage, asked []string) engine.Delivery {
	received, story := msg.last, (*engine.Story)(nil)
	if len(msg.attempts) > 0 && slices.Contains(asked, "TenaqReason") {
		story = &engine.Story{Attempts: slices.Clone(msg.attempts)}
	}
	if q.fifo() {
		received = 0
	}
	return engine.Delivery{
		Received:     received,
		Space:        q.space,
		Seq:          msg.seq,
		Generation:   uint32(msg.generation),
		ID:           msg.id,
		Lineage:      msg.lineage,
		Size:         sizeOf(&msg.entry),
		Sent:         msg.sent,
		Receives:     msg.receives,
		FirstReceive: msg.first,
		Group:        msg.entry.Group.Value,
		Dedup:        msg.dedup,
		Sequence:     q.sequence(msg),
		Source:       msg.source,
		Story:        story,
		Fence:        msg.fence,
		FirstSent:    msg.firstSent,

		LineageGeneration: msg.lineageGeneration,
	}
}

// find returns the message of a handle, nil when there is none.
func (m *Model) find(q *modelQueue, h engine.Handle) (*modelMessage, *engine.Error) {
	if !h.Valid || h.Incarnation != q.incarnation {
		return nil, modelRefusal(engine.CodeInvalidHandle, `The input receipt handle "%s" is not a valid receipt handle.`, h.Text)
	}
	for _, msg := range q.messages {
		if h.Space == q.space && msg.seq == h.Seq {
			return msg, q.checkHandle(msg, h, m.now)
		}
	}
	return nil, nil
}

func (m *Model) delete(q *modelQueue, h engine.Handle) *engine.Error {
	m.settle(q)
	msg, no := m.find(q, h)
	switch {
	case no != nil && msg != nil && !q.fifo() && q.is(strictHandles) &&
		msg.generation != uint64(h.Generation):
		m.of(q).DeletedStale.Add(1)
	case no != nil:
	case msg == nil:
		m.of(q).DeletedGone.Add(1)
	case msg.generation != uint64(h.Generation):
		m.of(q).DeletedStale.Add(1)
	default:
		m.of(q).AddDeleted(0)
		m.end(q, msg, "deleted", engine.QueueName{})
		q.remove(msg)
	}
	return no
}

// modelEntry is what the entry of a batch says where a single call says no. [BATCH-19, BATCH-23]
func modelEntry(no *engine.Error, h engine.Handle, deletes bool) *engine.Error {
	switch {
	case no == nil:
	case no.Code == engine.CodeInvalidHandle && h.Valid:
		return modelRefusal(engine.CodeInvalidHandle, `The receipt handle "%s" is not valid for this queue.`, h.Text)
	case no.Code == engine.CodeInvalidParameter && deletes:
		return modelRefusal(engine.CodeInvalidHandle, "The receipt handle has expired")
	}
	return no
}

func (q *modelQueue) remove(msg *modelMessage) {
	q.messages = slices.DeleteFunc(q.messages, func(other *modelMessage) bool {
		return other == msg
	})
}

func (m *Model) change(q *modelQueue, h engine.Handle, seconds int64) *engine.Error {
	m.settle(q)
	msg, no := m.find(q, h)
	switch {
	case no != nil:
		return no
	case msg == nil:
		return modelBadValue(h.Text, "ReceiptHandle",
			"Message does not exist or is not available for visibility timeout change.")
	case m.now+seconds*1000 > msg.last+43200*1000:
		return modelRefusal(engine.CodeInvalidParameter,
			"Value %d for parameter VisibilityTimeout is invalid. "+
				"Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
			seconds)
	}
	before := msg.at
	m.hideReceived(q, msg, seconds*1000)
	if msg.generation == uint64(h.Generation) && m.now < before && msg.at < before &&
		msg.ended == "" {
		m.tell(msg, endReturned, "", "")
	}
	msg.changed = true
	return nil
}

func (m *Model) hide(msg *modelMessage, seconds int64) { m.hideFor(msg, seconds*1000) }

func (m *Model) hideFor(msg *modelMessage, milliseconds int64) {
	msg.at, msg.kind = m.now+milliseconds, inFlight
	if milliseconds == 0 {
		msg.kind = available
	}
}

// sizeOf is the size of a message. [SIZE-1]
func sizeOf(e *engine.Entry) int64 {
	size := len(e.Body.Value)
	for _, a := range e.Attributes {
		size += len(a.Name) + len(a.Type.Value) + len(a.String.Value) + len(a.Binary)
	}
	return int64(size)
}

// Content implements Machine.
func (m *Model) Content(d *engine.Delivery) (e engine.Entry, ok bool) {
	for _, q := range m.queues { // order does not matter: one message has the id
		for _, msg := range q.messages {
			if msg.id == d.ID {
				return msg.entry, true
			}
		}
	}
	return e, false
}

// search looks at every message there is.
func (m *Model) search(op *engine.Find) {
	op.Queue, op.Message = engine.QueueName{}, engine.Peeked{}
	for name, q := range m.queues { // order does not matter: one message has the id
		for _, msg := range q.messages {
			if msg.id != op.ID && msg.lineage != op.ID {
				continue
			}
			if m.settle(q); slices.Contains(q.messages, msg) {
				op.Queue, op.Message.Delivery = name, q.delivery(msg, nil)
			}
			return
		}
	}
}
