package redrive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
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
type follower struct{ options sqs.Options }

// newFollower returns nil for a client that does not tell the address of its server, and for Amazon
// SQS.
func newFollower(client SQS) *follower {
	c, ok := client.(interface{ Options() sqs.Options })
	if !ok {
		return nil
	}
	options := c.Options()
	if options.HTTPClient == nil || aws.ToString(options.BaseEndpoint) == "" {
		return nil
	}
	return &follower{options}
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
	address := strings.TrimSuffix(aws.ToString(f.options.BaseEndpoint), "/") + "/v1/queues/" +
		url.PathEscape(flight.Queue) +
		"/fate?" + url.Values{"mark": {flight.Mark}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, false, err
	}
	if err := f.sign(ctx, req); err != nil {
		return 0, false, err
	}
	resp, err := f.options.HTTPClient.Do(req)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	switch {
	case err != nil:
		return 0, false, err
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return 0, false, fmt.Errorf("the server answers %s", resp.Status)
	case resp.StatusCode != http.StatusOK:
		return 0, false, nil
	}
	var answer struct{ State string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, false, err
	}
	if answer.State == "deleted" {
		return deleted, true, nil
	}
	return open, true, nil
}

// sign signs a request like those of the SQS API.
func (f *follower) sign(ctx context.Context, req *http.Request) error {
	if f.options.Credentials == nil {
		return nil
	}
	keys, err := f.options.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	nothing := sha256.Sum256(nil)
	return v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(nothing[:]), "sqs",
		f.options.Region, time.Now())
}
