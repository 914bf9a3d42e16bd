package sigv4

import (
	"fmt"
	"net/http"
	"strings"
)

// An Error is a refusal. All of it is meant for the client.
type Error struct {
	Code    string // in the Query protocol of AWS
	Status  int    // of the HTTP response
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// The codes of this package.
const (
	ExpiredToken               = "ExpiredToken"
	IncompleteSignature        = "IncompleteSignature"
	InvalidClientTokenID       = "InvalidClientTokenId"
	MissingAuthenticationToken = "MissingAuthenticationToken"
	RequestExpired             = "RequestExpired"
	SignatureDoesNotMatch      = "SignatureDoesNotMatch"
)

// echoMax is how many bytes of what a client sent an error shows it, for each place in the text.
const echoMax = 4 << 10

func incomplete(format string, args ...any) *Error {
	return &Error{IncompleteSignature, http.StatusBadRequest, text(format, args)}
}

func mismatch(format string, args ...any) *Error {
	return &Error{SignatureDoesNotMatch, http.StatusForbidden, text(format, args)}
}

func text(format string, args []any) string {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = cut(s)
		}
	}
	return fmt.Sprintf(format, args...)
}

// cut makes what a client sent fit for an answer.
func cut(s string) string {
	if len(s) > echoMax {
		s = s[:echoMax] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
