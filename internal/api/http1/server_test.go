package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs f with a Server whose handler is h; a deed is one too.
func inBubble(t *testing.T, h http.HandlerFunc, f func(s *Server, l pipes)) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		s, l := New(limits(h, &logs), slog.New(slog.DiscardHandler)), newPipes()
		go s.Serve(l)
		defer func() { s.Close(); synctest.Wait() }()
		f(s, l)
	})
}

// ask sends a request and reads its answer.
func ask(t *testing.T, conn net.Conn, request string) (*http.Response, string) {
	t.Helper()
	go io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// ended reports after how long the server closes a connection.
func ended(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	from := time.Now()
	if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
		t.Errorf("got %q and %v, want the connection closed", rest, err)
	}
	return time.Since(from)
}

// An idle connection is closed after its timeout, however often it was used before.
func TestIdle(t *testing.T) {
	inBubble(t, handler, func(s *Server, l pipes) {
		if got := ended(t, l.dial()); got != s.ReadHeaderTimeout {
			t.Errorf("a connection without a request was kept for %v, want %v", got, s.ReadHeaderTimeout)
		}
		conn := l.dial()
		for range 50 {
			ask(t, conn, post("", "x"))
			time.Sleep(7 * time.Second)
		}
		time.Sleep(s.IdleTimeout - 10*time.Second)
		ask(t, conn, post("", "x"))
		if got := ended(t, conn); got < s.IdleTimeout || got > s.IdleTimeout*9/8 {
			t.Errorf("an idle connection was kept for %v, want %v", got, s.IdleTimeout)
		}
		conn = l.dial()
		ask(t, conn, post("slow answer", "x"))
		time.Sleep(s.IdleTimeout - 10*time.Second) // from the end of the answer
		ask(t, conn, post("", "x"))
		time.Sleep(time.Minute)
		io.WriteString(conn, "POST / HTTP/1.1\r\n")
		if got := ended(t, conn); got != s.ReadHeaderTimeout {
			t.Errorf("half a head was waited for for %v, want %v", got, s.ReadHeaderTimeout)
		}
	})
}

// A stop closes idle connections at once and the others with their answers.
func TestShutdown(t *testing.T) {
	inBubble(t, handler, func(s *Server, l pipes) {
		silent, idle, working, reading := l.dial(), l.dial(), l.dial(), l.dial()
		ask(t, idle, post("", "x"))
		ask(t, reading, post("", "x"))
		io.WriteString(reading, "POST / HT")
		answered := make(chan *http.Response)
		go func() { resp, _ := ask(t, working, post("wait", "x")); answered <- resp }()
		synctest.Wait()
		start := time.Now()
		stopped := make(chan error)
		go func() { stopped <- s.Shutdown(context.Background()) }()
		if a, b := ended(t, idle), ended(t, reading); a != 0 || b != 0 {
			t.Errorf("connections without a request were closed after %v and %v", a, b)
		}
		resp := <-answered
		if got := time.Since(start); got != 5*time.Second || !resp.Close {
			t.Errorf("the answer came after %v and said that it is the last: %v", got, resp.Close)
		}
		ended(t, working)
		ended(t, silent)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got > silenceMax+time.Second {
			t.Errorf("the stop took %v", got)
		}
		client, server := net.Pipe()
		s.Rejoin(server, nil)
		ended(t, client)
	})
}

// A stop whose time is over cuts connections off, whose handlers learn of it.
func TestShutdownCutsOff(t *testing.T) {
	gone := make(chan struct{})
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(gone)
	}, func(s *Server, l pipes) {
		conn := l.dial()
		io.WriteString(conn, post("", "x"))
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		s.Close()
		<-gone
		ended(t, conn)
	})
}

