package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ErrNoAnswer is why a request was given up.
var ErrNoAnswer = errors.New("no answer in time")

// WithCause adds to err why ctx ended, if it did. The SDK reports only one of the two.
func WithCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// Explain turns the failure of a request into one sentence with an exit code, and keeps its chain.
// The sentence begins with what was being done to which queue. It is nil for nil.
func (c *Client) Explain(doing, queue string, err error) error {
	if queue != "" {
		doing += " " + QueueNameOf(queue)
	}
	answer, answered := errors.AsType[smithy.APIError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoAnswer):
		return explainedf(err, ExitFailed,
			"%s: no answer from %s within %v, so it is unknown whether it was done; see --timeout",
			doing, c.Endpoint, c.Timeout)
	case errors.Is(err, context.Canceled):
		return explainedf(err, ExitFailed, "%s: interrupted", doing)
	case answered:
		return explainedf(err, AnswerCode(ErrorKind(answer)), "%s: %s", doing,
			c.answerText(queue, answer))
	}
	return c.ExplainTransport(doing, err)
}

// answerText explains what the server answered.
func (c *Client) answerText(queue string, answer smithy.APIError) string {
	kind, message := ErrorKind(answer), strings.TrimSuffix(answer.ErrorMessage(), ".")
	switch {
	case kind == "NonExistentQueue":
		return fmt.Sprintf("%s has no queue %q; see: tenaq queue list", c.Endpoint,
			QueueNameOf(queue))
	case isDenial(kind):
		return fmt.Sprintf("%s (%s)%s", cmp.Or(message, "denied"), kind,
			permission(answer.ErrorMessage()))
	case strings.HasPrefix(kind, "ExpiredToken") && c.Endpoint.IsAmazon():
		return fmt.Sprintf("the credentials have expired (%s); renew them, for example with: aws sso login", kind)
	case strings.HasPrefix(kind, "ExpiredToken"):
		return fmt.Sprintf("the key for %s has expired (%s); the operator of the server extends it in "+
			"the credentials file, or replaces it", c.Endpoint, kind)
	case IsCredentialError(kind) && c.hasNoKey():
		return fmt.Sprintf("%s requires a key, and none is set (%s); set TENAQ_ACCESS_KEY_ID and "+
			"TENAQ_SECRET_ACCESS_KEY", c.Endpoint, kind)
	case IsCredentialError(kind):
		// The rest of the message is the signed text as the server sees it.
		message, _, _ = strings.Cut(message, "\n")
		names := "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
		if _, _, own := c.Endpoint.OwnKey(os.Getenv); own {
			names = "TENAQ_ACCESS_KEY_ID, TENAQ_SECRET_ACCESS_KEY"
		}
		return fmt.Sprintf("%s refuses the credentials: %s (%s); check %s and --region",
			c.Endpoint, strings.TrimSuffix(message, "."), kind, names)
	case message == "":
		return kind
	}
	return message + " (" + kind + ")"
}

// hasNoKey reports whether the client signs as for a server that checks nothing.
func (c *Client) hasNoKey() bool {
	if c.Client == nil {
		return false
	}
	found, err := c.Options().Credentials.Retrieve(context.Background())
	return err == nil && found.AccessKeyID == OpenID
}

// ErrorKind returns the code of an SQS error in one spelling. Over JSON the same error goes by two
// names, the older of them with a prefix.
func ErrorKind(answer smithy.APIError) string {
	kind := answer.ErrorCode()
	kind = kind[strings.LastIndexByte(kind, '#')+1:]
	kind = strings.TrimPrefix(kind, "AWS.SimpleQueueService.")
	switch kind {
	case "QueueDoesNotExist":
		return "NonExistentQueue"
	case "QueueNameExists":
		return "QueueAlreadyExists"
	}
	return kind
}

// AnswerCode says which exit code an SQS error deserves.
func AnswerCode(kind string) int {
	switch kind {
	case "NonExistentQueue", "ResourceNotFoundException", "NotFound", "NodeNotFound",
		"MessageNotFound", "NothingKnown":
		return ExitNotFound
	case "QueueAlreadyExists", "QueueDeletedRecently", "PurgeQueueInProgress", "MessageNotInflight",
		"OverLimit", "Refused", "Conflict":
		return ExitRefused
	case "InvalidAttributeName", "InvalidAttributeValue", "InvalidParameterValue",
		"MissingParameter", "InvalidMessageContents", "ReceiptHandleIsInvalid", "InvalidIdFormat",
		"InvalidAddress",
		"BatchRequestTooLong", "UnsupportedOperation", "ValidationException":
		return ExitUsage
	}
	return ExitFailed
}

// IsCredentialError reports whether the server refuses the credentials of the client, or does not
// allow them this request.
func IsCredentialError(kind string) bool {
	switch kind {
	case "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch",
		"InvalidSecurity", "IncompleteSignature", "InvalidSignatureException",
		"MissingAuthenticationToken", "ExpiredToken", "ExpiredTokenException":
		return true
	}
	return isDenial(kind)
}

// isDenial reports whether the server accepts the credentials but does not allow the request.
func isDenial(kind string) bool { return kind == "AccessDenied" || kind == "AccessDeniedException" }

// permission says what would let a denied request through, unless the server has said so itself:
// for example, it denies a Host that is not its own, and names the setting.
func permission(message string) string {
	switch {
	case strings.Contains(message, "with an explicit deny"):
		return "; remove what denies it from that policy"
	case !strings.Contains(message, "is not authorized to perform") &&
		!strings.HasPrefix(message, "Access to the resource") && message != "":
		return ""
	case strings.Contains(message, "is not authorized to perform: tenaq:"),
		strings.Contains(message, "is not authorized to perform: cloudwatch:"):
		return "; allow it for the key"
	}
	return "; allow it for the key, or in the policy of the queue"
}

// IsPassing reports whether the same request may succeed later: the server could not be reached or
// failed, but did not refuse it.
func IsPassing(err error) bool {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return true
	}
	kind := ErrorKind(answer)
	return AnswerCode(kind) == ExitFailed && !IsCredentialError(kind)
}

// ExplainTransport explains why there was no answer, or none that SQS would give.
func (c *Client) ExplainTransport(doing string, err error) error {
	lookup, unknownHost := errors.AsType[*net.DNSError](err)
	response, answered := errors.AsType[*smithyhttp.ResponseError](err)
	request, sent := errors.AsType[*url.Error](err)
	from := "check the address, which comes from " + c.Endpoint.Origin
	text := ""
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && c.Endpoint.IsLoopback():
		text = fmt.Sprintf("nothing listens at %s; start it with: tenaq serve", c.Endpoint)
	case errors.Is(err, syscall.ECONNREFUSED):
		text = fmt.Sprintf("nothing listens at %s; %s", c.Endpoint, from)
	case errors.Is(err, http.ErrSchemeMismatch):
		text = fmt.Sprintf("%s is served without TLS; write http:// in the address, which comes from %s",
			c.Endpoint, c.Endpoint.Origin)
	case unknownHost:
		text = fmt.Sprintf("cannot find the host %s; %s", lookup.Name, from)
	case answered && response.HTTPStatusCode() != 0:
		text = fmt.Sprintf("%s: %s did not answer as SQS does (HTTP status %d); %s", doing,
			c.Endpoint, response.HTTPStatusCode(), from)
	case sent:
		text = fmt.Sprintf("%s: %s: %v", doing, c.Endpoint, request.Err)
	default:
		text = fmt.Sprintf("%s: %v", doing, err)
	}
	return explainedf(err, ExitFailed, "%s", text)
}
