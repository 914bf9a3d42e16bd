package enginetest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine"
)

// A Model is a Machine that follows the rules in the most naive way: it keeps every message in a slice,
// looks at all of them for every answer, and has no store, no windows, no counters and no turns. It
// knows the queue attributes that steer messages, and of the checks on a request only those that depend
// on a queue; the scripts cover the others.
type Model struct {
	cfg    engine.Config
	queues map[engine.QueueName]*modelQueue
	graves map[engine.QueueName]int64 // when the queue was deleted
	names  uint64                     // ids and incarnations given out

	now  int64
	hold bool

	clean                 bool // the last stop was a clean one
	stamp                 int64
	boot                  int // counts starts that gave a grace
	graceFrom, graceUntil int64
}

type modelQueue struct {
	incarnation [16]byte
	boot        int    // the last one whose grace it was given
	space       uint64 // raised by a purge
	seq         uint64 // of the newest message
	purged      int64
	attributes  map[string]int64
	tags        []engine.Tag
	messages    []*modelMessage // those that live, in the order they were sent
}

type modelMessage struct {
	seq, generation uint64
	id              engine.MessageID
	sent            int64
	at              int64     // when it is, was or will be available
	kind            modelKind // why not, before that
	receives        uint32
	first, last     int64
	entry           engine.Entry
}

type modelKind int

const (
	available modelKind = iota
	delayed
	inFlight
)

// modelDefaults are the attributes a Model knows.
var modelDefaults = map[string]int64{
	"DelaySeconds":                  0,
	"MaximumMessageSize":            1 << 20,
	"MessageRetentionPeriod":        345600,
	"ReceiveMessageWaitTimeSeconds": 0,
	"VisibilityTimeout":             30,
}

// NewModel returns a model of an empty store.
func NewModel() *Model {
	return &Model{
		queues: make(map[engine.QueueName]*modelQueue),
		graves: make(map[engine.QueueName]int64),
		clean:  true,
	}
}

// Start implements Machine.
func (m *Model) Start(cfg engine.Config, now, grace int64) {
	m.cfg = cfg
	if !m.clean {
		m.boot++
		from, until := m.stamp, now+min(grace, now-m.stamp)
		if m.graceUntil > m.stamp { // an earlier grace was not over
			from, until = m.graceFrom, max(m.graceUntil, until)
		}
		if grace == 0 {
			from, until = 0, 0
		}
		m.graceFrom, m.graceUntil = from, until
	}
	m.stamp = now
}

// Stop implements Machine.
func (m *Model) Stop(_ int64, clean bool) { m.clean = clean }

// Do implements Machine.
func (m *Model) Do(r Request) (res engine.Result, err error) {
	m.now, m.hold = r.Now, r.HoldExpiry
	var no *engine.Error
	switch op := r.Op.(type) {
	case engine.CreateQueue:
		no = m.create(op)
	case engine.ListQueues:
		res = m.list(op)
	case engine.Stamp:
		m.stamp = r.Now
	case engine.Sweep:
		m.sweep()
	default:
		res, no = m.onQueue(r)
	}
	if no != nil {
		return engine.Result{}, no
	}
	return res, nil
}

// onQueue carries out what needs a queue that exists.
func (m *Model) onQueue(r Request) (res engine.Result, no *engine.Error) {
	name := queueOf(r.Op)
	q := m.queues[name]
	if q == nil {
		return res, modelRefusal(engine.CodeNoQueue, "The specified queue does not exist.")
	}
	switch op := r.Op.(type) {
	case engine.DeleteQueue:
		delete(m.queues, name)
		m.graves[name] = m.now
	case engine.PurgeQueue:
		if q.purged != 0 && m.now-q.purged < m.cfg.PurgeInterval {
			return res, modelRefusal(engine.CodePurgeInProgress,
				"Only one PurgeQueue operation on %s is allowed every 60 seconds.", name.Name)
		}
		q.messages, q.purged, q.boot = nil, m.now, m.boot
		q.space++
	case engine.GetQueueAttributes:
		m.settle(q)
		res.Attributes = q.show(m.now)
	case engine.SetQueueAttributes:
		m.settle(q)
		for k, v := range op.Values { // order does not matter: each is set once
			q.attributes[k], _ = strconv.ParseInt(v, 10, 64)
		}
	case engine.TagQueue:
		q.tag(op.Tags)
	case engine.UntagQueue:
		q.tags = slices.DeleteFunc(q.tags, func(t engine.Tag) bool { return slices.Contains(op.Keys, t.Key) })
	case engine.ListQueueTags:
		res.Tags = slices.Clone(q.tags)
	case *engine.SendMessage:
		sent := m.send(q, r.Entries[0], "are invalid")
		if sent.Err != nil {
			return res, sent.Err
		}
		res.Sent = []engine.Sent{sent}
	case *engine.SendMessageBatch:
		for _, e := range r.Entries {
			res.Sent = append(res.Sent, m.send(q, e, "cannot be validated"))
		}
	case *engine.ReceiveMessage:
		m.settle(q)
		return m.receive(q, op)
	case *engine.DeleteMessage:
		no = m.delete(q, op.Handle)
	case *engine.DeleteMessageBatch:
		for _, e := range op.Entries {
			res.Outcomes = append(res.Outcomes, m.delete(q, e.Handle))
		}
	case *engine.ChangeMessageVisibility:
		no = m.change(q, op.Handle, op.Timeout.Value)
	case *engine.ChangeMessageVisibilityBatch:
		for _, e := range op.Entries {
			res.Outcomes = append(res.Outcomes, m.change(q, e.Handle, e.Timeout.Value))
		}
	default:
		panic(fmt.Sprintf("the model does not know %T", op))
	}
	return res, no
}

