package cli

import (
	"errors"
	"fmt"

	"tenaq/internal/server"
)

// The exit codes of the program. Scripts depend on them: a code keeps its meaning forever.
const (
	ExitOK        = 0
	ExitFailed    = 1
	ExitUsage     = 2 // the command line, the environment or the configuration file is wrong
	ExitNotFound  = 3
	ExitRefused   = 4 // the request is fine, the present state forbids it
	ExitPartly    = 5 // some of it was done
	ExitDamaged   = 6 // the storage lacks or contradicts what was acknowledged
	exitNoStorage = 7 // the storage failed or is full
	// all that could be done is done, and messages are left that cannot be received yet
	ExitLeft = 8
)

// A CodedError is an error with an exit code. It has the words of one error and may have the chain
// of another.
type CodedError struct {
	Code  int
	Err   error
	cause error
}

func (e *CodedError) Error() string { return e.Err.Error() }

func (e *CodedError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.cause}
}

func Codedf(code int, format string, args ...any) error {
	return &CodedError{Code: code, Err: fmt.Errorf(format, args...)}
}

// explainedf is Codedf with the chain of cause, so that callers can still ask what went wrong.
func explainedf(cause error, code int, format string, args ...any) error {
	return &CodedError{code, fmt.Errorf(format, args...), cause}
}

// Partly is the error of a command that did something to some of several things: nil if none
// failed. verb is what was done: deleted.
func Partly(done, failed int, verb string) error {
	switch {
	case failed == 0:
		return nil
	case done == 0:
		return Codedf(ExitFailed, "none of %d was %s; see above", failed, verb)
	}
	return Codedf(ExitPartly, "%d %s, %d not; see above", done, verb, failed)
}

func Usagef(format string, args ...any) error { return Codedf(ExitUsage, format, args...) }

// ExitCode is the only place where an error becomes a status of the process.
func ExitCode(err error) int {
	var coded *CodedError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.Code
	case errors.Is(err, server.ErrConfig):
		return ExitUsage
	case errors.Is(err, server.ErrInUse):
		return ExitRefused
	case errors.Is(err, server.ErrDamaged):
		return ExitDamaged
	case errors.Is(err, server.ErrStorage):
		return exitNoStorage
	}
	return ExitFailed
}
