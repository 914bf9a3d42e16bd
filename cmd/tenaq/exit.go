package main

import (
	"errors"
	"fmt"

	"tenaq/internal/server"
)

// The exit codes of the program. Scripts depend on them: a code keeps its meaning for ever.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2 // the command line, the environment or the configuration file is wrong
	exitNotFound  = 3
	exitRefused   = 4 // the request is fine, the present state forbids it
	exitPartly    = 5 // some of it was done
	exitDamaged   = 6 // the storage lacks or contradicts what was acknowledged
	exitNoStorage = 7 // the storage failed or is full
	exitLeft      = 8 // all that could be done is done, and messages are left that cannot be received yet
)

// A codedError is an error that knows its exit code.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func codedf(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}

func usagef(format string, args ...any) error { return codedf(exitUsage, format, args...) }

// exitCode is the only place where an error becomes a status of the process.
func exitCode(err error) int {
	var coded *codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, server.ErrConfig):
		return exitUsage
	case errors.Is(err, server.ErrInUse):
		return exitRefused
	case errors.Is(err, server.ErrDamaged):
		return exitDamaged
	case errors.Is(err, server.ErrStorage):
		return exitNoStorage
	}
	return exitFailed
}
