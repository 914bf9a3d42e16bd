// Package http1 serves the most common kind of request to a queue, and leaves all others to
// net/http.
//
// A Server is an http.Server with its handler, limits and lifetime. For each request, net/http
// starts a goroutine that watches the connection, moves deadlines five times, and makes contexts,
// maps, buffers and strings: 30 allocations with an empty handler. The loop of this package does
// none of this for a request that arrives at once and is answered soon, and makes 4 allocations.
// `go test -bench . ./internal/api/http1` compares the two.
//
// What it guarantees:
//
//   - The loop takes a request only if every byte of its head leaves no doubt: POST, HTTP/1.1, a
//     plain path, one Host, one Content-Length, printable ASCII, lines that end with CR and LF.
//     net/http serves any other request, and everything after it on the same connection. It gets
//     every byte that was read, and package framing inspects what it gets. [WIRE-32]
//   - Handlers get the same requests, and clients the same answers, as with net/http. Differential
//     tests compare both, with the bytes cut at every place.
//   - The limits are those of the http.Server. A deadline that each request renews moves in steps:
//     an idle connection is closed after IdleTimeout, or up to an eighth later, and a write ends up
//     to a second later than a handler allows.
//   - Shutdown closes idle connections at once, and the others after their answers.
//
// What is different for handlers:
//
//   - A Request, its Header and its context belong to the handler until it returns. The next
//     request of the connection then uses them.
//   - The context ends when the client leaves. The loop notices that from 25 ms after the first
//     call of Done, or at once after a call of Watch. A request that is answered earlier costs no
//     watch.
//   - The ResponseWriter sends no informational answers and no trailers. ConnState is called only
//     when a connection is hijacked.
package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/api/framing"
)

// A Server is an http.Server that serves common requests itself.
type Server struct {
	*http.Server
	logger *slog.Logger

	draining atomic.Bool
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// New returns a server with the handler, the limits and the ErrorLog of h. Failed TLS handshakes go
// to the logger. The handler must refuse every request for which framing.Ambiguous reports true.
func New(h *http.Server, logger *slog.Logger) *Server {
	h.ConnContext = framing.Context
	return &Server{Server: h, logger: logger, conns: make(map[*conn]struct{})}
}

// Serve serves the connections of l until Shutdown or Close. Its error is that of an http.Server.
func (s *Server) Serve(l net.Listener) error { return s.Server.Serve(front{l, s}) }

// A front is a listener whose connections the loop takes. The http.Server calls Accept, so it
// treats errors as it always does, but it never gets a connection.
type front struct {
	net.Listener
	s *Server
}

func (l front) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		go l.s.serve(conn, nil)
	}
}

// Rejoin serves a connection again that a handler has hijacked; ahead is what was already read from
// it.
func (s *Server) Rejoin(conn net.Conn, ahead []byte) { go s.serve(framing.Unwrap(conn), ahead) }

func (s *Server) serve(raw net.Conn, ahead []byte) {
	c, err := s.open(raw, ahead)
	if err != nil {
		raw.Close()
		return
	}
	defer s.leave(c)
	c.serve()
}

var errHandshake = errors.New("the TLS handshake failed")

// open makes a connection one of the loop, after its TLS handshake if it needs one.
func (s *Server) open(raw net.Conn, ahead []byte) (*conn, error) {
	var state *tls.ConnectionState
	type stater interface{ ConnectionState() tls.ConnectionState }
	if t, ok := framing.Conn(raw, nil, s.logger).(stater); ok {
		now := t.ConnectionState()
		if state = &now; !now.HandshakeComplete {
			return nil, errHandshake
		}
	}
	c := newConn(s, raw, state, ahead)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return nil, http.ErrServerClosed
	}
	s.wg.Add(1)
	s.conns[c] = struct{}{}
	return c, nil
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.wg.Done()
}

// handOver gives a connection to net/http, which then serves it to its end; ahead is what was read
// from it and not answered.
func (s *Server) handOver(raw net.Conn, ahead []byte) {
	l := &single{conn: framing.Conn(raw, ahead, s.logger)}
	// the error is that there is no second connection, or that the server is stopping
	_ = s.Server.Serve(l)
	if l.conn != nil {
		l.conn.Close()
	}
}

// A single is a listener with one connection, which is how an http.Server is handed one.
type single struct{ conn net.Conn }

func (l *single) Accept() (net.Conn, error) {
	if l.conn == nil {
		return nil, net.ErrClosed
	}
	conn := l.conn
	l.conn = nil
	return conn, nil
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }

// Shutdown stops listening, closes idle connections and waits until the others are answered and
// closed. When ctx ends first, it returns its error, and Close cuts off the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.each(func(c *conn) { c.drain() })
	if err := s.Server.Shutdown(ctx); err != nil {
		return err
	}
	none := make(chan struct{})
	go func() { s.wg.Wait(); close(none) }()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close stops listening and closes all connections.
func (s *Server) Close() error {
	s.each(func(c *conn) { c.raw.Close() })
	return s.Server.Close()
}

// each lets no more connections in, and does something with those that there are.
func (s *Server) each(do func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining.Store(true)
	for c := range s.conns {
		do(c)
	}
}

// silenceMax is how long a stop waits for the first request of a connection, as net/http does.
const silenceMax = 5 * time.Second
