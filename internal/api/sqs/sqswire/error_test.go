package sqswire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// The whole catalogue, written out once more as clients see it. [ERR-2] [ERR-3] [ERR-5] [ERR-6]
// [ERR-12]
var wantErrors = []struct {
	code   ErrorCode
	typ    string
	status int
	header string
}{
	{"AWS.SimpleQueueService.BatchEntryIdsNotDistinct", "com.amazonaws.sqs#BatchEntryIdsNotDistinct", 400, "AWS.SimpleQueueService.BatchEntryIdsNotDistinct;Sender"},
	{"AWS.SimpleQueueService.BatchRequestTooLong", "com.amazonaws.sqs#BatchRequestTooLong", 400, "AWS.SimpleQueueService.BatchRequestTooLong;Sender"},
	{"AWS.SimpleQueueService.EmptyBatchRequest", "com.amazonaws.sqs#EmptyBatchRequest", 400, "AWS.SimpleQueueService.EmptyBatchRequest;Sender"},
	{"InvalidAddress", "com.amazonaws.sqs#InvalidAddress", 404, "InvalidAddress;Sender"},
	{"InvalidAttributeName", "com.amazonaws.sqs#InvalidAttributeName", 400, "InvalidAttributeName;Sender"},
	{"InvalidAttributeValue", "com.amazonaws.sqs#InvalidAttributeValue", 400, "InvalidAttributeValue;Sender"},
	{"AWS.SimpleQueueService.InvalidBatchEntryId", "com.amazonaws.sqs#InvalidBatchEntryId", 400, "AWS.SimpleQueueService.InvalidBatchEntryId;Sender"},
	{"InvalidIdFormat", "com.amazonaws.sqs#InvalidIdFormat", 400, "InvalidIdFormat;Sender"},
	{"InvalidMessageContents", "com.amazonaws.sqs#InvalidMessageContents", 400, "InvalidMessageContents;Sender"},
	{"InvalidSecurity", "com.amazonaws.sqs#InvalidSecurity", 403, "InvalidSecurity;Sender"},
	{"KMS.AccessDeniedException", "com.amazonaws.sqs#KmsAccessDenied", 400, "KMS.AccessDeniedException;Sender"},
	{"KMS.DisabledException", "com.amazonaws.sqs#KmsDisabled", 400, "KMS.DisabledException;Sender"},
	{"KMS.InvalidKeyUsageException", "com.amazonaws.sqs#KmsInvalidKeyUsage", 400, "KMS.InvalidKeyUsageException;Sender"},
	{"KMS.InvalidStateException", "com.amazonaws.sqs#KmsInvalidState", 400, "KMS.InvalidStateException;Sender"},
	{"KMS.NotFoundException", "com.amazonaws.sqs#KmsNotFound", 400, "KMS.NotFoundException;Sender"},
	{"KMS.OptInRequired", "com.amazonaws.sqs#KmsOptInRequired", 403, "KMS.OptInRequired;Sender"},
	{"KMS.ThrottlingException", "com.amazonaws.sqs#KmsThrottled", 400, "KMS.ThrottlingException;Sender"},
	{"AWS.SimpleQueueService.MessageNotInflight", "com.amazonaws.sqs#MessageNotInflight", 400, "AWS.SimpleQueueService.MessageNotInflight;Sender"},
	{"AWS.SimpleQueueService.NonExistentQueue", "com.amazonaws.sqs#QueueDoesNotExist", 400, "AWS.SimpleQueueService.NonExistentQueue;Sender"},
	{"OverLimit", "com.amazonaws.sqs#OverLimit", 403, "OverLimit;Sender"},
	{"AWS.SimpleQueueService.PurgeQueueInProgress", "com.amazonaws.sqs#PurgeQueueInProgress", 403, "AWS.SimpleQueueService.PurgeQueueInProgress;Sender"},
	{"QueueAlreadyExists", "com.amazonaws.sqs#QueueNameExists", 400, "QueueAlreadyExists;Sender"},
	{"AWS.SimpleQueueService.QueueDeletedRecently", "com.amazonaws.sqs#QueueDeletedRecently", 400, "AWS.SimpleQueueService.QueueDeletedRecently;Sender"},
	{"ReceiptHandleIsInvalid", "com.amazonaws.sqs#ReceiptHandleIsInvalid", 404, "ReceiptHandleIsInvalid;Sender"},
	{"RequestThrottled", "com.amazonaws.sqs#RequestThrottled", 403, "RequestThrottled;Sender"},
	{"ResourceNotFoundException", "com.amazonaws.sqs#ResourceNotFoundException", 404, "ResourceNotFoundException;Sender"},
	{"AWS.SimpleQueueService.TooManyEntriesInBatchRequest", "com.amazonaws.sqs#TooManyEntriesInBatchRequest", 400, "AWS.SimpleQueueService.TooManyEntriesInBatchRequest;Sender"},
	{"AWS.SimpleQueueService.UnsupportedOperation", "com.amazonaws.sqs#UnsupportedOperation", 400, "AWS.SimpleQueueService.UnsupportedOperation;Sender"},

	{"AccessDenied", "com.amazon.coral.service#AccessDeniedException", 403, "AccessDenied;Sender"},
	{"ExpiredToken", "com.amazon.coral.service#ExpiredTokenException", 403, "ExpiredToken;Sender"},
	{"IncompleteSignature", "com.amazon.coral.service#IncompleteSignatureException", 400, "IncompleteSignature;Sender"},
	{"InternalError", "com.amazon.coral.service#InternalFailure", 500, "InternalError;Receiver"},
	{"InternalFailure", "com.amazon.coral.service#InternalFailure", 500, "InternalFailure;Receiver"},
	{"InvalidAction", "com.amazon.coral.service#UnknownOperationException", 400, "InvalidAction;Sender"},
	{"InvalidClientTokenId", "com.amazon.coral.service#UnrecognizedClientException", 403, "InvalidClientTokenId;Sender"},
	{"InvalidParameterValue", "com.amazon.coral.service#InvalidParameterValueException", 400, "InvalidParameterValue;Sender"},
	{"MalformedInput", "com.amazon.coral.service#SerializationException", 400, "MalformedInput;Sender"},
	{"MissingAuthenticationToken", "com.amazon.coral.service#MissingAuthenticationTokenException", 403, "MissingAuthenticationToken;Sender"},
	{"MissingParameter", "com.amazon.coral.service#MissingRequiredParameterException", 400, "MissingParameter;Sender"},
	{"RequestExpired", "com.amazon.coral.service#RequestExpiredException", 400, "RequestExpired;Sender"},
	{"ServiceUnavailable", "com.amazon.coral.service#ServiceUnavailable", 503, "ServiceUnavailable;Receiver"},
	{"SignatureDoesNotMatch", "com.amazon.coral.service#InvalidSignatureException", 403, "SignatureDoesNotMatch;Sender"},
	{"ThrottlingException", "com.amazon.coral.service#ThrottlingException", 400, "ThrottlingException;Sender"},
}

