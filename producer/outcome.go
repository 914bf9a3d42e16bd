package producer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// An outcome is what is known about a send.
type outcome int

const (
	outcomeSent    outcome = iota
	outcomeRefused         // the queue refused it, and would again
	outcomeNotSent         // it did not reach the queue, or was refused for a passing reason
	outcomeUnknown
)

// A watch observes every try of a send. The SDK retries by itself and reports only the last try.
// But a timeout followed by a refusal is not a refusal: the first try may have stored the message.
type watch struct {
	installed bool // the client is that of the SDK, so every try is observed
	unknown   bool // a try may have taken effect
	refused   bool // a try was refused
}

// option makes the SDK show its tries.
func (w *watch) option(o *sqs.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		w.installed = true
		// The last one in the last step is next to the network.
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("tenaq.Outcome", w.try), middleware.After)
	})
}

func (w *watch) try(
	ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
) (
	out middleware.DeserializeOutput, metadata middleware.Metadata, err error,
) {
	out, metadata, err = next.HandleDeserialize(ctx, in)
	response, ok := out.RawResponse.(*smithyhttp.Response)
	switch {
	case err == nil && ok && refusal(response.StatusCode):
		w.refused = true
	case err == nil || !notDialled(err):
		// including a try that took effect, with an answer that the SDK cannot read
		w.unknown = true
	}
	return out, metadata, err
}

// outcome returns the outcome of all tries, the last of which ended with err.
func (w *watch) outcome(err error) outcome {
	if err == nil {
		return outcomeSent
	}
	if !w.installed { // a client of another kind, which is assumed to try once
		if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
			w.refused = refusal(response.HTTPStatusCode())
		} else if api, ok := errors.AsType[smithy.APIError](err); ok {
			w.refused = api.ErrorFault() == smithy.FaultClient
		}
		w.unknown = !w.refused && !notDialled(err)
	}
	switch {
	case w.unknown:
		return outcomeUnknown
	case w.refused && code(err) != "" && !passing(err): // without a code, it is not a refusal
		return outcomeRefused
	default:
		return outcomeNotSent
	}
}

// refusal reports whether a status says that nothing was done. A request timeout does not: the
// server may have received the whole request.
func refusal(status int) bool {
	return status >= 300 && status < 500 && status != http.StatusRequestTimeout
}

// notDialled reports whether an error says that there was no connection.
func notDialled(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// passing reports whether a refusal has a passing reason, and not the message.
func passing(err error) bool {
	return slices.Contains([]string{
		"RequestThrottled", "ThrottlingException", "Throttling", "RequestLimitExceeded",
		"TooManyRequestsException",
		"KmsThrottled", "KMS.ThrottlingException",
		"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed",
	}, code(err))
}

// code returns the code of an error of the API.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// advice returns what to do about a refusal.
func advice(err error) string {
	switch code(err) {
	case "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist":
		return "create the queue or correct its URL, then call again"
	case "AccessDenied", "AccessDeniedException", "KmsAccessDenied", "KMS.AccessDeniedException":
		return "allow this sender sqs:SendMessage, and kms:GenerateDataKey when the queue is encrypted, then call again"
	case "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch",
		"InvalidSignatureException":
		return "correct the credentials, then call again"
	default:
		return "correct the message, then call again"
	}
}
