package wire

import (
	"fmt"
	"strconv"
	"time"
)

// A Value is what a request holds in some place, in one of the protocols. Its methods return an
// error when the value is of another type.
type Value interface {
	// Member returns a member of a structure, nil if it is absent or null.
	Member(name string) (Value, error)
	// List returns at most limit+1 elements.
	List(limit int) ([]Value, error)
	Text() (string, error)
	Integer() (int64, error)
	Number() (float64, error)
	Boolean() (bool, error)
	Time() (time.Time, error)
}

// A Tree is what an answer holds, before it is in one of the protocols: a string, an int64, a
// float64, a bool, a time.Time, a List or an Object.
type Tree any

// The composite trees.
type (
	List   []Tree
	Object []Member // in the order in which they are written

	// A Member is a named part of an Object.
	Member struct {
		Name string
		Tree
	}
)

// An Error refuses a request that cannot be read, or that no service here can mean.
type Error struct {
	Code    string // one that every AWS service has
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Malformed refuses a body that is not well-formed, with the code MalformedInput.
func Malformed(format string, args ...any) *Error {
	return &Error{"MalformedInput", fmt.Sprintf(format, args...)}
}

// Quote returns a text of the caller, shortened, for a sentence.
func Quote(s string) string { return strconv.Quote(Cut(s)) }
