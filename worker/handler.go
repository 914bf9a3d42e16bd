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
// progress, and ErrDraining when the worker stops. A handler should then return soon.
//
// Its result decides about the message:
//
//	nil               the work is recorded as completed, and the message deleted
//	Later(d, reason)  the message is given back for d, and no attempt is counted
//	Unavailable(err)  the worker calls the handler again later, and no attempt is counted
//	Poison(err)       the message goes to the dead-letter queue at once
//	any other error   an attempt has failed: the message is given back for a pause, or dead-lettered
//	                  when its attempts are used up
//
// A panic is a failed attempt.
type Handler interface {
	Handle(ctx context.Context, m *Message) error
}

// A HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, m *Message) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, m *Message) error { return f(ctx, m) }

// A BatchHandler does the work of up to Config.BatchSize messages at once. If a Handler has this
// method, the worker calls it instead of Handle. It returns nil if all of the work is done,
// Failures if some of it is not, and another error if none of it is. Its context ends when any of
// the messages is lost.
//
// On a FIFO queue, the messages of a batch are of one group, in order. If one comes back, those
// behind it do too, whatever their results, and are delivered again under the same effect keys. So
// the work of a group is recorded in order.
type BatchHandler interface {
	Handler
	HandleBatch(ctx context.Context, batch []*Message) error
}

// Failures are the errors of the messages of a batch that were not handled, by message id. Each
// error has the same effect as that of a Handler.
type Failures map[string]error

// Error says how many there are, and one of them.
func (f Failures) Error() string {
	for id, err := range f {
		return fmt.Sprintf("%d messages of the batch were not handled, %s among them: %v", len(f),
			id, err)
	}
	return "no message of the batch failed"
}

// A Middleware runs around each call of the handler, and calls next to run it. The messages are
// those of the call: one, or a batch. Next returns the result of the handler, and a panic as an
// error. The result of the Middleware counts. After Unavailable, another call handles the same
// messages.
type Middleware func(
	ctx context.Context, messages []*Message, next func(context.Context) error,
) error

// JSON returns a handler for bodies that are JSON for a T. Any other body is poison, because
// further attempts would fail too.
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
	// ErrLost: the lease or the claim of the message has ended, or may end before it can be
	// renewed. Another worker may be handling the message.
	ErrLost = errors.New("the lease of the message was lost")

	// ErrTimeout: the handler has run for Config.Timeout.
	ErrTimeout = errors.New("the handler exceeded its time limit")

	// ErrStalled: Message.Progress has not been called for Config.Stall.
	ErrStalled = errors.New("the handler made no progress within its time limit")

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
// without counting an attempt, because something that it needs is not there yet.
func Later(after time.Duration, reason string) error { return &laterError{after, reason} }

func (e *laterError) Error() string {
	return fmt.Sprintf("to be tried again in %v: %s", e.after, e.reason)
}

// An unavailableError is made by Unavailable.
type unavailableError struct{ err error }

// Unavailable returns an error with which a handler says that it can do no work at the moment, for
// any message: a program is missing, the disk is full. The worker keeps the message and its claim,
// and calls the handler again after pauses of a second up to a minute. So the message uses up no
// attempt and no receive, and the worker receives no more than it can hold. When the worker stops,
// it gives the message back.
//
// The worker keeps a batch if all of its messages are unavailable. Otherwise it gives the
// unavailable ones back.
func Unavailable(err error) error { return &unavailableError{err} }

func (e *unavailableError) Error() string { return e.err.Error() }
func (e *unavailableError) Unwrap() error { return e.err }

// A poisonError is made by Poison.
type poisonError struct{ err error }

// Poison returns an error that says that further attempts would fail too.
func Poison(err error) error { return &poisonError{err} }

// IsPoison reports whether an error was made by Poison, or wraps one that was.
func IsPoison(err error) bool {
	_, poison := errors.AsType[*poisonError](err)
	return poison
}

func (e *poisonError) Error() string { return e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }
