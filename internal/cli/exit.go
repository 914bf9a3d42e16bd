package cli

import (
	"errors"
	"fmt"

	"tenaq/internal/server"
)

// The exit codes of the program. Scripts depend on them: a code keeps its meaning for ever.
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

// A CodedError is an error that knows its exit code.
type CodedError struct {
	Code int
	Err  error
}

func (e *CodedError) Error() string { return e.Err.Error() }

func (e *CodedError) Unwrap() error { return e.Err }

func Codedf(code int, format string, args ...any) error {
	return &CodedError{code, fmt.Errorf(format, args...)}
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
