//go:build unix

package pipe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/claims"
	"tenaq/worker"
	"tenaq/worker/pipe"
)

var _ worker.Handler = (*pipe.HTTP)(nil)

// serve is an HTTP server of a test. Its connections are closed with it, and so are those of its
// clients.
func serve(t *testing.T, handle http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(handle)
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s.URL
}

var (
	refused = error(&pipe.StatusError{})
	errAny  = errors.New("") // of no kind that a test can tell
)

func TestStatus(t *testing.T) {
	long := strings.Repeat("ä", 2000)
	for _, test := range []struct {
		name   string
		status int
		header string // as name: value
		body   string
		kind   error
		text   string
	}{
		{"done", 200, "", "", nil, ""},
		{"created", 201, "", "result", nil, ""},
		{"accepted", 202, "", "", nil, ""},
		{"no content", 204, "", "", nil, ""},
		{"largest result", 200, "", strings.Repeat("x", claims.ResultMax), nil, ""},
		{"result too long", 200, "", strings.Repeat("x", claims.ResultMax+1), errAny, "status 200 has more than 131072 bytes"},
		{"poison", 422, "", "no order", poison, "status 422 Unprocessable Entity: no order"},
		{"later", 429, "Retry-After: 7", "slow down", later, "again in 7s: status 429 Too Many Requests: slow down"},
		{"later, unavailable", 503, "Retry-After: 120", "", later, "again in 2m0s: status 503 Service Unavailable"},
		{"at once is not at once", 503, "Retry-After: 0", "", later, "again in 1s: "},
		{"in the past", 503, "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT", "", later, "again in 1s: "},
		{"at a time", 503, "Retry-After: Wed, 21 Oct 2065 07:28:00 GMT", "", later, "again in 12h0m0s: "},
		{"too late", 429, "Retry-After: 99999999", "", later, "again in 12h0m0s: "},
		{"no time", 429, "Retry-After: soon", "", refused, "status 429"},
		{"negative", 429, "Retry-After: -1", "", refused, "status 429"},
		{"throttled without a time", 429, "", "", refused, "status 429"},
		{"unavailable without a time", 503, "", "", refused, "status 503"},
		{"retry after something else", 500, "Retry-After: 7", "", refused, "status 500"},
		{"error", 500, "", "a\x1b[31mb\xff", refused, `status 500 Internal Server Error: a\x1b[31mb\xff`},
		{"long error", 500, "", long, refused, "ää…"},
		{"not found", 404, "", "", refused, "status 404 Not Found"},
		{"redirect", 302, "Location: /elsewhere", "moved", refused, "status 302 Found: a redirect to /elsewhere, and redirects are not followed"},
		{"redirect that keeps the method", 307, "Location: http://192.0.2.1/", "", refused, "status 307"},
		{"not modified", 304, "", "", refused, "status 304"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var requests atomic.Int32
			h := &pipe.HTTP{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if name, value, ok := strings.Cut(test.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})}
			err := h.Handle(t.Context(), message("body"))
			if test.kind == errAny {
				if err == nil || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want an error with %q", err, test.text)
				}
			} else {
				sameKind(t, err, test.kind, test.text)
			}
			if err != nil && len(err.Error()) > 1024 {
				t.Errorf("got a reason of %d bytes", len(err.Error()))
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	var got *http.Request
	var body string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, body = r, string(text)
	})
	h := &pipe.HTTP{URL: url + "/do?x=1", Header: http.Header{"authorization": {"Bearer secret"}}}
	m := message(`{"id": 17}`)
	m.Group = "100% grün\n"
	must(t, h.Handle(t.Context(), m))
	if got.Method != "POST" || got.URL.String() != "/do?x=1" || body != `{"id": 17}` {
		t.Errorf("got %s %s with %q", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"Content-Type":     "application/json",
		"Authorization":    "Bearer secret",
		"Idempotency-Key":  "order-17#2",
		"Tenaq-Effect-Key": "order-17#2",
		"Tenaq-Message-Id": "m-1",
		"Tenaq-Key":        "order-17",
		"Tenaq-Generation": "2",
		"Tenaq-Fence":      "0",
		"Tenaq-Attempt":    "0",
		"Tenaq-Receives":   "3",
		"Tenaq-Redrives":   "1",
		"Tenaq-Lineage":    "m-0",
		"Tenaq-Group":      "100%25%20gr%C3%BCn%0A",
		"Tenaq-Queue-Url":  "http://127.0.0.1:9324/000000000000/orders",
		"Tenaq-Sent":       "2026-01-02T03:04:05.006Z",
	} {
		if values := got.Header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s: got %q, want %q", name, values, want)
		}
	}
	must(t, h.Handle(t.Context(), message("plain")))
	if typ := got.Header.Get("Content-Type"); typ != "text/plain; charset=utf-8" {
		t.Errorf("got Content-Type %q of a body that is no JSON", typ)
	}
	h = &pipe.HTTP{URL: url, Header: http.Header{"Content-Type": {"application/cbor"}}}
	must(t, h.Handle(t.Context(), message("{}")))
	if typ := got.Header.Values("Content-Type"); len(typ) != 1 || typ[0] != "application/cbor" {
		t.Errorf("got Content-Type %q, want that of Header", typ)
	}
}

