// Package suspend keeps connections whose requests wait for an answer without a handler.
//
// A request that waits in a handler keeps a goroutine with a deep stack, another one that watches
// the connection, buffers and headers, for a client that gets no message for 20 seconds. So the
// connection of a request that has waited for a moment is taken from the HTTP server. Only a small
// struct and a goroutine that reads remain. The answer is written on a new goroutine when it is
// there. The HTTP server gets the connection back with the next request.
//
// What the package guarantees:
//
//   - A suspended request is answered exactly once, or abandoned because its client left.
//   - Like the HTTP server, it stops watching a connection when the next request arrives before the
//     answer.
//   - After Shutdown no connection is suspended.
//
// It leaves what the answer is to its callers.
package suspend

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config configures a Set.
type Config struct {
	// Rejoin lets the HTTP server serve a connection again; ahead is what was already read from it.
	Rejoin func(conn net.Conn, ahead []byte)

	// IdleMax is how long an answered connection may wait for its next request, 2 minutes when
	// zero.
	IdleMax time.Duration
}

// A Set is the suspended connections of a server, and those that were answered and wait for their
// next request.
type Set struct {
	cfg Config
	wg  sync.WaitGroup

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	draining bool
	cut      bool
}

// New returns an empty set.
func New(cfg Config) *Set {
	cfg.IdleMax = cmp.Or(cfg.IdleMax, 2*time.Minute)
	return &Set{cfg: cfg, conns: make(map[*Conn]struct{})}
}

// A Conn is a connection without a handler. The zero Conn is for Take.
type Conn struct {
	set   *Set
	last  bool    // the client wants the connection closed
	first [1]byte // is where watch reads

	// Guarded by set.mu.
	conn  net.Conn           // nil until it has been taken over
	ahead []byte             // what was read of the next request
	idle  bool               // answered; watch decides what happens next
	gone  bool               // the client
	stop  context.CancelFunc // of the answer in progress
}

// A Waiter is what waits for an answer.
type Waiter interface {
	// Abandon is called when the client has left. It reports false when the answer is on its way
	// already.
	Abandon() bool
}

// Take takes the connection of a request from the HTTP server. It reports false when that is not
// possible, because the server drains or the connection is not one of HTTP/1.1; the handler must
// then wait itself. After true the handler must return, and call Watch once Answer may be called.
func (s *Set) Take(c *Conn, w http.ResponseWriter, r *http.Request) bool {
	c.set, c.last = s, r.Close
	if !r.ProtoAtLeast(1, 1) || !s.enter(c) {
		return false
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.leave(c)
		return false
	}
	ahead, _ := buf.Reader.Peek(buf.Reader.Buffered())
	s.took(c, conn, bytes.Clone(ahead))
	return true
}

// Watch finds out when the client leaves, and abandons the waiter then.
func (c *Conn) Watch(waiter Waiter) {
	c.set.mu.Lock()
	ahead := len(c.ahead)
	c.set.mu.Unlock()
	if ahead == 0 {
		go c.watch(waiter)
	}
}

// watch reads from the connection, because nothing else reveals that the client has left.
func (c *Conn) watch(waiter Waiter) {
	n, _ := io.ReadFull(c.conn, c.first[:])
	if n == 0 && waiter.Abandon() { // [POLL-10]
		c.close()
		return
	}
	s := c.set
	s.mu.Lock()
	c.ahead = c.first[:n]
	idle := c.idle
	if n == 0 {
		c.clientGone()
	} else {
		c.idle = false // what arrives now is for the HTTP server, even when a stop begins
	}
	s.mu.Unlock()
	switch {
	case !idle: // Answer does the rest
	case n == 0:
		c.close()
	default:
		c.rejoin()
	}
}

// clientGone notes that the client has left. set.mu is held.
func (c *Conn) clientGone() {
	c.gone = true
	if c.stop != nil {
		c.stop()
	}
}

// Answer has write make the answer. The context ends when the client leaves, or when a stop cuts it
// off. Write reports false when the connection cannot be used for another request.
func (c *Conn) Answer(write func(ctx context.Context, w http.ResponseWriter) bool) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s := c.set
	s.mu.Lock()
	c.stop = stop
	if c.gone {
		stop()
	}
	last := c.last || s.draining
	s.mu.Unlock()

	w := &writer{conn: c.conn, header: http.Header{}, last: last}
	written := write(ctx, w) && w.err == nil

	s.mu.Lock()
	keep := written && !last && !s.draining && !c.gone
	c.idle = keep && len(c.ahead) == 0
	if c.idle {
		c.conn.SetReadDeadline(time.Now().Add(s.cfg.IdleMax))
		c.conn.SetWriteDeadline(time.Time{}) // TLS answers a new key with one
	}
	idle := c.idle
	s.mu.Unlock()
	switch {
	case idle: // watch does the rest
	case keep:
		c.rejoin()
	default:
		c.close()
	}
}

func (c *Conn) close() {
	c.conn.Close()
	c.set.leave(c)
}

// rejoin gives the connection back to the HTTP server.
func (c *Conn) rejoin() {
	c.conn.SetDeadline(time.Time{})
	c.set.cfg.Rejoin(c.conn, c.ahead)
	c.set.leave(c)
}

// enter adds a connection, unless the server drains.
func (s *Set) enter(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.wg.Add(1)
	s.conns[c] = struct{}{}
	return true
}

func (s *Set) took(c *Conn, conn net.Conn, ahead []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.conn, c.ahead = conn, ahead
	if s.cut {
		c.clientGone()
		conn.Close()
	}
}

func (s *Set) leave(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.wg.Done()
}

// Len returns how many connections are in the set.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Drain takes no more connections. Each suspended one is closed with its answer, and each answered
// one at once.
func (s *Set) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for c := range s.conns {
		if c.idle {
			c.conn.Close()
		}
	}
}

// Shutdown waits until the set is empty. When ctx ends first, it cuts off the connections that are
// left and returns the error of ctx. It comes after Drain.
func (s *Set) Shutdown(ctx context.Context) error {
	none := make(chan struct{})
	go func() { s.wg.Wait(); close(none) }()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.cut = true
	for c := range s.conns {
		c.clientGone() // an answer may be waiting for its part of a budget
		if c.conn != nil {
			c.conn.Close()
		}
	}
	s.mu.Unlock()
	<-none
	return ctx.Err()
}
