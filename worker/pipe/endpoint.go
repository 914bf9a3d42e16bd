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

	"tenaq/internal/work/sqslimits"
	"tenaq/worker"
)

// pauseDefault is how long a message is given back for if a task does not say.
const pauseDefault = 60 * time.Second

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
		// Otherwise a busy worker would reconnect for most messages.
		MaxIdleConnsPerHost: connectionsMax,
		IdleConnTimeout:     30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}}
}

// connectionsMax bounds the connections of a client, in case worker.Config.Concurrency is too high.
const connectionsMax = 256

// withoutRedirects returns a copy of c that does not follow redirects, which could turn a POST into
// a GET, or take the message to another host.
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

// An answer is a complete answer of an endpoint.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// errSlow is the cause of a timeout.
var errSlow = errors.New("no answer in time")

// post makes one request and reads an answer with a 2xx of at most limit bytes. For any other
// status, it returns the error that decides about the message.
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
		// Some servers send the status before the work is done, so the work may not be done.
		return nil, fmt.Errorf("the answer with status %d was cut off: %w", resp.StatusCode,
			e.unanswered(ctx, err))
	case len(text) > limit:
		return nil, fmt.Errorf("the answer with status %d has more than %d bytes: store the result elsewhere and answer with its name", resp.StatusCode, limit)
	}
	return &answer{resp.StatusCode, resp.Header, text}, nil
}

// unanswered returns the error for a missing answer. Without a connection, the work has not begun.
// Otherwise its state is unknown, and it counts as an attempt.
func (e *endpoint) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err // without the URL, which may contain a secret
	}
	op, ok := errors.AsType[*net.OpError](err)
	if ok && (op.Op == "dial" || op.Op == "proxyconnect") {
		return worker.Later(cmp.Or(e.pause, pauseDefault),
			"the endpoint cannot be reached: "+err.Error())
	}
	return err
}

// A StatusError says that an endpoint answered with a status other than a 2xx. Errors of HTTP and
// Lambda wrap it.
type StatusError struct {
	Status int
	Body   string // the beginning of it, safe to print
}

// Error returns the status and the beginning of the body.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	if e.Body == "" {
		return s
	}
	return s + ": " + e.Body
}

// refused returns the error for a status other than a 2xx.
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

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(value string, now time.Time) (after time.Duration, ok bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		after = at.Sub(now)
	} else {
		return 0, false
	}
	return min(max(after, time.Second), sqslimits.VisibilityMax), true
}
