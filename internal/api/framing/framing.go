// Package framing follows where each request on a connection begins and ends, and refuses
// connections on which that is ambiguous.
//
// A request with both Content-Length and Transfer-Encoding ends in one place for one server and in
// another place for the next: what a proxy takes for its body could be a request of its own here.
// Package http follows the chunks and removes the length before a handler sees the request, so
// connections are inspected as they are read. [WIRE-32]
//
// A server reads from what Conn returns and sets Context as its ConnContext. Its handler refuses
// every request for which Ambiguous reports true. What the refusal says is left to the handler.
package framing

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
)

// chunkMax bounds one chunk of a body, in bytes. It is the limit of a whole body, so a request with
// a larger one is refused in any case and its connection closed.
const chunkMax = 8 << 20

// Ambiguous reports whether a request, or an earlier one on its connection, has both a
// Content-Length and a Transfer-Encoding, or a length that cannot be read. The server must use Conn
// and Context.
func Ambiguous(r *http.Request) bool {
	c, ok := r.Context().Value(framedKey{}).(*framed)
	return ok && c.both.Load()
}

type framedKey struct{}

// Context is the ConnContext of an http.Server whose connections Conn returned.
func Context(ctx context.Context, conn net.Conn) context.Context {
	switch c := conn.(type) {
	case *framed:
		return context.WithValue(ctx, framedKey{}, c)
	case *framedTLS:
		return context.WithValue(ctx, framedKey{}, &c.framed)
	}
	return ctx
}

// Conn returns conn as one that is inspected from here on, where a request begins; ahead is what
// was already read from there. Over TLS, the first call of ConnectionState does the handshake. If
// it fails, that is logged.
func Conn(conn net.Conn, ahead []byte, logger *slog.Logger) net.Conn {
	if c, ok := conn.(*tls.Conn); ok {
		return &framedTLS{framed: framed{Conn: c, ahead: ahead}, tls: c, logger: logger}
	}
	return &framed{Conn: conn, ahead: ahead}
}

// Unwrap returns the connection that conn inspects, or conn if it inspects none.
func Unwrap(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case *framed:
		return c.Conn
	case *framedTLS:
		return c.Conn
	}
	return conn
}

// A framed connection inspects the heads of the requests that are read from it.
type framed struct {
	net.Conn
	ahead []byte
	both  atomic.Bool // the connection takes no further request

	state   frame
	lines   int    // of the head, so far
	line    []byte // the beginning of one whose end has not arrived
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
	frameTrailer // the lines after the last chunk
	frameLost    // unknown
)

// lineMax is how many bytes of a line are kept when it arrives in parts: more than a length needs.
const lineMax = 128

func (c *framed) Read(b []byte) (int, error) {
	if len(c.ahead) == 0 {
		n, err := c.Conn.Read(b)
		c.look(b[:n])
		return n, err
	}
	n := copy(b, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil // what it was in need not be kept
	}
	c.look(b[:n])
	return n, nil
}

// CloseWrite lets a client read an answer before its request has been read to the end.
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

func (c *framed) take(line []byte) {
	switch {
	case c.state == frameChunk:
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
		switch {
		case err != nil || n < 0:
			c.lose()
		case n > chunkMax:
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
	case len(line) == 0 && c.lines == 0: // before a request
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
		// its end may be missing
		if c.length, c.left = true, n; err != nil || len(line) >= lineMax {
			c.left = -1
		}
	case len(line) >= len(chunked) && strings.EqualFold(string(line[:len(chunked)]), chunked):
		c.chunked = true
	}
}

// lose gives up because it is unknown where a request ends. The connection takes no further
// request. [WIRE-32]
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

// A framedTLS is a framed connection over TLS. The HTTP server does not recognize it as one and so
// starts no handshake, but it asks for the state of the connection before it reads.
type framedTLS struct {
	framed
	tls    *tls.Conn
	logger *slog.Logger
	once   sync.Once
}

// ConnectionState completes the handshake when it is first called.
func (c *framedTLS) ConnectionState() tls.ConnectionState {
	c.once.Do(c.handshake)
	return c.tls.ConnectionState()
}

// handshakeMax bounds the handshake.
const handshakeMax = 10 * time.Second

// handshake does what the HTTP server does for TLS connections that it recognizes. If it fails, it
// closes the connection, and the first read from it fails.
func (c *framedTLS) handshake() {
	c.tls.SetDeadline(time.Now().Add(handshakeMax))
	err := c.tls.Handshake()
	if err == nil {
		c.tls.SetDeadline(time.Time{})
		return
	}
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && isHTTP(plain.RecordHeader) {
		io.WriteString(plain.Conn,
			"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		plain.Conn.Close()
		err = errors.New("client sent an HTTP request to an HTTPS server")
	}
	c.logger.Debug("TLS handshake failed", "address", c.RemoteAddr().String(), "error", err)
	c.tls.Close()
}

// isHTTP reports whether the head of a TLS record is the beginning of an HTTP request.
func isHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
