package pipe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"tenaq/claims"
	"tenaq/worker"
)

// An HTTP makes a request for each message: a POST with the body of the message. It has the headers
// Tenaq-Message-Id, Tenaq-Key, Tenaq-Generation, Tenaq-Fence, Tenaq-Attempt, Tenaq-Receives,
// Tenaq-Redrives, Tenaq-Lineage, Tenaq-Group, Tenaq-Queue-Url and Tenaq-Sent (RFC 3339), which
// package worker explains, and the effect key as Idempotency-Key and Tenaq-Effect-Key. In their
// values, spaces, % and all bytes other than printable ASCII are percent-encoded. Message
// attributes are not sent; Lambda sends them.
//
// The answer decides about the message:
//
//	2xx                         done, and the body of the answer is recorded as the result
//	422                         poison: it goes to the dead-letter queue at once
//	429, 503 with Retry-After   it comes back after that, and no attempt is counted
//	no connection               it comes back after Pause, and no attempt is counted: nothing has begun
//	anything else               an attempt has failed
//
// Anything else includes redirects, which are not followed, an incomplete answer, and one of more
// than claims.ResultMax bytes.
//
// No request is sent twice. When the context ends, the connection is closed, but the endpoint may
// continue. The fence distinguishes an old request from a new one.
//
// URL is required; the rest has defaults. An HTTP must not be copied or changed after its first
// use.
type HTTP struct {
	// URL is where requests go.
	URL string

	// Client makes the requests. When nil, it is a client with persistent connections and the proxy
	// of the environment. Redirects are not followed in either case.
	Client *http.Client

	// Header is added to every request. Unless it has a Content-Type, that is application/json for
	// bodies that are JSON, otherwise text/plain.
	Header http.Header

	// Timeout is how long a request may take: as long as a handler when zero.
	Timeout time.Duration

	// Pause is how long a message is given back for when there is no connection: 60 s when zero.
	Pause time.Duration

	once     sync.Once
	endpoint *endpoint
}

// Handle makes the request for a message and waits for the answer.
func (h *HTTP) Handle(ctx context.Context, m *worker.Message) error {
	h.once.Do(func() {
		h.endpoint = &endpoint{h.URL, withoutRedirects(h.Client), canonical(h.Header), h.Timeout,
			h.Pause}
	})
	header := make(http.Header)
	for _, f := range factsOf(m) {
		if f.value != "" {
			header.Set("Tenaq-"+f.name, headerValue(f.value))
		}
	}
	// This name is not in its canonical form, because net/http would repeat a request with that
	// header when the connection breaks, and the endpoint would do the work twice in one attempt.
	// Servers treat both forms alike.
	header["idempotency-key"] = []string{headerValue(m.EffectKey())}
	if _, given := h.endpoint.header["Content-Type"]; !given {
		header.Set("Content-Type", contentType(m.Body))
	}
	a, err := h.endpoint.post(ctx, header, m.Body, claims.ResultMax)
	if err != nil {
		return err
	}
	if len(a.body) > 0 {
		return m.SetResult(a.body)
	}
	return nil
}

// canonical returns a header with canonical names.
func canonical(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		for _, v := range values {
			out.Add(name, v)
		}
	}
	return out
}

func contentType(body string) string {
	if json.Valid([]byte(body)) {
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// headerValue encodes bytes that a header cannot hold, so that different keys stay different.
func headerValue(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > 0x20 && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
