package audit

import (
	"math"
	"time"
)

// A History is what the clients of some queues did and saw. The operations of each kind may be in
// any order, except that the entries of one batch, and the messages of one receive, are in theirs.
type History struct {
	// Queues describes the queues by name. One that is missing is a standard queue without a
	// dead-letter queue; when that is the only one, it needs no name either.
	Queues map[string]Queue

	Sends      []Send
	Deliveries []Delivery
	Changes    []Change
	Deletes    []Delete
	Moves      []Move

	Tasks        []Task
	Replacements []Replacement
	Nacks        []Nack

	// Endings is all that the queues with a History say in the end about messages that have left.
	Endings []Ending

	// Drained says that in the end messages were received from every queue and deleted until none
	// came any more, for longer than any of them could have been hidden, and after the last move
	// task had ended. End is when that was over, with the last receive that found nothing; it
	// matters to queues that have a Retention.
	Drained bool
	End     time.Duration
}

// A Queue is what the rules have to know about a queue, all the time that the history covers.
type Queue struct {
	FIFO        bool
	DeadLetter  string // name of its dead-letter queue; empty when it has none
	MaxReceives int    // maxReceiveCount

	// Retention is the MessageRetentionPeriod; zero for one that no message can reach.
	Retention time.Duration

	// History says that the queue keeps the outcome of each message that leaves it.
	History bool
}

// A Span is when an operation was begun and when its answer was there, or was given up. An
// operation that was retried spans all attempts, except that a delivery spans only the attempt that
// was answered.
type Span struct{ Call, Return time.Duration }

// An Outcome is what the client knows about an operation.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = iota // no answer: it may have happened, and may still
	Done
	Refused // it had no effect
)

// A Send is one entry of one send. Bodies tell messages apart, so those of different sends differ
// unless one repeats the other, to the same queue, after an unknown outcome.
type Send struct {
	Span
	Queue    string
	Outcome  Outcome
	Attempts int // requests that were made, each of which may have stored the message; at least 1
	Batch    int // of which it is an entry, or zero
	Body     string
	Delay    time.Duration // of the message, its own or that of its queue

	MessageID string // when Done

	// For FIFO queues. Sends with the same deduplication ID also have the same body.
	Group, Dedup string
	Sequence     string // when Done
}

// A Delivery is one message of one answered receive.
type Delivery struct {
	Span
	Queue                   string
	Receive                 int // whose answer it was part of; zero for one that had no other part
	Body, MessageID, Handle string
	Count                   int           // ApproximateReceiveCount
	Sent, FirstReceive      int64         // SentTimestamp and ApproximateFirstReceiveTimestamp
	Visibility              time.Duration // timeout of the receive

	Group, Dedup, Sequence string // of FIFO queues
}

// A Change is a change of the visibility timeout. One that took several attempts counts twice when
// it is Done, once more as Unknown: an attempt that was given up may still be carried out after the
// others.
type Change struct {
	Span
	Outcome    Outcome
	Handle     string
	Visibility time.Duration
}

// end is when the change has surely happened if it does.
func (c *Change) end() time.Duration {
	if c.Outcome == Unknown {
		return math.MaxInt64
	}
	return c.Return
}

// A Delete is one entry of one delete.
type Delete struct {
	Span
	Outcome Outcome
	Handle  string
}

// A Move is the start of a move task, which turns messages of its source into new ones of its
// destination at any time from its call on.
type Move struct {
	Span
	Outcome Outcome
	// names; without a destination each message goes back to where it came from
	Source, Destination string
}

// Work is what a task does with the messages that it finds.
type Work string

// The work. A move makes new messages, and parking keeps their IDs. What a replay would send has
// bodies that were sent before, so it needs a rule of its own for what may be there twice.
const (
	MoveWork   Work = "move"
	ParkWork   Work = "park"
	DeleteWork Work = "delete"
)

// A Task is a task that takes messages out of its source at any time from its call on: those whose
// bodies contain Selects.
type Task struct {
	Span
	Outcome             Outcome
	ID                  string // when Done
	Do                  Work
	Source, Destination string // names; a delete has no destination
	Selects             string // empty for every body
	Confirm             int    // of a delete: how many messages it may delete

	// Ended says that the task is over, and Done how many messages it said then that it took.
	Ended bool
	Done  int
}

// A Replacement sends another body in the place of a message.
type Replacement struct {
	Span
	Outcome            Outcome
	Queue, Destination string
	MessageID, Body    string // of the message that is replaced
	Gives              string // the other body, which no one else sends
	NewID              string // when Done
}

// A Verdict is what a consumer says of a message that it gives back.
type Verdict string

// The verdicts. A release takes the receive back, and poison is dead at once.
const (
	Retry   Verdict = "retry"
	Release Verdict = "release"
	Poison  Verdict = "poison"
)

// A Nack gives a delivery back, in one attempt.
type Nack struct {
	Span
	Outcome Outcome
	Handle  string
	Verdict Verdict
	Delay   time.Duration
	Text    string // the reason
}

// An Ending is one outcome in the history of a queue.
type Ending struct {
	Queue, MessageID string
	How              string   // as the server calls it
	Said             []string // the reasons in its story
}
