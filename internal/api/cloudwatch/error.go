package cloudwatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/api/sqs/sqswire"
)

// An Error is a refusal. Its message is for the caller.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// A Code names a kind of refusal, as the query protocol does, and the header x-amzn-query-error of
// the others.
type Code string

// The codes that the model of CloudWatch names, as far as they occur here, followed by those that
// every service has.
const (
	InternalServiceError        Code = "InternalServiceError"
	InvalidFormat               Code = "InvalidFormat"
	InvalidNextToken            Code = "InvalidNextToken"
	InvalidParameterCombination Code = "InvalidParameterCombination"
	InvalidParameterValue       Code = "InvalidParameterValue"
	LimitExceeded               Code = "LimitExceeded"
	MissingParameter            Code = "MissingParameter"
	ResourceNotFound            Code = "ResourceNotFound"
	ResourceNotFoundException   Code = "ResourceNotFoundException" // of the calls for tags
	ValidationError             Code = "ValidationError"

	AccessDenied   Code = "AccessDenied"
	InvalidAction  Code = "InvalidAction"
	MalformedInput Code = "MalformedInput"
	Throttling     Code = "Throttling"
)

// errorInfo describes a code.
type errorInfo struct {
	shape  string // its name in JSON and CBOR, for the member __type
	status int
}

const modelled = "com.amazonaws.cloudwatch#"

// catalogue has the codes that SQS does not have in the same way; see info.
var catalogue = map[Code]errorInfo{
	InternalServiceError:        {modelled + "InternalServiceFault", 500},
	InvalidFormat:               {modelled + "InvalidFormatFault", 400},
	InvalidNextToken:            {modelled + "InvalidNextToken", 400},
	InvalidParameterCombination: {modelled + "InvalidParameterCombinationException", 400},
	InvalidParameterValue:       {modelled + "InvalidParameterValueException", 400},
	LimitExceeded:               {modelled + "LimitExceededFault", 400},
	MissingParameter:            {modelled + "MissingRequiredParameterException", 400},
	ResourceNotFound:            {modelled + "ResourceNotFound", 404},
	ResourceNotFoundException:   {modelled + "ResourceNotFoundException", 404},
	ValidationError:             {modelled + "ValidationException", 400},

	Throttling: {"com.amazon.coral.service#ThrottlingException", 400},
}

// info describes the error. The codes that every service has are in the catalogue of SQS.
func (e *Error) info() errorInfo {
	if info, ok := catalogue[e.Code]; ok {
		return info
	}
	info := (&sqswire.Error{Code: sqswire.ErrorCode(e.Code)}).Info()
	return errorInfo{info.Type, info.Status}
}

var errTooLarge = &Error{MalformedInput,
	"The body of the request is larger than 1 MiB: send less at a time."}

// notOffered refuses an action that is not in the table of operations, whether or not CloudWatch
// has it.
func notOffered(name string) *Error {
	return &Error{InvalidAction,
		fmt.Sprintf("This server does not offer the action %q of CloudWatch. It offers %s.",
			name, strings.Join(slices.Sorted(maps.Keys(operations)), ", "))}
}

// A fit is which codes the model names for an operation, beside those that all have.
type fit int

const (
	onlyGeneral fit = iota // none: ValidationError says it all
	namesValue             // InvalidParameterValue
	// InvalidParameterValue, InvalidParameterCombination and MissingParameter
	namesEveryOne
)

func (f fit) missing(path string) *Error {
	code := ValidationError
	if f == namesEveryOne {
		code = MissingParameter
	}
	return &Error{code, fmt.Sprintf("The parameter %s is required.", path)}
}

func (f fit) invalid(format string, args ...any) *Error {
	code := ValidationError
	if f != onlyGeneral {
		code = InvalidParameterValue
	}
	return &Error{code, fmt.Sprintf(format, args...)}
}

// combination refuses members that do not go together.
func (f fit) combination(format string, args ...any) *Error {
	code := ValidationError
	if f == namesEveryOne {
		code = InvalidParameterCombination
	}
	return &Error{code, fmt.Sprintf(format, args...)}
}
