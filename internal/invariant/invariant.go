// Package invariant states what must be true, and stops the program where it is not.
//
// A broken invariant is a bug, never a refusal and never a fault of the disk: nothing that a client
// sends and nothing that storage does may reach Fail. After a bug nobody knows what the next write would
// destroy, so the answer is a panic that no one is meant to recover from.
//
// Check is for conditions that cost a comparison; it is always on, and free of allocations as long as
// the condition holds. Costly is for those that walk a data structure; they run only in builds with the
// tag invariants. The package leaves it to its callers to decide which is which.
package invariant

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// A Violation is the value a broken invariant panics with.
type Violation struct {
	What string // the sentence given to Check, Costly or Fail, formatted
}

// Error is printed by the runtime above the stack when the panic ends the program, so it is the last
// thing an operator reads and says what to do next.
func (v *Violation) Error() string {
	return "invariant broken: " + v.What + "\n" +
		"This is a bug in tenaq, not in your data or your client. It stopped before writing more.\n" +
		"Keep the data directory as it is, take a copy before starting again, and report this message\n" +
		"with the stack below it."
}

// Check panics with a *Violation unless ok. The arguments are formatted as by fmt, and only then; they
// are numbers, booleans, strings or byte slices, or have a type made of one of these, because showing
// any other would move it to the heap also on the path where all is well. Others appear as their type.
func Check(ok bool, format string, args ...any) {
	if false {
		_ = fmt.Sprintf(format, args...) // makes go vet check the calls of Check
	}
	if !ok {
		fail(format, args)
	}
}

// Costly is Check for a condition that is dear to compute. Without the build tag invariants neither the
// condition nor, where Costly is inlined, the closure exists.
func Costly(holds func() bool, format string, args ...any) {
	if false {
		_ = fmt.Sprintf(format, args...) // makes go vet check the calls of Costly
	}
	if Enabled && !holds() {
		fail(format, args)
	}
}

// Fail is for the place that cannot be reached, and for hot code whose arguments are dear to compute:
//
//	if used > limit {
//		invariant.Fail("window %s uses %d bytes of %d", w.describe(), used, limit)
//	}
func Fail(format string, args ...any) {
	if false {
		_ = fmt.Sprintf(format, args...) // makes go vet check the calls of Fail
	}
	fail(format, args)
}

// fail takes copies before it hands the arguments to fmt. Whatever fmt sees escapes; because the
// copies do so in their place, the compiler may keep the caller's arguments on the stack.
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
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
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
