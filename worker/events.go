package worker

import (
	"reflect"
	"time"

	"tenaq/claims"
)

// Events are called for what happens to messages. Any of them may be nil. They are called from many
// goroutines and must return quickly.
type Events struct {
	// Received: a message is in the worker's hands. Of one whose body is kept beside the queue the body is the
	// pointer until it is fetched, here and in other events, and there is no key before if Config.Key has to
	// tell it.
	Received func(m *Message)

	// Claimed: the ledger was asked for the claim of the message. The error is nil when it gave it, a
	// *claims.Busy, *claims.Done, *claims.UsedUp or *claims.NeedsPerson when it did not, and any other when it
	// could not say. Without a ledger it is never called.
	Claimed func(m *Message, err error)

	// Started: a handler begins, with a claim if there is a ledger.
	Started func(m *Message)

	// Done: the work is recorded as completed; the message is deleted next.
	Done func(m *Message, took time.Duration)

	// Failed: an attempt has failed. The message comes back after a while, or is dead-lettered: at once when
	// IsPoison is true of the error, which it also is where nobody can tell what work the message belongs to.
	Failed func(m *Message, err error, took time.Duration)

	// Deferred: the message was given back without an attempt being counted, because of the handler
	// (Later, Unavailable), because nobody could say who has the claim, because its body could not be fetched,
	// or because the worker stops.
	Deferred func(m *Message, after time.Duration, reason string)

	// Busy: another handler has the claim. The message was given back until that one's lease is over, or
	// until that one completes the work if it runs in this Worker.
	Busy func(m *Message, busy *claims.Busy)

	// Duplicate: the work was completed before. The message is deleted.
	Duplicate func(m *Message, done *claims.Done)

	// DeadLettered: the message is in the dead-letter queue, where its id is now deadID.
	DeadLettered func(m *Message, reason, deadID string)

	// Lost: the lease or the claim was lost. Nothing more is done to the message.
	Lost func(m *Message, err error)

	// Abandoned: the context of a handler ended, and it has not returned. Its lease and its claim are not
	// renewed any more, and its place is not free until it returns.
	Abandoned func(m *Message, cause error)

	// Beat: the leases of so many messages were renewed with one request, or err says why not.
	Beat func(messages int, err error)

	// QueueError: the queue could not be used, for the attempt-th time in a row. The worker goes on trying.
	QueueError func(operation string, attempt int, err error)
}

// setDefaults makes every event safe to call.
func (e *Events) setDefaults() {
	setDefault(&e.Received, func(*Message) {})
	setDefault(&e.Claimed, func(*Message, error) {})
	setDefault(&e.Started, func(*Message) {})
	setDefault(&e.Done, func(*Message, time.Duration) {})
	setDefault(&e.Failed, func(*Message, error, time.Duration) {})
	setDefault(&e.Deferred, func(*Message, time.Duration, string) {})
	setDefault(&e.Busy, func(*Message, *claims.Busy) {})
	setDefault(&e.Duplicate, func(*Message, *claims.Done) {})
	setDefault(&e.DeadLettered, func(*Message, string, string) {})
	setDefault(&e.Lost, func(*Message, error) {})
	setDefault(&e.Abandoned, func(*Message, error) {})
	setDefault(&e.Beat, func(int, error) {})
	setDefault(&e.QueueError, func(string, int, error) {})
}

// setDefault sets *f, which is a func, unless it is set.
func setDefault[F any](f *F, otherwise F) {
	if reflect.ValueOf(*f).IsNil() {
		*f = otherwise
	}
}
