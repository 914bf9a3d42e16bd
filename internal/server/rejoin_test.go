package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/api/handle"
	"tenaq/internal/api/sqs"
	v1 "tenaq/internal/api/v1"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// A bubbled is the part of a server that serves the SQS API, in a bubble.
type bubbled struct {
	*Server
	pipes  pipes
	taken  atomic.Int32 // connections that were taken from the HTTP server
	client *tls.Config  // nil without TLS
}

// inBubble runs f on a server, over TLS when certificate is not nil.
func inBubble(t *testing.T, certificate *tls.Certificate, f func(t *testing.T, s *bubbled)) {
	synctest.Test(t, func(t *testing.T) {
		b, err := broker.New(broker.Config{
			Store:  kv.NewMemory(),
			Engine: engine.Config{Region: "us-east-1", InFlightMax: 1000, Fault: func(sentence string) { panic(sentence) }},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := &bubbled{
			Server: &Server{cfg: Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}},
			pipes:  pipes{make(chan net.Conn), make(chan struct{})},
		}
		door := auth.New(auth.Config{Account: "000000000000"})
		v := &service{broker: b, v1: v1.New(v1.Config{Broker: b, Door: door})}
		v.api = sqs.New(sqs.Config{
			Broker: b, Sealer: handle.New(make([]byte, handle.KeySize)), Logger: s.cfg.Logger, Door: door,
			Rejoin: s.rejoin, IdleMax: idleMax,
		})
		s.http, s.adminHTTP, s.consoleHTTP = s.newHTTP(s.counted(v.api)), s.newHTTP(nil), s.newHTTP(nil)
		s.writer.Store(v)
		s.http.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				s.taken.Add(1)
			}
		}
		var l net.Listener = s.pipes
		if certificate != nil {
			// The server writes tickets, and a pipe would block it until they are read.
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*certificate}, SessionTicketsDisabled: true})
			s.client = &tls.Config{InsecureSkipVerify: true}
		}
		ctx, stop := context.WithCancel(context.Background())
		written := make(chan struct{})
		go func() { defer close(written); b.Run(ctx) }()
		go s.http.Serve(l)
		defer func() { s.drain(); stop(); <-written }()
		f(t, s)
	})
}

