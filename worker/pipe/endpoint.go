package pipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tenaq/worker"
)

// pauseDefault is how long a message is given back for when a task says later and not when.
const pauseDefault = 60 * time.Second

// laterMax is the longest pause that is asked for: SQS hides a message for 12 h at most, its
// receive included.
const laterMax = 12 * time.Hour

// An endpoint is where requests go, and how.
type endpoint struct {
	url     string
	client  *http.Client
	header  http.Header
	timeout time.Duration
	pause   time.Duration
}

// newClient returns a client for one endpoint.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       dialer.DialContext,
		ForceAttemptHTTP2: true,
		MaxConnsPerHost:   connectionsMax,
		// else a busy worker would connect anew for most messages
		MaxIdleConnsPerHost: connectionsMax,
		IdleConnTimeout:     30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}}
}

// connectionsMax bounds the connections of a client. How many there are is the worker's
// Concurrency; this is for one that is set too high.
const connectionsMax = 256

// withoutRedirects is a client like c that follows none: a redirect turns a POST into a GET, or
// takes the message to where nobody said it should go.
func withoutRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = newClient()
	}
	same := *c
	same.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return &same
}

// An answer is what an endpoint answered, completely.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// errSlow is why a request was given up.
var errSlow = errors.New("no answer in time")

// post makes one request and reads at most limit bytes of what is answered with a 2xx. Any other
// status is an error, of the kind that says what is to become of the message.
func (e *endpoint) post(
	ctx context.Context, header http.Header, body string, limit int,
) (*answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if e.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.timeout,
			fmt.Errorf("%w, within %v", errSlow, e.timeout))
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	for name, values := range e.header {
		req.Header[name] = values
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, e.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, e.refused(resp)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		// The status was sent before the work was done, as servers do that write while they work.
		// What is missing may be the end of the work.
		return nil, fmt.Errorf("the answer with status %d broke off: %w", resp.StatusCode,
			e.unanswered(ctx, err))
	case len(text) > limit:
		return nil, fmt.Errorf("the answer with status %d has more than %d bytes: keep the result elsewhere and answer with its name", resp.StatusCode, limit)
	}
	return &answer{resp.StatusCode, resp.Header, text}, nil
}

// unanswered says what it means that there was no answer. When there was no connection, nothing has
// begun. Else nobody knows, and it is an attempt.
func (e *endpoint) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the URL, in which there may be a secret
	}
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") {
		return worker.Later(cmp.Or(e.pause, pauseDefault),
			"the endpoint cannot be reached: "+err.Error())
	}
	return err
}

// A StatusError says that an endpoint answered with another status than a 2xx. Errors of HTTP and
// Lambda wrap it.
type StatusError struct {
	Status int
	Body   string // the beginning of it, safe to print
}

// Error says the status and what came with it.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	if e.Body == "" {
		return s
	}
	return s + ": " + e.Body
}

// refused says what a status means that is no 2xx.
func (e *endpoint) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4*tailMax)) // a part is better than nothing
	failed := &StatusError{resp.StatusCode, head(safe(string(text), "\n\t"))}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
			return worker.Later(after, failed.Error())
		}
	case http.StatusUnprocessableEntity:
		return worker.Poison(failed)
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < 400 {
		failed.Body = "a redirect to " + head(safe(to, "")) + ", and redirects are not followed"
	}
	return failed
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string, now time.Time) (after time.Duration, ok bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		after = at.Sub(now)
	} else {
		return 0, false
	}
	return min(max(after, time.Second), laterMax), true
}
