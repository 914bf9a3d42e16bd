package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Handler does the work of a message. Its context ends with the cause ErrLost when the lease or
// the claim is lost, ErrTimeout after Config.Timeout, ErrStalled after Config.Stall without
// progress, and ErrDraining when the worker has to stop: a handler should then return soon.
//
// What it returns decides what becomes of the message:
//
//	nil               the work is recorded as completed, and the message deleted
//	Later(d, reason)  it is given back for d, and no attempt is counted
//	Unavailable(err)  the worker keeps it and calls the handler again later, and no attempt is counted
//	Poison(err)       it goes to the dead-letter queue at once
//	any other error   an attempt has failed: it is given back for a while, or dead-lettered when the
//	                  attempts are used up
//
// A panic is a failed attempt.
type Handler interface {
	Handle(ctx context.Context, m *Message) error
}

// A HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, m *Message) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, m *Message) error { return f(ctx, m) }

// A BatchHandler does the work of up to Config.BatchSize messages at once. It is used instead of
// Handle when a Handler has this method. It returns nil when all of the work is done, Failures when
// some of it is not, and another error when none of it is. Its context ends when any of the
// messages is lost.
//
// The messages of a batch of a FIFO queue are of one group, in order. When one of them comes back,
// those behind it do too, whatever was said about them, and are given out again under the same
// effect keys: the work of a group is recorded in its order.
type BatchHandler interface {
	Handler
	HandleBatch(ctx context.Context, batch []*Message) error
}

// Failures are the errors of the messages of a batch that were not handled, by message id. What
// each error decides is as with Handler.
type Failures map[string]error

// Error says how many there are, and one of them.
func (f Failures) Error() string {
	for id, err := range f {
		return fmt.Sprintf("%d messages of the batch were not handled, %s among them: %v", len(f),
			id, err)
	}
	return "no message of the batch failed"
}

// A Middleware runs around each call of the handler, and calls next for what is inside. The
// messages are those of the call: one, or those of a batch. What next returns is as with Handler
// and BatchHandler, and a panic of the handler is an error here. What the Middleware returns
// counts. After Unavailable the same messages are handled by another call.
type Middleware func(
	ctx context.Context, messages []*Message, next func(context.Context) error,
) error

// JSON returns a handler for bodies that are JSON and fit a T. A body that does not is poison: no
// further attempt would end otherwise.
func JSON[T any](handle func(ctx context.Context, v T, m *Message) error) Handler {
	return HandlerFunc(func(ctx context.Context, m *Message) error {
		var v T
		if err := json.Unmarshal([]byte(m.Body), &v); err != nil {
			return Poison(fmt.Errorf("the body is not a valid %T: %w", v, err))
		}
		return handle(ctx, v, m)
	})
}

// Causes with which the context of a handler ends.
var (
	// ErrLost: the lease of the message or its claim is over, or may be before it can be renewed.
	// Another worker may be at work.
	ErrLost = errors.New("the lease of the message was lost")

	// ErrTimeout: the handler has run for Config.Timeout.
	ErrTimeout = errors.New("the handler has run for as long as it may")

	// ErrStalled: Message.Progress has not been called for Config.Stall.
	ErrStalled = errors.New("the handler has made no progress for as long as it may")

	// ErrDraining: the worker stops, and Config.Drain is over.
	ErrDraining = errors.New("the worker is stopping")
)

var errNoKey = errors.New("the message has no key")

// A laterError is made by Later.
type laterError struct {
	after  time.Duration
	reason string
}

// Later returns an error with which a handler gives its message back for a time, at most 12 hours,
// without an attempt being counted: something that it needs is not there yet.
func Later(after time.Duration, reason string) error { return &laterError{after, reason} }

func (e *laterError) Error() string {
	return fmt.Sprintf("to be tried again in %v: %s", e.after, e.reason)
}

// An unavailableError is made by Unavailable.
type unavailableError struct{ err error }

// Unavailable returns an error with which a handler says that it can do no work at the moment,
// whatever the message: a program is missing, the disk is full. The worker keeps the message and
// its claim, and calls the handler again after pauses of a second up to a minute. So neither an
// attempt nor a receive is used up, and no more messages are received than can be held. When the
// worker stops, the message is given back.
//
// Of a batch, the worker keeps the messages if the handler can do none of them. Otherwise it gives
// those back that were unavailable.
func Unavailable(err error) error { return &unavailableError{err} }

func (e *unavailableError) Error() string { return e.err.Error() }
func (e *unavailableError) Unwrap() error { return e.err }

// A poisonError is made by Poison.
type poisonError struct{ err error }

// Poison returns an error that says that no further attempt would end otherwise.
func Poison(err error) error { return &poisonError{err} }

// IsPoison reports whether an error was made by Poison, or wraps one that was.
func IsPoison(err error) bool {
	var poison *poisonError
	return errors.As(err, &poison)
}

func (e *poisonError) Error() string { return e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }
