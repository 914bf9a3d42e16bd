package http1

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a connection in the loop.
type conn struct {
	s     *Server
	raw   net.Conn
	state atomic.Int32
	used  bool      // it has had a request
	now   time.Time // when that arrived, and then when it was answered

	buf  []byte
	r, w int // buf[r:w] was read and not used

	head  head
	blank *http.Request // with what all requests of the connection have
	req   http.Request
	url   url.URL
	body  body
	out   response

	mu     sync.Mutex // guards watch, and reads while a handler runs
	watch  watch
	reads  deadline
	writes deadline
}

// States of a connection.
const (
	fresh  int32 = iota // before its first request
	idle                // between two requests
	busy                // from when a request is known until it is answered
	closed              // by a stop
)

// bufSize holds the head of a common request, and most requests as a whole. In bytes.
const bufSize = 4 << 10

// partsMax is how many parts a head may arrive in.
const partsMax = 8

// beginning is how many bytes of the next request end the idle time of a connection, as net/http
// has it.
const beginning = 4

func newConn(s *Server, raw net.Conn, state *tls.ConnectionState, ahead []byte) *conn {
	c := &conn{s: s, raw: raw, buf: make([]byte, max(bufSize, len(ahead)))}
	c.w = copy(c.buf, ahead)
	c.head.header, c.out.header = make(http.Header), make(http.Header)
	c.body.c, c.out.c = c, c
	c.watch = watch{c: c, gone: make(chan struct{}), ended: sync.Cond{L: &c.mu}}
	c.reads.set, c.writes.set = raw.SetReadDeadline, raw.SetWriteDeadline
	c.reads.within(s.ReadHeaderTimeout, time.Now(), 0)
	c.blank = (&http.Request{
		Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		TLS: state, RemoteAddr: raw.RemoteAddr().String(),
	}).WithContext(&c.watch)
	return c
}

// serve serves requests until the connection ends, is hijacked or left to net/http.
func (c *conn) serve() {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			c.s.ErrorLog.Printf("http: panic serving %v: %v\n%s", c.blank.RemoteAddr, v,
				debug.Stack())
		}
		if c.watch.end(); !c.out.taken {
			c.raw.Close()
		}
	}()
	for c.next() {
		c.begin()
		c.s.Handler.ServeHTTP(&c.out, &c.req)
		if c.out.taken || !c.out.finish() {
			return
		}
		c.watch.pause()
		c.used = true
	}
}

// next reads the head of the next request. It reports false when there is none for the loop.
func (c *conn) next() bool {
	if c.used {
		c.state.Store(idle)
		if c.s.draining.Load() {
			return false
		}
		c.reads.within(c.s.IdleTimeout, c.now, c.s.IdleTimeout/8)
		if c.blank.TLS != nil {
			// to read can be to write: TLS answers a new key with one
			c.writes.want(time.Time{}, 0)
			c.writes.apply()
		}
	}
	if c.watch.join() != nil {
		return false
	}
	begun, limited, parts := !c.used, !c.used, 0
	for {
		if !begun && c.w-c.r >= beginning {
			begun = true
			for range beginning { // net/http forgives line ends after a POST
				if c.r < c.w && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n') {
					c.r++
				}
			}
		}
		if begun && c.r < c.w {
			n, v := c.head.parse(c.buf[c.r:c.w])
			if v == common {
				c.r += n
				return c.state.Swap(busy) != closed
			}
			if parts++; v == other || parts > partsMax || c.w-c.r == len(c.buf) {
				c.handOver(c.raw)
				return false
			}
		}
		c.w, c.r = copy(c.buf, c.buf[c.r:c.w]), 0
		if begun && !limited {
			limited = true
			c.reads.within(c.s.ReadHeaderTimeout, time.Now(), 0)
		}
		c.reads.apply()
		n, err := c.raw.Read(c.buf[c.w:])
		c.w += n
		if n == 0 && err != nil {
			if begun && c.w > 0 {
				c.handOver(failed{c.raw, err}) // net/http says what is wrong with half a head
			}
			return false
		}
	}
}

// A failed connection has nothing more to read.
type failed struct {
	net.Conn
	err error
}

func (c failed) Read([]byte) (int, error) { return 0, c.err }

// handOver leaves the connection to net/http, which reads on from raw, unless a stop has closed it.
func (c *conn) handOver(raw net.Conn) {
	if c.state.Swap(busy) == closed {
		return
	}
	c.out.taken = true
	raw.SetDeadline(time.Time{})
	c.s.handOver(raw, c.buf[c.r:c.w])
}

// drain closes the connection unless it has a request. One that is fresh may bring one.
func (c *conn) drain() {
	if c.state.CompareAndSwap(idle, closed) {
		c.raw.Close()
	} else if c.state.Load() == fresh {
		c.raw.SetReadDeadline(time.Now().Add(silenceMax))
	}
}

// begin makes the request and the response for a head that was read.
func (c *conn) begin() {
	c.now = time.Now()
	c.reads.within(c.s.ReadTimeout, c.now, c.s.ReadTimeout/8)
	c.writes.within(c.s.WriteTimeout, c.now, c.s.WriteTimeout/8)
	c.url = url.URL{Path: c.head.path}
	c.req = *c.blank
	c.req.URL, c.req.RequestURI = &c.url, c.head.path
	c.req.Header, c.req.Host = c.head.header, c.head.host
	c.req.ContentLength, c.req.Body = c.head.length, &c.body
	if c.body.left = c.head.length; c.body.left == 0 {
		c.req.Body = http.NoBody
	}
	c.watch.begin(c.body.left == 0)
	c.out.begin()
}

// A body is the body of a request.
type body struct {
	c    *conn
	left int64
}

func (b *body) Read(p []byte) (n int, err error) {
	c := b.c
	if b.left == 0 || c.out.taken {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.left)]
	if c.r < c.w {
		n = copy(p, c.buf[c.r:c.w])
		c.r += n
	} else if len(p) > 0 {
		c.mu.Lock()
		c.reads.apply()
		c.mu.Unlock()
		if n, err = c.raw.Read(p); n == 0 && err != nil {
			c.mu.Lock()
			c.watch.fail(err)
			c.mu.Unlock()
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	if b.left -= int64(n); b.left == 0 {
		c.watch.arrived()
		err = io.EOF
	}
	return n, err
}

func (b *body) Close() error { return nil }
