// Package v1client calls /v1, the API of a tenaq server for the features that SQS lacks. It has the
// same address as the SQS API.
//
// A Client is made from a client of the SQS API. It takes the address, the HTTP client, the region
// and the credentials from it, and signs requests as the SDK does.
//
// What it guarantees:
//
//   - Only an answer with the header Tenaq-Api counts as an answer of tenaq. Any other server is
//     ErrOther, whatever it answers, unless it only says that it cannot answer now.
//   - A refusal is an *Error, with the code and the message of the server.
//   - A request is sent once, and lasts no longer than its context.
//
// It leaves to others: retries, and what a refusal means.
package v1client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
)

// Header is the header by which answers of /v1 are recognized.
const Header = "Tenaq-Api"

// ErrOther is the error for a server that is not tenaq.
var ErrOther = errors.New("the server is not tenaq")

// An Error is a refusal of the server. It implements smithy.APIError, so it can be handled like a
// refusal of the SQS API.
type Error struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

var _ smithy.APIError = (*Error)(nil)

// Error returns the message and the code.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server answers %d (%s)", e.Status, e.Code)
	}
	return strings.TrimSuffix(e.Message, ".") + " (" + e.Code + ")"
}

// ErrorCode implements smithy.APIError.
func (e *Error) ErrorCode() string { return e.Code }

// ErrorMessage implements smithy.APIError.
func (e *Error) ErrorMessage() string { return e.Message }

// ErrorFault implements smithy.APIError.
func (e *Error) ErrorFault() smithy.ErrorFault {
	if e.Status >= http.StatusInternalServerError {
		return smithy.FaultServer
	}
	return smithy.FaultClient
}

// Passing reports whether the same request may succeed later.
func (e *Error) Passing() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
}

// A Client asks one server. It is safe for concurrent use.
type Client struct {
	URL  string // of the server, without /v1
	HTTP sqs.HTTPClient

	// Credentials and Region sign requests; without Credentials they are not signed.
	Credentials aws.CredentialsProvider
	Region      string
}

// New returns a client for the server of a client of the SQS API. It returns nil for one without an
// address of its own, such as one for Amazon SQS.
func New(client any) *Client {
	c, ok := client.(interface{ Options() sqs.Options })
	if !ok {
		return nil
	}
	o := c.Options()
	if o.HTTPClient == nil || aws.ToString(o.BaseEndpoint) == "" {
		return nil
	}
	return &Client{URL: *o.BaseEndpoint, HTTP: o.HTTPClient, Credentials: o.Credentials,
		Region: o.Region}
}

// Get asks for what is below /v1 at path, and decodes the answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, answer any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.ask(ctx, http.MethodGet, path, nil, answer)
}

// Post sends a JSON document to a path below /v1, and decodes the answer.
func (c *Client) Post(ctx context.Context, path string, in, answer any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.PostJSON(ctx, path, body, answer)
}

// PostJSON is Post of a document that is JSON already. An answer that is a json.Unmarshaler decodes
// itself.
func (c *Client) PostJSON(ctx context.Context, path string, in []byte, answer any) error {
	return c.ask(ctx, http.MethodPost, path, in, answer)
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte, answer any) error {
	resp, err := c.Do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	text.Grow(int(min(max(resp.ContentLength, 0), 1<<20)) + bytes.MinRead) // to read it at once
	if _, err := text.ReadFrom(resp.Body); err != nil {
		return err
	}
	if own, ok := answer.(json.Unmarshaler); ok {
		err = own.UnmarshalJSON(text.Bytes())
	} else {
		err = json.Unmarshal(text.Bytes(), answer)
	}
	if err != nil {
		return fmt.Errorf("this version cannot read the answer of %s: %w", c.URL, err)
	}
	return nil
}

// Do makes a request, with a body of JSON unless that is nil. The caller reads and closes the body
// of the answer, which is a success.
func (c *Client) Do(
	ctx context.Context, method, path string, body []byte,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/v1"+path,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := c.sign(ctx, req, body); err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	ours := resp.Header.Get(Header) != ""
	if ours && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	refusal := &Error{Code: http.StatusText(resp.StatusCode)}
	if ours {
		text, err := io.ReadAll(io.LimitReader(resp.Body, refusalMax))
		if err != nil {
			return nil, err
		}
		stated := *refusal
		if json.Unmarshal(text, &stated) == nil && stated.Code != "" {
			refusal = &stated
		}
	}
	refusal.Status = resp.StatusCode
	if !ours && !refusal.Passing() { // a proxy in front of a server that is away
		return nil, ErrOther
	}
	return nil, refusal
}

// refusalMax is the most of a refusal that is read, in bytes: one may show a record.
const refusalMax = 1 << 20

// signer keeps the keys that it has derived.
var signer = v4.NewSigner()

func (c *Client) sign(ctx context.Context, req *http.Request, body []byte) error {
	if c.Credentials == nil {
		return nil
	}
	keys, err := c.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("no credentials for %s: %w", c.URL, err)
	}
	sum := sha256.Sum256(body)
	return signer.SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), "sqs", c.Region,
		time.Now())
}
