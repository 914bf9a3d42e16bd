package engine

import (
	"strings"

	"tenaq/internal/engine/row"
)

// setFIFO does nothing: the type of a queue is decided by its creation. [FIFO-2]
func setFIFO(_ *Engine, a *row.Attributes, value string) *Error {
	isFIFO, ok := parseBool(value)
	switch {
	case !ok:
		return errAttribute("FifoQueue")
	case isFIFO != a.FIFO:
		return refuse(CodeInvalidAttribute,
			"Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.")
	}
	return nil
}

func getFIFO(_ *Engine, q *queue) (string, bool) { return "true", q.fifo() }

// parseBool reads a boolean: any case comes in, lower case goes out. [ATTR-7]
func parseBool(value string) (b, ok bool) {
	switch strings.ToLower(value) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// exact is for values that have one spelling.
func exact(value string) string { return value }

// choice is an attribute of FIFO queues that has one of two values, the first of which is the
// default. Normal makes one spelling of several. [FIFO-5]
func choice(
	name, first, second string, normal func(string) string, field func(*row.Attributes) *bool,
) attribute {
	return attribute{
		name: name,
		fifo: true,
		set: func(_ *Engine, a *row.Attributes, value string) *Error {
			if value = normal(value); value != first && value != second {
				return errAttribute(name)
			}
			*field(a) = value == second
			return nil
		},
		get: func(_ *Engine, q *queue) (string, bool) {
			if *field(&q.row.Attributes) {
				return second, true
			}
			return first, true
		},
	}
}
