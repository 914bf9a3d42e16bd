package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ErrNoAnswer is why a request was given up.
var ErrNoAnswer = errors.New("no answer in time")

// WithCause adds to err why ctx ended, when it did: the SDK reports the one or the other half of
// it.
func WithCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// Explain turns the failure of a request into one sentence and an exit code. What was being done to
// which queue begins the sentence; the chain of wrappers that the SDK returns does not appear in
// it.
func (c *Client) Explain(doing, queue string, err error) error {
	if queue != "" {
		doing += " " + QueueNameOf(queue)
	}
	var answer smithy.APIError
	switch {
	case errors.Is(err, ErrNoAnswer):
		return Codedf(ExitFailed,
			"%s: no answer from %s within %v, so whether it was done is not known; see --timeout",
			doing, c.Endpoint, c.Timeout)
	case errors.Is(err, context.Canceled):
		return Codedf(ExitFailed, "%s: interrupted", doing)
	case errors.As(err, &answer):
		return c.explainAnswer(doing, queue, answer)
	}
	return c.ExplainTransport(doing, err)
}

// explainAnswer explains what the server said.
func (c *Client) explainAnswer(doing, queue string, answer smithy.APIError) error {
	kind, message := ErrorKind(answer), answer.ErrorMessage()
	switch code := AnswerCode(kind); {
	case kind == "NonExistentQueue":
		return Codedf(ExitNotFound, "%s: %s has no queue %q; see: tenaq queue list", doing,
			c.Endpoint, QueueNameOf(queue))
	case isDenial(kind):
		return Codedf(code, "%s: %s (%s)%s", doing,
			cmp.Or(strings.TrimSuffix(message, "."), "denied"), kind, permission(message))
	case IsCredentialError(kind):
		// behind it stands what was signed, as the server sees it
		message, _, _ = strings.Cut(message, "\n")
		names := "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
		if _, _, own := c.Endpoint.OwnKey(os.Getenv); own {
			names = "TENAQ_ACCESS_KEY_ID, TENAQ_SECRET_ACCESS_KEY"
		}
		return Codedf(code, "%s: %s refuses the credentials: %s (%s); check %s and --region", doing,
			c.Endpoint, strings.TrimSuffix(message, "."), kind, names)
	case message == "":
		return Codedf(code, "%s: %s", doing, kind)
	default:
		return Codedf(code, "%s: %s (%s)", doing, strings.TrimSuffix(message, "."), kind)
	}
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
	case "NonExistentQueue", "ResourceNotFoundException", "NotFound":
		return ExitNotFound
	case "QueueAlreadyExists", "QueueDeletedRecently", "PurgeQueueInProgress", "MessageNotInflight",
		"OverLimit":
		return ExitRefused
	case "InvalidAttributeName", "InvalidAttributeValue", "InvalidParameterValue",
		"MissingParameter",
		"InvalidMessageContents", "ReceiptHandleIsInvalid", "InvalidIdFormat", "InvalidAddress",
		"BatchRequestTooLong", "UnsupportedOperation", "ValidationException":
		return ExitUsage
	}
	return ExitFailed
}

// IsCredentialError tells whether the server does not let in who asks, or does not let them do
// this.
func IsCredentialError(kind string) bool {
	switch kind {
	case "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch",
		"InvalidSecurity",
		"IncompleteSignature", "InvalidSignatureException", "MissingAuthenticationToken",
		"ExpiredToken",
		"ExpiredTokenException":
		return true
	}
	return isDenial(kind)
}

// isDenial tells whether the server knows who asks, and does not let them do this.
func isDenial(kind string) bool { return kind == "AccessDenied" || kind == "AccessDeniedException" }

// permission says what would let a denied request through, where the server has not said so itself:
// it denies a Host that is not its own, for instance, and names the setting.
func permission(message string) string {
	switch {
	case strings.Contains(message, "with an explicit deny"):
		return "; take what denies it out of that policy"
	case !strings.Contains(message, "is not authorized to perform") &&
		!strings.HasPrefix(message, "Access to the resource") && message != "":
		return ""
	case strings.Contains(message, "is not authorized to perform: tenaq:"),
		strings.Contains(message, "is not authorized to perform: cloudwatch:"):
		return "; let the key allow it"
	}
	return "; let the key allow it, or the policy of the queue"
}

// IsPassing tells whether the same request may well succeed later: the server could not be reached
// or was in trouble, but did not refuse it.
func IsPassing(err error) bool {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return true
	}
	kind := ErrorKind(answer)
	return AnswerCode(kind) == ExitFailed && !IsCredentialError(kind)
}

// ExplainTransport explains why there was no answer, or none that SQS would give.
func (c *Client) ExplainTransport(doing string, err error) error {
	var (
		lookup   *net.DNSError
		response *smithyhttp.ResponseError
		request  *url.Error
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && c.Endpoint.IsLoopback():
		return Codedf(ExitFailed, "nothing listens at %s; start it with: tenaq serve", c.Endpoint)
	case errors.Is(err, syscall.ECONNREFUSED):
		return Codedf(ExitFailed, "nothing listens at %s; check the address, which comes from %s",
			c.Endpoint, c.Endpoint.Origin)
	case errors.As(err, &lookup):
		return Codedf(ExitFailed, "cannot find the host %s; check the address, which comes from %s",
			lookup.Name, c.Endpoint.Origin)
	case errors.As(err, &response) && response.HTTPStatusCode() != 0:
		return Codedf(ExitFailed,
			"%s: %s did not answer as SQS does (HTTP status %d); check the address, which comes from %s", doing, c.Endpoint, response.HTTPStatusCode(), c.Endpoint.Origin)
	case errors.As(err, &request):
		return Codedf(ExitFailed, "%s: %s: %v", doing, c.Endpoint, request.Err)
	}
	return Codedf(ExitFailed, "%s: %v", doing, err)
}
