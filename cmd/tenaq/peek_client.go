package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
)

// v1Header is what a tenaq server says of itself in answers of /v1.
const v1Header = "Tenaq-Api"

// A v1Client reads what a tenaq server shows beside the SQS API.
type v1Client struct {
	c    *client // for its endpoint, its credentials if it has any, and its words for what goes wrong
	http interface {
		Do(*http.Request) (*http.Response, error)
	}
	lack string // what it means that a server is not ours
}

// connectV1 finds the server. A server without credentials is asked without any, so it does not matter if there are none.
// Lack is what to say, and to do, where the server is none of ours.
func (f *clientFlags) connectV1(ctx context.Context, lack string) (*v1Client, error) {
	c, err := f.connect(ctx)
	switch {
	case err == nil && !c.endpoint.isAmazon():
		return &v1Client{c, c.Options().HTTPClient, lack}, nil
	case err != nil && exitCode(err) == exitUsage:
		return nil, err
	}
	e, err := f.resolve()
	if err != nil {
		return nil, err
	}
	timeout, err := parseDuration(f.timeout)
	if err != nil {
		return nil, err
	}
	v := &v1Client{&client{endpoint: e, timeout: timeout}, &http.Client{Transport: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}, lack}
	if e.isAmazon() {
		return nil, v.missing()
	}
	return v, nil
}

// sign signs a request as those of the SQS API are signed, where there is anything to sign with.
func (v *v1Client) sign(ctx context.Context, req *http.Request, body []byte) error {
	if v.c.Client == nil || v.c.Options().Credentials == nil {
		return nil
	}
	keys, err := v.c.Options().Credentials.Retrieve(ctx)
	if err != nil {
		return codedf(exitFailed, "there are no credentials for %s: %v", v.c.endpoint, err)
	}
	sum := sha256.Sum256(body)
	return v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), "sqs", v.c.Options().Region, time.Now())
}

// missing says what to do where there is nothing of the kind.
func (v *v1Client) missing() error { return codedf(exitUsage, "%s %s", v.c.endpoint, v.lack) }

// get reads a path below /v1 into an answer. What is being done to which queue begins the sentence when it fails.
func (v *v1Client) get(ctx context.Context, doing, queue, path string, query url.Values, answer any) error {
	return v.do(ctx, http.MethodGet, doing, queue, path+"?"+query.Encode(), nil, answer)
}

// post sends a document to a path below /v1 that changes something.
func (v *v1Client) post(ctx context.Context, doing, about, path string, in, answer any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return v.do(ctx, http.MethodPost, doing, about, path, body, answer)
}

func (v *v1Client) do(ctx context.Context, method, doing, queue, path string, in []byte, answer any) error {
	ctx, cancel := v.c.bound(ctx, 0)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, v.c.endpoint.url+"/v1"+path, bytes.NewReader(in))
	if err != nil {
		return usagef("%s is not an address to ask at: %v", v.c.endpoint, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := v.sign(ctx, req, in); err != nil {
		return err
	}
	resp, err := v.http.Do(req)
	if err != nil {
		return v.c.explain(doing, queue, withCause(ctx, err))
	}
	defer resp.Body.Close()
	if resp.Header.Get(v1Header) == "" {
		return v.missing()
	}
	if resp.StatusCode == http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return v.c.explain(doing, queue, withCause(ctx, err))
		}
		if err := json.Unmarshal(body, answer); err != nil {
			return codedf(exitFailed, "%s: %s has answered what this version cannot read: %v", strings.TrimSpace(doing+" "+queue), v.c.endpoint, err)
		}
		return nil
	}
	return v.refusal(resp, doing, queue)
}

// refusal reads why a server has refused.
func (v *v1Client) refusal(resp *http.Response, doing, queue string) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return v.c.explain(doing, queue, err)
	}
	var refusal struct{ Code, Message string }
	if json.Unmarshal(body, &refusal) != nil || refusal.Code == "" {
		refusal.Code = http.StatusText(resp.StatusCode)
	}
	return v.c.explain(doing, queue, &smithy.GenericAPIError{Code: refusal.Code, Message: refusal.Message})
}
