package v1

import (
	"errors"
	"net/http"
	"strings"

	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
)

// An Error is a refusal as /v1 shows it.
type Error struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

var (
	errNotFound = &Error{http.StatusNotFound, "NotFound",
		"Unknown path. The paths are /v1/queues, /v1/queues/NAME/messages, /v1/queues/NAME/fate, /v1/alarms and /v1/backup, and /v1/cluster on a node of a cluster."}
	errMethod = &Error{http.StatusMethodNotAllowed, "MethodNotAllowed",
		"This path only reads: use GET."}
	errPost = &Error{http.StatusMethodNotAllowed, "MethodNotAllowed",
		"This path changes something: use POST."}
)

func errValue(name, value, want string) error {
	return sqswire.Errorf(sqswire.InvalidParameterValue,
		"Value %s for parameter %s is invalid. Reason: Must be %s.", value, name, want)
}

// asError turns any error into one of /v1: the code and the message of SQS, with the status that
// HTTP has for it.
func asError(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	e := refusal.Of(err)
	refused := &Error{refusal.Status(err, e),
		strings.TrimPrefix(string(e.Code), "AWS.SimpleQueueService."), e.Message}
	switch e.Code {
	case sqswire.NonExistentQueue:
		refused.status = http.StatusNotFound
	case sqswire.RequestThrottled:
		refused.status = http.StatusTooManyRequests
	}
	return refused
}
