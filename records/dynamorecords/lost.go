package dynamorecords

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// lostAnswers notices whether any request of a call may have taken effect without an answer that
// says so. The SDK repeats such a request. Only an answer that blames the request says that it did
// not.
type lostAnswers struct{ any bool }

// watch is an option of one call of the client.
func (l *lostAnswers) watch(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions[:len(o.APIOptions):len(o.APIOptions)],
		func(stack *middleware.Stack) error {
			return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("LostAnswers", l.attempt), "Retry", middleware.After)
		})
}

// attempt wraps each request that the SDK makes, one after the other.
func (l *lostAnswers) attempt(
	ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
) (
	middleware.FinalizeOutput, middleware.Metadata, error) {
	out, meta, err := next.HandleFinalize(ctx, in)
	answer, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if err != nil && (!ok || answer.HTTPStatusCode() < http.StatusBadRequest ||
		answer.HTTPStatusCode() >= http.StatusInternalServerError) {
		l.any = true
	}
	return out, meta, err
}