func (s *bubbled) dial(t *testing.T) net.Conn {
	conn, server := net.Pipe()
	s.pipes.conns <- server
	if s.client != nil {
		conn = tls.Client(conn, s.client)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func rawRequest(action, body string) string {
	return "POST / HTTP/1.1\r\nHost: localhost:9324\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS." + action +
		"\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// answer reads an answer.
func answer(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

const longPoll = `{"QueueUrl":"q","WaitTimeSeconds":20}`

// A connection whose poll was suspended is served again, again and again, with what the client has
// sent ahead, and is still known to be one over TLS or not. [WIRE-23]
func TestRejoin(t *testing.T) {
	dir := t.TempDir()
	newCertificate(t, "localhost", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for scheme, certificate := range map[string]*tls.Certificate{"http": nil, "https": &certificate} {
		t.Run(scheme, func(t *testing.T) {
			inBubble(t, certificate, func(t *testing.T, s *bubbled) {
				conn, other := s.dial(t), s.dial(t)
				r, theirs := bufio.NewReader(conn), bufio.NewReader(other)
				io.WriteString(other, rawRequest("CreateQueue", `{"QueueName":"q","Attributes":{"VisibilityTimeout":"0"}}`))
				answer(t, theirs)
				next := rawRequest("GetQueueUrl", `{"QueueName":"q"}`)
				for i, ahead := range []int{0, 1, len(next), 0} {
					io.WriteString(conn, rawRequest("ReceiveMessage", longPoll))
					time.Sleep(5 * time.Second)
					if got := int(s.taken.Load()); got != i+1 {
						t.Fatalf("%d polls were suspended, want %d", got, i+1)
					}
					go func() {
						io.WriteString(conn, next[:ahead])
						time.Sleep(2 * time.Second)
						io.WriteString(conn, next[ahead:])
					}()
					time.Sleep(time.Second)
					io.WriteString(other, rawRequest("SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`))
					answer(t, theirs)
					if _, body := answer(t, r); !strings.Contains(body, `"Body":"hello"`) {
						t.Errorf("round %d: the poll was answered %s, want the message", i, body)
					}
					io.WriteString(other, rawRequest("PurgeQueue", `{"QueueUrl":"q"}`))
					answer(t, theirs)
					if _, body := answer(t, r); !strings.Contains(body, `"`+scheme+`://localhost:9324/`) {
						t.Errorf("round %d: the next request was answered %s, want the URL with %s", i, body, scheme)
					}
					time.Sleep(idleMax - 10*time.Second)
				}
				// The limits of the HTTP server are those of the connection again.
				io.WriteString(conn, rawRequest("ReceiveMessage", longPoll))
				time.Sleep(5 * time.Second)
				go io.WriteString(conn, next[:10])
				answer(t, r)
				start := time.Now()
				if _, err := io.ReadAll(r); err != nil || time.Since(start) != s.http.ReadHeaderTimeout {
					t.Errorf("half a request was waited for for %v, until %v, want %v", time.Since(start), err, s.http.ReadHeaderTimeout)
				}
			})
		})
	}
}

// The server that is shipped suspends its polls. [POLL-11]
func TestServerParks(t *testing.T) {
	s, err := New(config(t))
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan struct{}, 1)
	s.http.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			taken <- struct{}{}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	call(t, s, "CreateQueue", `{"QueueName":"q"}`)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, rawRequest("ReceiveMessage", longPoll))
	select {
	case <-taken:
	case <-time.After(15 * time.Second):
		t.Error("the poll is not suspended")
	}
	stop()
	if resp, body := answer(t, bufio.NewReader(conn)); body != "{}" || !resp.Close {
		t.Errorf("got %s, the last: %v, want {} and true", body, resp.Close)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A connection that comes back when the server has stopped is closed.
func TestRejoinAfterStop(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *bubbled) {
		s.drain()
		client, server := net.Pipe()
		s.rejoin(server, []byte("x"))
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read ended with %v, want %v", err, io.EOF)
		}
	})
}

// A stop while thousands of polls are suspended takes no time, and each client has an answer and
// the end of its connection; one that does not read its answer is cut off when the time is over.
// [POLL-11, DUR-24]
func TestStopWithSuspendedPolls(t *testing.T) {
	const many = 3000
	inBubble(t, nil, func(t *testing.T, s *bubbled) {
		first := s.dial(t)
		io.WriteString(first, rawRequest("CreateQueue", `{"QueueName":"q"}`))
		answer(t, bufio.NewReader(first))
		var answered atomic.Int32
		for range many {
			conn := s.dial(t)
			go func() {
				io.WriteString(conn, rawRequest("ReceiveMessage", longPoll))
				r := bufio.NewReader(conn)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("no answer: %v", err)
					return
				}
				body, _ := io.ReadAll(resp.Body)
				if _, err := r.ReadByte(); resp.StatusCode != 200 || string(body) != "{}" || !resp.Close || err != io.EOF {
					t.Errorf("got %d, %s, the last: %v, then %v", resp.StatusCode, body, resp.Close, err)
				}
				answered.Add(1)
			}()
		}
		time.Sleep(5 * time.Second)
		if got := s.taken.Load(); got != many {
			t.Errorf("%d polls were suspended, want %d", got, many)
		}
		deaf := s.dial(t)
		io.WriteString(deaf, rawRequest("ReceiveMessage", longPoll))
		time.Sleep(5 * time.Second)
		start := time.Now()
		go s.drain()
		time.Sleep(time.Second)
		if got := answered.Load(); got != many {
			t.Errorf("%d polls were answered within a second, want %d", got, many)
		}
		s.drain()
		if got := time.Since(start); got < drainMax || got > drainMax+2*time.Second {
			t.Errorf("the stop took %v with a client that does not read, want %v", got, drainMax)
		}
		if n, err := deaf.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client that does not read has %d bytes and %v, want its connection closed", n, err)
		}
	})
}
