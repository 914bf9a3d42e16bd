package sqs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tenaq/internal/api/framing"
	"tenaq/internal/api/handle"
	"tenaq/internal/api/http1"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/v1"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
)

// Connections in these tests are pipes, so that a server fits into a synctest bubble: time there
// passes only when all goroutines wait, and timestamps are the same in every run.

// A pipeListener is a listener whose connections are pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9324} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// settings are what a test may choose about its server.
type settings struct {
	engine  engine.Config
	sqs     Config
	hosts   []string // that requests may name; any when nil
	account string   // of the server; the usual one when empty
	refuse  bool     // sends, as a full disk does
	queue   int      // how many requests may wait for the writer
	log     io.Writer
	store   kv.Store // an empty one when nil
	inHTTP  bool     // polls wait in their handlers
	most    int      // requests in progress; the default when zero
}

// A world is a handler, and that of /v1, on a broker on a memory store, served over pipes.
type world struct {
	handler  *Handler
	intake   *intake.Intake
	broker   *broker.Broker
	listener *pipeListener
	stop     func()
}

// account and host are those of the requests unless a test says otherwise.
const (
	account = "000000000000"
	host    = "localhost:9324"
)

// Limits of package intake.
const (
	tiny        = 4 << 10
	rateMin     = 32 << 10
	fastTime    = 100 * time.Millisecond
	transferMax = time.Minute
)

// fillAnswers holds the whole budget for answers.
func (w *world) fillAnswers() *intake.Holding {
	h := w.intake.Answers.Hold("another")
	h.Set(intake.AnswerBudget)
	return h
}

func newWorld(s settings) *world {
	s.engine.Region = cmp.Or(s.engine.Region, "us-east-1")
	s.engine.InFlightMax = cmp.Or(s.engine.InFlightMax, 120_000)
	s.engine.Fault = func(sentence string) { panic(sentence) }
	if s.log == nil {
		s.log = io.Discard
	}
	w := &world{listener: newPipeListener()}
	if s.store == nil {
		s.store = kv.NewMemory()
	}
	var err error
	w.broker, err = broker.New(broker.Config{Store: s.store, Engine: s.engine, QueueMax: s.queue})
	if err != nil {
		panic(err)
	}
	w.broker.RefuseSends(s.refuse)
	s.sqs.Broker = w.broker
	s.sqs.Sealer = handle.New(make([]byte, handle.KeySize))
	s.sqs.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	if s.sqs.Door == nil {
		s.sqs.Door = auth.New(auth.Config{Account: cmp.Or(s.account, account), Hosts: s.hosts})
	}
	var server *http1.Server
	if !s.inHTTP {
		s.sqs.Rejoin = func(conn net.Conn, ahead []byte) { server.Rejoin(conn, ahead) }
	}
	w.intake = intake.New(intake.Config{RequestMax: s.most, Polls: func() int64 { return w.broker.Metrics().Polls }})
	s.sqs.Intake, s.sqs.Policies = w.intake, auth.NewPolicies(w.broker, s.sqs.Logger)
	w.handler = New(s.sqs)
	beside := v1.New(v1.Config{
		Broker: w.broker, Door: s.sqs.Door, Policies: s.sqs.Policies, Intake: w.intake, Logger: s.sqs.Logger, PublicURL: s.sqs.PublicURL,
		Sealer: s.sqs.Sealer,
	})
	both := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if v1.Is(r) && !framing.Ambiguous(r) {
			beside.ServeHTTP(rw, r)
			return
		}
		w.handler.ServeHTTP(rw, r)
	})

	ctx, cancel := context.WithCancel(context.Background())
	plain := &http.Server{Handler: both, MaxHeaderBytes: 256 << 10, DisableGeneralOptionsHandler: true,
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(s.log, nil), slog.LevelDebug)}
	server = http1.New(plain, s.sqs.Logger)
	var running sync.WaitGroup
	running.Go(func() {
		if s.inHTTP {
			plain.Serve(w.listener)
		} else {
			server.Serve(w.listener)
		}
	})
	running.Go(func() { w.broker.Run(ctx) })
	w.stop = func() {
		server.Close()
		w.handler.Drain()
		cancel()
		over, end := context.WithCancel(context.Background())
		end()
		w.handler.Shutdown(over)
		running.Wait()
	}
	return w
}

// exchange sends a request, byte for byte, on a connection and returns the answer in both forms,
// raw and parsed. Interim answers such as 100 Continue are in the raw form only.
func exchange(conn net.Conn, method, request string) (raw string, resp *http.Response, body string, err error) {
	// A server may answer before it has read everything.
	go io.WriteString(conn, request)
	var seen bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &seen))
	for resp == nil || resp.StatusCode < 200 {
		if resp, err = http.ReadResponse(r, &http.Request{Method: method}); err != nil {
			return seen.String(), nil, "", err
		}
	}
	b, err := io.ReadAll(resp.Body)
	return seen.String(), resp, string(b), err
}

