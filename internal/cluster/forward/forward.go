// Package forward passes requests to the leader of a cluster and returns its responses.
//
// What it guarantees:
//
//   - A request that no node has carried out is tried again at whichever node leads then, for 3
//     seconds. An election takes less.
//   - A request that a node may have carried out is never sent again: ErrOutcomeUnknown. A request
//     whose leader was replaced and does not answer, because its machine is lost, ends the same
//     way. So does a stream of events that the leader sends.
//   - Everything that a signature can cover arrives unchanged: method, path, query, Host, headers
//     and body. The leader also learns the address of the client, and whether it used TLS.
//   - When a client disconnects, the connection to the leader is closed.
//   - Of the requests that wait for a node that takes none, one at a time asks it, until it takes
//     one.
//
// It leaves to others: how nodes prove themselves to each other (Config.Dial), who leads
// (Config.Leader), the memory that bodies take, and the form of an error response. Receive trusts
// what the other end says about the client, so use it only for connections between nodes.
package forward

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Headers between nodes. Those of a request that a client has sent are removed.
const (
	clientHeader = "Tenaq-Client" // the address of the client
	secureHeader = "Tenaq-Secure" // set when the client used TLS

	// NotTaken is set in a response that says that the request was not carried out, so that another
	// node may be asked.
	NotTaken = "Tenaq-Not-Taken"
)

const (
	hold     = 3 * time.Second       // how long a request waits for a leader
	lookAt   = 20 * time.Millisecond // how often it looks for one
	idle     = 256                   // connections to a leader that are kept
	idleTime = 90 * time.Second      // less than a node waits for the next request
)

var (
	// ErrNoLeader reports that no node accepted the request for 3 seconds. The client may try
	// again.
	ErrNoLeader = errors.New("no node of the cluster leads: a majority of its nodes must be running and reach each other")

	// ErrHere reports that this node leads now. It has not sent the request.
	ErrHere = errors.New("this node leads")

	// ErrOutcomeUnknown reports that the leader was lost after it received the request.
	ErrOutcomeUnknown = errors.New("the leader was lost while it had the request: whether it was carried out is unknown")
)

// Config configures a Forwarder. All fields but Here are required.
type Config struct {
	// Here reports whether this node leads, and so answers requests itself. Nil for a node that
	// never does.
	Here func() bool

	// Leader returns where the leader is reached, as far as this node knows.
	Leader func() (address string, known bool)

	// Dial opens a connection for HTTP to the node at an address.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// A Forwarder forwards requests. It is safe for concurrent use.
type Forwarder struct {
	cfg       Config
	hold      time.Duration // tests shorten it
	transport *http.Transport
	refused   atomic.Pointer[refusal] // the latest
}

// New returns a Forwarder. Close gives back its connections.
func New(cfg Config) *Forwarder {
	f := &Forwarder{cfg: cfg, hold: hold}
	f.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := cfg.Dial(ctx, address)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		DisableCompression:  true, // or it would ask for what the client has not asked for
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     idleTime,
	}
	return f
}

// Close closes the connections that are not in use.
func (f *Forwarder) Close() { f.transport.CloseIdleConnections() }

