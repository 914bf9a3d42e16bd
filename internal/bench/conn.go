package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// answerMax is how long an answer may take beyond what the request waits for.
const answerMax = 30 * time.Second

// readBuffer holds the header of an answer.
const readBuffer = 16 << 10

// A conn is the connection of one client. It reads no more of an answer than it needs, so that the
// server is measured and not the client.
type conn struct {
	address *url.URL
	r       *bufio.Reader
	body    []byte
	closing bool // the server wants to close it

	mu   sync.Mutex
	c    net.Conn
	over bool // it was closed
}

func dial(ctx context.Context, address *url.URL) (*conn, error) {
	c := &conn{address: address}
	return c, c.open(ctx)
}

func (c *conn) open(ctx context.Context) (err error) {
	port := c.address.Port()
	var dialer interface {
		DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	} = &net.Dialer{Timeout: answerMax}
	if c.address.Scheme == "https" {
		dialer = &tls.Dialer{NetDialer: &net.Dialer{Timeout: answerMax}}
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[c.address.Scheme]
	}
	opened, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(c.address.Hostname(), port))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.address, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		opened.Close()
		return net.ErrClosed
	}
	if c.c != nil {
		c.c.Close()
	}
	c.c, c.r, c.closing = opened, bufio.NewReaderSize(opened, readBuffer), false
	return nil
}

// close closes the connection and interrupts its request. It may be called from any goroutine.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.c != nil {
		c.c.Close()
	}
}

// errThrottled is the error of a request that was refused for overload.
var errThrottled = errors.New("the request was refused for overload")

// ask makes a request and returns the body of its answer, valid until the next call. After an error
// other than errThrottled the connection is of no use.
func (c *conn) ask(ctx context.Context, r *request) (answer []byte, err error) {
	wire, err := r.wire(ctx)
	if err != nil {
		return nil, err
	}
	if c.closing {
		if err := c.open(context.Background()); err != nil {
			return nil, err
		}
	}
	if !r.watched {
		if err := c.c.SetDeadline(time.Now().Add(r.wait + answerMax)); err != nil {
			return nil, err
		}
	}
	status, answer, err := c.do(wire)
	switch {
	case err == nil && status == 200 && !bytes.Contains(answer, []byte(`"Failed":[{`)):
		return answer, nil
	case err == nil && isThrottled(status, answer):
		return answer, errThrottled
	case err == nil:
		err = fmt.Errorf("status %d: %.300s", status, answer)
	}
	return nil, fmt.Errorf("%s: %w", r.action, err)
}

// isThrottled reports whether an answer refuses a request because there are too many.
func isThrottled(status int, answer []byte) bool {
	return status == 503 || status == 429 ||
		status >= 400 && bytes.Contains(answer, []byte("Thrott"))
}

// do sends a request and returns status and body of its answer.
func (c *conn) do(request []byte) (status int, body []byte, err error) {
	if _, err := c.c.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, nil, fmt.Errorf("the answer begins with %.40q, which is not HTTP", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, fmt.Errorf("the answer begins with %.40q, which is not HTTP", line)
	}
	length, err := c.header()
	if err != nil {
		return 0, nil, err
	}
	if length < 0 {
		body, err := io.ReadAll(httputil.NewChunkedReader(c.r))
		if err == nil {
			_, err = c.r.ReadSlice('\n') // no trailers
		}
		return status, body, err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.r, c.body)
	return status, c.body, err
}

// header reads the header of an answer. The length is negative for a chunked body.
func (c *conn) header() (length int, err error) {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch len(name) {
		case len("Content-Length"):
			if bytes.EqualFold(name, []byte("Content-Length")) {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil ||
					length < 0 || length > 64<<20 {
					return 0, errors.New("the length of an answer cannot be read")
				}
			}
		case len("Transfer-Encoding"):
			if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
				length = -1
			}
		case len("Connection"):
			if bytes.EqualFold(name, []byte("Connection")) &&
				bytes.EqualFold(bytes.TrimSpace(value), []byte("close")) {
				c.closing = true
			}
		}
	}
}
