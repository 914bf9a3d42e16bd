package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Bytes on a TCP connection, as the server that is shipped answers them: what can be understood as
// a request has an answer with an id, whatever is wrong with it.
// [WIRE-18, WIRE-21, WIRE-24, WIRE-26, WIRE-32]
func TestRawRequests(t *testing.T) {
	s, stop := run(t, config(t))
	defer stop()
	head := "POST / HTTP/1.1\r\nHost: " + s.Addr() + "\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n"
	for _, c := range []struct {
		name, request string
		status        int
		id            bool
	}{
		{"legal", head + "Content-Length: 2\r\n\r\n{}", 200, true},
		{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200, true},
		{"length and chunks", head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, true},
		{"not found", strings.Replace(head, "POST / ", "POST /a/b/c ", 1) + "Content-Length: 2\r\n\r\n{}", 404, true},
		{"OPTIONS of everything", "OPTIONS * HTTP/1.1\r\nHost: " + s.Addr() + "\r\n\r\n", 404, true},
		{"too long", head + "Content-Length: " + strconv.Itoa(8<<20+1) + "\r\n\r\n", 413, true},
		{"large headers", head + "X-A: " + strings.Repeat("x", 100<<10) + "\r\nContent-Length: 2\r\n\r\n{}", 431, true},
		{"very large headers", head + "X-A: " + strings.Repeat("x", 1<<20) + "\r\nContent-Length: 2\r\n\r\n{}", 431, false},
		{"two lengths", head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, false},
	} {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, c.request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if id := resp.Header.Get("X-Amzn-Requestid"); resp.StatusCode != c.status || (id != "") != c.id {
			t.Errorf("%s: got %d with the request id %q, want %d, and an id: %v", c.name, resp.StatusCode, id, c.status, c.id)
		}
		conn.Close()
	}
}
