package interop

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// A wire is an address of the server for one client. Bytes pass as they are; which protocol they
// speak is noted.
type wire struct {
	addr string

	mu    sync.Mutex
	heard [2]bool // per entry of contentTypes
}

// contentTypes are those of requests in each protocol, in the order of the table.
var contentTypes = [2]struct{ protocol, contentType string }{
	{"JSON", "application/x-amz-json-1.0"},
	{"Query", "application/x-www-form-urlencoded"},
}

// listen opens a wire to the server, until the test ends.
func listen(t *testing.T, server string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String()}
	var open sync.WaitGroup
	var conns sync.Map
	open.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			conns.Store(near, far)
			open.Go(func() { pass(far, io.TeeReader(near, &ear{wire: w})) })
			open.Go(func() { pass(near, far) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Range(func(near, far any) bool {
			near.(net.Conn).Close()
			far.(net.Conn).Close()
			return true
		})
		open.Wait()
	})
	return w
}

// pass copies one direction to its end, and says so to the other side.
func pass(to net.Conn, from io.Reader) {
	io.Copy(to, from)
	to.(*net.TCPConn).CloseWrite()
}

// protocol names what was spoken.
func (w *wire) protocol() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for i, c := range contentTypes {
		if w.heard[i] {
			names = append(names, c.protocol)
		}
	}
	return strings.Join(names, " and ")
}

// An ear hears one connection, whose requests may be cut into pieces anywhere.
type ear struct {
	wire *wire
	tail []byte // of what was heard: the longest content type fits in
}

func (e *ear) Write(b []byte) (int, error) {
	heard := bytes.ToLower(append(e.tail, b...))
	for i, c := range contentTypes {
		if bytes.Contains(heard, []byte("content-type: "+c.contentType)) {
			e.wire.mu.Lock()
			e.wire.heard[i] = true
			e.wire.mu.Unlock()
		}
	}
	e.tail = bytes.Clone(heard[max(0, len(heard)-64):])
	return len(b), nil
}
