package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/kv/pebblekv"
)

// config returns the configuration of a small server on free ports.
func config(t *testing.T) Config {
	return Config{
		Listen:      "127.0.0.1:0",
		AdminListen: "127.0.0.1:0",
		DataDir:     t.TempDir(),
		Logger:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Fatal:       func(err error) { panic(err) },
		Version:     "v1.2.3",
	}
}

// run starts a server; stop stops it and returns what Run said.
func run(t *testing.T, cfg Config) (s *Server, stop func() error) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, begin(t, s)
}

// begin runs a server; stop stops it and returns what Run said.
func begin(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(15 * time.Second):
			t.Fatal("the server does not stop")
			return nil
		}
	}
	t.Cleanup(func() { stop() })
	return stop
}

// client keeps no connections, so that none outlives its test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// call makes a request of the SQS API.
func call(t *testing.T, s *Server, action, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("POST", "http://"+s.Addr(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func TestAddresses(t *testing.T) {
	s, stop := run(t, config(t))
	if code, body := get(t, "http://"+s.AdminAddr()+"/livez"); code != 200 || body != "ok\n" {
		t.Errorf("livez: got %d %q", code, body)
	}
	if code, body := get(t, "http://"+s.AdminAddr()+"/readyz"); code != 200 || body != "ok\n" {
		t.Errorf("readyz: got %d %q", code, body)
	}
	want := `{"edition":"tenaq","services":{"sqs":"running"},"version":"v1.2.3"}` + "\n"
	if code, body := get(t, "http://"+s.Addr()+"/_localstack/health"); code != 200 || body != want {
		t.Errorf("LocalStack's health: got %d %q, want %q", code, body, want)
	}
	if code, body := call(t, s, "ListQueues", "{}"); code != 200 || body != "{}" {
		t.Errorf("ListQueues: got %d %q", code, body)
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Error("the address still answers")
	}
}

func TestNoAdmin(t *testing.T) {
	cfg := config(t)
	cfg.AdminListen = "off"
	s, stop := run(t, cfg)
	if got := s.AdminAddr(); got != "" {
		t.Errorf("admin address %q, want none", got)
	}
	if code, _ := call(t, s, "ListQueues", "{}"); code != 200 {
		t.Errorf("ListQueues: got %d", code)
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// If a server does not start, the error is one of four kinds and a sentence, and New releases
// everything that it had opened. [DUR-19]
func TestNewRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	used, _ := run(t, config(t))
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*Config)
		kind   error
		want   string
	}{
		{"address in use", func(c *Config) { c.Listen = taken.Addr().String() }, ErrInUse, "--listen"},
		{"admin address in use", func(c *Config) { c.AdminListen = taken.Addr().String() }, ErrInUse, "--admin-listen"},
		{"address of another machine", func(c *Config) { c.Listen, c.AllowUnauthenticated = "192.0.2.1:0", true }, ErrConfig, "--listen"},
		{"admin address that is none", func(c *Config) { c.AdminListen = "nonsense" }, ErrConfig, "--admin-listen"},
		{"directory in use", func(c *Config) { c.DataDir = used.cfg.DataDir }, ErrInUse, fmt.Sprintf("in use by process %d. Stop that process", os.Getpid())},
		{"directory that is a file", func(c *Config) { c.DataDir = file }, ErrConfig,
			"cannot open the data directory " + file + ": it is a file. Pass a directory to --data-dir."},
		{"directory under a file", func(c *Config) { c.DataDir = file + "/x/y" }, ErrConfig, ": " + file + " is a file. Pass a directory to --data-dir."},
		{"directory of something else", func(c *Config) { c.DataDir = filepath.Dir(file) }, ErrConfig, "such as file. Pass an empty directory to --data-dir."},
		{"not loopback", func(c *Config) { c.Listen = "0.0.0.0:0" }, ErrConfig, "--allow-unauthenticated"}, // [AUTH-1]
	} {
		cfg := config(t)
		test.change(&cfg)
		_, err := New(cfg)
		var typed *Error
		if !errors.Is(err, test.kind) || !errors.As(err, &typed) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %v and a sentence with %q", test.name, err, test.kind, test.want)
			continue
		}
		for _, kind := range []error{ErrConfig, ErrInUse, ErrDamaged, ErrStorage} {
			if errors.Is(err, kind) != (kind == test.kind) {
				t.Errorf("%s: %v is also %v", test.name, err, kind)
			}
		}
	}
}

func TestErrorKinds(t *testing.T) {
	for _, test := range []struct {
		err, kind error
	}{
		{pebblekv.ErrLocked, ErrInUse},
		{pebblekv.ErrDamaged, ErrDamaged},
		{pebblekv.ErrNewer, ErrDamaged},
		{&pebblekv.LostError{Have: 1, Want: 2}, ErrDamaged},
		{pebblekv.ErrFull, ErrStorage},
		{syscall.EIO, ErrStorage},
	} {
		if err := storeError("data", test.err); !errors.Is(err, test.kind) || !errors.Is(err, test.err) || err.Error() != test.err.Error() {
			t.Errorf("storeError(%v): got %v, want the same of kind %v", test.err, err, test.kind)
		}
	}
}

// Declared queues are there when the first request is answered. One that is there already stays as
// it is; one that cannot be created stops the start.
func TestDeclaredQueues(t *testing.T) {
	cfg := config(t)
	cfg.Queues = []Queue{
		{Name: "plain"},
		{Name: "dressed", Attributes: map[string]string{"VisibilityTimeout": "5"}, Tags: map[string]string{"team": "a"}},
	}
	s, stop := run(t, cfg)
	check := func(s *Server, want string) {
		t.Helper()
		if _, body := call(t, s, "GetQueueAttributes", `{"QueueUrl":"dressed","AttributeNames":["VisibilityTimeout"]}`); body != want {
			t.Errorf("attributes: got %s, want %s", body, want)
		}
	}
	check(s, `{"Attributes":{"VisibilityTimeout":"5"}}`)
	if _, body := call(t, s, "ListQueueTags", `{"QueueUrl":"dressed"}`); body != `{"Tags":{"team":"a"}}` {
		t.Errorf("tags: got %s", body)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// Tags that a person has added are no difference; attributes are.
	for _, tt := range []struct {
		timeout string
		differs bool
	}{{"5", false}, {"5", false}, {"6", true}} {
		var log bytes.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		cfg.Queues[1].Attributes["VisibilityTimeout"] = tt.timeout
		s, stop = run(t, cfg)
		check(s, `{"Attributes":{"VisibilityTimeout":"5"}}`)
		if code, body := call(t, s, "TagQueue", `{"QueueUrl":"dressed","Tags":{"cost":"1"}}`); code != 200 {
			t.Errorf("TagQueue: got %d, %s", code, body)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "declared queue differs"); got != tt.differs {
			t.Errorf("timeout %s: got a difference: %v, want %v, of %s", tt.timeout, got, tt.differs, &log)
		}
	}

	cfg.Queues = []Queue{{Name: "no such name!"}}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "no such name!") {
		t.Errorf("got %v, want ErrConfig and the name", err)
	}
}

// A server that is stopped before it serves does stop.
func TestStoppedAtOnce(t *testing.T) {
	cfg := config(t)
	cfg.Queues = []Queue{{Name: "q"}}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A server that cannot serve one of its addresses any more stops as if it had been asked to, and
// says so.
func TestListenerLost(t *testing.T) {
	for name, lose := range map[string]func(*Server){
		"listen":       func(s *Server) { s.listener.Close() },
		"admin-listen": func(s *Server) { s.adminListener.Close() },
	} {
		s, err := New(config(t))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		if code, _ := call(t, s, "ListQueues", "{}"); code != 200 {
			t.Errorf("%s: ListQueues answers %d", name, code)
		}
		get(t, "http://"+s.AdminAddr()+"/livez")
		lose(s)
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "serve 127.0.0.1:") {
				t.Errorf("%s: got %v, want what could not be served", name, err)
			}
		case <-time.After(15 * time.Second):
			t.Fatalf("%s: Run goes on", name)
		}
		// The directory is free again.
		again, err := New(s.cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again.close()
	}
}

// No time limit of the HTTP server cuts off an answer that takes several times as long as the
// longest poll. [WIRE-22]
func TestLongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		h := (&Server{cfg: cfg}).newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			time.Sleep(90 * time.Second)
			if r.Context().Err() == nil {
				io.WriteString(w, "late")
			}
		}))
		l := pipes{make(chan net.Conn), make(chan struct{})}
		go h.Serve(l)
		dial := func(context.Context, string, string) (net.Conn, error) {
			c, s := net.Pipe()
			l.conns <- s
			return c, nil
		}
		transport := &http.Transport{DialContext: dial}
		resp, err := (&http.Client{Transport: transport}).Post("http://localhost", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != "late" || err != nil {
			t.Errorf("got %q, %v, want late", body, err)
		}
		transport.CloseIdleConnections()
		h.Close()
		synctest.Wait()
	})
}

// pipes is a listener for a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

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

// The panic of a handler is an error that is logged. One that only closes the connection is not.
func TestHandlerPanics(t *testing.T) {
	var log bytes.Buffer
	s := &Server{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	for _, v := range []any{http.ErrAbortHandler, "a fault"} {
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("got panic %v, want one that closes the connection", got)
				}
			}()
			s.counted(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(v) })).
				ServeHTTP(nil, nil)
		}()
	}
	if got := log.String(); !strings.Contains(got, `level=ERROR msg="request failed"`) ||
		!strings.Contains(got, "a fault") {
		t.Errorf("logged %s, want the fault as an error", got)
	}
}
