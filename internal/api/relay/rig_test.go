package relay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tenaq/internal/api/cloudwatch"
	"tenaq/internal/api/handle"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs"
	"tenaq/internal/api/v1"
	"tenaq/internal/broker"
	"tenaq/internal/cluster/forward"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/monitor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const account = "000000000000"

// pipes is a listener whose connections are pipes, so that two nodes fit into a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	from   net.Addr // of clients; nil for that of a pipe
}

// A pipe has the address of a client.
type pipe struct {
	net.Conn
	from net.Addr
}

func (p pipe) RemoteAddr() net.Addr { return p.from }

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9324} }

func (p *pipes) dial() (net.Conn, error) {
	client, server := net.Pipe()
	if p.from != nil {
		server = pipe{server, p.from}
	}
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	}
}

// A rig is a node that leads, one that does not, and their clients.
type rig struct {
	t      *testing.T
	broker *broker.Broker
	log    *log
	intake *intake.Intake // of the node that does not lead
	edge   *Handler

	tookOver        atomic.Bool // the node that did not lead leads now
	leads           atomic.Bool // the other node is known to lead
	atLeader, there *pipes      // where clients, and the other node, reach the leader
	here            *pipes      // where clients reach the node that does not lead
	forwarded       atomic.Int64
}

// A log may be read while it is written.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A setup is what a test may choose.
type setup struct {
	door   auth.Config
	backup v1.Backup
	leader http.Handler // in place of one that works

	prepare func() // is called inside the bubble, where its channels must be made
}

// inRig runs f on two nodes, inside a bubble.
func inRig(t *testing.T, s setup, f func(r *rig)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		if s.prepare != nil {
			s.prepare()
		}
		r := &rig{t: t, log: &log{}, atLeader: newPipes(), there: newPipes(), here: newPipes()}
		r.leads.Store(true)
		logger := slog.New(slog.NewTextHandler(r.log, nil))
		var err error
		r.broker, err = broker.New(broker.Config{Store: kv.NewMemory(), Engine: engine.Config{
			Region: "us-east-1", InFlightMax: 1000, Fault: func(sentence string) { panic(sentence) },
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = r.broker.Run(ctx) })
		s.door.Account, s.door.Region = account, "us-east-1"
		door := auth.New(s.door)
		leader := s.leader
		if leader == nil {
			leader = r.services(dir, door, s.backup, logger)
		}
		forwarder := forward.New(forward.Config{
			Leader: func() (string, bool) { return "leader:1", r.leads.Load() },
			Dial:   func(context.Context, string) (net.Conn, error) { return r.there.dial() },
			Here:   r.tookOver.Load,
		})
		r.intake = intake.New(intake.Config{Polls: func() int64 { return 0 }})
		r.edge = New(Config{Forwarder: forwarder, Door: door, Intake: r.intake, Logger: logger,
			Here: leader})
		inner := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			r.forwarded.Add(1)
			leader.ServeHTTP(w, req)
		})
		var servers []*http.Server
		for l, h := range map[*pipes]http.Handler{
			r.atLeader: leader, r.there: forward.Receive(inner), r.here: r.edge,
		} {
			server := &http.Server{Handler: h, MaxHeaderBytes: 256 << 10,
				ReadTimeout: 2 * time.Minute, WriteTimeout: 4 * time.Minute,
				ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
			servers = append(servers, server)
			running.Go(func() { _ = server.Serve(l) })
		}
		defer func() {
			for _, server := range servers {
				server.Close()
			}
			forwarder.Close()
			stop()
			running.Wait()
			time.Sleep(time.Minute) // connections of the servers that close slowly
		}()
		f(r)
	})
}

// services are those of a node that leads.
func (r *rig) services(
	dir string, door *auth.Door, backup v1.Backup, logger *slog.Logger,
) http.Handler {
	alarms, err := monitor.New(monitor.Config{Queues: r.broker, Account: account, Keeper: monitor.File(dir),
		Logger: logger})
	if err != nil {
		r.t.Fatal(err)
	}
	in := intake.New(intake.Config{Polls: func() int64 { return r.broker.Metrics().Polls }})
	queues := sqs.New(sqs.Config{Broker: r.broker, Sealer: handle.New(make([]byte, handle.KeySize)),
		Logger: logger, Door: door, Intake: in,
		// for clients of this node; a connection between nodes must never get there
		Rejoin: func(conn net.Conn, _ []byte) {
			r.t.Error("a poll was suspended")
			conn.Close()
		},
	})
	beside := v1.New(v1.Config{Broker: r.broker, Door: door,
		Policies: auth.NewPolicies(r.broker, logger), Intake: in, Logger: logger, Monitor: alarms,
		Sealer: handle.New(make([]byte, handle.KeySize)),
		Backup: func(context.Context) (v1.Backup, error) { return backup, nil }})
	watch := cloudwatch.New(cloudwatch.Config{Monitor: alarms, Door: door, Logger: logger})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case cloudwatch.Is(req):
			watch.ServeHTTP(w, req)
		case v1.Is(req):
			beside.ServeHTTP(w, req)
		default:
			queues.ServeHTTP(w, req)
		}
	})
}

// A reply is a response, byte for byte and read.
type reply struct {
	raw string
	*http.Response
	body string
	err  error // of the body
}

// ask sends a request, byte for byte, on a connection of its own.
func (r *rig) ask(to *pipes, request string) (a reply) {
	r.t.Helper()
	conn, err := to.dial()
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the response may come first
	method, _, _ := strings.Cut(request, " ")
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &seen))
	for a.Response == nil || a.StatusCode < 200 {
		if a.Response, err = http.ReadResponse(in, &http.Request{Method: method}); err != nil {
			r.t.Fatalf("%v after %q, to %.200s", err, seen.String(), request)
		}
	}
	b, err := io.ReadAll(a.Body)
	return reply{seen.String(), a.Response, string(b), err}
}

// json writes a request in AWS JSON. Headers are lines.
func json(target, body string, headers ...string) string {
	return post("/", body, append(headers, "Content-Type: application/x-amz-json-1.0",
		"X-Amz-Target: "+target)...)
}

// form writes a request in the Query protocol.
func form(body string, headers ...string) string {
	return post("/", body, append(headers, "Content-Type: application/x-www-form-urlencoded")...)
}

func post(path, body string, headers ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: queue.example:9324\r\n" +
		strings.Join(append(headers, "Content-Length: "+itoa(len(body))), "\r\n") + "\r\n\r\n" + body
}

func get(method, path string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: queue.example:9324\r\n\r\n"
}