// request writes an HTTP request of the JSON protocol. Headers are given as name, value, and
// replace the usual ones; an empty value leaves the header out.
func request(target, body string, headers ...string) string {
	all := [][2]string{
		{"Host", host},
		{"Content-Type", "application/x-amz-json-1.0"},
		{"X-Amz-Target", target},
		{"Content-Length", fmt.Sprint(len(body))},
	}
next:
	for i := 0; i < len(headers); i += 2 {
		for j := range all {
			if all[j][0] == headers[i] {
				all[j][1] = headers[i+1]
				continue next
			}
		}
		all = append(all, [2]string{headers[i], headers[i+1]})
	}
	var b strings.Builder
	b.WriteString("POST / HTTP/1.1\r\n")
	for _, h := range all {
		if h[1] != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
		}
	}
	return b.String() + "\r\n" + body
}

var (
	uuidPattern   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	handlePattern = regexp.MustCompile(`AQEB[A-Za-z0-9+/]{70}(?:==|[A-Za-z0-9+/]{10})`)
	taskPattern   = regexp.MustCompile(`eyJ0YXNrSWQi[A-Za-z0-9+/=]+`)
	markPattern   = regexp.MustCompile(`"mark":"[^"]+"`)
	maskPattern   = regexp.MustCompile(`"[mrt][0-9]+"`)
)

// masks give what is random a name: message ids are m1, m2 and so on, receipt handles r1, r2,
// handles of move tasks t1, t2, marks of messages k1, k2.
type masks struct {
	names, values map[string]string
	counts        map[string]int
}

func newMasks() *masks {
	return &masks{names: map[string]string{}, values: map[string]string{}, counts: map[string]int{}}
}

func (m *masks) name(kind, value string) string {
	if m.names[value] == "" {
		m.counts[kind]++
		name := fmt.Sprint(kind, m.counts[kind])
		m.names[value], m.values[name] = name, value
	}
	return m.names[value]
}

// hide replaces values by names.
func (m *masks) hide(s string) string {
	s = uuidPattern.ReplaceAllStringFunc(s, func(v string) string { return m.name("m", v) })
	s = markPattern.ReplaceAllStringFunc(s, func(v string) string {
		return `"mark":"` + m.name("k", v) + `"`
	})
	s = taskPattern.ReplaceAllStringFunc(s, func(v string) string { return m.name("t", v) })
	return handlePattern.ReplaceAllStringFunc(s, func(v string) string { return m.name("r", v) })
}

// show replaces names, where they stand in quotes, by their values.
func (m *masks) show(s string) string {
	return maskPattern.ReplaceAllStringFunc(s, func(quoted string) string {
		if value, ok := m.values[strings.Trim(quoted, `"`)]; ok {
			return `"` + value + `"`
		}
		return quoted
	})
}

// checkHeaders holds every answer to the rules that have no exception. Ids holds the request ids of
// the answers before.
func checkHeaders(t testing.TB, resp *http.Response, body string, ids *sync.Map) {
	t.Helper()
	id := resp.Header.Get("X-Amzn-Requestid")
	_, again := ids.LoadOrStore(id, true)
	if uuidPattern.FindString(id) != id || id == "" || again {
		t.Errorf("request id %q, want a UUID that no answer had before [WIRE-18]", id)
	}
	kind := "application/x-amz-json-1.0" // [WIRE-19]
	switch {
	case strings.HasPrefix(body, "<"):
		kind = "text/xml" // [XML-19]
		if open := "<RequestId>" + id + "<"; !strings.Contains(body, open) && body != sqswire.UnknownOperationXML {
			t.Errorf("body %s, want it to have %s [XML-20]", body, open)
		}
	case strings.Contains(body, `"RequestId":"`):
		kind = "application/json" // [XML-26]
	}
	if got := resp.Header["Content-Type"]; len(got) != 1 || got[0] != kind {
		t.Errorf("content type %q, want %s", got, kind)
	}
	if got, want := resp.Header.Get("Date"), time.Now().UTC().Format(http.TimeFormat); got != want {
		t.Errorf("date %q, want %q [WIRE-20]", got, want)
	}
	if resp.ContentLength != int64(len(body)) {
		t.Errorf("content length %d, want %d", resp.ContentLength, len(body))
	}
	query := resp.Header.Get("x-amzn-query-error")
	if failed := resp.StatusCode != http.StatusOK; failed != (query != "") {
		t.Errorf("status %d with query error %q, want one exactly when failed [ERR-3]", resp.StatusCode, query)
	}
}