func queueOf(op engine.Op) engine.QueueName {
	switch op := op.(type) {
	case engine.DeleteQueue:
		return op.Queue
	case engine.PurgeQueue:
		return op.Queue
	case engine.GetQueueAttributes:
		return op.Queue
	case engine.SetQueueAttributes:
		return op.Queue
	case engine.TagQueue:
		return op.Queue
	case engine.UntagQueue:
		return op.Queue
	case engine.ListQueueTags:
		return op.Queue
	case *engine.SendMessage:
		return op.Queue
	case *engine.SendMessageBatch:
		return op.Queue
	case *engine.ReceiveMessage:
		return op.Queue
	case *engine.DeleteMessage:
		return op.Queue
	case *engine.DeleteMessageBatch:
		return op.Queue
	case *engine.ChangeMessageVisibility:
		return op.Queue
	case *engine.ChangeMessageVisibilityBatch:
		return op.Queue
	}
	panic(fmt.Sprintf("the model does not know %T", op))
}

func modelRefusal(code engine.Code, format string, args ...any) *engine.Error {
	return &engine.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (m *Model) identity() (id [16]byte) {
	m.names++
	binary.BigEndian.PutUint64(id[8:], m.names)
	return id
}

func (m *Model) create(op engine.CreateQueue) *engine.Error {
	if q := m.queues[op.Queue]; q != nil {
		different := ""
		for k, v := range op.Attributes { // order does not matter: the first by name is named
			if n, _ := strconv.ParseInt(v, 10, 64); n != q.attributes[k] && (different == "" || k < different) {
				different = k
			}
		}
		if different != "" {
			return modelRefusal(engine.CodeQueueExists,
				"A queue already exists with the same name and a different value for attribute %s", different)
		}
		return nil
	}
	if deleted, ok := m.graves[op.Queue]; ok && m.now-deleted < m.cfg.RecreateDelay {
		return modelRefusal(engine.CodeDeletedRecently,
			"You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	q := &modelQueue{incarnation: m.identity(), boot: m.boot, attributes: make(map[string]int64)}
	for k, v := range modelDefaults { // order does not matter: a copy
		q.attributes[k] = v
	}
	for k, v := range op.Attributes { // order does not matter: each is set once
		q.attributes[k], _ = strconv.ParseInt(v, 10, 64)
	}
	q.tag(op.Tags)
	m.queues[op.Queue] = q
	return nil
}

func (m *Model) list(op engine.ListQueues) (res engine.Result) {
	for name := range m.queues { // order does not matter: sorted below
		if name.Account == op.Account && strings.HasPrefix(name.Name, op.Prefix) && name.Name > op.NextToken {
			res.Queues = append(res.Queues, name)
		}
	}
	slices.SortFunc(res.Queues, func(a, b engine.QueueName) int { return cmp.Compare(a.Name, b.Name) })
	if n := int(op.MaxResults.Value); op.MaxResults.Set && len(res.Queues) > n {
		res.Queues = res.Queues[:n]
		res.NextToken = res.Queues[n-1].Name
	}
	return res
}

func (m *Model) sweep() {
	for _, q := range m.queues { // order does not matter: each for itself
		m.settle(q)
	}
}

func (q *modelQueue) tag(tags []engine.Tag) {
	for _, t := range tags {
		q.tags = slices.DeleteFunc(q.tags, func(old engine.Tag) bool { return old.Key == t.Key })
		q.tags = append(q.tags, t)
	}
	slices.SortFunc(q.tags, func(a, b engine.Tag) int { return cmp.Compare(a.Key, b.Key) })
}

func (q *modelQueue) show(now int64) map[string]string {
	counts := map[modelKind]int{}
	for _, msg := range q.messages {
		counts[msg.state(now)]++
	}
	values := map[string]string{
		"ApproximateNumberOfMessages":           strconv.Itoa(counts[available]),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(counts[inFlight]),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(counts[delayed]),
	}
	for k, v := range q.attributes { // order does not matter: a copy
		values[k] = strconv.FormatInt(v, 10)
	}
	return values
}

func (msg *modelMessage) state(now int64) modelKind {
	if msg.at <= now {
		return available
	}
	return msg.kind
}

func (q *modelQueue) expired(msg *modelMessage, now int64) bool {
	return now-msg.sent >= q.attributes["MessageRetentionPeriod"]*1000
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
		q.messages = slices.DeleteFunc(q.messages, func(msg *modelMessage) bool { return q.expired(msg, m.now) })
	}
}

// send stores a message. Wrong says what a message is that is too large.
func (m *Model) send(q *modelQueue, e engine.Entry, wrong string) engine.Sent {
	if d := e.Delay.Value; d < 0 || d > 900 {
		return engine.Sent{Err: modelRefusal(engine.CodeInvalidParameter,
			"Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", d)}
	}
	if limit := q.attributes["MaximumMessageSize"]; int64(len(e.Body.Value)) > limit {
		return engine.Sent{Err: modelRefusal(engine.CodeInvalidParameter,
			"One or more parameters %s. Reason: Message must be shorter than %d bytes.", wrong, limit)}
	}
	m.settle(q)
	q.seq++
	msg := &modelMessage{seq: q.seq, id: m.identity(), sent: m.now, at: m.now, entry: e}
	delay := q.attributes["DelaySeconds"]
	if e.Delay.Set {
		delay = e.Delay.Value
	}
	if delay > 0 {
		msg.at, msg.kind = m.now+delay*1000, delayed
	}
	q.messages = append(q.messages, msg)
	return engine.Sent{ID: msg.id}
}

func (m *Model) receive(q *modelQueue, op *engine.ReceiveMessage) (res engine.Result, no *engine.Error) {
	or := func(i engine.Int, def int64) int64 {
		if i.Set {
			return i.Value
		}
		return def
	}
	res.Incarnation = q.incarnation
	res.Wait = or(op.Wait, q.attributes["ReceiveMessageWaitTimeSeconds"]) * 1000
	want, room := or(op.Max, 1), m.cfg.InFlightMax
	var ready []*modelMessage
	for _, msg := range q.messages {
		if msg.state(m.now) == inFlight {
			room--
		}
		if msg.at <= m.now && !q.expired(msg, m.now) {
			ready = append(ready, msg)
		}
	}
	if room <= 0 && res.Wait == 0 {
		return res, modelRefusal(engine.CodeOverLimit, "Too many messages have been received without being deleted.\n"+
			"Please delete your received messages or let them timeout before receiving more.")
	}
	slices.SortFunc(ready, func(a, b *modelMessage) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
	})
	ready = ready[:min(len(ready), int(max(0, min(want, room))))]
	for _, msg := range ready {
		msg.receives++
		msg.generation++
		msg.last = m.now
		if msg.receives == 1 {
			msg.first = m.now
		}
		m.hide(msg, or(op.Visibility, q.attributes["VisibilityTimeout"]))
		res.Messages = append(res.Messages, engine.Delivery{
			Space:        q.space,
			Seq:          msg.seq,
			Generation:   uint32(msg.generation),
			ID:           msg.id,
			Size:         int64(len(msg.entry.Body.Value)),
			Sent:         msg.sent,
			Receives:     msg.receives,
			FirstReceive: msg.first,
			Group:        msg.entry.Group.Value,
		})
	}
	if len(ready) == 0 {
		for _, msg := range q.messages {
			if msg.at > m.now && (res.NextReady == 0 || msg.at < res.NextReady) {
				res.NextReady = msg.at
			}
		}
	}
	return res, nil
}

// find returns the message of a handle, nil when there is none any more.
func (m *Model) find(q *modelQueue, h engine.Handle) (*modelMessage, *engine.Error) {
	if !h.Valid || h.Incarnation != q.incarnation {
		return nil, modelRefusal(engine.CodeInvalidHandle, `The input receipt handle "%s" is not a valid receipt handle.`, h.Text)
	}
	for _, msg := range q.messages {
		if h.Space == q.space && msg.seq == h.Seq {
			return msg, nil
		}
	}
	return nil, nil
}

func (m *Model) delete(q *modelQueue, h engine.Handle) *engine.Error {
	m.settle(q)
	msg, no := m.find(q, h)
	if msg != nil && msg.generation == uint64(h.Generation) {
		q.messages = slices.DeleteFunc(q.messages, func(other *modelMessage) bool { return other == msg })
	}
	return no
}

func (m *Model) change(q *modelQueue, h engine.Handle, seconds int64) *engine.Error {
	m.settle(q)
	msg, no := m.find(q, h)
	switch {
	case no != nil:
		return no
	case msg == nil:
		return modelRefusal(engine.CodeInvalidParameter, "Value %s for parameter ReceiptHandle is invalid. "+
			"Reason: Message does not exist or is not available for visibility timeout change.", h.Text)
	case m.now+seconds*1000 > msg.last+43200*1000:
		return modelRefusal(engine.CodeInvalidParameter, "Value %d for parameter VisibilityTimeout is invalid. "+
			"Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]", seconds)
	}
	m.hide(msg, seconds)
	return nil
}

func (m *Model) hide(msg *modelMessage, seconds int64) {
	msg.at, msg.kind = m.now+seconds*1000, inFlight
	if seconds == 0 {
		msg.kind = available
	}
}