// If no server listens, nothing has begun, so no attempt is counted. Any other error counts as an
// attempt.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	h := &pipe.HTTP{URL: "http://" + l.Addr().String() + "/?token=secret", Pause: 9 * time.Second}
	err = h.Handle(t.Context(), message(""))
	sameKind(t, err, later, "again in 9s: the endpoint cannot be reached: ")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want a reason without the query", err)
	}
	for _, url := range []string{"", "://", "ftp://127.0.0.1/", "http://"} {
		err := (&pipe.HTTP{URL: url}).Handle(t.Context(), message(""))
		if err == nil || fmt.Sprintf("%T", err) == fmt.Sprintf("%T", later) {
			t.Errorf("URL %q: got %v, want an error", url, err)
		}
	}
}

// hijacked closes connections: after the request was read, and having answered what is given.
func hijacked(t *testing.T, answers ...string) (url string, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := int(requests.Add(1))
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if n <= len(answers) {
			_, _ = io.WriteString(c, answers[n-1])
		}
	}), requests
}

// An answer that breaks off may lack the end of the work.
func TestBrokenConnection(t *testing.T) {
	for name, answer := range map[string]string{
		"no answer":        "",
		"half a head":      "HTTP/1.1 200 OK\r\nContent-",
		"half a body":      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"half of a stream": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"no HTTP":          "hello\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := hijacked(t, answer)
			err := (&pipe.HTTP{URL: url}).Handle(t.Context(), message("body"))
			if err == nil || fmt.Sprintf("%T", err) == fmt.Sprintf("%T", later) {
				t.Errorf("got %v, want a failed attempt", err)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// If a reused connection breaks, net/http repeats a request that has an idempotency key. Then two
// requests would run for one attempt.
func TestNotSentAgain(t *testing.T) {
	var requests atomic.Int32
	h := &pipe.HTTP{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Idempotency-Key") == "" {
			t.Error("no Idempotency-Key")
		}
		if requests.Add(1) > 1 {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		}
	})}
	must(t, h.Handle(t.Context(), message("body")))
	if err := h.Handle(t.Context(), message("body")); err == nil {
		t.Error("got no error when the connection broke")
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests for two attempts", n)
	}
}

func TestSlowServer(t *testing.T) {
	begun, never := make(chan struct{}), make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Tenaq-Group") == "stream" {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
		}
		for _, step := range []chan<- struct{}{begun, never} {
			select {
			case step <- struct{}{}:
			case <-r.Context().Done(): // the client has gone
			}
		}
	})
	for _, group := range []string{"", "stream"} {
		m := message("body")
		m.Group = group

		ctx, cancel := context.WithCancelCause(t.Context())
		result := start(ctx, &pipe.HTTP{URL: url}, m)
		<-begun
		cancel(worker.ErrLost)
		if err := <-result; !errors.Is(err, worker.ErrLost) {
			t.Errorf("group %q: got %v, want ErrLost", group, err)
		}

		err := (&pipe.HTTP{URL: url, Timeout: time.Millisecond}).Handle(t.Context(), m)
		if err == nil || !strings.Contains(err.Error(), "no answer in time, within 1ms") {
			t.Errorf("group %q: got %v, want an error about the time", group, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(worker.ErrDraining)
	if err := (&pipe.HTTP{URL: url}).Handle(ctx, message("")); err != worker.ErrDraining {
		t.Errorf("got %v before the start, want ErrDraining", err)
	}
}

// A client that is given keeps its own ways, but for redirects.
func TestOwnClient(t *testing.T) {
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	sameKind(t, (&pipe.HTTP{URL: url, Client: client}).Handle(t.Context(), message("")), refused, "status 307")
	if n := requests.Load(); n != 1 || client.CheckRedirect != nil {
		t.Errorf("%d requests, want 1, and a client that is as it was", n)
	}
}