func TestCatalogue(t *testing.T) {
	for _, want := range wantErrors {
		e := Errorf(want.code, "why %d", 1)
		if got := e.Info().Type; got != want.typ {
			t.Errorf("%s: type %q, want %q", want.code, got, want.typ)
		}
		if got := e.Info().Status; got != want.status {
			t.Errorf("%s: status %d, want %d", want.code, got, want.status)
		}
		if got := e.QueryError(); got != want.header {
			t.Errorf("%s: header %q, want %q", want.code, got, want.header)
		}
		body := `{"__type":"` + want.typ + `","message":"why 1"}`
		if got := string(AppendErrorJSON(nil, e)); got != body {
			t.Errorf("%s: body %s, want %s", want.code, got, body)
		}
		entry := BatchResultErrorEntry{"e1", want.code, "why 1", want.status < 500}
		if got := e.Entry("e1"); got != entry {
			t.Errorf("%s: entry %+v, want %+v", want.code, got, entry)
		}
	}
	if got, want := len(catalogue), len(wantErrors); got != want {
		t.Errorf("the catalogue has %d errors, want %d", got, want)
	}
}

// A constant that is missing in the catalogue would reach clients as InternalFailure.
func TestEveryCodeIsInTheCatalogue(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		decl, ok := decl.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, spec := range decl.Specs {
			spec := spec.(*ast.ValueSpec)
			if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "ErrorCode" {
				continue
			}
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := catalogue[ErrorCode(code)]; !ok {
				t.Errorf("%s is not in the catalogue", spec.Names[0].Name)
			}
		}
	}
}

func TestUnknownCode(t *testing.T) {
	e := Errorf("NoSuchCode", "why")
	if got := e.Info(); got.Status != 500 || got.Fault != Receiver {
		t.Errorf("got %+v, want status 500 by the receiver", got)
	}
	if got, want := e.QueryError(), "InternalFailure;Receiver"; got != want {
		t.Errorf("header %q, want %q", got, want)
	}
	if got, want := string(AppendErrorJSON(nil, e)), `{"__type":"com.amazon.coral.service#InternalFailure","message":"why"}`; got != want {
		t.Errorf("body %s, want %s", got, want)
	}
	if got, want := e.Entry("1").Code, InternalFailure; got != want {
		t.Errorf("entry code %s, want %s", got, want)
	}
}

// A body has a type and a message, and an unknown queue its own text. [ERR-1] [ERR-9]
func TestErrorMessages(t *testing.T) {
	tests := []struct {
		err  *Error
		want string
	}{
		{&Error{Code: "AWS.SimpleQueueService.MessageNotInflight"}, `{"__type":"com.amazonaws.sqs#MessageNotInflight","message":""}`},
		{&Error{Code: NonExistentQueue}, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}`},
		{&Error{NonExistentQueue, "x"}, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"x"}`},
		{&Error{"OverLimit", "a\n\"b\""}, `{"__type":"com.amazonaws.sqs#OverLimit","message":"a\n\"b\""}`},
	}
	for _, test := range tests {
		if got := string(AppendErrorJSON(nil, test.err)); got != test.want {
			t.Errorf("%v:\n got %s\nwant %s", test.err, got, test.want)
		}
	}
}

// An error without a message is its code.
func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{"OverLimit": {Code: "OverLimit"}, "OverLimit: no": {"OverLimit", "no"}} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