// The context of a request ends when its client leaves, and not when it sends the next request.
func TestClientLeaves(t *testing.T) {
	var outcome atomic.Value
	wait := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		from := time.Now()
		select {
		case <-r.Context().Done():
			if r.Context().Err() != context.Canceled {
				t.Errorf("the context ended with %v", r.Context().Err())
			}
			outcome.Store("left")
		case <-time.After(time.Minute):
			outcome.Store("stayed")
		}
		if took := time.Since(from); took > 2*time.Second && took < time.Minute {
			t.Errorf("it took %v to find out", took)
		}
	}
	for _, c := range []struct {
		name   string
		do     func(conn net.Conn)
		status string
	}{
		{"at once", func(conn net.Conn) { conn.Close() }, "left"},
		{"after a second", func(conn net.Conn) { time.Sleep(time.Second); conn.Close() }, "left"},
		{"the next request", func(conn net.Conn) { time.Sleep(time.Second); io.WriteString(conn, post("", "y")) }, "stayed"},
		{"a byte", func(conn net.Conn) { io.WriteString(conn, "P") }, "stayed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, wait, func(s *Server, l pipes) {
				conn := l.dial()
				defer conn.Close()
				io.WriteString(conn, post("", "x"))
				c.do(conn)
				time.Sleep(10 * time.Second)
				if c.status == "stayed" {
					time.Sleep(51 * time.Second)
				}
				if got := outcome.Swap(""); got != c.status {
					t.Errorf("got %q, want %q", got, c.status)
				}
			})
		})
	}
}

// A counter counts the calls for deadlines.
type counter struct {
	net.Conn
	calls *atomic.Int32
}

func (c counter) SetReadDeadline(t time.Time) error { c.calls.Add(1); return c.Conn.SetReadDeadline(t) }
func (c counter) SetWriteDeadline(t time.Time) error {
	c.calls.Add(1)
	return c.Conn.SetWriteDeadline(t)
}

// A noted connection keeps the time at which writing ends.
type noted struct {
	net.Conn
	end atomic.Pointer[time.Time]
}

func (c *noted) SetDeadline(t time.Time) error { c.end.Store(&t); return c.Conn.SetDeadline(t) }
func (c *noted) SetWriteDeadline(t time.Time) error {
	c.end.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

// The time for an answer has no end for what TLS writes while the next request is awaited: a
// connection is lost on which a new key cannot be answered.
func TestTLSWritesWhileIdle(t *testing.T) {
	plain := httptest.NewTLSServer(nil)
	plain.Close()
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second))
	}, func(s *Server, l pipes) {
		client, raw := net.Pipe()
		c := &noted{Conn: raw}
		// The server writes tickets, and a pipe would block it until they are read.
		l.conns <- tls.Server(c, &tls.Config{Certificates: plain.TLS.Certificates, SessionTicketsDisabled: true})
		conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
		for range 2 {
			ask(t, conn, post("", ""))
			synctest.Wait()
			if end := c.end.Load(); !end.IsZero() {
				t.Errorf("beyond %v nothing can be written on an idle connection", end)
			}
		}
		raw.Close()
	})
}

// Requests that arrive at once and are answered soon cost no deadlines, no watch and no goroutine.
func TestCheap(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.SetReadDeadline(time.Now().Add(10 * time.Second))
		io.Copy(io.Discard, r.Body)
		control.SetReadDeadline(time.Time{})
		control.SetWriteDeadline(time.Now().Add(10 * time.Second))
		select {
		case <-r.Context().Done():
		case <-time.After(watchAfter - time.Millisecond):
		}
		io.WriteString(w, "x")
	}, func(s *Server, l pipes) {
		client, raw := net.Pipe()
		var calls atomic.Int32
		l.conns <- counter{raw, &calls}
		ask(t, client, post("", "x"))
		time.Sleep(time.Second)
		before := calls.Load()
		for range 10 {
			ask(t, client, post("", "x"))
		}
		if got := calls.Load() - before; got > 1 {
			t.Errorf("ten requests moved %d deadlines", got)
		}
		client.Close()
	})
}

// The fault of a handler is logged and closes its connection.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		s, l := New(limits(http.HandlerFunc(handler), &logs), slog.New(slog.DiscardHandler)), newPipes()
		go s.Serve(l)
		for _, deed := range []string{"abort", "panic"} {
			conn := l.dial()
			io.WriteString(conn, post(deed, "x"))
			ended(t, conn)
		}
		s.Close()
		synctest.Wait()
		if got := logs.String(); !strings.HasPrefix(got, "http: panic serving pipe: a fault\n") || strings.Count(got, "panic serving") != 1 {
			t.Errorf("got %s", got)
		}
	})
}
