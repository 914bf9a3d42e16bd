// Package intake bounds what requests take from the server. SQS and /v1 share one Intake.
//
// What it guarantees:
//
//   - The number of requests in progress is bounded; further ones get ErrBusy. [WIRE-27]
//   - Bodies and answers that are in memory at the same time stay within a budget of bytes, and no
//     client gets more than its share. [WIRE-29, WIRE-30]
//   - A client that sends or reads too slowly is cut off. [WIRE-22, WIRE-31]
//
// It also counts how requests end. It leaves authentication to auth, which names the owners of a
// body, and the form of an error response to its callers.
package intake

import (
	"cmp"
	"errors"
	"sync/atomic"
)

// Budgets, in bytes. A part of each is for small requests and answers. [WIRE-29, WIRE-30]
const (
	BodyBudget  = 96 << 20 // of bodies, with what is made of them
	BodyReserve = 24 << 20

	AnswerBudget  = 96 << 20 // of answers with messages
	AnswerReserve = 16 << 20

	// AnswerCost is how often the bytes of a message are in memory while it is being answered: as
	// they were stored, and encoded.
	AnswerCost = 2

	// AnswerMost is what the largest answer holds: ten messages of 1 MiB.
	AnswerMost = 10 * (1 << 20) * AnswerCost
)

// requestMax is as large as the line in front of the writer: requests that wait there must not be
// refused here in another order. [WIRE-27]
const requestMax = 20_000

var (
	// ErrBusy refuses a request because too many are in progress.
	ErrBusy = errors.New("too many requests are in progress")

	// ErrTooLarge refuses a body that is larger than BodyMax.
	ErrTooLarge = errors.New("the body is larger than 8 MiB")

	// ErrCutOff says that a body ended early, or arrived too slowly.
	ErrCutOff = errors.New("the body ended early")
)

// Config configures an Intake.
type Config struct {
	// RequestMax is how many requests may be in progress, from when they have been read until they
	// are answered; 20000 when zero.
	RequestMax int

	// Polls counts the requests that only wait for messages. They do not count against RequestMax.
	Polls func() int64
}

// An Intake bounds the requests and the memory of one server.
type Intake struct {
	Bodies  *Budget // of requests
	Answers *Budget // with messages
	Ends    Ends

	most    int64
	polls   func() int64
	working atomic.Int64 // polls included
}

// New returns an intake.
func New(cfg Config) *Intake {
	return &Intake{
		Bodies:  newBudget(BodyBudget, BodyReserve, Small*bodyCost),
		Answers: newBudget(AnswerBudget, AnswerReserve, Small*AnswerCost),
		most:    int64(cmp.Or(cfg.RequestMax, requestMax)),
		polls:   cfg.Polls,
	}
}

// Begin takes up a request, or returns ErrBusy. End must follow exactly once. [WIRE-27]
func (in *Intake) Begin() error {
	if n := in.working.Add(1); n > in.most && n-in.polls() > in.most {
		in.End()
		return ErrBusy
	}
	return nil
}

// End says that a request has been answered.
func (in *Intake) End() { in.working.Add(-1) }

// Working returns how many requests have begun and not ended, polls included.
func (in *Intake) Working() int64 { return in.working.Load() }
