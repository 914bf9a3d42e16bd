package server

import (
	"crypto/tls"
	"net"
)

// rejoin serves a connection of the SQS API again that a suspended poll has had; ahead is what was
// read from it already.
func (s *Server) rejoin(conn net.Conn, ahead []byte) {
	l := &single{conn: rejoined(conn, ahead)}
	// the error is that there is no second connection, or that the server is stopping
	s.http.Serve(l)
	if l.conn != nil {
		l.conn.Close()
	}
}

// A single is a listener with one connection, which is how a http.Server is handed one.
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

// A plainAgain is a connection of which something was read ahead, and a tlsAgain one over TLS,
// which the http.Server must be able to tell from the other but not take for one that is new.
type (
	plainAgain struct {
		net.Conn
		ahead []byte
	}
	tlsAgain struct{ plainAgain }
)

// rejoined returns conn with ahead in front of what is still to be read.
func rejoined(conn net.Conn, ahead []byte) net.Conn {
	switch c := conn.(type) {
	case *plainAgain:
		c.ahead = ahead // of before, all was read
		return c
	case *tlsAgain:
		c.ahead = ahead
		return c
	case connectionStater:
		return &tlsAgain{plainAgain{conn, ahead}}
	}
	return &plainAgain{conn, ahead}
}

func (c *plainAgain) Read(b []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil // what it was in need not be kept
	}
	return n, nil
}

// CloseWrite is what lets a client read an answer although it has not been read to the end.
func (c *plainAgain) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// NetConn returns the connection as it was before.
func (c *plainAgain) NetConn() net.Conn { return c.Conn }

// A connectionStater is a connection over TLS.
type connectionStater interface{ ConnectionState() tls.ConnectionState }

// ConnectionState says that a connection is one over TLS.
func (c *tlsAgain) ConnectionState() tls.ConnectionState {
	return c.Conn.(connectionStater).ConnectionState()
}
