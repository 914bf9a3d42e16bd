package audit

import (
	"math"
	"time"
)

// A History is what the clients of one queue did and saw. The operations of each kind may be in any
// order.
type History struct {
	Sends      []Send
	Deliveries []Delivery
	Changes    []Change
	Deletes    []Delete

	// Drained says that in the end messages were received and deleted until none came any more, for longer
	// than any of them could have been hidden.
	Drained bool
}

// A Span is when an operation was begun and when its answer was there, or was given up. An operation that
// was retried spans all attempts, except that a delivery spans only the attempt that was answered.
type Span struct{ Call, Return time.Duration }

// An Outcome is what the client knows about an operation.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = iota // no answer: it may have happened, and may still
	Done
	Refused // it had no effect
)

// A Send is one entry of one send. Bodies tell messages apart, so those of different sends differ unless
// one repeats the other after an unknown outcome.
type Send struct {
	Span
	Outcome   Outcome
	Attempts  int // requests that were made, each of which may have stored the message; at least 1
	Body      string
	MessageID string // when Done
}

// A Delivery is one message of one answered receive.
type Delivery struct {
	Span
	Body, MessageID, Handle string
	Count                   int           // ApproximateReceiveCount
	Sent, FirstReceive      int64         // SentTimestamp and ApproximateFirstReceiveTimestamp
	Visibility              time.Duration // timeout of the receive
}

// A Change is a change of the visibility timeout. One that took several attempts counts twice when it is
// Done, once more as Unknown: an attempt that was given up may still be carried out after the others.
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
