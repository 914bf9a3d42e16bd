package main

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

// errNoAnswer is why a request was given up.
var errNoAnswer = errors.New("no answer in time")

// withCause adds to err why ctx ended, when it did: the SDK reports the one or the other half of it.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// explain turns the failure of a request into one sentence and an exit code. What was being done to which
// queue begins the sentence; the chain of wrappers that the SDK returns does not appear in it.
func (c *client) explain(doing, queue string, err error) error {
	if queue != "" {
		doing += " " + queueNameOf(queue)
	}
	var answer smithy.APIError
	switch {
	case errors.Is(err, errNoAnswer):
		return codedf(exitFailed, "%s: no answer from %s within %v, so whether it was done is not known; see --timeout", doing, c.endpoint, c.timeout)
	case errors.Is(err, context.Canceled):
		return codedf(exitFailed, "%s: interrupted", doing)
	case errors.As(err, &answer):
		return c.explainAnswer(doing, queue, answer)
	}
	return c.explainTransport(doing, err)
}

// explainAnswer explains what the server said.
func (c *client) explainAnswer(doing, queue string, answer smithy.APIError) error {
	kind, message := errorKind(answer), answer.ErrorMessage()
	switch code := answerCode(kind); {
	case kind == "NonExistentQueue":
		return codedf(exitNotFound, "%s: %s has no queue %q; see: tenaq queue list", doing, c.endpoint, queueNameOf(queue))
	case isDenial(kind):
		return codedf(code, "%s: %s (%s)%s", doing, cmp.Or(strings.TrimSuffix(message, "."), "denied"), kind, permission(message))
	case isCredentialError(kind):
		message, _, _ = strings.Cut(message, "\n") // behind it stands what was signed, as the server sees it
		names := "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
		if _, _, own := c.endpoint.ownKey(os.Getenv); own {
			names = "TENAQ_ACCESS_KEY_ID, TENAQ_SECRET_ACCESS_KEY"
		}
		return codedf(code, "%s: %s refuses the credentials: %s (%s); check %s and --region", doing, c.endpoint, strings.TrimSuffix(message, "."), kind, names)
	case message == "":
		return codedf(code, "%s: %s", doing, kind)
	default:
		return codedf(code, "%s: %s (%s)", doing, strings.TrimSuffix(message, "."), kind)
	}
}

// errorKind returns the code of an SQS error in one spelling. Over JSON the same error goes by two names,
// the older of them with a prefix.
func errorKind(answer smithy.APIError) string {
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

// answerCode says which exit code an SQS error deserves.
func answerCode(kind string) int {
	switch kind {
	case "NonExistentQueue", "ResourceNotFoundException", "NotFound":
		return exitNotFound
	case "QueueAlreadyExists", "QueueDeletedRecently", "PurgeQueueInProgress", "MessageNotInflight", "OverLimit":
		return exitRefused
	case "InvalidAttributeName", "InvalidAttributeValue", "InvalidParameterValue", "MissingParameter",
		"InvalidMessageContents", "ReceiptHandleIsInvalid", "InvalidIdFormat", "InvalidAddress",
		"BatchRequestTooLong", "UnsupportedOperation", "ValidationException":
		return exitUsage
	}
	return exitFailed
}

// isCredentialError tells whether the server does not let in who asks, or does not let them do this.
func isCredentialError(kind string) bool {
	switch kind {
	case "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSecurity",
		"IncompleteSignature", "InvalidSignatureException", "MissingAuthenticationToken", "ExpiredToken",
		"ExpiredTokenException":
		return true
	}
	return isDenial(kind)
}

// isDenial tells whether the server knows who asks, and does not let them do this.
func isDenial(kind string) bool { return kind == "AccessDenied" || kind == "AccessDeniedException" }

// permission says what would let a denied request through, where the server has not said so itself: it denies a Host that is
// not its own, for instance, and names the setting.
func permission(message string) string {
	switch {
	case strings.Contains(message, "with an explicit deny"):
		return "; take what denies it out of that policy"
	case !strings.Contains(message, "is not authorized to perform") && !strings.HasPrefix(message, "Access to the resource") && message != "":
		return ""
	case strings.Contains(message, "is not authorized to perform: tenaq:"), strings.Contains(message, "is not authorized to perform: cloudwatch:"):
		return "; let the key allow it"
	}
	return "; let the key allow it, or the policy of the queue"
}

// isPassing tells whether the same request may well succeed later: the server could not be reached or was
// in trouble, but did not refuse it.
func isPassing(err error) bool {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return true
	}
	kind := errorKind(answer)
	return answerCode(kind) == exitFailed && !isCredentialError(kind)
}

// explainTransport explains why there was no answer, or none that SQS would give.
func (c *client) explainTransport(doing string, err error) error {
	var (
		lookup   *net.DNSError
		response *smithyhttp.ResponseError
		request  *url.Error
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && c.endpoint.isLoopback():
		return codedf(exitFailed, "nothing listens at %s; start it with: tenaq serve", c.endpoint)
	case errors.Is(err, syscall.ECONNREFUSED):
		return codedf(exitFailed, "nothing listens at %s; check the address, which comes from %s", c.endpoint, c.endpoint.origin)
	case errors.As(err, &lookup):
		return codedf(exitFailed, "cannot find the host %s; check the address, which comes from %s", lookup.Name, c.endpoint.origin)
	case errors.As(err, &response) && response.HTTPStatusCode() != 0:
		return codedf(exitFailed, "%s: %s did not answer as SQS does (HTTP status %d); check the address, which comes from %s", doing, c.endpoint, response.HTTPStatusCode(), c.endpoint.origin)
	case errors.As(err, &request):
		return codedf(exitFailed, "%s: %s: %v", doing, c.endpoint, request.Err)
	}
	return codedf(exitFailed, "%s: %v", doing, err)
}
