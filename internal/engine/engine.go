// Package engine holds the rules of the queue. Apply is the only code in the repository that
// changes a queue: it takes a command and answers it or refuses it.
//
// What it guarantees:
//
//   - The same commands over the same rows give the same answers, on every machine and after every
//     restart. The engine reads no clock, draws no random numbers and starts no goroutine. Time and
//     randomness are in the command.
//   - They also give the same rows, except for bounds and hints that depend on what was in memory,
//     such as Segment.First and State.DueLow. Package row lists these fields. No answer depends on
//     them.
//   - Memory holds a window on the rows and never changes an answer. Its size, an eviction and a
//     restart affect only the speed.
//   - A refusal leaves the rows as they were, except for what time alone has changed: messages past
//     their retention are removed, and counters follow deadlines that have passed.
//   - The work of one Apply is bounded. An operation that needs more says so and is submitted
//     again.
//
// It leaves to others:
//
//   - stamping commands, batching them into turns, deciding when a turn is durable and answering
//     only then (broker);
//   - protocol texts and checksums (api/sqs/sqswire), and sealing receipt handles (api/handle);
//   - the bytes of rows (row), and reading content back: ReadContent needs no engine and runs off
//     the single writer.
//
// An Engine belongs to one goroutine. A turn is any number of Apply calls followed by one Commit.
package engine

import (
	"cmp"
	"container/list"

	"tenaq/internal/engine/kept"
	"tenaq/internal/engine/row"
	"tenaq/internal/invariant"
	"tenaq/internal/kv"
	"tenaq/internal/observe/tally"
)

// Config configures an Engine. Two engines that should agree need equal Configs, apart
// from Window and WindowBytes.
type Config struct {
	// Region is part of every queue's ARN.
	Region string

	// InFlightMax is how many messages of one queue may be in flight. [LIM-1]
	InFlightMax int64

	// PurgeInterval is the least time between two purges of a queue, RecreateDelay how long the
	// name of a deleted queue stays blocked; both in milliseconds, zero for none.
	PurgeInterval, RecreateDelay int64

	// Window is how many entries of each index of a queue stay in memory, 4096 when zero.
	Window int

	// WindowBytes bounds the memory of all windows together, 64 MiB when zero.
	WindowBytes int

	// Tally counts what happens, for monitoring. It changes no answer. Nil counts nothing.
	Tally *tally.Queues

	// Fault is called with one sentence about a row that cannot be read. It must not return.
	Fault func(sentence string)
}

// A Command is one request to change or read a queue, made deterministic: the broker stamps the
// time and the randomness.
type Command struct {
	// Now is the time in Unix milliseconds. It never decreases from one command to the next.
	// [CLOCK-1]
	Now int64

	// ExpiryPaused says that the clock is not trusted yet. Messages past their retention are then
	// neither delivered nor removed.
	ExpiryPaused bool

	// NoHistory says that the disk is nearly full. Messages that end leave no outcome. [HIST-6]
	NoHistory bool

	// Seed is where identities come from: message IDs and queue incarnations.
	Seed [16]byte

	Op Op
}

// An Op is what a command asks for. The list is closed: the types of this package named after SQS
// actions; Nack; Peek, PeekQueues, PeekGroups, Gauges, Find, History, Follow, Survey, News,
// SurveyTasks, ListTasks, ShowTask, CountTask and ListActions, which observe; StartTask,
// ChangeTask, Replace, ReleaseGroup and LogAction; PutDocument; GetRecord, PutRecord, DeleteRecord
// and ListRecords; and Start, Stamp, Hold, Sweep, SweepRecords, MoveStep and Tick, which are the
// broker's own.
//
// An Op is also its answer: its last fields, after a comment that says so. Each Apply sets them
// anew. Every Op is a pointer: apply has a pointer receiver, so a type switch over operations
// cannot miss one that was passed as a value.
type Op interface {
	// apply carries the operation out and sets the fields of its answer. It checks everything
	// before it writes anything. It returns ErrAgain, or a refusal, or nil.
	apply(e *Engine, c *Command) *Error
}

// ErrAgain says that the bound on one Apply was reached before the operation was carried out:
// submit the same operation again, in a later turn. It is not a refusal.
var ErrAgain = &Error{Message: "the operation has to be submitted again"}

// A Class says when an operation is refused under overload, the most dispensable class first. A
// queue whose deletes come late feeds itself with redeliveries, so deletes come last. [DUR-25]
type Class int

// The classes. An operation without a method Class is a listing.
const (
	ClassListing Class = iota
	ClassSend
	ClassReceive
	ClassVisibility
	ClassDelete
)

// An Engine is the state machine over one store.
type Engine struct {
	cfg  Config
	rows rows
	sys  system

	now          int64
	expiryPaused bool

	noHistory bool

	queues map[QueueName]*queue
	recent list.List // of queues in memory, the one used longest ago first
	bytes  int       // about what their windows take together
	news   news
	turn   uint64

	tasks     []*task        // those that are not over, in order of their numbers
	schedules []row.Schedule // of all queues, the next one first

	actions actionLog
	touched []*queue // queues of this turn, in the order they were first used
	stirred []*queue // queues that something happened to since TakeStirred

	policyChanged bool // of any queue, since TakePolicyChanges

	records records

	kept *kept.Contents // of messages that moved in this turn
}

