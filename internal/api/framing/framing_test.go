package framing

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
)

// A bytesConn is a connection from which some bytes can be read, n at a time.
type bytesConn struct {
	net.Conn
	r *bytes.Reader
	n int
}

func (c bytesConn) Read(b []byte) (int, error) { return c.r.Read(b[:min(len(b), c.n)]) }

// A connection is followed from request to request, whatever their bodies have in them and however
// their bytes come. [WIRE-32]
func TestFraming(t *testing.T) {
	const head, length, chunks = "POST / HTTP/1.1\r\nHost: a\r\n", "Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n"
	long := "X-A: " + strings.Repeat("x", 1000) + "\r\n"
	fixed := head + length + "\r\n\r\n\r\n"
	chunked := head + long + chunks + "\r\n4;a=b\r\n\r\n\r\n\r\nA\r\n" + "0123456789\r\n0\r\n" + length + "\r\n"
	for _, c := range []struct {
		name, text string
		both       bool
		state      frame
	}{
		{"no body", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, frameHead},
		{"a length", fixed, false, frameHead},
		{"chunks", chunked, false, frameHead},
		{"one after the other", fixed + chunked + "\r\n" + fixed + chunked, false, frameHead},
		{"both", head + length + chunks + "\r\n", true, frameLost},
		{"both, in lines that end with a line feed", strings.ReplaceAll(head+chunks+long+length+"\r\n", "\r", ""), true, frameLost},
		{"both, behind others", fixed + chunked + fixed + head + long + chunks + length + "\r\n", true, frameLost},
		{"both, and one behind it", head + length + chunks + "\r\n" + fixed, true, frameLost},
		{"a length that is none", head + "Content-Length: x\r\n\r\n", true, frameLost},
		{"a chunk that is none", head + chunks + "\r\nx\r\n", true, frameLost},
		{"a length behind many spaces", head + "Content-Length:" + strings.Repeat(" ", 1000) + "4\r\n\r\n\r\n\r\n", true, frameLost},
		{"chunks in HTTP/1.0, and both behind it", "GET / HTTP/1.0\r\nHost: a\r\n" + chunks + "\r\n" + head + length + chunks + "\r\n", true, frameLost},
		{"a head that has not ended", head + length + chunks, false, frameHead},
	} {
		for _, n := range []int{1, 2, 7, 5000} {
			ahead := min(n-1, len(c.text))
			conn := Conn(bytesConn{r: bytes.NewReader([]byte(c.text[ahead:])), n: n}, []byte(c.text[:ahead]), nil).(*framed)
			if got, err := io.ReadAll(conn); err != nil || string(got) != c.text {
				t.Fatalf("%s: read %q, %v", c.name, got, err)
			}
			if both := conn.both.Load(); both != c.both || conn.state != c.state {
				t.Errorf("%s, %d bytes at a time: got both %v and state %d, want %v and %d", c.name, n, both, conn.state, c.both, c.state)
			}
		}
	}
}

// A client gets the answer to a request that is refused before its end was read: the connection is
// closed for writing first.
func TestConnectionIsClosedInPart(t *testing.T) {
	for _, c := range []net.Conn{new(net.TCPConn), new(tls.Conn)} {
		again := Conn(c, nil, nil)
		if _, ok := again.(interface{ CloseWrite() error }); !ok {
			t.Errorf("%T of a %T cannot be closed for writing alone", again, c)
		}
		if Unwrap(again) != c || Unwrap(c) != c {
			t.Errorf("%T is wrapped once more with each poll", again)
		}
	}
}
