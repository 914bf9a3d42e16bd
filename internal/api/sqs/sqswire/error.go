package sqswire

import (
	"fmt"
	"maps"
	"slices"
)

// An ErrorCode names a kind of refusal by its legacy code: what the query protocol sends as <Code>,
// the header x-amzn-query-error and entries of batches carry, and clients compare. The JSON
// protocol has another name for the same kind, see ErrorInfo.
type ErrorCode string

// The codes that the API itself answers with. The others come from the engine and the door.
const (
	InternalError         ErrorCode = "InternalError"
	InternalFailure       ErrorCode = "InternalFailure"
	InvalidAction         ErrorCode = "InvalidAction"
	InvalidAddress        ErrorCode = "InvalidAddress"
	InvalidParameterValue ErrorCode = "InvalidParameterValue"
	MalformedInput        ErrorCode = "MalformedInput"
	MissingParameter      ErrorCode = "MissingParameter"
	NonExistentQueue      ErrorCode = "AWS.SimpleQueueService.NonExistentQueue"
	RequestThrottled      ErrorCode = "RequestThrottled"
	ServiceUnavailable    ErrorCode = "ServiceUnavailable"
)

// A Fault is the party that must change something before the request can succeed.
type Fault string

// The two parties, spelt as on the wire.
const (
	Sender   Fault = "Sender"
	Receiver Fault = "Receiver"
)

// An ErrorInfo is what the catalogue knows about an ErrorCode.
type ErrorInfo struct {
	Type   string // the name in JSON with its namespace, for the member __type
	Status int    // of the HTTP response, in both protocols
	Fault  Fault
}

func modelled(name string, status int) ErrorInfo {
	return ErrorInfo{"com.amazonaws.sqs#" + name, status, Sender}
}

func unmodelled(name string, status int) ErrorInfo {
	info := ErrorInfo{"com.amazon.coral.service#" + name, status, Sender}
	if status >= 500 {
		info.Fault = Receiver
	}
	return info
}

// catalogue is closed: a code that is not here must not reach a client. It has the errors of the
// SQS model, and below them those that every AWS service has.
var catalogue = map[ErrorCode]ErrorInfo{
	"AWS.SimpleQueueService.BatchEntryIdsNotDistinct":     modelled("BatchEntryIdsNotDistinct", 400),
	"AWS.SimpleQueueService.BatchRequestTooLong":          modelled("BatchRequestTooLong", 400),
	"AWS.SimpleQueueService.EmptyBatchRequest":            modelled("EmptyBatchRequest", 400),
	"AWS.SimpleQueueService.InvalidBatchEntryId":          modelled("InvalidBatchEntryId", 400),
	"AWS.SimpleQueueService.MessageNotInflight":           modelled("MessageNotInflight", 400),
	"AWS.SimpleQueueService.NonExistentQueue":             modelled("QueueDoesNotExist", 400),
	"AWS.SimpleQueueService.PurgeQueueInProgress":         modelled("PurgeQueueInProgress", 403),
	"AWS.SimpleQueueService.QueueDeletedRecently":         modelled("QueueDeletedRecently", 400),
	"AWS.SimpleQueueService.TooManyEntriesInBatchRequest": modelled("TooManyEntriesInBatchRequest", 400),
	"AWS.SimpleQueueService.UnsupportedOperation":         modelled("UnsupportedOperation", 400),

	"InvalidAddress":               modelled("InvalidAddress", 404),
	"InvalidAttributeName":         modelled("InvalidAttributeName", 400),
	"InvalidAttributeValue":        modelled("InvalidAttributeValue", 400),
	"InvalidIdFormat":              modelled("InvalidIdFormat", 400),
	"InvalidMessageContents":       modelled("InvalidMessageContents", 400),
	"InvalidSecurity":              modelled("InvalidSecurity", 403),
	"KMS.AccessDeniedException":    modelled("KmsAccessDenied", 400),
	"KMS.DisabledException":        modelled("KmsDisabled", 400),
	"KMS.InvalidKeyUsageException": modelled("KmsInvalidKeyUsage", 400),
	"KMS.InvalidStateException":    modelled("KmsInvalidState", 400),
	"KMS.NotFoundException":        modelled("KmsNotFound", 400),
	"KMS.OptInRequired":            modelled("KmsOptInRequired", 403),
	"KMS.ThrottlingException":      modelled("KmsThrottled", 400),
	"OverLimit":                    modelled("OverLimit", 403),
	"QueueAlreadyExists":           modelled("QueueNameExists", 400),
	"ReceiptHandleIsInvalid":       modelled("ReceiptHandleIsInvalid", 404),
	"RequestThrottled":             modelled("RequestThrottled", 403),
	"ResourceNotFoundException":    modelled("ResourceNotFoundException", 404),

	"AccessDenied":               unmodelled("AccessDeniedException", 403),
	"ExpiredToken":               unmodelled("ExpiredTokenException", 403),
	"IncompleteSignature":        unmodelled("IncompleteSignatureException", 400),
	"InternalError":              unmodelled("InternalFailure", 500),
	"InternalFailure":            unmodelled("InternalFailure", 500),
	"InvalidAction":              unmodelled("UnknownOperationException", 400),
	"InvalidClientTokenId":       unmodelled("UnrecognizedClientException", 403),
	"InvalidParameterValue":      unmodelled("InvalidParameterValueException", 400),
	"MalformedInput":             unmodelled("SerializationException", 400),
	"MissingAuthenticationToken": unmodelled("MissingAuthenticationTokenException", 403),
	"MissingParameter":           unmodelled("MissingRequiredParameterException", 400),
	"RequestExpired":             unmodelled("RequestExpiredException", 400),
	"ServiceUnavailable":         unmodelled("ServiceUnavailable", 503),
	"SignatureDoesNotMatch":      unmodelled("InvalidSignatureException", 403),
	"ThrottlingException":        unmodelled("ThrottlingException", 400),
}