// Open returns the engine over store, which may be empty.
func Open(store kv.Store, cfg Config) *Engine {
	cfg.Window = cmp.Or(cfg.Window, 4096)
	cfg.WindowBytes = cmp.Or(cfg.WindowBytes, 64<<20)
	cfg.Tally = cmp.Or(cfg.Tally, new(tally.Queues))
	e := &Engine{cfg: cfg, queues: make(map[QueueName]*queue), kept: new(kept.Contents)}
	e.rows = newRows(store, cfg.Fault)
	e.loadSystem()
	e.loadTasks()
	e.loadSchedules()
	e.loadRecords()
	e.loadActions()
	return e
}

// Apply carries out c, puts its writes into the open batch of the turn and the answer into c.Op.
// The error is nil, ErrAgain, or the *Error of a refusal; the fields of the answer then mean
// nothing.
func (e *Engine) Apply(c Command) error {
	if c.Now < e.now {
		invariant.Fail("time went back from %d to %d", e.now, c.Now)
	}
	if c.ExpiryPaused != (e.sys.HeldFrom != 0) {
		e.notePause(c.ExpiryPaused)
	}
	e.now, e.expiryPaused, e.noHistory = c.Now, c.ExpiryPaused, c.NoHistory
	e.rows.boundary()
	if err := c.Op.apply(e, &c); err != nil {
		return err // not the nil *Error, which would be an error
	}
	return nil
}

// TakeStirred calls f for every queue that was stirred since the last call: something happened that
// may change the answer to a receive which came back empty, such as more messages, other settings
// or the end of the queue.
func (e *Engine) TakeStirred(f func(QueueName)) {
	for _, q := range e.stirred {
		q.stirred = false
		f(q.name)
	}
	e.stirred = e.stirred[:0]
}

func (e *Engine) stir(q *queue) {
	if !q.stirred {
		q.stirred = true
		e.stirred = append(e.stirred, q)
	}
}

// inFlightMax is how many messages of a queue may be in flight. [LIM-1, EXT-7]
func (e *Engine) inFlightMax(q *queue) int64 {
	if most := q.ext.MaxInFlight; most > 0 {
		return min(most, e.cfg.InFlightMax)
	}
	return e.cfg.InFlightMax
}

// stirFull stirs a full queue before a delete, which may make room for a receive. [LIM-4]
func (e *Engine) stirFull(q *queue) {
	if q.st.InFlight >= e.inFlightMax(q) {
		e.stir(q)
	}
}

// Commit ends the turn. It returns nil when the turn wrote nothing; otherwise the writes are
// visible to readers of the store, and wait returns nil when they are durable, or kv.ErrLost.
func (e *Engine) Commit() (wait func() error) {
	e.saveDirty()
	if e.rows.dirty() {
		e.saveStamp()
		wait = e.rows.force()
	}
	e.endTurn()
	return wait
}

// TurnBytes is how many bytes the turn has written so far, about. Commit adds a few rows for each
// queue that the turn has used.
func (e *Engine) TurnBytes() int { return e.rows.visible + e.rows.len() }

// flush makes the writes of the turn so far visible to scans. They become durable with the turn. A
// power cut may leave only them.
func (e *Engine) flush() {
	e.saveDirty()
	if e.rows.len() > 0 {
		e.saveStamp()
	}
	e.rows.apply()
}

// saveStamp adds the time to a batch that is not empty, so that no start begins at a time before
// the rows on disk. [CLOCK-9]
func (e *Engine) saveStamp() {
	e.sys.Stamp = e.now
	e.rows.set(row.SystemKey(), e.sys.Encode(nil))
	e.sys.dirty = false
}

// saveDirty writes the rows that stay in memory during a turn because nearly every command changes
// them: each queue's state and segments, the row about records, and the system row.
func (e *Engine) saveDirty() {
	for _, q := range e.touched {
		q.save(e)
	}
	e.saveRecords()
	if e.sys.dirty {
		e.rows.set(row.SystemKey(), e.sys.Encode(nil))
		e.sys.dirty = false
	}
}

// A queue that was not used for restAfter milliseconds is dropped from memory, at most restMax of
// them a turn.
const (
	restAfter = 60_000
	restMax   = 1024
)

// endTurn forgets what was needed only until the rows of the turn became visible. It drops the
// queues used longest ago from memory while all windows together exceed their budget, or while
// queues rest unused.
func (e *Engine) endTurn() {
	e.kept = e.kept.Next()
	e.records.endTurn()
	for _, q := range e.touched {
		if q.gone {
			e.drop(q)
			continue
		}
		q.trim(e.cfg.Window)
		e.bytes -= q.bytes
		q.bytes = q.footprint()
		e.bytes += q.bytes
	}
	for n := 0; e.recent.Len() > 0; n++ {
		q := e.recent.Front().Value.(*queue)
		if q.turn == e.turn || e.bytes <= e.cfg.WindowBytes &&
			(n >= restMax || e.now < q.used+restAfter) {
			break
		}
		e.drop(q)
	}
	e.touched = e.touched[:0]
	e.turn++
}
