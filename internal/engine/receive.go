package engine

import "slices"

// A Delivery is one message as a receive hands it out. Its content is read with ReadContent after the
// turn is committed.
type Delivery struct {
	Space, Seq   uint64
	Generation   uint32 // of the handle
	ID           MessageID
	Lineage      MessageID // the id with which it was first sent; another one after a redrive
	Size         int64     // of the content, about
	Sent         int64     // milliseconds, as all times here
	Receives     uint32
	FirstReceive int64
	Group        string
	Dedup        string
	Sequence     Sequence
	Source       string // ARN of the queue it was dead-lettered from, if it was
}

// ReceiveMessage hands out up to Max messages and hides them.
type ReceiveMessage struct {
	Queue      QueueName
	Max        Int
	Visibility Int      // seconds
	Wait       Int      // seconds
	AttemptID  Text     // ReceiveRequestAttemptId
	System     []string // names of the system attributes that are wanted, here only to be checked
}

// systemAttributes are the names that a receive may ask for. [RCV-9]
var systemAttributes = []string{
	"All", "ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount", "AWSTraceHeader", "DeadLetterQueueSourceArn",
	"MessageDeduplicationId", "MessageGroupId", "SenderId", "SentTimestamp", "SequenceNumber",
}

const visibilityMax = 43200 // seconds, for one call and for one delivery [VIS-10, VIS-11]

func (op *ReceiveMessage) check() *Error {
	switch {
	case op.Max.Set && (op.Max.Value < 1 || op.Max.Value > 10): // [RCV-1]
		return errNumber(op.Max.Value, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
	case op.Wait.Set && (op.Wait.Value < 0 || op.Wait.Value > 20): // [RCV-3]
		return errNumber(op.Wait.Value, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
	case op.Visibility.Set && (op.Visibility.Value < 0 || op.Visibility.Value > visibilityMax): // [RCV-2]
		return errNumber(op.Visibility.Value, "VisibilityTimeout", "Must be >= 0 and <= 43200, if provided.")
	case op.AttemptID.Set: // [RCV-22]
		return errValue(op.AttemptID.Value, "ReceiveRequestAttemptId",
			"The request include parameter that is not valid for this queue type.")
	}
	for _, name := range op.System {
		if !slices.Contains(systemAttributes, name) {
			return errUnknownAttribute(name)
		}
	}
	return nil
}

func (op *ReceiveMessage) apply(e *Engine, _ *Command) (Result, error) {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return Result{}, err
	}
	if err := op.check(); err != nil {
		return Result{}, err
	}
	if !e.ready(q) {
		return Result{Again: true}, nil
	}
	res := Result{
		Incarnation: q.row.incarnation,
		Wait:        op.Wait.or(q.row.attributes.ReceiveMessageWaitTimeSeconds) * 1000, // [POLL-1]
	}
	want := op.Max.or(1)
	if room := e.cfg.InFlightMax - q.st.inFlight; room < want { // [LIM-1]
		// Some of those in flight may only count because the counters have not followed yet. [LIM-6]
		if !e.settle(q, settleStep) {
			return Result{Again: true}, nil
		}
		room = e.cfg.InFlightMax - q.st.inFlight
		if room <= 0 && res.Wait == 0 { // [LIM-2, LIM-3]
			return Result{}, refuse(CodeOverLimit, "Too many messages have been received without being deleted.\n"+
				"Please delete your received messages or let them timeout before receiving more.")
		}
		want = min(want, max(room, 0)) // [LIM-5]
	}
	picked, fresh := e.pick(q, int(want))
	if len(picked) == 0 {
		res.NextReady = e.nextReady(q)
		return res, nil
	}
	// Everything has been read; from here on the command writes.
	q.fresh.pop(fresh)
	until := e.now + op.Visibility.or(q.row.attributes.VisibilityTimeout)*1000 // [VIS-4]
	for _, m := range picked {
		e.deliver(q, m, until)
		res.Messages = append(res.Messages, Delivery{
			Space:        q.row.space,
			Seq:          m.seq,
			Generation:   m.delivery.generation,
			ID:           m.id,
			Size:         m.size,
			Sent:         m.sent,
			Receives:     m.receives,
			FirstReceive: m.firstReceive,
			Group:        m.group,
		})
	}
	return res, nil
}

// pick chooses up to want messages: the fresh and the due ones merged by the time they became
// available, then by number. [ORD-1, ORD-2] It only looks, so what one receive gives back with a timeout
// of zero cannot be picked by the same receive again. [ORD-5, ORD-6] Fresh is how many entries of the
// fresh window the picked messages reach into.
func (e *Engine) pick(q *queue, want int) (picked []*message, fresh int) {
	if want == 0 {
		return nil, 0
	}
	picked = make([]*message, 0, want)
	retention := q.row.attributes.retention()
	i, j := 0, 0
	for len(picked) < want {
		for e.loadFresh(q, i) && q.fresh.at(i).expired(e.now, retention) {
			i++
		}
		hasFresh, hasDue := e.loadFresh(q, i), e.loadDue(q, j) && q.due.at(j).at <= e.now
		if hasDue {
			entry := *q.due.at(j)
			if !hasFresh || entry.less(duePos{q.fresh.at(i).sent, q.fresh.at(i).seq}) {
				j++
				m := e.find(q, entry.seq)
				if m == nil {
					e.rows.damaged("due", dueKey(q.row.space, entry.duePos))
				}
				e.needMeta(q, m)
				if !m.expired(e.now, retention) {
					picked = append(picked, m)
				}
				continue
			}
		}
		if !hasFresh {
			break
		}
		picked = append(picked, q.fresh.at(i))
		i++
		fresh = i
	}
	return picked, fresh
}

// deliver hides a picked message until the given time and counts the receive. [VIS-1, RCV-11, RCV-12]
func (e *Engine) deliver(q *queue, m *message, until int64) {
	switch {
	case m.hasDelivery:
		e.unschedule(q, m)
	case e.hold:
		// The messages before it that have expired stay fresh: a longer retention period, set before
		// expiry goes on, makes them receivable again. [CLOCK-7]
		q.st.mixed = max(q.st.mixed, m.seq+1)
	default:
		q.st.cursor = max(q.st.cursor, m.seq+1)
	}
	m.apart = m.apart || m.flags&flagInline == 0
	m.receives++
	m.delivery.generation++
	m.lastReceive = e.now
	if m.firstReceive == 0 {
		m.firstReceive = e.now
	}
	e.hide(q, m, until)
}

// hide puts a message that is in nobody's place into due, until the given time. Until now means that it
// is returned at once. [VIS-3, VIS-6]
func (e *Engine) hide(q *queue, m *message, until int64) {
	m.at, m.kind = until, dueInFlight
	if until <= e.now {
		m.kind = dueReturned
	}
	e.noteHidden(until)
	e.schedule(q, m)
}
