// Package invalid collects what is wrong with a configuration, so that its user learns all of it at
// once.
package invalid

import (
	"errors"
	"fmt"
)

// Fields are the faults found so far.
type Fields []error

// Add adds a fault if there is one.
func (f *Fields) Add(is bool, format string, args ...any) {
	if is {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Err returns all faults as one error that begins with what, or nil.
func (f Fields) Err(what string) error {
	if len(f) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", what, errors.Join(f...))
}
