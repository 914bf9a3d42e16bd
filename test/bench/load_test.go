// Package bench measures the whole server over HTTP and compares it, in the same run and on the same
// stack, with what HTTP alone can do. Absolute numbers say more about a machine than about a program, so
// what these benchmarks report is ratios.
//
//	go test ./test/bench -run '^$' -bench . -benchtime 3s
package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenaq/internal/server"
)

// clients is how many connections load the server at the same time.
const clients = 64

// start runs a real server on loopback over a store in a temporary directory.
func start(tb testing.TB) (addr string) {
	s, err := server.New(server.Config{
		DataDir: tb.TempDir(), Listen: "127.0.0.1:0", AdminListen: "off", DiskReserve: -1, InFlightMax: 1 << 30,
	})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return s.Addr()
}

// startNoop runs a handler that reads its request and answers the given bytes, and does nothing else.
func startNoop(tb testing.TB, answer string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header()["x-amzn-RequestId"] = []string{"00000000-0000-4000-8000-000000000000"}
		w.Header()["Content-Type"] = []string{"application/x-amz-json-1.0"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(answer))}
		io.WriteString(w, answer)
	})
	// The same limits as the real server has: each sets deadlines on the connection.
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute,
		WriteTimeout:      4 * time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	go srv.Serve(l)
	tb.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

// A conn is one client: it writes requests made beforehand and reads answers with as little work as
// possible, so that what is measured is the server.
type conn struct {
	c net.Conn
	r *bufio.Reader
}

func dial(tb testing.TB, addr string) *conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	return &conn{c, bufio.NewReaderSize(c, 64<<10)}
}

// request returns the bytes of one request.
func request(action, body string) []byte {
	return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.0\r\n"+
		"X-Amz-Target: AmazonSQS.%s\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%s", action, len(body), body)
}

// do sends one request and returns the body of its answer, valid until the next call.
func (c *conn) do(req []byte) (status int, body []byte, err error) {
	if _, err = c.c.Write(req); err != nil {
		return 0, nil, err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		if first {
			status, _ = strconv.Atoi(string(line[9:12]))
		}
		if len(line) == 2 {
			break
		}
		if value, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	body = make([]byte, length)
	_, err = io.ReadFull(c.r, body)
	return status, body, err
}

// must is do for requests that have to succeed.
func (c *conn) must(tb testing.TB, req []byte) []byte {
	status, body, err := c.do(req)
	if err != nil || status != 200 {
		tb.Fatalf("status %d, %v: %s", status, err, body)
	}
	return body
}

// rate runs work on as many goroutines as there are clients until the time is over, and returns how
// often it was done per second.
func rate(tb testing.TB, addr string, d time.Duration, work func(c *conn) error) float64 {
	var done atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range clients {
		c := dial(tb, addr)
		wg.Go(func() {
			defer c.c.Close()
			for time.Since(begin) < d {
				if err := work(c); err != nil {
					tb.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds()
}

// once is the work of sending one request and expecting success.
func once(req []byte) func(c *conn) error {
	return func(c *conn) error {
		if status, body, err := c.do(req); err != nil || status != 200 {
			return fmt.Errorf("status %d, %v: %s", status, err, body)
		}
		return nil
	}
}
