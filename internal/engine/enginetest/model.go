package enginetest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"tenaq/internal/engine"
	"tenaq/internal/observe/tally"
)

// A Model is a Machine that follows the rules in the most naive way: it keeps every message in a
// slice, looks at all of them for every answer, and has no store, no windows, no counters and no
// turns. It knows the queue attributes that steer messages, and of the checks on a request only
// those that depend on a queue; the scripts cover the others.
type Model struct {
	cfg    engine.Config
	queues map[engine.QueueName]*modelQueue
	graves map[engine.QueueName]int64 // when the queue was deleted
	names  uint64                     // ids and incarnations given out
	tasks  []*modelTask               // in the order of their start
	tasked int                        // how many were ever started
	log    []engine.Action            // what was done, the latest action last
	tally  *tally.Queues

	records map[recordName]modelRecord // also those that have expired and were not swept
	version uint64                     // the last one that a record was given

	// how many dead letters the next receive moves before it is broken off; zero is any number
	movesMax int
	broken   bool // it was

	now      int64
	hold     bool
	heldFrom int64 // the last time before expiry was paused

	clean                 bool // the last stop was a clean one
	stamp                 int64
	boot                  int // counts starts that gave a grace
	graceFrom, graceUntil int64
}

type modelQueue struct {
	name        engine.QueueName
	incarnation [16]byte
	boot        int    // the last one whose grace it was given
	space       uint64 // raised by a purge
	seq         uint64 // of the newest message
	purged      int64
	attributes  map[string]string
	tags        []engine.Tag
	messages    []*modelMessage  // those that live, in the order in which they came
	outcomes    []modelOutcome   // if it keeps a history
	handed      []modelHand      // if it has a rate
	rated       int64            // when it got that
	ticks       map[string]int64 // when each of its schedules is due

	// Of a fair queue: its first message that was not there before, and when each group was served.
	fairFrom uint64
	served   map[string]modelPlace
	serves   uint64 // deliveries, and beginnings of groups

	// Of FIFO queues: the first send, and the last receive, under each key.
	sends    map[modelKey]modelSend
	attempts map[string]modelAttempt

	calls map[[16]byte]modelAnswer // of a standard queue: the latest answer to each call
}

type modelMessage struct {
	seq, generation uint64
	id, lineage     engine.MessageID
	sent            int64
	firstSent       int64     // by its sender, before any move task
	fence           uint64    // how often the lineage was delivered
	arrived         int64     // in this queue
	here            int       // receives in this queue
	base            int64     // retention counts from here
	at              int64     // when it is, was or will be available
	kind            modelKind // why not, before that
	receives        uint32
	first, last     int64
	changed         bool // its visibility was, since it was received
	dedup           string
	level           int64  // of a queue with priorities
	origin          bool   // its retention began in another queue, or begins after a long delay
	source          string // ARN of the queue it was dead-lettered from

	place uint64    // in its group: its number, or the one that it had before it came back
	holds modelHold // the group that it holds as a dead letter

	attempts []engine.Attempt // what consumers said
	told     bool             // the last of them is about the newest receive
	ended    engine.Verdict   // of a nack of the newest receive
	entry    engine.Entry

	lineageGeneration uint64
	replayed          bool
}

type modelKind int

const (
	available modelKind = iota
	delayed
	inFlight
)

// NewModel returns a model of an empty store.
func NewModel() *Model {
	return &Model{
		queues: make(map[engine.QueueName]*modelQueue),
		graves: make(map[engine.QueueName]int64),
		clean:  true,
		tally:  new(tally.Queues),

		records: make(map[recordName]modelRecord),
	}
}

