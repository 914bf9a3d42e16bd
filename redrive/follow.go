package redrive

import (
	"context"
	"errors"
	"net/url"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"tenaq/internal/work/v1client"
)

// A tenaq server can say what became of a message, so a redriver without a ledger need not judge by
// silence. A send asks for a mark in one header, and its answer has the mark in another. Other
// servers ignore the first header and send no mark. [PEEK-9]
const (
	followHeader = "Tenaq-Follow"
	markHeader   = "Tenaq-Mark"
)

// A fate is what a server says about a message.
type fate int

const (
	open    fate = iota + 1 // it is in its queue, a dead letter, or unknown
	deleted                 // a consumer deleted it
)

// A follower asks a server what became of messages.
type follower struct{ server *v1client.Client }

// newFollower returns nil for a client that does not tell the address of its server, and for Amazon
// SQS.
func newFollower(client SQS) *follower {
	if server := v1client.New(client); server != nil {
		return &follower{server}
	}
	return nil
}

// ask makes a send ask for a mark.
func (f *follower) ask(o *sqs.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue(followHeader, "1"))
}

// markOf returns the mark in the answer of a send, or an empty one.
func markOf(metadata smithymiddleware.Metadata) string {
	if resp, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok {
		return resp.Header.Get(markHeader)
	}
	return ""
}

// fate asks what became of a flight that has a mark. Known is false if the server does not say, for
// example because the credentials do not allow the question.
func (f *follower) fate(ctx context.Context, flight *Flight) (_ fate, known bool, err error) {
	var answer struct{ State string }
	err = f.server.Get(ctx, "/queues/"+url.PathEscape(flight.Queue)+"/fate",
		url.Values{"mark": {flight.Mark}}, &answer)
	refusal, refused := errors.AsType[*v1client.Error](err)
	switch {
	case err == v1client.ErrOther, refused && !refusal.Passing():
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case answer.State == "deleted":
		return deleted, true, nil
	}
	return open, true, nil
}
