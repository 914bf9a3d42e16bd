// Package refusal turns an error from anywhere below the API into an error of the SQS catalogue.
// SQS, /v1 and CloudWatch answer with it, each in its own form.
//
// The text of an unexpected error is for the log and never reaches a client. [ERR-1]
package refusal

import (
	"errors"
	"net/http"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/wire"
	"tenaq/internal/broker"
	"tenaq/internal/cluster/forward"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
)

// Of returns the error that a client is shown for err. Its code is InternalFailure when err is not
// a refusal.
func Of(err error) *sqswire.Error {
	var refused *engine.Error
	var denied *auth.Error
	var known *sqswire.Error
	switch {
	case errors.As(err, &refused):
		return &sqswire.Error{Code: sqswire.ErrorCode(refused.Code), Message: refused.Message}
	case errors.As(err, &denied):
		return &sqswire.Error{Code: sqswire.ErrorCode(denied.Code), Message: denied.Message}
	case errors.As(err, &known):
		return known
	case errors.Is(err, broker.ErrThrottled), errors.Is(err, intake.ErrBusy):
		return sqswire.Errorf(sqswire.RequestThrottled, "Request is throttled.")
	case errors.Is(err, broker.ErrStopped), errors.Is(err, broker.ErrNoSpace),
		errors.Is(err, broker.ErrNotLeader):
		return sqswire.Errorf(sqswire.ServiceUnavailable, "%s", err.Error())
	case errors.Is(err, broker.ErrOutcomeUnknown):
		return sqswire.Errorf(sqswire.InternalError, "%s", err.Error())
	// what else these say is for the log: addresses of nodes
	case errors.Is(err, forward.ErrNoLeader):
		return sqswire.Errorf(sqswire.ServiceUnavailable, "%s", forward.ErrNoLeader.Error())
	case errors.Is(err, forward.ErrOutcomeUnknown):
		return sqswire.Errorf(sqswire.InternalError, "%s", forward.ErrOutcomeUnknown.Error())
	case errors.Is(err, wire.ErrHeaders):
		return sqswire.Errorf(sqswire.MalformedInput,
			"The request line and the headers are larger than 64 KiB.")
	case errors.Is(err, intake.ErrTooLarge):
		return sqswire.Errorf(sqswire.MalformedInput, "The request body is larger than 8 MiB.")
	case errors.Is(err, intake.ErrCutOff):
		return sqswire.Errorf(sqswire.MalformedInput, "The request body ended early.")
	}
	return sqswire.Errorf(sqswire.InternalFailure,
		"The request failed inside the server. The log of the server has the reason.")
}

// Status returns the status of the response to err, for an error that Of turned into refused.
func Status(err error, refused *sqswire.Error) int {
	switch {
	case errors.Is(err, intake.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, wire.ErrHeaders):
		return http.StatusRequestHeaderFieldsTooLarge
	}
	return refused.Info().Status
}

// Mark notes in the headers of a response to err that the request was not carried out, if that is
// certain: the node that has forwarded it then asks another one.
func Mark(header http.Header, err error) {
	if errors.Is(err, broker.ErrNotLeader) || errors.Is(err, broker.ErrStopped) {
		header.Set(forward.NotTaken, "1")
	}
}
