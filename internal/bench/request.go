package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// An Endpoint is an endpoint of the SQS API.
type Endpoint struct {
	URL    *url.URL
	Region string

	// Credentials sign the requests; nil sends them unsigned.
	Credentials aws.CredentialsProvider
}

// signedFor is how long a signature is reused for the same bytes. Servers accept it for 15 minutes.
const signedFor = time.Minute

// A request is encoded once and sent many times. It belongs to one client.
type request struct {
	endpoint *Endpoint
	action   string
	wait     time.Duration // how long the answer may be held back
	watched  bool          // the round sets the deadline of the connection

	body   []byte
	bytes  []byte
	signed time.Time
}

func (r *request) set(format string, args ...any) {
	r.body = fmt.Appendf(r.body[:0], format, args...)
	r.bytes = r.bytes[:0]
}

func (r *request) wire(ctx context.Context) ([]byte, error) {
	if len(r.bytes) > 0 && (r.endpoint.Credentials == nil || time.Since(r.signed) < signedFor) {
		return r.bytes, nil
	}
	u := r.endpoint.URL
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	b := fmt.Appendf(r.bytes[:0],
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-amz-json-1.0\r\n"+
			"X-Amz-Target: AmazonSQS.%s\r\nUser-Agent: tenaq-bench\r\nContent-Length: %d\r\n", path,
		u.Host, r.action, len(r.body))
	if r.endpoint.Credentials != nil {
		header, err := r.sign(ctx)
		if err != nil {
			return nil, err
		}
		b = append(b, header...)
	}
	b = append(b, '\r', '\n')
	r.bytes = append(b, r.body...)
	return r.bytes, nil
}

func (r *request) sign(ctx context.Context) (string, error) {
	keys, err := r.endpoint.Credentials.Retrieve(ctx)
	if err != nil {
		return "", err
	}
	h, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint.URL.String(), nil)
	if err != nil {
		return "", err
	}
	h.ContentLength = int64(len(r.body))
	h.Header.Set("Content-Type", "application/x-amz-json-1.0")
	h.Header.Set("X-Amz-Target", "AmazonSQS."+r.action)
	sum := sha256.Sum256(r.body)
	r.signed = time.Now()
	if err := v4.NewSigner().SignHTTP(ctx, keys, h, hex.EncodeToString(sum[:]), "sqs",
		r.endpoint.Region, r.signed); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := h.Header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	return b.String(), nil
}