// Do sends r, whose body was read, to the leader. The caller closes the body of the response. The
// error is ErrHere, ErrNoLeader, ErrOutcomeUnknown, or that of r's context.
func (f *Forwarder) Do(r *http.Request, body []byte) (*http.Response, error) {
	ctx := r.Context()
	last := error(nil)
	for deadline := time.Now().Add(f.hold); ; {
		if f.cfg.Here != nil && f.cfg.Here() {
			return nil, ErrHere
		}
		if address, known := f.cfg.Leader(); known && f.mayAsk(address) {
			res, sent, err := f.ask(address, r, body)
			switch {
			case ctx.Err() != nil:
				discard(res)
				return nil, ctx.Err()
			case err != nil && sent:
				return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			case err == nil && res.Header.Get(NotTaken) == "":
				if f.refused.Load() != nil {
					f.refused.Store(nil)
				}
				return res, nil
			}
			discard(res)
			f.refused.Store(&refusal{address: address, until: time.Now().Add(lookAt)})
			last = err
		}
		if time.Until(deadline) <= 0 {
			if last != nil {
				return nil, fmt.Errorf("%w: %w", ErrNoLeader, last)
			}
			return nil, ErrNoLeader
		}
		select {
		case <-time.After(lookAt):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A refusal says that a node has not taken a request, and so will not take others for a moment.
type refusal struct {
	address string
	until   time.Time
	retried bool // a request tries the node again
}

// mayAsk reports whether the node at an address may be asked. After a refusal one request tries it
// again, and the others wait until that is answered, or has taken longer than a refusal takes.
func (f *Forwarder) mayAsk(address string) bool {
	last, now := f.refused.Load(), time.Now()
	switch {
	case last == nil || last.address != address:
		return true
	case now.Before(last.until):
		return false
	case last.retried:
		f.refused.CompareAndSwap(last, nil)
		return true
	}
	return f.refused.CompareAndSwap(last,
		&refusal{address: address, until: now.Add(lookAt), retried: true})
}

// discard reads the rest of a short response, so that its connection can be used again.
func discard(res *http.Response) {
	if res != nil {
		_, _ = io.CopyN(io.Discard, res.Body, 4096)
		_ = res.Body.Close()
	}
}

// ask sends the request once. If there is no response, sent says whether a part of the request may
// have reached the other node.
func (f *Forwarder) ask(
	address string, r *http.Request, body []byte,
) (res *http.Response, sent bool, err error) {
	var used atomic.Pointer[countedConn]
	var before atomic.Int64
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		conn := info.Conn.(*countedConn)
		before.Store(conn.written.Load())
		used.Store(conn)
	}}
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(r.Context(), trace))
	stop := f.watch(address, cancel)
	res, err = f.transport.RoundTrip(outgoing(ctx, address, r, body))
	if err == nil && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = &watched{res.Body, stop} // it has no end, so nothing else notices
	} else {
		stop()
	}
	if conn := used.Load(); conn != nil {
		sent = conn.written.Load() > before.Load()
	}
	return res, sent, err
}

// A watched body is one whose leader is watched until it is closed.
type watched struct {
	io.ReadCloser
	stop func()
}

func (w *watched) Close() error {
	w.stop()
	return w.ReadCloser.Close()
}

// watch gives a request up when the node at its address was replaced so long ago that it would
// know. Nothing else ends a request to a machine that is lost. Stop ends the watch.
func (f *Forwarder) watch(address string, giveUp func()) (stop func()) {
	var done atomic.Bool
	replaced := false // when it was looked last
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		leader, known := f.cfg.Leader()
		before := replaced
		replaced = !known || leader != address
		switch {
		case done.Load():
		case replaced && before:
			giveUp()
		default:
			timer.Reset(f.hold)
		}
	})
	timer.Reset(f.hold) // not earlier: it uses itself
	return func() { done.Store(true); timer.Stop() }
}

// hopHeaders are between a client and the node that it is connected to. No SDK signs them.
var hopHeaders = []string{"Connection", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", clientHeader, secureHeader}

// outgoing is the request to the leader.
func outgoing(ctx context.Context, address string, r *http.Request, body []byte) *http.Request {
	out := (&http.Request{
		Method: r.Method, Host: r.Host, Header: r.Header.Clone(),
		URL: &url.URL{Scheme: "http", Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath,
			RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or the transport would name itself
	}
	// The transport sends a request without a body again by itself if it has one of these headers.
	// It looks for them in this spelling only, and HTTP knows no difference.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = v
		}
	}
	out.Header.Set(clientHeader, r.RemoteAddr)
	if r.TLS != nil {
		out.Header.Set(secureHeader, "1")
	}
	// The transport sends a request again by itself if it believes that it may. It does not believe
	// so of one whose body it cannot read twice, which an empty body must not hide.
	out.Body = io.NopCloser(onlyReader{bytes.NewReader(body)})
	if len(body) == 0 && r.Method == http.MethodPost {
		out.Body = http.NoBody // an unknown length would be sent in chunks
	}
	return out
}

type onlyReader struct{ io.Reader }

// A countedConn counts what was written to it, so that a request that was not sent can be told from
// one that may have been.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// Receive serves requests that other nodes forward: h sees them as if their clients were connected
// to this node. It cannot take the connection over, because the next request on it may be of
// another client.
func Receive(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = r.Header.Get(clientHeader)
		if r.TLS = nil; r.Header.Get(secureHeader) != "" {
			r.TLS = &tls.ConnectionState{HandshakeComplete: true}
		}
		r.Header.Del(clientHeader)
		r.Header.Del(secureHeader)
		h.ServeHTTP(&response{w, http.NewResponseController(w)}, r)
	})
}

// A response is one whose connection cannot be taken over.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (r *response) FlushError() error                  { return r.control.Flush() }
func (r *response) SetReadDeadline(t time.Time) error  { return r.control.SetReadDeadline(t) }
func (r *response) SetWriteDeadline(t time.Time) error { return r.control.SetWriteDeadline(t) }
