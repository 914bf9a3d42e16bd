package engine

import "strconv"

// A Code names a refusal as SQS's query protocol does; the wire derives everything else from it.
type Code string

// The closed list of codes with which the engine refuses.
const (
	CodeNoQueue              Code = "AWS.SimpleQueueService.NonExistentQueue"
	CodeQueueExists          Code = "QueueAlreadyExists"
	CodeDeletedRecently      Code = "AWS.SimpleQueueService.QueueDeletedRecently"
	CodePurgeInProgress      Code = "AWS.SimpleQueueService.PurgeQueueInProgress"
	CodeInvalidAttributeName Code = "InvalidAttributeName"
	CodeInvalidAttribute     Code = "InvalidAttributeValue"
	CodeInvalidParameter     Code = "InvalidParameterValue"
	CodeMissingParameter     Code = "MissingParameter"
	CodeInvalidContents      Code = "InvalidMessageContents"
	CodeInvalidHandle        Code = "ReceiptHandleIsInvalid"
	CodeOverLimit            Code = "OverLimit"
	CodeUnsupported          Code = "AWS.SimpleQueueService.UnsupportedOperation"
	CodeEmptyBatch           Code = "AWS.SimpleQueueService.EmptyBatchRequest"
	CodeTooManyEntries       Code = "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
	CodeInvalidEntryID       Code = "AWS.SimpleQueueService.InvalidBatchEntryId"
	CodeEntryIDsNotDistinct  Code = "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"
	CodeBatchTooLong         Code = "AWS.SimpleQueueService.BatchRequestTooLong"
	CodeNoResource           Code = "ResourceNotFoundException"
	CodeConflict             Code = "Conflict" // of /v1 only: something else has to end first
)

// An Error is a refusal: the engine says no, and has changed nothing.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func refuse(code Code, text string) *Error { return &Error{Code: code, Message: text} }

// invalid is the refusal of a parameter's value.
func invalid(text string) *Error { return refuse(CodeInvalidParameter, text) }

func errNoQueue() *Error { return refuse(CodeNoQueue, "The specified queue does not exist.") }

// errGone is the refusal to do something with a message that is no longer in the queue.
func errGone() *Error {
	return refuse(CodeNoResource, "The message is gone: it was deleted, moved or has expired.")
}

// errMissing is the refusal of a request without a parameter it needs. [ERR-7]
func errMissing(parameter string) *Error {
	return refuse(CodeMissingParameter, "The request must contain the parameter "+parameter+".")
}

// errValue is invalid in the form that most of these refusals have.
func errValue(value, parameter, reason string) *Error {
	return invalid("Value " + value + " for parameter " + parameter +
		" is invalid. Reason: " + reason)
}

func errNumber(value int64, parameter, reason string) *Error {
	return errValue(strconv.FormatInt(value, 10), parameter, reason)
}

// errAttribute is the refusal of a queue attribute's value. [ATTR-6, ATTR-8]
func errAttribute(name string) *Error {
	return refuse(CodeInvalidAttribute, "Invalid value for the parameter "+name+".")
}

func errUnknownAttribute(name string) *Error {
	return refuse(CodeInvalidAttributeName, "Unknown Attribute "+name+".")
}
