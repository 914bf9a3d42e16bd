package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/framing"
)

// deeds are what the handler of these tests does when a request says so in X-Do.
var deeds = map[string]http.HandlerFunc{
	"": func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s, %s of %s, %d bytes, close %v, TLS %v\n", r.Method, r.URL, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.Close, r.TLS != nil)
		r.Header.Write(w)
		fmt.Fprintf(w, "%x, %v", body, err)
	},
	"declare": func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["x-amzn-RequestId"] = []string{"an id"}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Header().Add("X-Two", "1 \r\n")
		w.Header().Add("X-Two", " 2")
		w.Header()["X bad"] = []string{"x"}
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Late", "x")
		w.WriteHeader(http.StatusTeapot)
		w.Write(body)
	},
	"read in bits": func(w http.ResponseWriter, r *http.Request) {
		var all []byte
		for bit := make([]byte, 3); ; {
			n, err := r.Body.Read(bit)
			if all = append(all, bit[:n]...); err != nil {
				fmt.Fprintf(w, "%q, %v", all, err)
				return
			}
		}
	},
	"unread":  func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) },
	"nothing": func(w http.ResponseWriter, r *http.Request) {},
	"no content": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		io.WriteString(w, "x")
	},
	"not changed": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotModified) },
	"odd status":  func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(599) },
	"no type": func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "<html>")
	},
	"close": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "the last")
	},
	"dated": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Mon, 23 Nov 2026 00:00:00 GMT")
		io.WriteString(w, "of another node")
	},
	"short": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "123")
	},
	"long": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "3")
		io.WriteString(w, "123")
		_, err := io.WriteString(w, "4")
		if err != http.ErrContentLength {
			panic(err)
		}
	},
	"large": func(w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte("x"), 10_000)) },
	"larger": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "20000")
		w.Write(bytes.Repeat([]byte("x"), 10_000))
		w.Write(bytes.Repeat([]byte("y"), 10_000))
	},
	"parts": func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			io.WriteString(w, strings.Repeat("part ", 300))
		}
	},
	"flush": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "1")
		http.NewResponseController(w).Flush()
		io.WriteString(w, "2")
	},
	"flush first": func(w http.ResponseWriter, r *http.Request) { http.NewResponseController(w).Flush() },
	// With a body that has not arrived, net/http waits before it closes the connection.
	"abort": func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "x")
		panic(http.ErrAbortHandler)
	},
	"panic": func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); panic("a fault") },
	"wait": func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-time.After(5 * time.Second):
			io.WriteString(w, "waited")
		}
	},
	"hijack": func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		if _, err := io.WriteString(w, "x"); err != http.ErrHijacked {
			panic(err)
		}
		go func() {
			conn.SetReadDeadline(time.Now().Add(time.Second))
			rest, _ := io.ReadAll(buf.Reader)
			fmt.Fprintf(conn, "taken %q", rest)
			conn.Close()
		}()
	},
	"slow answer": func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		http.NewResponseController(w).Flush()
		time.Sleep(3 * time.Minute)
	},
	"slow body": func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.SetReadDeadline(time.Now().Add(time.Second))
		_, err := io.ReadAll(r.Body)
		control.SetReadDeadline(time.Time{})
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, errors.Is(err, io.ErrUnexpectedEOF) || err != nil)
	},
}

func handler(w http.ResponseWriter, r *http.Request) {
	if framing.Ambiguous(r) {
		w.Header().Set("Connection", "close")
		http.Error(w, "ambiguous", http.StatusBadRequest)
		return
	}
	deed := deeds[r.Header.Get("X-Do")]
	if deed == nil {
		deed = deeds[""]
	}
	deed(w, r)
}

// post returns a request for a deed.
func post(deed, body string, headers ...string) string {
	all := append([]string{"Host: localhost:9324", "User-Agent: test", "Content-Length: " + fmt.Sprint(len(body))}, headers...)
	if deed != "" {
		all = append(all, "X-Do: "+deed)
	}
	return "POST / HTTP/1.1\r\n" + strings.Join(all, "\r\n") + "\r\n\r\n" + body
}

