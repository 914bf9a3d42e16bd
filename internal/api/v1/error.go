package v1

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
)

// An Error is a refusal of /v1.
type Error struct {
	status  int
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// A problem is an error as clients see it, as RFC 9457 has it. Code and Message are what answers
// had before they were problem documents; Detail is the same text as Message. [V1-4]
type problem struct {
	Type     string `json:"type" doc:"names the kind of error: urn:tenaq:error: and the code"`
	Title    string `json:"title" doc:"what the status means"`
	Status   int    `json:"status"`
	Detail   string `json:"detail" doc:"what happened, and what to do"`
	Instance string `json:"instance" doc:"the id of the request, as in x-amzn-RequestId"`
	Code     string `json:"code" doc:"the code that the SQS API has for the error, if it has one"`
	Message  string `json:"message" doc:"the same as detail"`

	Claim     *claimView `json:"claim,omitempty" doc:"what stands in the way of a claim"`
	RetryInMS int64      `json:"retryInMs,omitempty" doc:"until the lease of that claim ends"`
}

// problemType is the Content-Type of a problem.
const problemType = "application/problem+json"

func (e *Error) problem(requestID string) problem {
	return problem{
		Type: "urn:tenaq:error:" + e.Code, Title: http.StatusText(e.status), Status: e.status,
		Detail: e.Message, Instance: "urn:uuid:" + requestID, Code: e.Code, Message: e.Message,
	}
}

// errNotFound refuses a path that the handler does not serve.
var errNotFound = &Error{http.StatusNotFound, "NotFound",
	"Unknown path: GET /v1/openapi.json lists all paths, and GET /v1 the features of this server."}

// errMethod refuses a method for a path that takes others.
func errMethod(allow []string) error {
	return &Error{http.StatusMethodNotAllowed, "MethodNotAllowed",
		"This path does not take the method: use " + alternatives(allow) + "."}
}

// allowed is the header Allow of a path with some methods.
func allowed(methods []string) string {
	if i := slices.Index(methods, http.MethodGet); i >= 0 {
		methods = slices.Insert(slices.Clone(methods), i+1, http.MethodHead)
	}
	return strings.Join(methods, ", ")
}

func errValue(name, value, want string) error {
	return sqswire.Errorf(sqswire.InvalidParameterValue,
		"Value %s for parameter %s is invalid. Reason: Must be %s.", value, name, want)
}

// checkLine refuses a text for people that is more than a line, or that a terminal or a log would
// take for something else.
func checkLine(name, text string) error {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return nil
	}
	return sqswire.Errorf(sqswire.InvalidParameterValue,
		"The %s must be one line of text without control characters.", name)
}

// asError turns any error into one of /v1: the code and the message of SQS, with the status that
// HTTP has for it.
func asError(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if denied, ok := errors.AsType[*auth.Error](err); ok {
		return &Error{denied.Status, denied.Code, denied.Message}
	}
	e := refusal.Of(err)
	refused := &Error{refusal.Status(err, e),
		strings.TrimPrefix(string(e.Code), "AWS.SimpleQueueService."), e.Message}
	switch e.Code {
	case sqswire.NonExistentQueue:
		refused.status = http.StatusNotFound
	case sqswire.ErrorCode(engine.CodeConflict):
		refused.status = http.StatusConflict
	case sqswire.RequestThrottled:
		refused.status = http.StatusTooManyRequests
	}
	return refused
}