// Start implements Machine.
func (m *Model) Start(cfg engine.Config, now, grace int64) {
	m.cfg, m.now = cfg, now
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
func (m *Model) Do(r Request) error {
	if r.ExpiryPaused && !m.hold {
		m.heldFrom = m.now
	}
	m.now, m.hold = r.Now, r.ExpiryPaused
	var no *engine.Error
	switch op := r.Op.(type) {
	case *engine.CreateQueue:
		no = m.create(op)
	case *engine.ListQueues:
		m.list(op)
	case *engine.Stamp:
		m.stamp = r.Now
	case *engine.Sweep:
		m.sweep()
	case *engine.Survey:
		op.Gauges = m.survey()
	case *engine.StartMessageMoveTask:
		no = m.startTask(op)
	case *engine.ListMessageMoveTasks:
		no = m.listTasks(op)
	case *engine.CancelMessageMoveTask:
		no = m.cancelTask(op)
	case *engine.MoveStep:
		m.step(cmp.Or(int64(op.Most), 100))
	case *engine.Tick:
		m.tick(op)
	case *engine.Find:
		m.search(op)
	case *engine.GetRecord:
		op.Record = m.record(recordName{op.Account, op.Key})
	case *engine.PutRecord:
		m.putRecord(op)
	case *engine.DeleteRecord:
		m.deleteRecord(op)
	case *engine.ListRecords:
		m.listRecords(op)
	case *engine.SweepRecords:
		m.sweepRecords(op)
	case *engine.ListTasks:
		m.listAll(op)
	case *engine.ChangeTask:
		no = m.changeTask(op)
	case *engine.LogAction:
		m.note(op.Account, op.By, op.Name, op.About, op.Text)
	case *engine.ListActions:
		m.listActions(op)
	default:
		no = m.onQueue(r)
	}
	if no != nil {
		return no
	}
	return nil
}

// onQueue carries out what needs a queue that exists.
func (m *Model) onQueue(r Request) (no *engine.Error) {
	name := queueOf(r.Op)
	q := m.queues[name]
	if q == nil {
		return modelRefusal(engine.CodeNoQueue, "The specified queue does not exist.")
	}
	switch op := r.Op.(type) {
	case *engine.DeleteQueue:
		delete(m.queues, name)
		m.tally.Drop(name.Account, name.Name)
		m.graves[name] = m.now
		m.tasks = slices.DeleteFunc(m.tasks, func(t *modelTask) bool { return t.source == name })
	case *engine.PurgeQueue:
		if q.purged != 0 && m.now-q.purged < m.cfg.PurgeInterval {
			return modelRefusal(engine.CodePurgeInProgress,
				"Only one PurgeQueue operation on %s is allowed every 60 seconds.", name.Name)
		}
		if _, on := q.historyAge(); on {
			m.settle(q)
		}
		q.messages, q.sends, q.attempts, q.calls = nil, nil, nil, nil
		q.purged, q.boot = m.now, m.boot
		q.space++
		q.beginFair()
	case *engine.GetQueueAttributes:
		m.settle(q)
		op.Attributes = q.show(m.now)
		if !slices.Contains(op.Names, "All") {
			maps.DeleteFunc(op.Attributes, func(name, _ string) bool {
				return !slices.Contains(op.Names, name)
			})
		}
	case *engine.SetQueueAttributes:
		no = m.set(q, op.Values)
	case *engine.TagQueue:
		if slices.ContainsFunc(op.Tags, func(t engine.Tag) bool { return t.Key == historyTag }) {
			m.settle(q) // by the tags as they were
		}
		no = m.retag(q, func() { q.tag(op.Tags) })
	case *engine.UntagQueue:
		no = m.retag(q, func() { q.untag(op.Keys) })
		if !q.is(onDeadLetterTag) {
			m.freeAll(q)
		}
		if _, on := q.historyAge(); !on {
			m.endReplay(q)
		}
	case *engine.History:
		no = m.history(q)
	case *engine.ListQueueTags:
		op.Tags = slices.Clone(q.tags)
	case *engine.ListDeadLetterSourceQueues:
		m.sources(op)
	case *engine.StartTask:
		no = m.startSelection(q, op)
	case *engine.CountTask:
		no = m.countTask(q, op)
	case *engine.Replace:
		no = m.replace(q, op, r.Entries[0])
	case *engine.SendMessage:
		op.Sent = m.sendAll(q, op.Call, r.Entries, "are invalid")[0]
		no = op.Sent.Err
	case *engine.SendMessageBatch:
		for _, e := range r.Entries {
			if no := q.lacksID(e); no != nil {
				return modelRefusal(engine.CodeInvalidParameter, "%s", no.Message)
			}
		}
		m.settle(q) // though every entry be refused: the batch as such was taken
		op.Sent = m.sendAll(q, op.Call, r.Entries, "cannot be validated")
	case *engine.ReceiveMessage:
		m.settle(q)
		return m.receive(q, op)
	case *engine.DeleteMessage:
		no = m.delete(q, op.Handle)
	case *engine.DeleteMessageBatch:
		op.Outcomes = nil
		for _, e := range op.Entries {
			op.Outcomes = append(op.Outcomes, modelEntry(m.delete(q, e.Handle), e.Handle, true))
		}
	case *engine.Nack:
		op.Outcomes = nil
		for i := range op.Entries {
			op.Outcomes = append(op.Outcomes, m.nack(q, &op.Entries[i]))
		}
	case *engine.PeekGroups:
		no = m.peekGroups(q, op)
	case *engine.ReleaseGroup:
		no = m.release(q, op)
	case *engine.ChangeMessageVisibility:
		no = m.change(q, op.Handle, op.Timeout.Value)
	case *engine.ChangeMessageVisibilityBatch:
		op.Outcomes = nil
		for _, e := range op.Entries {
			op.Outcomes = append(op.Outcomes,
				modelEntry(m.change(q, e.Handle, e.Timeout.Value), e.Handle, false))
		}
	default:
		panic(fmt.Sprintf("the model does not know %T", op))
	}
	return no
}

// queueOf returns the queue of an operation on a queue.
func queueOf(op engine.Op) engine.QueueName {
	return reflect.ValueOf(op).Elem().FieldByName("Queue").Interface().(engine.QueueName)
}

func modelRefusal(code engine.Code, format string, args ...any) *engine.Error {
	return &engine.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// modelBadValue is a refusal in the form that most of them have.
func modelBadValue(value, parameter, reason string) *engine.Error {
	return modelRefusal(engine.CodeInvalidParameter,
		"Value %s for parameter %s is invalid. Reason: %s", value, parameter, reason)
}

func (m *Model) identity() (id [16]byte) {
	m.names++
	binary.BigEndian.PutUint64(id[8:], m.names)
	return id
}