// conversations are what clients send. Those in front are cut at every place.
func conversations() (cut, whole []string) {
	const host, length = "Host: a\r\n", "Content-Length: 2\r\n"
	for deed := range deeds {
		whole = append(whole, post(deed, "body"), post(deed, "body")+post("", "next"), post(deed, ""), post(deed, strings.Repeat("b", 300<<10)))
	}
	slices.Sort(whole)
	cut = []string{
		post("", "body"),
		post("", "1") + post("", "22") + post("declare", "333") + post("read in bits", "4444"),
		post("wait", "x") + post("", "y"),
		"POST / HTTP/1.1\r\n" + host + "Connection: Keep-Alive\r\n" + length + "\r\n{}",
		"POST / HTTP/1.1\r\n" + host + "Connection: close\r\n" + length + "\r\n{}",
		"POST / HTTP/1.1\r\n" + host + length + "Transfer-Encoding: chunked\r\n\r\n{}",
		post("", "x") + "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n" + length + "\r\n2\r\n{}\r\n0\r\n\r\n" + post("", "smuggled"),
		post("", "x") + "GET /a?b=c HTTP/1.1\r\n" + host + "\r\n" + post("", "z"),
		"POST / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\n" + length + "\r\n{}",
		"POST / HTTP/1.0\r\n" + host + length + "\r\n{}",
		"POST / HTTP/1.0\r\n" + host + "Connection: keep-alive\r\n" + length + "\r\n{}",
		strings.ReplaceAll(post("", ""), "\r", ""),
		"POST / HTTP/1.1\r\n" + host + " folded: x\r\n" + length + "\r\n{}",
		post("", "x") + "\r\n\r\n" + post("", "y"),
		post("", "x") + "\r\n\r\n\r\n" + post("", "y"),
		post("", "x") + "\n\r" + post("", "y"),
		"\r\n" + post("", "y"),
		post("", "x", "X-A: y", "X-B: z") + post("", "x", "X-B: z") + post("", "x") + post("", "x", "X-B: z", "X-A: y", "X-B: y"),
	}
	for _, line := range []string{
		"POST /a/b.c_d-e HTTP/1.1", "POST //a HTTP/1.1", "POST /%61 HTTP/1.1", "POST /a?b HTTP/1.1", "POST * HTTP/1.1", "POST http://b/ HTTP/1.1",
		"POST  / HTTP/1.1", "POST / HTTP/1.1 ", "POST / HTTP/1.2", "POST / HTTP/2.0", "POST /\x00 HTTP/1.1", "POST /ä HTTP/1.1", "post / HTTP/1.1", "PUT / HTTP/1.1",
		"POST / HTTP/1.1\r", " POST / HTTP/1.1", "POST /", "\x16\x03\x01", "POST / http/1.1",
	} {
		whole = append(whole, line+"\r\n"+host+length+"\r\n{}")
	}
	for _, lines := range []string{
		length, length + length, "Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length: 02\r\n", "Content-Length: +2\r\n", "Content-Length: -2\r\n", "Content-Length: 2, 2\r\n",
		"Content-Length: 0x2\r\n", "Content-Length:\r\n", "Content-Length: 2 \r\n", "Content-Length: 2\t\r\n", "Content-Length:\t2\r\n", "Content-Length : 2\r\n", "content-length: 2\r\n", "CONTENT-LENGTH:2\r\n",
		"Content-Length: 99999999999999999999\r\n", "Content-Length: 999999999\r\n", "Content-Length: 2\r\n\tx\r\n", "", "Content_Length: 2\r\n", "Content-Length: 2\nX: y\r\n", "Content-Length: 2\rX: y\r\n", "Content-Length: \x002\r\n",
		"Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n" + length, "transfer-encoding: CHUNKED\r\n" + length, "Transfer-Encoding:\r\n" + length, "Transfer-Encoding : chunked\r\n" + length,
		"Transfer-Encoding\r\n: chunked\r\n" + length, "X: y\r\n Transfer-Encoding: chunked\r\n" + length, "Transfer_Encoding: chunked\r\n" + length, "\x0bTransfer-Encoding: chunked\r\n" + length,
		length + "Host: b\r\n", length + "host:\r\n", length + "Connection: x, close\r\n", length + "Connection: upgrade\r\nUpgrade: h2c\r\n", length + "Connection: keep-alive, close\r\n", length + "Connection:\r\n",
		length + "Pragma: no-cache\r\n", length + "Trailer: X-A\r\n", length + "Te: trailers\r\n", length + "Expect: 200-ok\r\n", length + "Expect:\r\n", length + "X-A: ä\r\n", length + "X-A: \x7f\r\n", length + "X-A: a\tb\r\n",
		length + "X-A: y\r\nx-a: z\r\nX-a:\r\n", length + "X!#$%&'*+.^_`|~: y\r\n", length + "x-amz-target: y\r\n", length + "(a): y\r\n", length + ": y\r\n", length + "nothing\r\n", length + "X-A: a: b\r\n",
		length + "X-A: " + strings.Repeat("x", 5000) + "\r\n", length + "X-A: " + strings.Repeat("x", 300<<10) + "\r\n", length + strings.Repeat("X-A: y\r\n", 100),
	} {
		whole = append(whole, "POST / HTTP/1.1\r\n"+host+lines+"\r\n{}", post("", "first")+"POST / HTTP/1.1\r\n"+host+lines+"\r\n{}"+post("", "next"))
	}
	for _, hosts := range []string{"", "Host:\r\n", "Host: \r\n", "Host: [::1]:80\r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: A_b\r\n", "Host: a, b\r\n", "host: a\r\n", "Host: ä\r\n", "Host : a\r\n"} {
		whole = append(whole, "POST / HTTP/1.1\r\n"+hosts+length+"\r\n{}")
	}
	return cut, whole
}

