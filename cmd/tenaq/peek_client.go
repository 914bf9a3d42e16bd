package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/smithy-go"
)

// v1Header is what a tenaq server says of itself in answers of /v1.
const v1Header = "Tenaq-Api"

// A v1Client reads what a tenaq server shows beside the SQS API.
type v1Client struct {
	c    *client // for its endpoint and its words for what goes wrong
	http *http.Client
}

// connectV1 finds the server. What is read there needs no credentials, so none are looked for.
func (f *clientFlags) connectV1() (*v1Client, error) {
	e, err := f.resolve()
	if err != nil {
		return nil, err
	}
	timeout, err := parseDuration(f.timeout)
	if err != nil || timeout == 0 {
		return nil, usagef("--timeout: %q is not a duration such as 15s", f.timeout)
	}
	v := &v1Client{&client{endpoint: e, timeout: timeout}, &http.Client{Transport: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}}
	if e.isAmazon() {
		return nil, v.missing()
	}
	return v, nil
}

// missing says what to do where there is no such read.
func (v *v1Client) missing() error {
	return codedf(exitUsage, "%s shows a message only by delivering it: a look without that needs a tenaq server of this version; what comes nearest is "+
		"\"tenaq receive QUEUE --visibility 0\", which counts as a receive, and may move the message to the dead-letter queue", v.c.endpoint)
}

// get reads a path below /v1 into an answer. What is being done to which queue begins the sentence when it fails.
func (v *v1Client) get(ctx context.Context, doing, queue, path string, query url.Values, answer any) error {
	ctx, cancel := v.c.bound(ctx, 0)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.c.endpoint.url+"/v1"+path+"?"+query.Encode(), nil)
	if err != nil {
		return usagef("%s is not an address to ask at: %v", v.c.endpoint, err)
	}
	resp, err := v.http.Do(req)
	if err != nil {
		return v.c.explain(doing, queue, withCause(ctx, err))
	}
	defer resp.Body.Close()
	if resp.Header.Get(v1Header) == "" {
		return v.missing()
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return v.c.explain(doing, queue, withCause(ctx, err))
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, answer); err != nil {
			return codedf(exitFailed, "%s: %s has answered what this version cannot read: %v", strings.TrimSpace(doing+" "+queue), v.c.endpoint, err)
		}
		return nil
	}
	var refusal struct{ Code, Message string }
	if json.Unmarshal(body, &refusal) != nil || refusal.Code == "" {
		refusal.Code = http.StatusText(resp.StatusCode)
	}
	return v.c.explain(doing, queue, &smithy.GenericAPIError{Code: refusal.Code, Message: refusal.Message})
}
