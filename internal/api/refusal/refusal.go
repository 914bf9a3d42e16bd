// Package refusal turns an error from anywhere below the API into an error of the SQS catalogue.
// SQS and /v1 answer with it, each in its own form.
//
// The text of an unexpected error is for the log and never reaches a client. [ERR-1]
package refusal

import (
	"errors"

	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/broker"
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
	case errors.Is(err, intake.ErrTooLarge):
		return sqswire.Errorf(sqswire.MalformedInput, "The request body is larger than 8 MiB.")
	case errors.Is(err, intake.ErrCutOff):
		return sqswire.Errorf(sqswire.MalformedInput, "The request body ended early.")
	}
	return sqswire.Errorf(sqswire.InternalFailure,
		"The request failed inside the server. The log of the server has the reason.")
}