// A server is an http.Server, or the Server of this package.
type server interface {
	Serve(net.Listener) error
	Close() error
}

// limits is an http.Server with the limits of tenaq.
func limits(h http.Handler, logs io.Writer) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, WriteTimeout: 4 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 256 << 10, DisableGeneralOptionsHandler: true, ErrorLog: log.New(logs, "", 0),
	}
}

// servers are the two that are compared.
var servers = map[bool]func() (server, func(net.Listener) net.Listener){
	false: func() (server, func(net.Listener) net.Listener) {
		s := limits(http.HandlerFunc(handler), io.Discard)
		s.ConnContext = framing.Context
		return s, func(l net.Listener) net.Listener { return framed{l} }
	},
	true: func() (server, func(net.Listener) net.Listener) {
		return New(limits(http.HandlerFunc(handler), io.Discard), slog.New(slog.DiscardHandler)), func(l net.Listener) net.Listener { return l }
	},
}

// framed is a listener whose connections are inspected.
type framed struct{ net.Listener }

func (l framed) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return framing.Conn(conn, nil, slog.New(slog.DiscardHandler)), nil
}

// pipes is a listener for a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() pipes { return pipes{make(chan net.Conn), make(chan struct{})} }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// converse sends the parts one after the other and returns what the client got until the server was
// done with each, until it had waited for long, and whether the connection was closed by then.
func converse(t *testing.T, loop bool, parts ...string) (got []string) {
	s, wrap := servers[loop]()
	l := newPipes()
	go s.Serve(wrap(l))
	conn := l.dial()
	var mu sync.Mutex
	seen, closed := []byte(nil), false
	go func() {
		for buf := make([]byte, 1000); !closed; {
			n, err := conn.Read(buf)
			mu.Lock()
			seen, closed = append(seen, buf[:n]...), err != nil
			mu.Unlock()
		}
	}()
	note := func() {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s, closed %v", seen, closed))
	}
	// one goroutine, because a bubble does not wait for a second one that waits for the first
	sent := make(chan string, len(parts))
	defer close(sent)
	go func() {
		for part := range sent {
			io.WriteString(conn, part)
		}
	}()
	for _, part := range parts {
		sent <- part
		note()
	}
	for _, wait := range []time.Duration{4 * time.Second, 9 * time.Second, time.Minute, 5 * time.Minute} {
		time.Sleep(wait)
		note()
	}
	s.Close()
	conn.Close()
	synctest.Wait()
	return got
}

// The clock of a bubble begins with the year 2000. Dates of handlers are later.
var dates = regexp.MustCompile(`Date: [^\r]* 2000 [^\r]*`)

// plainly writes the answers of a conversation without their dates, and chunks as what is in them.
func plainly(raw string) string {
	raw = dates.ReplaceAllString(raw, "Date: today")
	if !strings.Contains(raw, "Transfer-Encoding: chunked") {
		return raw
	}
	var out strings.Builder
	r := bufio.NewReader(strings.NewReader(raw))
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			rest, _ := io.ReadAll(r)
			fmt.Fprintf(&out, "%v, %s", err, rest)
			return out.String()
		}
		body, err := io.ReadAll(resp.Body)
		fmt.Fprintf(&out, "%v %v %v %s %v\n", resp.Status, resp.Header, resp.TransferEncoding, body, err)
	}
}

// same checks that both servers say the same.
func same(t *testing.T, parts ...string) {
	t.Helper()
	var want, got []string
	synctest.Test(t, func(t *testing.T) { want = converse(t, false, parts...) })
	synctest.Test(t, func(t *testing.T) { got = converse(t, true, parts...) })
	for i := range want {
		g, w := plainly(got[i]), plainly(want[i])
		// The loop may have answered what was sent before an ambiguous request, which ends a
		// connection in any case.
		if strings.Contains(w, "ambiguous") && (i < len(want)-1 || strings.HasSuffix(got[i], ", closed true")) {
			continue
		}
		if g != w {
			t.Fatalf("%.1000q: at step %d got\n%.2000q\nwant what net/http says:\n%.2000q", parts, i, g, w)
		}
	}
}

// The loop answers byte for byte like net/http, whatever the request and the parts in which it
// arrives. [WIRE-32]
func TestLikeNetHTTP(t *testing.T) {
	cut, whole := conversations()
	for _, text := range append(cut, whole...) {
		same(t, text)
	}
	for _, text := range cut {
		for i := 1; i < len(text); i++ {
			same(t, text[:i], text[i:])
			same(t, text[:i]) // and no more comes
		}
	}
}

func FuzzLikeNetHTTP(f *testing.F) {
	cut, whole := conversations()
	for _, text := range append(cut, whole...) {
		if len(text) < 10_000 {
			f.Add(text, uint(len(text)/2))
		}
	}
	f.Fuzz(func(t *testing.T, text string, at uint) {
		at = min(at, uint(len(text)))
		same(t, text[:at], text[at:])
	})
}
