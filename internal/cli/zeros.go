package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Zeros are members of a request that the user set to zero. The SDK omits zeros, and the value of
// the queue would apply.
type Zeros []string

// Add notes a member that was given, if it is zero.
func (z *Zeros) Add(member string, value int32) {
	if value == 0 {
		*z = append(*z, member)
	}
}

// Option makes a request carry the zeros; in a batch each entry carries them.
func (z Zeros) Option() func(*sqs.Options) {
	if len(z) == 0 {
		return func(*sqs.Options) {}
	}
	write := middleware.SerializeMiddlewareFunc("WriteZeros",
		func(
			ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
		) (middleware.SerializeOutput, middleware.Metadata, error) {
			request, err := z.write(in.Request)
			if err != nil {
				return middleware.SerializeOutput{}, middleware.Metadata{},
					fmt.Errorf("write a zero into the request: %w", err)
			}
			in.Request = request
			return next.HandleSerialize(ctx, in)
		})
	return sqs.WithAPIOptions(func(stack *middleware.Stack) error {
		// the SDK has written the request by then
		return stack.Serialize.Add(write, middleware.After)
	})
}

func (z Zeros) write(request any) (any, error) {
	r, ok := request.(*smithyhttp.Request)
	if !ok {
		return nil, fmt.Errorf("the request is a %T", request)
	}
	body, err := io.ReadAll(r.GetStream())
	if err != nil {
		return nil, err
	}
	if body, err = z.into(body); err != nil {
		return nil, err
	}
	return r.SetStream(bytes.NewReader(body))
}

func (z Zeros) into(body []byte) ([]byte, error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	targets := []map[string]json.RawMessage{in}
	if entries, batch := in["Entries"]; batch {
		targets = nil
		if err := json.Unmarshal(entries, &targets); err != nil {
			return nil, err
		}
	}
	for _, target := range targets {
		for _, member := range z {
			target[member] = json.RawMessage("0")
		}
	}
	if _, batch := in["Entries"]; batch {
		entries, err := json.Marshal(targets)
		if err != nil {
			return nil, err
		}
		in["Entries"] = entries
	}
	return json.Marshal(in)
}
