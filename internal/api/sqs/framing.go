package sqs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/api/sqs/sqswire"
)

// A request with both Content-Length and Transfer-Encoding ends in one place for one server and in another for the next: what
// a proxy takes for its body could be a request of its own here. Package http follows the chunks and removes the length before
// a handler sees the request. So connections are looked at as they are read. [WIRE-32]

var errTwoLengths = sqswire.Errorf(sqswire.MalformedInput,
	"The request has both Content-Length and Transfer-Encoding: send one of them.")

// TwoLengths reports whether a request, or another one on its connection, has both a Content-Length and a Transfer-Encoding.
// The Handler refuses such a request. It needs a FramedListener and FramedContext.
func TwoLengths(r *http.Request) bool {
	c, ok := r.Context().Value(framedKey{}).(*framed)
	return ok && c.both.Load()
}

type framedKey struct{}

// FramedContext is the ConnContext of a http.Server on a FramedListener.
func FramedContext(ctx context.Context, conn net.Conn) context.Context {
	for {
		switch c := conn.(type) {
		case *framed:
			return context.WithValue(ctx, framedKey{}, c)
		case *framedTLS:
			return context.WithValue(ctx, framedKey{}, &c.framed)
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return ctx
		}
	}
}

// FramedListener has the requests on the connections of l looked at for TwoLengths. Those of a TLS listener are served as such.
func FramedListener(l net.Listener, logger *slog.Logger) net.Listener {
	return framedListener{l, logger}
}

type framedListener struct {
	net.Listener
	logger *slog.Logger
}

func (l framedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if c, ok := conn.(*tls.Conn); ok {
		return &framedTLS{framed: framed{Conn: c}, tls: c, logger: l.logger}, nil
	}
	return &framed{Conn: conn}, nil
}

// A framed connection looks at the heads of the requests that are read from it.
type framed struct {
	net.Conn
	both atomic.Bool // a head had both; the connection is not used on

	state   frame
	lines   int    // of the head, so far
	line    []byte // the beginning of one that has not come to its end
	left    int64  // bytes of the body, or of the chunk
	length  bool   // the head has a Content-Length
	chunked bool   // and a Transfer-Encoding
}

// A frame is what is read next.
type frame int

const (
	frameHead frame = iota
	frameBody
	frameChunk   // the line with the size of a chunk
	frameData    // a chunk
	frameTrailer // the lines behind the last chunk
	frameLost    // nobody knows
)

// lineMax is how much of a line is kept when it comes in two parts: more than a length needs.
const lineMax = 128

func (c *framed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.look(b[:n])
	return n, err
}

// CloseWrite is what lets a client read an answer although it has not been read to the end.
func (c *framed) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// look follows what has been read.
func (c *framed) look(b []byte) {
	for len(b) > 0 && c.state != frameLost {
		if c.state == frameBody || c.state == frameData {
			n := min(c.left, int64(len(b)))
			if b, c.left = b[n:], c.left-n; c.left > 0 {
				return
			}
			if c.state == frameBody {
				c.state = frameHead
			} else {
				c.state = frameChunk
			}
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			c.line = append(c.line, b[:min(len(b), max(0, lineMax-len(c.line)))]...)
			return
		}
		line := b[:end]
		if len(c.line) > 0 {
			line = append(c.line, line[:min(len(line), max(0, lineMax-len(c.line)))]...)
			c.line = c.line[:0]
		}
		c.take(bytes.TrimSuffix(line, []byte{'\r'}))
		b = b[end+1:]
	}
}

// take takes a line.
func (c *framed) take(line []byte) {
	switch {
	case c.state == frameChunk:
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
		switch {
		case err != nil || n < 0:
			c.lose()
		case n > bodyMax:
			c.state = frameLost // the request is refused, and its connection closed
		case n == 0:
			c.state = frameTrailer
		default:
			c.state, c.left = frameData, n+int64(len("\r\n"))
		}
	case c.state == frameTrailer:
		if len(line) == 0 {
			c.state = frameHead
		}
	case len(line) == 0 && c.lines == 0: // in front of a request
	case len(line) == 0:
		c.endHead()
	default:
		if c.lines++; c.lines > 1 {
			c.header(line)
		}
	}
}

// header takes a line of a head.
func (c *framed) header(line []byte) {
	const length, chunked = "Content-Length:", "Transfer-Encoding:"
	switch {
	case len(line) >= len(length) && strings.EqualFold(string(line[:len(length)]), length):
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line[len(length):])), 10, 64)
		if c.length, c.left = true, n; err != nil || len(line) >= lineMax { // its end may be missing
			c.left = -1
		}
	case len(line) >= len(chunked) && strings.EqualFold(string(line[:len(chunked)]), chunked):
		c.chunked = true
	}
}

// lose gives up: where a request ends is not known. The connection takes no further request. [WIRE-32]
func (c *framed) lose() {
	c.both.Store(true)
	c.state = frameLost
}

func (c *framed) endHead() {
	switch {
	case c.length && c.chunked:
		c.both.Store(true)
		c.state = frameLost
	case c.chunked:
		c.state = frameChunk
	case c.left < 0:
		c.lose()
	case c.left > 0:
		c.state = frameBody
	}
	c.lines, c.length, c.chunked = 0, false, false
}

// A framedTLS is a framed connection over TLS. The HTTP server cannot tell that it is one and so does not shake hands, but asks
// for its state before it reads.
type framedTLS struct {
	framed
	tls    *tls.Conn
	logger *slog.Logger
	once   sync.Once
}

// ConnectionState shakes hands when it is first asked for.
func (c *framedTLS) ConnectionState() tls.ConnectionState {
	c.once.Do(c.handshake)
	return c.tls.ConnectionState()
}

// handshakeMax is how long a client may take for it.
const handshakeMax = 10 * time.Second

// handshake does what the HTTP server does for connections that it knows to be of TLS. When it fails the connection is closed,
// which is what the first read from it then finds.
func (c *framedTLS) handshake() {
	c.tls.SetDeadline(time.Now().Add(handshakeMax))
	err := c.tls.Handshake()
	if err == nil {
		c.tls.SetDeadline(time.Time{})
		return
	}
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && isHTTP(plain.RecordHeader) {
		io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		plain.Conn.Close()
		err = errors.New("client sent an HTTP request to an HTTPS server")
	}
	c.logger.Debug("TLS handshake failed", "address", c.RemoteAddr().String(), "error", err)
	c.tls.Close()
}

// isHTTP reports whether what should be the head of a TLS record is the begin of a request.
func isHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