// ErrorCodes returns the codes of the catalogue, sorted.
func ErrorCodes() []ErrorCode { return slices.Sorted(maps.Keys(catalogue)) }

// An Error is a refusal as a client sees it.
type Error struct {
	Code ErrorCode

	// Message is for people. When it is empty the protocol supplies its usual text, which only
	// NonExistentQueue has. There it differs between the protocols, and the text of the JSON
	// protocol is replaced by the other one where that is due.
	Message string
}

// Errorf returns an Error whose message is formatted as by fmt.Sprintf.
func Errorf(code ErrorCode, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Message
}

// lookup finds the error in the catalogue. A code that is not there is a mistake of this server, so
// it answers as InternalFailure.
func (e *Error) lookup() (ErrorCode, ErrorInfo) {
	if info, ok := catalogue[e.Code]; ok {
		return e.Code, info
	}
	return InternalFailure, catalogue[InternalFailure]
}

// Info returns what the catalogue says about the error, or about InternalFailure when its code is
// unknown.
func (e *Error) Info() ErrorInfo {
	_, info := e.lookup()
	return info
}

// QueryError returns the value of the header x-amzn-query-error, such as "MissingParameter;Sender".
// Clients take the legacy code from there when they speak JSON.
func (e *Error) QueryError() string {
	code, info := e.lookup()
	return string(code) + ";" + string(info.Fault)
}

// Entry returns the error as the outcome of the batch entry with the given ID.
func (e *Error) Entry(id string) BatchResultErrorEntry {
	code, info := e.lookup()
	return BatchResultErrorEntry{ID: id, Code: code, Message: e.Message,
		SenderFault: info.Fault == Sender}
}

// The texts for an unknown queue. [ERR-9, XML-23]
const (
	textNoQueue      = "The specified queue does not exist."
	textNoQueueQuery = "The specified queue does not exist for this wsdl version."
)

// jsonText returns the message for a client that speaks JSON.
func (e *Error) jsonText() string {
	if e.Message == "" && e.Code == NonExistentQueue {
		return textNoQueue
	}
	return e.Message
}

// queryText returns the message for a client that speaks the Query protocol.
func (e *Error) queryText() string {
	if e.Code == NonExistentQueue && (e.Message == "" || e.Message == textNoQueue) {
		return textNoQueueQuery
	}
	return e.Message
}

// AppendErrorJSON appends the body of an error response in AWS JSON 1.0: type and message, and no
// other member. [ERR-1]
func AppendErrorJSON(dst []byte, e *Error) []byte {
	_, info := e.lookup()
	dst = append(dst, `{"__type":"`...)
	dst = append(dst, info.Type...)
	dst = append(dst, `","message":`...)
	dst = appendQuoted(dst, e.jsonText())
	return append(dst, '}')
}

// AppendErrorQueryJSON appends the body of an error response to a request in the Query protocol
// whose client accepts JSON. [XML-34]
func AppendErrorQueryJSON(dst []byte, e *Error, requestID string) []byte {
	code, info := e.lookup()
	dst = append(append(dst, `{"Error":{"Code":"`...), code...)
	dst = appendQuoted(append(dst, `","Message":`...), e.queryText())
	dst = append(append(dst, `,"Type":"`...), info.Fault...)
	dst = append(append(dst, `"},"RequestId":"`...), requestID...)
	return append(dst, `"}`...)
}
