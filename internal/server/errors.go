package server

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"tenaq/internal/kv/pebblekv"
)

// Why a server could not start. Errors of New match exactly one of them with errors.Is, and their
// text is one sentence that ends with what to do.
var (
	// ErrConfig: the Config contradicts itself or asks for something unsafe.
	ErrConfig = errors.New("configuration refused")

	// ErrInUse: another process has the data directory or the address.
	ErrInUse = errors.New("in use")

	// ErrDamaged: the store is damaged, lacks acknowledged commits or is of a newer format.
	ErrDamaged = errors.New("storage damaged")

	// ErrStorage: the disk failed.
	ErrStorage = errors.New("storage failed")
)

// An Error is why a server could not start: one of the four kinds, and a sentence.
type Error struct {
	Kind error
	Err  error
}

func (e *Error) Error() string   { return e.Err.Error() }
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

func configError(format string, args ...any) error {
	return &Error{ErrConfig, fmt.Errorf(format, args...)}
}

// storeError classifies the error of opening the store in a data directory.
func storeError(dir string, err error) error {
	switch {
	case errors.Is(err, pebblekv.ErrLocked):
		return &Error{ErrInUse, err}
	case errors.Is(err, fs.ErrPermission):
		return permissionError(dir, err)
	case errors.Is(err, pebblekv.ErrDamaged), errors.Is(err, pebblekv.ErrNewer):
		return &Error{ErrDamaged, err}
	}
	return &Error{ErrStorage, err}
}

func listenError(flag, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &Error{ErrInUse, fmt.Errorf("address %s is in use: stop the other server or choose another address with --%s", address, flag)}
	}
	return configError("cannot listen on %s: %v: choose another address with --%s", address, err,
		flag)
}
