// Package invariant states what must be true, and stops the program where it is not.
//
// A broken invariant is a bug, never a refusal and never a fault of the disk: nothing that a client
// sends or that storage does may reach Fail. After a bug, the next write could destroy anything. So
// Fail panics, and no code recovers from it.
//
// The checks are always on, so a condition costs at most a comparison and allocates nothing.
// Package engine/verify checks what needs a walk through the rows.
package invariant

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// A Violation is the value a broken invariant panics with.
type Violation struct {
	What string // the sentence given to Fail, formatted
}

// Error tells the operator what to do. The runtime prints it above the stack when the panic ends
// the program.
func (v *Violation) Error() string {
	return "invariant broken: " + v.What + "\n" +
		"This is a bug in tenaq, not in your data or your client. It stopped before writing more.\n" +
		"Keep the data directory as it is, take a copy before starting again, and report this message\n" +
		"with the stack below it."
}

// Fail panics with a *Violation. Call it behind a comparison:
//
//	if used > limit {
//		invariant.Fail("window %s uses %d bytes of %d", name, used, limit)
//	}
//
// The arguments are formatted by fmt. They are numbers, booleans, strings or byte slices, or of a
// type made of these. To show any other would move it to the heap even while all is well, so it
// appears as its type.
func Fail(format string, args ...any) {
	if false {
		_ = fmt.Sprintf(format, args...) // makes go vet check the calls of Fail
	}
	fail(format, args)
}

// fail copies the arguments before it passes them to fmt. Whatever fmt sees escapes to the heap.
// With the copies, the compiler may keep the caller's arguments on the stack.
//
//go:noinline
func fail(format string, args []any) {
	copies := make([]any, len(args))
	for i, arg := range args {
		copies[i] = copied(arg)
	}
	panic(&Violation{What: fmt.Sprintf(format, copies...)})
}

// copied returns a value that prints like arg and shares no memory with it.
func copied(arg any) any {
	v := reflect.ValueOf(arg)
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Uintptr:
		return v.Uint()
	case reflect.Float32, reflect.Float64:
		return v.Float()
	case reflect.String:
		return strings.Clone(v.String())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return bytes.Clone(v.Bytes())
		}
	case reflect.Invalid:
		return nil
	}
	return v.Type().String()
}
